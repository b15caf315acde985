"""The supported subset of JSON Schema, and validation of answers against it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from limpet.errors import InvalidInput
from limpet.model.values import short_repr

Schema = Mapping[str, Any]

_BLANK = "…"

_TYPES: Mapping[str, Callable[[object], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value),
    "null": lambda value: value is None,
}
_FORMS: Mapping[str, Callable[[Any], bool]] = {
    "type": lambda kinds: set([kinds] if isinstance(kinds, str) else kinds) <= _TYPES.keys(),
    "properties": lambda value: isinstance(value, Mapping),
    "required": lambda value: isinstance(value, (list, tuple)),
    "additionalProperties": lambda value: isinstance(value, bool),
    "items": lambda value: isinstance(value, Mapping),
    "enum": lambda value: isinstance(value, (list, tuple)),
    **dict.fromkeys(("minimum", "maximum"), _TYPES["number"]),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _TYPES["integer"]),
    **dict.fromkeys(("title", "description"), _TYPES["string"]),
}


def closed_object(properties: Mapping[str, Schema]) -> Schema:
    """An object with all of these properties and no others."""
    return {"type": "object", "additionalProperties": False, "required": [*properties], "properties": properties}


def check_schema(schema: object, where: str = "the schema") -> None:
    """Raise InvalidInput if the schema uses a keyword that is not validated."""
    if not isinstance(schema, Mapping):
        raise InvalidInput(f"{where} must be a mapping, not {type(schema).__name__}")
    if unknown := sorted(set(map(str, schema)) - _FORMS.keys()):
        raise InvalidInput(f"{where} holds {', '.join(unknown)}; supported are {', '.join(sorted(_FORMS))}")
    if where == "the schema" and schema.get("type") != "object":
        raise InvalidInput('the schema must be of type "object": servers support nothing else')
    for keyword, value in schema.items():
        if not _FORMS[keyword](value):
            raise InvalidInput(f"{where} cannot have {keyword} {short_repr(value)}")
    for name, inner in schema.get("properties", {}).items():
        check_schema(inner, f"{where}.{name}")
    if "items" in schema:
        check_schema(schema["items"], f"{where}[]")


def find_fault(value: object, schema: Schema, where: str = "the answer") -> str | None:
    """Return why the value does not match the schema, in words a model can act on; None if it matches."""
    kinds = _kinds(schema)
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        return f"{where} must be {_with_article(' or '.join(kinds))}, not {_type_name(value)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {', '.join(map(repr, schema['enum']))}, not {short_repr(value)}"
    if isinstance(value, dict):
        return _find_object_fault(value, schema, where)
    if isinstance(value, list):
        faults = (find_fault(item, schema.get("items", {}), f"{where}[{place}]") for place, item in enumerate(value))
        return _check_range(len(value), schema, "Items", f"{where} has", "items") or next(filter(None, faults), None)
    if isinstance(value, str):
        return _check_range(len(value), schema, "Length", f"{where} has", "characters")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _check_range(value, schema, "imum", f"{where} is", "")
    return None


def drop_unknown_members(value: Any, schema: Schema) -> Any:
    """Remove members that the schema forbids: extra members do not make an answer useless."""
    if isinstance(value, list) and "items" in schema:
        return [drop_unknown_members(item, schema["items"]) for item in value]
    if not isinstance(value, dict):
        return value
    properties: Mapping[str, Schema] = schema.get("properties", {})
    forbids = schema.get("additionalProperties") is False
    return {
        name: drop_unknown_members(item, properties.get(name, {}))
        for name, item in value.items()
        if name in properties or not forbids
    }


def describe_schema(schema: Schema) -> str:
    """Describe the schema for a model, with an example: small models repeat a bare schema instead of filling it in."""
    return (
        "Answer with one JSON object and nothing else: no explanation, no code fence. It must be valid against the "
        f"JSON Schema {json.dumps(schema)}, so it has this form:\n{json.dumps(_example(schema), ensure_ascii=False)}"
    )


def find_echo(value: object, schema: Schema) -> str | None:
    """Return an error for a model that returned the example unchanged."""
    blank = value == _example(schema) and _BLANK in json.dumps(value, ensure_ascii=False)
    return "the answer is the form with nothing filled in" if blank else None


def _example(schema: Schema) -> object:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = next(iter(_kinds(schema)), "string")
    if kind == "object":
        return {name: _example(inner) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [_example(schema.get("items", {}))]
    return {"boolean": True, "integer": schema.get("minimum", 0), "number": schema.get("minimum", 0.5)}.get(
        kind, _BLANK
    )


def is_closed(schema: Schema) -> bool:
    """Return whether every object lists all its members and requires them, which OpenAI calls strict."""
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    if "object" in _kinds(schema):
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required", ())) != set(schema.get("properties", {})):
            return False
    return all(map(is_closed, inner))


def _find_object_fault(value: dict[str, object], schema: Schema, where: str) -> str | None:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} must have {name!r}, which is missing"
    for name, item in value.items():
        if name not in properties and schema.get("additionalProperties") is False:
            return f"{where} must not have {short_repr(name)}; it may have {', '.join(map(repr, properties))}"
        if fault := find_fault(item, properties.get(name, {}), f"{where}.{name}"[:200]):
            return fault
    return None


def _check_range(number: float, schema: Schema, suffix: str, subject: str, unit: str) -> str | None:
    least, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if least is not None and number < least:
        return f"{subject} {number:g} {unit}".strip() + f", but {least:g} is the least"
    if most is not None and number > most:
        return f"{subject} {number:g} {unit}".strip() + f", but {most:g} is the most"
    return None


def _kinds(schema: Schema) -> Sequence[str]:
    kinds = schema.get("type", ())
    return (kinds,) if isinstance(kinds, str) else tuple(kinds)


def _type_name(value: object) -> str:
    return _with_article(next((kind for kind, is_it in _TYPES.items() if is_it(value)), type(value).__name__))


def _with_article(kind: str) -> str:
    return kind if kind == "null" else f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
