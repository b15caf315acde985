"""The limits of single values: each checks a value, and says in JSON Schema what it checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from enum import StrEnum
from math import isfinite
from os import PathLike
from typing import Any, NoReturn

from limpet.errors import InvalidInput
from limpet.model.codec import Codec, Definitions, Mode
from limpet.model.ids import check_id
from limpet.model.naming import MAX_RECORD_KEY, check_record_key, is_internal
from limpet.model.text import (
    MAX_CONTENT_BYTES,
    MAX_NAME_BYTES,
    check_choice,
    check_name,
    check_path,
    check_text,
    short_repr,
)
from limpet.model.times import check_day, check_time, check_ttl
from limpet.model.values import (
    MAX_KEYS,
    MAX_LABEL_BYTES,
    MAX_MAP_BYTES,
    MAX_PAGE,
    check_flag,
    check_json,
    check_label,
    check_metadata,
    check_number,
    check_page,
    check_strings,
)

MAX_NUMBER = 2**62 - 1
MAX_SECONDS = 365_000 * 86_400

_TEXT = r"^[^\x00]*$"
_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
# Printable, no white space at either end, at most 256 bytes: so many characters of one, of two, or of more bytes.
_NAME = "|".join(
    (
        r"^[!-~]([ -~]{0,254}[!-~])?$",
        r"^[!-~\u00a1-\u07ff]([ -~\u00a0-\u07ff]{0,126}[!-~\u00a1-\u07ff])?$",
        rf"^[^\s{_CONTROL}]([^{_CONTROL}]{{0,62}}[^\s{_CONTROL}])?$",
    )
)
_UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d")
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_FLAGS = {"true": True, "false": False}


class _Text(Codec):
    """What every kind of text has in common."""

    __slots__ = ()

    def accepts(self, value: object) -> bool:
        return isinstance(value, str)


class Text(_Text):
    """Any text a database keeps: no NUL, no lone surrogate, and so many bytes at most."""

    __slots__ = ("blank", "max_bytes")

    def __init__(self, max_bytes: int = MAX_CONTENT_BYTES, blank: bool = True) -> None:
        self.max_bytes = max_bytes
        self.blank = blank  # False: there must be more than white space

    def check(self, value: Any, name: str) -> str:
        text = check_text(value, name, max_bytes=self.max_bytes)
        if not self.blank and not text.strip():
            raise InvalidInput(f"{name} is empty")
        return text

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        if mode != "input":
            return {"type": "string"}
        limit = {"maxLength": self.max_bytes} if self.max_bytes < MAX_CONTENT_BYTES else {}
        pattern = {"pattern": _TEXT} if self.blank else {"pattern": r"^[^\x00]*[^\x00\s][^\x00]*$", "minLength": 1}
        return {"type": "string", **limit, **pattern}


class Printable(_Text):
    """A name: short printable text with no space at its ends."""

    __slots__ = ("max_bytes",)

    def __init__(self, max_bytes: int = MAX_NAME_BYTES) -> None:
        self.max_bytes = max_bytes

    def check(self, value: Any, name: str) -> str:
        return check_name(value, name, max_bytes=self.max_bytes)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        if mode != "input":
            return {"type": "string"}
        limits = {"minLength": 1, "maxLength": self.max_bytes}
        return {"type": "string", **limits, **({"pattern": _NAME} if self.max_bytes == MAX_NAME_BYTES else {})}


class Tag(_Text):
    """A tag or a metadata key: text short enough for an index entry on every backend."""

    __slots__ = ()

    def check(self, value: Any, name: str) -> str:
        return check_label(value, name)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        limits = {"minLength": 1, "maxLength": MAX_LABEL_BYTES, "pattern": _TEXT}
        return {"type": "string", **(limits if mode == "input" else {})}


class Uuid(_Text):
    """An id: a UUID in lower case."""

    __slots__ = ()

    def check(self, value: Any, name: str) -> str:
        return check_id(value, name)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "string", **({"pattern": f"^{_UUID}$"} if mode == "input" else {})}


class Identifier(_Text):
    """A memory's key: lower-case letters, digits and _, beginning with a letter. The engine has reserved ones."""

    __slots__ = ("reserved",)

    def __init__(self, *, reserved: bool = False) -> None:
        self.reserved = reserved

    def check(self, value: Any, name: str) -> str:
        if self.reserved and isinstance(value, str) and is_internal(value):
            return check_name(value, name, max_bytes=MAX_RECORD_KEY)
        return check_record_key(value)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        pattern = {"pattern": "^(?!system_|internal_)[a-z][a-z0-9_]*$"} if mode == "input" else {}
        return {"type": "string", **({} if mode == "output" else {"maxLength": MAX_RECORD_KEY}), **pattern}


class FilePath(_Text):
    """The name of a file or folder: text or a path, and not empty."""

    __slots__ = ()

    def accepts(self, value: object) -> bool:
        return isinstance(value, (str, PathLike))

    def check(self, value: Any, name: str) -> str:
        return check_path(value, name)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "string"}


class NullableText(_Text):
    """A text that is null in JSON where it is empty."""

    __slots__ = ()

    def check(self, value: Any, name: str) -> str:
        return "" if value is None else check_text(value, name)

    def write(self, value: str) -> str | None:
        return value or None

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, {"type": "null"}]}


EMPTY_IS_NULL = NullableText()


class Boolean(Codec):
    __slots__ = ()

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)

    def check(self, value: Any, name: str) -> bool:
        return check_flag(value, name)

    def parse(self, text: str, name: str) -> bool:
        if text not in _FLAGS:
            raise InvalidInput(f"{name} must be true or false, not {short_repr(text)}")
        return _FLAGS[text]

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "boolean"}


