"""Codecs that are made of others, of classes, and of JSON as it is: lists, maps, metadata, arguments of tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NoReturn

from limpet.errors import InvalidInput
from limpet.model.constraints import REFERENCE, Codec, Definitions, Mode, Scalar, Tag
from limpet.model.values import (
    MAX_KEYS,
    MAX_MAP_BYTES,
    check_json,
    check_metadata,
    check_strings,
    short_repr,
    take_at_most,
)

MAX_ITEMS = 10_000


class UnionCodec(Codec):
    """One of several kinds of values, told apart by their types."""

    def __init__(self, members: Sequence[Codec]) -> None:
        self.members = tuple(members)

    def accepts(self, value: object) -> bool:
        return any(member.accepts(value) for member in self.members)

    def check(self, value: Any, name: str) -> Any:
        return self._find(value, name).check(value, name)

    def read(self, value: Any, name: str) -> Any:
        return self._find(value, name).read(value, name)

    def write(self, value: Any) -> Any:
        return self._find(value, "the value").write(value)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"anyOf": [member.schema(definitions, mode) for member in self.members]}

    def _find(self, value: object, name: str) -> Codec:
        found = next((member for member in self.members if member.accepts(value)), None)
        if found is None:
            raise InvalidInput(f"{name} has no value of type {type(value).__name__}")
        return found


class Items(NamedTuple):
    """Limits of a list: how many entries, and whether an equal one counts twice."""

    most: int = MAX_ITEMS
    unique: bool = False


class ListCodec(Codec):
    """A list whose entries are of one kind; a tuple in Python."""

    def __init__(self, inner: Codec, limits: Items | None = None) -> None:
        self.inner, self.limits = inner, limits or Items()

    def accepts(self, value: object) -> bool:
        return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))

    def check(self, value: Any, name: str) -> tuple[Any, ...]:
        return self.convert(value, name, self.inner.check)

    def read(self, value: Any, name: str) -> tuple[Any, ...]:
        return self.convert(value, name, self.inner.read)

    def parse(self, text: str, name: str) -> tuple[Any, ...]:
        return self.convert(text.split(",") if text else (), name, self.inner.parse)

    def write(self, value: Any) -> list[Any]:
        return [self.inner.write(each) for each in value]

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        whole: dict[str, Any] = {"type": "array", "items": self.inner.schema(definitions, mode)}
        if mode == "input" and self.limits.most < MAX_ITEMS:
            whole["maxItems"] = self.limits.most
        return whole

    def convert(self, values: Any, name: str, each: Callable[[Any, str], Any]) -> tuple[Any, ...]:
        """The entries, each converted; no more of them read than there may be."""
        if not self.accepts(values):
            raise InvalidInput(f"{name} must be a list, not {type(values).__name__}")
        most, unique = self.limits
        # One that stands there twice counts once.
        taken = take_at_most(10 * most if unique else most, values, f"{name} has too many entries")
        found = [each(entry, f"one of {name}") for entry in taken]
        if not unique:
            return tuple(found)
        distinct = tuple(dict.fromkeys(found))
        if len(distinct) > most:
            raise InvalidInput(f"{name} has {len(distinct):,} entries; the limit is {most:,}")
        return distinct


class MapCodec(Codec):
    """An object whose names are free and whose values are of one kind."""

    def __init__(self, key: Codec, inner: Codec) -> None:
        self.key, self.inner = key, inner

    def accepts(self, value: object) -> bool:
        return isinstance(value, Mapping)

    def check(self, value: Any, name: str) -> dict[Any, Any]:
        return self._each(value, name, "check")

    def read(self, value: Any, name: str) -> dict[Any, Any]:
        return self._each(value, name, "read")

    def write(self, value: Any) -> dict[str, Any]:
        return {self.key.write(name): self.inner.write(each) for name, each in value.items()}

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.inner.schema(definitions, mode)}

    def _each(self, value: Any, name: str, how: Literal["check", "read"]) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{name} must be a mapping, not {type(value).__name__}")
        return {
            getattr(self.key, how)(key, f"a key of {name}"): getattr(self.inner, how)(
                each, f"{name}[{short_repr(key)}]"
            )
            for key, each in value.items()
        }


class Parsed(Scalar):
    """A class with ``parse``, which is a text in JSON: a grant, a session key."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def accepts(self, value: object) -> bool:
        return isinstance(value, (str, self.kind))

    def check(self, value: Any, name: str) -> Any:
        return value if isinstance(value, self.kind) else self.kind.parse(value)

    def write(self, value: Any) -> str:
        return str(value)


