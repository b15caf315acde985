"""The one schema system: what a value may be, how it becomes JSON, and what JSON Schema says about it.

A hint such as ``Annotated[str, Text(max_bytes=4096), "the heading"]`` compiles to a ``Codec``. ``check`` takes what a
Python caller gives, ``read`` what stands in JSON, ``parse`` what stands in a query, a command line or a variable;
each returns the canonical value or raises InvalidInput. A dataclass is read field by field: every noun of ``model``
says there what its fields mean and what they may be, and nothing says it again.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, timedelta
from enum import Enum, StrEnum, auto
from functools import cache
from os import PathLike
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict

from limpet.errors import InvalidInput
from limpet.model import constraints, containers
from limpet.model.constraints import REFERENCE, CalledCodec, Codec, Definitions, Mode, OptionalCodec, unwrap
from limpet.model.containers import Items, ListCodec, MapCodec, UnionCodec
from limpet.model.late import lazy_property
from limpet.model.values import short_repr, suggest


class Hint(Enum):
    """What a field says beside its type, its limits and its meaning."""

    FLATTEN = auto()  # in JSON its fields stand beside those of the noun that has it
    NO_JSON = auto()  # never leaves the program
    ONLY_EXPORT = auto()  # JSON of exports only
    NO_EXPORT = auto()  # not in exports: known to the reader, or counted by the store
    EXPORT_FLAT = auto()  # a text in JSON; in exports its fields stand beside those of the noun that has it
    OMIT_FALSE = auto()  # left out of exports where it is false
    IN_JSON = auto()  # on the return type of a property: part of the noun's JSON


FLATTEN, NO_JSON, ONLY_EXPORT, IN_JSON = Hint.FLATTEN, Hint.NO_JSON, Hint.ONLY_EXPORT, Hint.IN_JSON
NO_EXPORT, EXPORT_FLAT, OMIT_FALSE = Hint.NO_EXPORT, Hint.EXPORT_FLAT, Hint.OMIT_FALSE


class JsonName:
    """The name of a field in JSON, where it is another than in Python."""

    def __init__(self, name: str) -> None:
        self.name = name


class Called:
    """What an error message calls the value, where its name alone says too little."""

    def __init__(self, name: str) -> None:
        self.name = name


class Editable:
    """A caller may set the field, within the limits of this hint."""

    def __init__(self, hint: Any) -> None:
        self.hint = hint


class Field(NamedTuple):
    """One field of a noun, or one argument of an operation."""

    name: str
    key: str  # its name in JSON
    codec: Codec
    meaning: str = ""
    default: Any = MISSING
    hints: frozenset[Any] = frozenset()

    @classmethod
    def of(cls, name: str, hint: Any, default: Any = MISSING) -> Field:
        marks = _marks(hint)
        key = next((mark.name for mark in marks if isinstance(mark, JsonName)), name)
        hashable = [mark for mark in marks if not isinstance(mark, (str, Codec))]
        return cls(name, key, codec(hint), _describe(marks), default, frozenset(hashable))

    @property
    def is_required(self) -> bool:
        return self.default is MISSING

    @property
    def is_flat(self) -> bool:
        return FLATTEN in self.hints

    @property
    def inner_codec(self) -> ObjectCodec | None:
        """Of a noun whose fields stand beside the others, in rows and in exports."""
        if EXPORT_FLAT in self.hints:
            return noun_codec(self.codec.kind)  # type: ignore[attr-defined]  # what is parsed in JSON
        return self.codec if self.is_flat and isinstance(self.codec, ObjectCodec) else None

    def property_schema(self, definitions: Definitions | None, mode: Mode) -> dict[str, Any]:
        schema = self.codec.schema(definitions, mode)
        if self.meaning:
            schema = schema | {"description": self.meaning}
        if mode != "output" and self.default not in (MISSING, None, (), "", False) and not callable(self.default):
            schema["default"] = self.codec.write(self.default)
        return schema


def _compile(hint: Any) -> Codec:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(args[0], hint.__metadata__)
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is Literal:
        return constraints.Choice(tuple(args))
    if origin in _SEQUENCES:
        return ListCodec(codec(args[0]))
    if origin in _MAPPINGS:
        return _mapping(args)
    if origin is not None and origin not in _GENERIC:
        return containers.Opaque(origin)
    return _plain(hint)


# The codec of a type hint, compiled once.
codec: Callable[[Any], Codec] = cache(_compile)


def _describe(marks: Sequence[Any]) -> str:
    """The sentence a hint carries: its own, or that of the type it makes optional."""
    return next((mark for mark in reversed(marks) if isinstance(mark, str)), "")


@cache
def fields_of(noun: type[Any]) -> tuple[Field, ...]:
    """The fields of a dataclass or named tuple, in their order; then the properties that belong to its JSON."""
    hints = get_type_hints(noun, include_extras=True)
    if is_dataclass(noun):
        defaults = {
            each.name: each.default if each.default_factory is MISSING else each.default_factory()
            for each in fields(noun)
        }
    else:
        known = getattr(noun, "_field_defaults", {})
        defaults = {name: known.get(name, MISSING) for name in noun.__annotations__}
    own = [Field.of(name, hints[name], default) for name, default in defaults.items()]
    return (*own, *_derived_fields(noun))


def fields_of_call(function: Callable[..., Any], hints: Mapping[str, Any], skip: int) -> list[Field]:
    """The arguments of a function behind the first ones, which its callers do not give; without ``**keywords``."""
    import inspect  # late: only what reads signatures needs it

    given = [*inspect.signature(function).parameters.values()][skip:]
    return [
        Field.of(each.name, hints[each.name], MISSING if each.default is each.empty else each.default)
        for each in given
        if each.kind is not each.VAR_KEYWORD
    ]


def to_json(noun: Any) -> Any:
    """A noun, or a list of them, as the command line and HTTP answer with it."""
    if isinstance(noun, (list, tuple)) and not hasattr(noun, "_fields"):
        return [to_json(each) for each in noun]
    kind: Any = type(noun)
    return None if noun is None else codec(kind).write(noun)


_ignores_unknown = ContextVar("ignores_unknown", default=False)


@contextmanager
def ignore_unknown_fields() -> Iterator[None]:
    """Within it, ``read`` takes what a server wrote: names it does not know are ignored, a newer server has more.

    Fields that never leave the server are None.
    """
    token = _ignores_unknown.set(True)
    try:
        yield
    finally:
        _ignores_unknown.reset(token)


class ObjectCodec(Codec):
    """A JSON object with known fields: a noun, or the arguments of an operation."""

    def __init__(
        self,
        name: str,
        entries: Callable[[], Sequence[Field]],
        build: Callable[..., Any] = dict,
        noun: type[Any] | None = None,
    ) -> None:
        """``entries`` gives the fields when they are first needed: a noun may contain itself."""
        self.name, self.build, self.noun, self._entries = name, build, noun, entries

    @lazy_property
    def fields(self) -> Sequence[Field]:
        return tuple(self._entries())

    @lazy_property
    def shown(self) -> list[Field]:
        return [each for each in self.fields if not each.hints & {NO_JSON, ONLY_EXPORT}]

    def accepts(self, value: object) -> bool:
        return isinstance(value, Mapping) or self._is_noun(value)

    def check(self, value: Any, name: str) -> Any:
        if self._is_noun(value):
            stored = [each.name for each in self.fields if IN_JSON not in each.hints]
            given: Mapping[str, Any] = {name: getattr(value, name) for name in stored}
        elif isinstance(value, Mapping):
            given = value
        else:
            called = f"a {self.name}" if self.noun is not None else self.name
            raise InvalidInput(f"{name} must be {called} or a mapping, not {type(value).__name__}")
        return self._build(given, name, "check")

    def read(self, value: Any, name: str) -> Any:
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{name or 'the arguments'} must be a JSON object, not {short_repr(value)}")
        return self._build(value, name, "read")

    def write(self, value: Any) -> dict[str, Any]:
        is_mapping = isinstance(value, dict)
        if self._plain and not is_mapping:
            return {key: getattr(value, name) for name, key in self._plain}
        told: dict[str, Any] = {}
        for name, key, write, flat in self._writers:
            found = value[key] if is_mapping else getattr(value, name)
            written = found if write is None else write(found)
            if flat:
                told |= written
            else:
                told[key] = written
        return told

    @lazy_property
    def _writers(self) -> Sequence[tuple[str, str, Callable[[Any], Any] | None, bool]]:
        """Name, key, and how to write the value; None for what JSON has as it is."""
        return [(each.name, each.key, _get_writer(each.codec), each.is_flat) for each in self.shown]

    @lazy_property
    def _plain(self) -> Sequence[tuple[str, str]]:
        """Name and key of all fields, where JSON has each as it is; else nothing."""
        is_plain = all(write is None and not flat for _, _, write, flat in self._writers)
        return [(name, key) for name, key, _, _ in self._writers] if is_plain else ()

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        if definitions is None:
            return self._whole_schema(None, mode)
        if self.name not in definitions:
            definitions[self.name] = {}  # it may refer to itself
            definitions[self.name] = self._whole_schema(definitions, mode)
        return {"$ref": REFERENCE.format(self.name)}

    def _whole_schema(self, definitions: Definitions | None, mode: Mode) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required: list[str] = []
        for each in self.shown:
            if each.is_flat:
                inner = each.codec.schema(None, mode)
                properties |= inner["properties"]
                required += inner.get("required", ())
            elif mode == "output" or IN_JSON not in each.hints:
                properties[each.key] = self._describe_field(each, definitions, mode)
                required += [each.key] if mode == "output" or each.is_required else []
        whole: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            whole["required"] = sorted(required) if mode == "output" else required
        if mode != "output":
            whole["additionalProperties"] = False
        elif self.noun is not None and (doc := self.noun.__doc__) and not doc.startswith(f"{self.noun.__name__}("):
            whole["description"] = " ".join(doc.split())
        return whole

    @staticmethod
    def _describe_field(each: Field, definitions: Definitions | None, mode: Mode) -> dict[str, Any]:
        """Where callers give it, null is as good as left out."""
        schema = each.property_schema(definitions, mode)
        if mode != "input" or each.is_required or isinstance(each.codec, OptionalCodec):
            return schema
        about: dict[str, Any] = {key: schema.pop(key) for key in ("description", "default") if key in schema}
        return {"anyOf": [schema, {"type": "null"}], **about}

    def _is_noun(self, value: object) -> bool:
        return self.noun is not None and not is_typeddict(self.noun) and isinstance(value, self.noun)

    def _build(self, given: Mapping[str, Any], name: str, how: Literal["check", "read"]) -> Any:
        self._refuse_unknown(given, name, how)
        values: dict[str, Any] = {}
        place = f"{name}." if name else ""
        for each in self.fields:
            key = each.key if how == "read" else each.name
            if each.is_flat and how == "read":
                found = {key: given[key] for key in _flat_keys(each.codec) if key in given}
                values[each.name] = each.codec.read(found, name)
            elif IN_JSON in each.hints:
                pass
            elif key in given and not ((value := given[key]) is None and not each.is_required):
                values[each.name] = getattr(each.codec, how)(value, f"{place}{key}")
            elif each.is_required and not (each.hints & {NO_JSON, ONLY_EXPORT} and _ignores_unknown.get()):
                raise InvalidInput(f"{place}{key} is missing")
            elif each.is_required:
                values[each.name] = None  # it stays with the server
        return self.build(**values)

    def _refuse_unknown(self, given: Mapping[str, Any], name: str, how: Literal["check", "read"]) -> None:
        if how == "read" and _ignores_unknown.get():
            return
        known = [each.name for each in self.fields] if how == "check" else _flat_keys(self)
        unknown = next((str(key) for key in given if key not in known), None)
        if unknown is not None:
            hint = suggest(unknown, known) or f"; use one of {', '.join(known)}"
            raise InvalidInput(f"there is no field {short_repr(unknown)}{f' in {name}' if name else ''}{hint}")


def _get_writer(found: Codec) -> Callable[[Any], Any] | None:
    """None for what JSON has as it is, null included."""
    return None if type(unwrap(found)).write is Codec.write else found.write


_SEQUENCES = frozenset({tuple, list, set, frozenset, Sequence, Iterable, AbstractSet})
_MAPPINGS = frozenset({dict, Mapping})
_GENERIC = frozenset({PathLike, Callable})
_PLAIN: Mapping[Any, Codec] = {
    Any: containers.JsonValue(),
    object: containers.JsonValue(),
    str: constraints.Text(),
    bool: constraints.Boolean(),
    int: constraints.Integer(),
    float: constraints.Number(),
    datetime: constraints.Instant(),
    date: constraints.Day(),
    timedelta: constraints.Duration(),
    dict: containers.JsonObject(),
}


def noun_codec(noun: Any) -> ObjectCodec:
    """The codec of a dataclass, a named tuple or a typed dictionary, field by field."""
    return ObjectCodec(noun.__name__, lambda: fields_of(noun), noun, noun)


def _plain(hint: Any) -> Codec:
    if (found := _PLAIN.get(hint)) is not None:
        return found
    origin = get_origin(hint) or hint
    if origin is PathLike:
        return constraints.FilePath()
    if origin is Callable:
        return containers.Function()
    if isinstance(hint, type):
        if issubclass(hint, StrEnum):
            return constraints.EnumChoice(hint)
        if hasattr(hint, "parse") and hint.__str__ is not object.__str__:
            return containers.Parsed(hint)
        if is_dataclass(hint) or hasattr(hint, "_field_defaults") or is_typeddict(hint):
            return noun_codec(hint)
        if issubclass(hint, PathLike):
            return constraints.FilePath()
    return containers.Opaque(hint)


def _annotated(base: Any, marks: Sequence[Any]) -> Codec:
    found = next((mark for mark in reversed(marks) if isinstance(mark, Codec)), None)
    inner = codec(base) if found is None else _applied(base, found)
    limits = next((mark for mark in reversed(marks) if isinstance(mark, Items)), None)
    if limits is not None:
        inner = _with_limits(inner, limits)
    word = next((mark.name for mark in reversed(marks) if isinstance(mark, Called)), None)
    return inner if word is None else CalledCodec(inner, word)


def _applied(base: Any, found: Codec) -> Codec:
    """A limit on ``str | None`` is one on the text."""
    return OptionalCodec(found) if types.NoneType in get_args(base) else found


def _with_limits(inner: Codec, limits: Items) -> Codec:
    if isinstance(inner, OptionalCodec):
        return OptionalCodec(_with_limits(inner.inner, limits))
    assert isinstance(inner, ListCodec), "only a list has a number of entries"
    return ListCodec(inner.inner, limits)


def _union(args: tuple[Any, ...]) -> Codec:
    members = [codec(each) for each in args if each is not types.NoneType]
    inner = members[0] if len(members) == 1 else UnionCodec(members)
    return inner if len(members) == len(args) else OptionalCodec(inner)


def _mapping(args: tuple[Any, ...]) -> Codec:
    if args[0] is str and args[1] in (Any, object):
        return containers.JsonObject()
    if args == (str, str):
        return containers.StringMap()
    return MapCodec(codec(args[0]), codec(args[1]))


def _marks(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Annotated:
        return (*_marks(hint.__origin__), *hint.__metadata__)
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(mark for each in get_args(hint) for mark in _marks(each))
    return ()


def _flat_keys(inner: Codec) -> list[str]:
    """The keys under which a flattened noun stands in the object around it."""
    assert isinstance(inner, ObjectCodec), "only a noun can be flattened"
    return [key for each in inner.fields for key in (_flat_keys(each.codec) if each.is_flat else (each.key,))]


def _derived_fields(noun: type[Any]) -> list[Field]:
    """Properties whose return type says IN_JSON."""
    found = []
    for base in reversed(noun.__mro__):
        for name, each in vars(base).items():
            # Evaluating a hint takes time, and most properties are none of these.
            if isinstance(each, property) and "IN_JSON" in str(getattr(each.fget, "__annotations__", {}).get("return")):
                hint = get_type_hints(each.fget, include_extras=True).get("return")
                if IN_JSON in _marks(hint):
                    found.append(Field.of(name, hint))
    return found