class Integer(Codec):
    """A whole number that every backend can hold."""

    __slots__ = ("least", "most")

    def __init__(self, least: int = 0, most: int = MAX_NUMBER) -> None:
        self.least = least
        self.most = most

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

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        if mode != "input":
            return {"type": "integer"}
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class PageSize(Integer):
    """How many entries of a list are wanted."""

    __slots__ = ()

    def check(self, value: Any, name: str) -> int:
        return check_page(value)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "integer", **({"minimum": 0, "maximum": MAX_PAGE} if mode == "input" else {})}


class Number(Codec):
    """A finite number, between limits where there are some."""

    __slots__ = ("least", "most")

    def __init__(self, least: float | None = None, most: float | None = None) -> None:
        self.least = least
        self.most = most

    def accepts(self, value: object) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def check(self, value: Any, name: str) -> float:
        if not self.accepts(value) or not self._holds(value):
            raise InvalidInput(f"{name} must be a number{self._span()}, not {short_repr(value)}")
        return float(value)

    def parse(self, text: str, name: str) -> float:
        try:
            return self.check(float(text), name)
        except ValueError:
            return self.check(text, name)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        limits = {"minimum": self.least, "maximum": self.most} if mode == "input" else {}
        return {"type": "number", **{name: limit for name, limit in limits.items() if limit is not None}}

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


class Instant(Codec):
    """An instant: an aware datetime, in UTC; in JSON as RFC 3339 has it."""

    __slots__ = ()

    def accepts(self, value: object) -> bool:
        return isinstance(value, (datetime, str))

    def check(self, value: Any, name: str) -> datetime:
        return check_time(value, name)

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


class Day(Codec):
    """A calendar day: a date or its ISO text."""

    __slots__ = ()

    def accepts(self, value: object) -> bool:
        return isinstance(value, (date, str))

    def check(self, value: Any, name: str) -> date:
        return check_day(value, name)

    def write(self, value: date) -> str:
        return value.isoformat()

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "string", "format": "date"}


class Duration(Codec):
    """A time to live: a positive timedelta, or a number of seconds."""

    __slots__ = ()

    def accepts(self, value: object) -> bool:
        return isinstance(value, (timedelta, int, float)) and not isinstance(value, bool)

    def check(self, value: Any, name: str) -> timedelta:
        return check_ttl(value)

    def parse(self, text: str, name: str) -> timedelta:
        return self.check(Number().parse(text, name), name)

    def write(self, value: timedelta) -> float:
        return value.total_seconds()

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "number", **({"exclusiveMinimum": 0, "maximum": MAX_SECONDS} if mode == "input" else {})}


class Choice(Codec):
    """One of a few words."""

    __slots__ = ("words",)

    def __init__(self, words: tuple[Any, ...]) -> None:
        self.words = words

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value in self.words

    def check(self, value: Any, name: str) -> Any:
        if value not in self.words or not isinstance(value, str):
            raise InvalidInput(f"{name} must be one of {', '.join(map(str, self.words))}; not {short_repr(value)}")
        return value

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}


class EnumChoice(Codec):
    """A member of an enumeration, or its word."""

    __slots__ = ("kind",)

    def __init__(self, kind: type[StrEnum]) -> None:
        self.kind = kind

    def accepts(self, value: object) -> bool:
        return isinstance(value, str)

    def check(self, value: Any, name: str) -> StrEnum:
        return check_choice(self.kind, value, name)

    def write(self, value: StrEnum) -> str:
        return value.value

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "string", "enum": [member.value for member in self.kind]}


class Parsed(Codec):
    """A class with ``parse``, which is a text in JSON: a grant, a session key."""

    __slots__ = ("kind",)

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def accepts(self, value: object) -> bool:
        return isinstance(value, (str, self.kind))

    def check(self, value: Any, name: str) -> Any:
        return value if isinstance(value, self.kind) else self.kind.parse(value)

    def write(self, value: Any) -> str:
        return str(value)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {"type": "string"}


class JsonValue(Codec):
    """Any JSON value: a copy, as it will be read back."""

    __slots__ = ("max_bytes",)

    def __init__(self, max_bytes: int = MAX_MAP_BYTES) -> None:
        self.max_bytes = max_bytes

    def accepts(self, value: object) -> bool:
        return True

    def check(self, value: Any, name: str) -> Any:
        from json import loads

        return loads(check_json(value, name, max_bytes=self.max_bytes))

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {}


class JsonObject(Codec):
    """Any JSON object."""

    __slots__ = ("max_bytes",)

    def __init__(self, max_bytes: int = MAX_MAP_BYTES) -> None:
        self.max_bytes = max_bytes

    def accepts(self, value: object) -> bool:
        return isinstance(value, Mapping)

    def check(self, value: Any, name: str) -> dict[str, Any]:
        return check_metadata(value, name, max_bytes=self.max_bytes)

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return dict(value)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        return {
            "type": "object",
            **({"maxProperties": MAX_KEYS} if mode == "input" else {}),
            "additionalProperties": {},
        }


class StringMap(JsonObject):
    """Text by text, so that it can be searched by equality on every backend."""

    __slots__ = ()

    def check(self, value: Any, name: str) -> dict[str, str]:
        return check_strings(value, name)

    def schema(self, definitions: Definitions | None = None, mode: Mode = "input") -> dict[str, Any]:
        names = {"maxProperties": MAX_KEYS, "propertyNames": Tag().schema()} if mode == "input" else {}
        return {"type": "object", **names, "additionalProperties": {"type": "string"}}


class Function(Codec):
    """Something to call. It has no JSON."""

    __slots__ = ()

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

    __slots__ = ("kind",)

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