class Function(Codec):
    """Something to call. It has no JSON."""

    def accepts(self, value: object) -> bool:
        return callable(value)

    def check(self, value: Any, name: str) -> Any:
        if not callable(value):
            raise InvalidInput(f"{name} must be a function, not {type(value).__name__}")
        return value

    def read(self, value: Any, name: str) -> NoReturn:
        raise InvalidInput(f"{name} is a function, which JSON cannot hold")


class Opaque(Codec):
    """A value of a type that no codec describes: a provider, a file. It is passed on, and has no JSON."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def accepts(self, value: object) -> bool:
        return True

    def check(self, value: Any, name: str) -> Any:
        return value

    def read(self, value: Any, name: str) -> NoReturn:
        raise InvalidInput(f"{name} cannot be given as JSON")

    def write(self, value: Any) -> NoReturn:
        raise TypeError(f"{self.kind!r} has no JSON form")

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        raise TypeError(f"{self.kind!r} has no JSON form")


_NO_NUL = r"^[^\x00]*$"


class JsonValue(Codec):
    """Any JSON value: a copy, as it will be read back."""

    def __init__(self, max_bytes: int = MAX_MAP_BYTES) -> None:
        self.max_bytes = max_bytes

    def accepts(self, value: object) -> bool:
        return True

    def check(self, value: Any, name: str) -> Any:
        from json import loads

        return loads(check_json(value, name, max_bytes=self.max_bytes))

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return _describe_any(definitions, mode)


class JsonObject(Scalar):
    """Any JSON object."""

    json_type, python_types = "object", (Mapping,)

    def __init__(self, max_bytes: int = MAX_MAP_BYTES) -> None:
        self.max_bytes = max_bytes

    def check(self, value: Any, name: str) -> dict[str, Any]:
        return check_metadata(value, name, max_bytes=self.max_bytes)

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return dict(value)

    def limits(self) -> dict[str, Any]:
        return {"maxProperties": MAX_KEYS}

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        names = {"propertyNames": {"pattern": _NO_NUL}} if mode == "input" else {}
        return (
            Scalar.schema(self, definitions, mode) | names | {"additionalProperties": _describe_any(definitions, mode)}
        )


class StringMap(JsonObject):
    """Texts by name, which every backend can search by equality."""

    def check(self, value: Any, name: str) -> dict[str, str]:
        return check_strings(value, name)

    def limits(self) -> dict[str, Any]:
        return {"maxProperties": MAX_KEYS, "propertyNames": Tag().schema()}

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        text = {"type": "string", "pattern": _NO_NUL} if mode == "input" else {"type": "string"}
        return Scalar.schema(self, definitions, mode) | {"additionalProperties": text}


def _describe_any(definitions: Definitions | None, mode: Mode) -> dict[str, Any]:
    """Where callers give it: any JSON without NUL in its texts, which no database stores."""
    if definitions is None or mode != "input":
        return {}
    itself = {"$ref": REFERENCE.format("Json")}
    definitions["Json"] = {
        "description": "Any JSON without NUL in its texts.",
        "anyOf": [
            {"type": "string", "pattern": _NO_NUL},
            {"type": ["number", "boolean", "null"]},
            {"type": "array", "items": itself},
            {"type": "object", "propertyNames": {"pattern": _NO_NUL}, "additionalProperties": itself},
        ],
    }
    return itself
