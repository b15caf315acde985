"""What every codec can do with its kind of value, and the codecs that are made of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from limpet.errors import InvalidInput
from limpet.model.text import short_repr
from limpet.model.values import take_at_most

MAX_ITEMS = 10_000
REFERENCE = "#/components/schemas/{}"

# Of whom a schema speaks: who gives a value over HTTP, a model that calls a tool, or who reads an answer.
Mode = Literal["input", "tool", "output"]
Definitions = dict[str, dict[str, Any]]


class Codec:
    """How one kind of value is checked, read, written and described."""

    __slots__ = ()

    def accepts(self, value: object) -> bool:
        """Whether the value is of the right type; of a union, the first member that accepts it takes it."""
        raise NotImplementedError

    def check(self, value: Any, name: str) -> Any:
        """The canonical value of what a Python caller gives, or InvalidInput."""
        raise NotImplementedError

    def read(self, value: Any, name: str) -> Any:
        """The value of what stands in JSON, or InvalidInput."""
        return self.check(value, name)

    def parse(self, text: str, name: str) -> Any:
        """The value of a text: in a query, on a command line, in an environment variable."""
        return self.read(text, name)

    def write(self, value: Any) -> Any:
        """The JSON value."""
        return value

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        """JSON Schema 2020-12. Nouns are added to the definitions and referred to; without any they are inlined."""
        raise NotImplementedError


class OptionalCodec(Codec):
    """A value, or None."""

    __slots__ = ("inner",)

    def __init__(self, inner: Codec) -> None:
        self.inner = inner

    def accepts(self, value: object) -> bool:
        return value is None or self.inner.accepts(value)

    def check(self, value: Any, name: str) -> Any:
        return None if value is None else self.inner.check(value, name)

    def read(self, value: Any, name: str) -> Any:
        return None if value is None else self.inner.read(value, name)

    def parse(self, text: str, name: str) -> Any:
        return self.inner.parse(text, name)

    def write(self, value: Any) -> Any:
        return None if value is None else self.inner.write(value)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        inner = self.inner.schema(definitions, mode)
        # A model leaves out what it does not want to say.
        return inner if mode == "tool" or not inner else {"anyOf": [inner, {"type": "null"}]}


class UnionCodec(Codec):
    """One of several kinds of values, told apart by their types."""

    __slots__ = ("members",)

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

    __slots__ = ("inner", "limits")

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

    __slots__ = ("inner", "key")

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


class CalledCodec(Codec):
    """Another codec, with its own word for the value in error messages."""

    __slots__ = ("inner", "word")

    def __init__(self, inner: Codec, word: str) -> None:
        self.inner, self.word = inner, word

    def accepts(self, value: object) -> bool:
        return self.inner.accepts(value)

    def check(self, value: Any, name: str) -> Any:
        return self.inner.check(value, self.word)

    def read(self, value: Any, name: str) -> Any:
        return self.inner.read(value, self.word)

    def parse(self, text: str, name: str) -> Any:
        return self.inner.parse(text, self.word)

    def write(self, value: Any) -> Any:
        return self.inner.write(value)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return self.inner.schema(definitions, mode)
