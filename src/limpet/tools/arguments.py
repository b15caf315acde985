"""Typed arguments and results: one dataclass gives the JSON Schema a model sees and the check of what it sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from limpet.errors import InvalidInput
from limpet.model.text import short_repr
from limpet.providers.schema import Schema, find_fault

T = TypeVar("T")

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
_RANGES = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}


class Arg(NamedTuple):
    doc: str
    least: float | None
    most: float | None


def arg(doc: str = "", default: Any = MISSING, *, least: float | None = None, most: float | None = None) -> Any:
    """A field of arguments or a result. ``least`` and ``most``: of a number, or of the length of anything else."""
    return field(default=default, metadata={"arg": Arg(doc, least, most)})


def schema_of(cls: type[Any], *, given: bool = True, limits: bool = False) -> Schema:
    """``given``: by a model, who leaves out what it does not want to say. A result says ``null`` then.

    The ``limits`` are checked, and told to whoever passes one: a model need not pay for reading all of them.
    """
    hints = get_type_hints(cls)
    named = {each.name: _property(each, hints[each.name], given=given, limits=limits) for each in fields(cls)}
    needed = [each.name for each in fields(cls) if not given or _is_needed(each)]
    schema: dict[str, Any] = {"type": "object", "properties": named}
    if needed:
        schema["required"] = needed
    return schema | {"additionalProperties": False}


def read(cls: type[T], given: object) -> T:
    """The arguments a caller gave, or InvalidInput that says what to send instead."""
    if not isinstance(given, Mapping):
        raise InvalidInput(f"the arguments must be a JSON object, not {short_repr(given)}")
    optional = {each.name for each in fields(cls) if not _is_needed(each)}  # type: ignore[arg-type]
    said = {name: value for name, value in given.items() if value is not None or name not in optional}
    names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
    if unknown := [str(name) for name in said if name not in names]:
        close = get_close_matches(unknown[0], names, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(names)}"
        raise InvalidInput(f"there is no argument {short_repr(unknown[0])}; {hint}")
    properties = schema_of(cls, limits=True)["properties"]
    for name in names:
        if name not in said:
            if name not in optional:
                raise InvalidInput(f"the argument {name} is missing")
        elif wrong := find_fault(said[name], properties[name], name):
            raise InvalidInput(wrong)
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in said.items()})


def as_json(value: Any) -> Any:
    """A result as plain JSON, everything it has said, ``null`` included."""
    if is_dataclass(value):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    return [as_json(item) for item in value] if isinstance(value, tuple) else value


def _is_needed(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _property(each: Field[Any], hint: Any, *, given: bool, limits: bool) -> dict[str, Any]:
    schema = _type(hint, given=given)
    known: Arg | None = each.metadata.get("arg")
    if known is None:
        return schema
    if known.doc:
        schema["description"] = known.doc
    if limits and isinstance(schema["type"], str):
        names = _RANGES.get(schema["type"], ("minimum", "maximum"))
        said = zip(names, (known.least, known.most), strict=True)
        schema |= {name: limit for name, limit in said if limit is not None}
    if given and each.default not in (MISSING, None, (), "", False):
        schema["default"] = each.default
    return schema


def _type(hint: Any, *, given: bool) -> dict[str, Any]:
    if get_origin(hint) in (Union, UnionType):
        [inner] = [each for each in get_args(hint) if each is not NoneType]
        schema = _type(inner, given=given)
        # Each with a type of its own: not every reader knows a list of types.
        return schema if given else {"anyOf": [schema, {"type": "null"}]}
    if get_origin(hint) is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _type(get_args(hint)[0], given=given)}
    if is_dataclass(hint):
        return dict(schema_of(hint, given=given))  # type: ignore[arg-type]
    return {"type": _PLAIN[hint]}
