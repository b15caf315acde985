"""What every codec can do, and the limits of single values: each checks a value and describes it in JSON Schema."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from enum import StrEnum
from math import isfinite
from os import PathLike
from typing import Any, ClassVar, Literal

from limpet.errors import InvalidInput
from limpet.model.values import (
    FOREIGN_ID,
    MAX_CONTENT_BYTES,
    MAX_LABEL_BYTES,
    MAX_NAME_BYTES,
    MAX_PAGE,
    MAX_RECORD_KEY,
    check_any_id,
    check_choice,
    check_day,
    check_flag,
    check_id,
    check_label,
    check_name,
    check_number,
    check_page,
    check_path,
    check_record_key,
    check_text,
    check_time,
    check_ttl,
    is_internal,
    short_repr,
)

REFERENCE = "#/components/schemas/{}"

# Of whom a schema speaks: who gives a value over HTTP, a model that calls a tool, or who reads an answer.
Mode = Literal["input", "tool", "output"]
Definitions = dict[str, dict[str, Any]]


class Codec:
    """How one kind of value is checked, read, written and described."""

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
        return value

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        """JSON Schema 2020-12. Nouns are added to the definitions and referred to; without any they are inlined."""
        raise NotImplementedError


class WrapperCodec(Codec):
    """Another codec, with something of its own."""

    def __init__(self, inner: Codec) -> None:
        self.inner = inner

    def accepts(self, value: object) -> bool:
        return self.inner.accepts(value)

    def check(self, value: Any, name: str) -> Any:
        return self.inner.check(value, name)

    def read(self, value: Any, name: str) -> Any:
        return self.inner.read(value, name)

    def parse(self, text: str, name: str) -> Any:
        return self.inner.parse(text, name)

    def write(self, value: Any) -> Any:
        return self.inner.write(value)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return self.inner.schema(definitions, mode)


class OptionalCodec(WrapperCodec):
    def accepts(self, value: object) -> bool:
        return value is None or self.inner.accepts(value)

    def check(self, value: Any, name: str) -> Any:
        return None if value is None else self.inner.check(value, name)

    def read(self, value: Any, name: str) -> Any:
        return None if value is None else self.inner.read(value, name)

    def write(self, value: Any) -> Any:
        return None if value is None else self.inner.write(value)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        inner = self.inner.schema(definitions, mode)
        # A model leaves out what it does not want to say.
        return inner if mode == "tool" or not inner else {"anyOf": [inner, {"type": "null"}]}


class CalledCodec(WrapperCodec):
    """Another codec, with its own word for the value in error messages."""

    def __init__(self, inner: Codec, word: str) -> None:
        super().__init__(inner)
        self.word = word

    def check(self, value: Any, name: str) -> Any:
        return self.inner.check(value, self.word)

    def read(self, value: Any, name: str) -> Any:
        return self.inner.read(value, self.word)

    def parse(self, text: str, name: str) -> Any:
        return self.inner.parse(text, self.word)


class DescribedCodec(WrapperCodec):
    """Another codec, with a JSON Schema of its own for who gives the value."""

    def __init__(self, inner: Codec, **schema: Any) -> None:
        super().__init__(inner)
        self._schema = schema

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        whole = self.inner.schema(definitions, mode)
        return whole | self._schema if mode == "input" else whole


def unwrap(codec: Codec) -> Codec:
    """The codec of the value itself, without what it is called, how it is described and whether it may be None."""
    while isinstance(codec, WrapperCodec):
        codec = codec.inner
    return codec


MAX_NUMBER = 2**62 - 1
MAX_SECONDS = 365_000 * 86_400

_TEXT = r"^[^\x00]*$"
_WORDS = r"^[^\x00]*[^\x00\s][^\x00]*$"
_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
_KEY = "^(?!system_|internal_)[a-z][a-z0-9_]*$"
_TEXT_END = rf"[^\s{_CONTROL}]"


def make_name_pattern(max_bytes: int) -> str:
    """Printable, no white space at either end: so many characters of one byte, of two, or of up to four."""
    one, two, four = (max_bytes // size - 2 for size in (1, 2, 4))
    return "|".join(
        (
            rf"^[!-~]([ -~]{{0,{one}}}[!-~])?$",
            rf"^[!-~\u00a1-\u07ff]([ -~\u00a0-\u07ff]{{0,{two}}}[!-~\u00a1-\u07ff])?$",
            rf"^{_TEXT_END}([^{_CONTROL}]{{0,{four}}}{_TEXT_END})?$",
        )
    )


_UUID = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d")
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_FLAGS = {"true": True, "false": False}


class Scalar(Codec):
    """A value of one JSON type. Its limits are told to who gives it; a model need not pay for reading them."""

    json_type: ClassVar[str] = "string"
    python_types: ClassVar[tuple[type, ...]] = (str,)

    def accepts(self, value: object) -> bool:
        return isinstance(value, self.python_types)

    def limits(self) -> dict[str, Any]:
        """What JSON Schema can say of them."""
        return {}

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": self.json_type, **(self.limits() if mode == "input" else {})}


class Text(Scalar):
    """Text without NUL and lone surrogates, which no database keeps."""

    def __init__(self, max_bytes: int = MAX_CONTENT_BYTES, *, blank: bool = True) -> None:
        self.max_bytes, self.blank = max_bytes, blank  # not blank: there must be more than white space

    def check(self, value: Any, name: str) -> str:
        text = check_text(value, name, max_bytes=self.max_bytes)
        if not self.blank and not text.strip():
            raise InvalidInput(f"{name} is empty")
        return text

    def limits(self) -> dict[str, Any]:
        most = {"maxLength": self.max_bytes} if self.max_bytes < MAX_CONTENT_BYTES else {}
        return {**most, **({"pattern": _TEXT} if self.blank else {"minLength": 1, "pattern": _WORDS})}


class Printable(Scalar):
    """Printable text with no space at its ends."""

    def __init__(self, max_bytes: int = MAX_NAME_BYTES) -> None:
        self.max_bytes = max_bytes

    def check(self, value: Any, name: str) -> str:
        return check_name(value, name, max_bytes=self.max_bytes)

    def limits(self) -> dict[str, Any]:
        return {"minLength": 1, "maxLength": self.max_bytes, "pattern": make_name_pattern(self.max_bytes)}


class Tag(Scalar):
    """Text short enough for an index entry on every backend."""

    max_bytes: ClassVar[int] = MAX_LABEL_BYTES
    check = staticmethod(check_label)

    def limits(self) -> dict[str, Any]:
        return {"minLength": 1, "maxLength": self.max_bytes, "pattern": _TEXT}


class Uuid(Scalar):
    """A UUID; in lower case once it is checked."""

    check = staticmethod(check_id)

    def limits(self) -> dict[str, Any]:
        return {"pattern": _UUID}


class ForeignId(Scalar):
    """A UUID, in lower case once it is checked, or an id that another program gave."""

    check = staticmethod(check_any_id)

    def limits(self) -> dict[str, Any]:
        return {"pattern": f"^{FOREIGN_ID}$"}


class Identifier(Scalar):
    """Lower-case letters, digits and _, beginning with a letter; not ``system_…`` or ``internal_…``."""

    def __init__(self, *, reserved: bool = False) -> None:
        self.reserved = reserved

    def check(self, value: Any, name: str) -> str:
        if self.reserved and isinstance(value, str) and is_internal(value):
            return check_name(value, name, max_bytes=MAX_RECORD_KEY)
        return check_record_key(value)

    def limits(self) -> dict[str, Any]:
        return {"maxLength": MAX_RECORD_KEY, "pattern": _KEY}

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        """A model chooses keys itself, so it is told how long they may be."""
        told = {"maxLength": MAX_RECORD_KEY} if mode == "tool" else {}
        return Scalar.schema(self, definitions, mode) | told


class FilePath(Scalar):
    """The name of a file or folder: text or a path, and not empty."""

    python_types = (str, PathLike)
    check = staticmethod(check_path)


class NullableText(Scalar):
    """A text that is null in JSON where it is empty."""

    def check(self, value: Any, name: str) -> str:
        return "" if value is None else check_text(value, name)

    def write(self, value: str) -> str | None:
        return value or None

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, {"type": "null"}]}


EMPTY_IS_NULL = NullableText()


class Boolean(Scalar):
    json_type, python_types = "boolean", (bool,)
    check = staticmethod(check_flag)

    def parse(self, text: str, name: str) -> bool:
        if text not in _FLAGS:
            raise InvalidInput(f"{name} must be true or false, not {short_repr(text)}")
        return _FLAGS[text]


class Integer(Scalar):
    """A whole number."""

    json_type, python_types = "integer", (int,)

    def __init__(self, least: int = 0, most: int = MAX_NUMBER) -> None:
        self.least, self.most = least, most

    def accepts(self, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def check(self, value: Any, name: str) -> int:
        if self.least == 0 and self.most == MAX_NUMBER:
            return check_number(value, name)
        if not self.accepts(value) or not self.least <= value <= self.most:
            span = f"from {self.least:,} up" if self.most == MAX_NUMBER else f"from {self.least} to {self.most}"
            raise InvalidInput(f"{name} must be a whole number {span}, not {short_repr(value)}")
        return int(value)

    def read(self, value: Any, name: str) -> int:
        """What JSON calls a whole number may be written 1.0."""
        return self.check(int(value) if isinstance(value, float) and value.is_integer() else value, name)

    def parse(self, text: str, name: str) -> int:
        return self.check(int(text) if _WHOLE.fullmatch(text) else text, name)

    def limits(self) -> dict[str, Any]:
        return {"minimum": self.least, "maximum": self.most}


class PageSize(Integer):
    """A whole number of entries."""

    def check(self, value: Any, name: str) -> int:
        return check_page(value)

    def limits(self) -> dict[str, Any]:
        return {"minimum": 0, "maximum": MAX_PAGE}


class Number(Scalar):
    """A finite number."""

    json_type = "number"

    def __init__(self, least: float | None = None, most: float | None = None) -> None:
        self.least, self.most = least, most

    def accepts(self, value: object) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def check(self, value: Any, name: str) -> float:
        if not self.accepts(value) or not self._holds(value):
            raise InvalidInput(f"{name} must be a number{self._span()}, not {short_repr(value)}")
        return float(value)

    def parse(self, text: str, name: str) -> float:
        try:
            number: object = float(text)
        except ValueError:
            number = text
        return self.check(number, name)

    def limits(self) -> dict[str, Any]:
        limits = {"minimum": self.least, "maximum": self.most}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def _holds(self, value: float) -> bool:
        if self.least is not None and not value >= self.least:
            return False
        if self.most is not None and not value <= self.most:
            return False
        return isinstance(value, int) or isfinite(value)

    def _span(self) -> str:
        if self.least is None:
            return ""
        return f" from {self.least:,} up" if self.most is None else f" from {self.least:,} to {self.most:,}"


class Instant(Scalar):
    """An instant: an aware datetime, in UTC; in JSON as RFC 3339 has it."""

    python_types = (datetime, str)
    check = staticmethod(check_time)

    def read(self, value: Any, name: str) -> datetime:
        try:
            if isinstance(value, str) and _TIME.match(value):
                return check_time(datetime.fromisoformat(value.upper()), name)
        except ValueError as error:
            if isinstance(error, InvalidInput):
                raise
        raise InvalidInput(f"{name} must be a time with a zone such as 2026-05-02T09:30:00Z, not {short_repr(value)}")

    def write(self, value: datetime) -> str:
        return value.isoformat()

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "string", "format": "date-time"}


class Day(Scalar):
    """A calendar day: a date or its ISO text."""

    python_types = (date, str)
    check = staticmethod(check_day)

    def write(self, value: date) -> str:
        return value.isoformat()

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "string", "format": "date"}


class Duration(Scalar):
    """A positive timedelta, or a number of seconds."""

    json_type, python_types = "number", (timedelta, int, float)

    def check(self, value: Any, name: str) -> timedelta:
        return check_ttl(value, name)

    def parse(self, text: str, name: str) -> timedelta:
        return self.check(Number().parse(text, name), name)

    def write(self, value: timedelta) -> float:
        return value.total_seconds()

    def limits(self) -> dict[str, Any]:
        return {"minimum": 0.001, "maximum": MAX_SECONDS}


class Choice(Scalar):
    """One of a few words."""

    def __init__(self, words: tuple[Any, ...]) -> None:
        self.words = words

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value in self.words

    def check(self, value: Any, name: str) -> Any:
        if not self.accepts(value):
            raise InvalidInput(f"{name} must be one of {', '.join(map(str, self.words))}; not {short_repr(value)}")
        return value

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}


class EnumChoice(Scalar):
    """A member of an enumeration, or its word."""

    def __init__(self, kind: type[StrEnum]) -> None:
        self.kind = kind

    def check(self, value: Any, name: str) -> StrEnum:
        return check_choice(self.kind, value, name)

    def write(self, value: StrEnum) -> str:
        return value.value

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "string", "enum": [member.value for member in self.kind]}
