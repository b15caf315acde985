"""JSON Schema of what the API answers with, read from the typed dictionaries of ``shapes``."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from limpet.model.view_types import Format

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
REFERENCE = "#/components/schemas/{}"

Definitions = dict[str, dict[str, Any]]


def schema_of(hint: Any, found: Definitions) -> dict[str, Any]:
    """The schema; the typed dictionaries it refers to are added to what was ``found``."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin is Annotated:
        return schema_of(args[0], found) | dict(map(_marked, args[1:]))
    if origin is Literal:
        return {"type": "string", "enum": list(args)}
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(each, found) for each in args]}
    if origin is list:
        return {"type": "array", "items": schema_of(args[0], found)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(args[1], found)}
    return _named(origin or hint, args, found)


def _marked(mark: Any) -> tuple[str, str]:
    return ("format", mark.name) if isinstance(mark, Format) else ("description", mark)


def _named(kind: Any, args: tuple[Any, ...], found: Definitions) -> dict[str, Any]:
    if not is_typeddict(kind):
        raise TypeError(f"no schema for {kind!r}")
    name = kind.__name__ + "".join(f"Of{each.__name__}" for each in args)
    if name not in found:
        found[name] = {}  # it may refer to itself
        hints = get_type_hints(kind, include_extras=True)
        properties = {each: schema_of(_filled(hint, args), found) for each, hint in hints.items()}
        found[name] = {
            "type": "object",
            "properties": properties,
            "required": sorted(kind.__required_keys__),
        }
        if kind.__doc__:
            found[name]["description"] = kind.__doc__
    return {"$ref": REFERENCE.format(name)}


def _filled(hint: Any, args: tuple[Any, ...]) -> Any:
    """A type with its variable replaced: ``list[T]`` of a page."""
    return hint[args] if getattr(hint, "__parameters__", ()) else hint
