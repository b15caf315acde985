"""JSON values and the string maps that hang on sessions, messages and records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from limpet.errors import InvalidInput
from limpet.model.text import check_text, short_repr

T = TypeVar("T")

MAX_KEYS = 1_000
MAX_MAP_BYTES = 256 * 1024
MAX_LABEL_BYTES = 1024
MAX_DEPTH = 100

# An escaped NUL, not a backslash that stands before the letters u0000: backslashes in pairs are text.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKET = re.compile(r"[\[{\]}]")

MAX_PAGE = 10_000


def check_json(value: object, what: str, *, max_bytes: int = MAX_MAP_BYTES) -> str:
    """The value as compact JSON text, or an error that says which part cannot be JSON."""
    import json  # late: a command line that prints its help needs none

    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None
    if "\\u0000" in text and _NUL.search(text):
        raise InvalidInput(f"{what} contains a NUL character")
    check_text(text, what, max_bytes=max_bytes)
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise InvalidInput(f"{what} is nested more than {MAX_DEPTH} levels deep")
    return text


def _depth(text: str) -> int:
    """How deep brackets stand in each other. Deeper than a reader's stack, a value could be stored but never read."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def check_metadata(
    value: Mapping[str, Any] | None, what: str = "metadata", *, max_bytes: int = MAX_MAP_BYTES
) -> dict[str, Any]:
    """A flat or nested JSON object with text keys."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{what} must be a mapping, not {type(value).__name__}")
    if len(value) > MAX_KEYS:
        raise InvalidInput(f"{what} has {len(value):,} keys; the limit is {MAX_KEYS:,}")
    for key in value:
        if not isinstance(key, str):
            raise InvalidInput(f"a key of {what} must be text, not {type(key).__name__}")
    from json import loads

    copy: dict[str, Any] = loads(check_json(dict(value), what, max_bytes=max_bytes))
    return copy


def check_strings(value: Mapping[str, str] | None, what: str = "metadata") -> dict[str, str]:
    """Metadata of a record: text to text, so that it can be searched by equality on every backend."""
    copy = check_metadata(value, what)
    for key, item in copy.items():
        check_label(key, f"a key of {what}")
        if not isinstance(item, str):
            raise InvalidInput(f"{what}[{short_repr(key)}] must be text, not {type(item).__name__}")
    return copy


def check_label(value: object, what: str) -> str:
    """A tag, or a metadata key: any text short enough for an index entry on every backend."""
    text = check_text(value, what, max_bytes=MAX_LABEL_BYTES)
    if not text:
        raise InvalidInput(f"{what} is empty")
    return text


def take_at_most(limit: int, values: Iterable[T], complaint: str) -> list[T]:
    """The values, read no further than the limit: an iterable may have no end."""
    found = list(islice(values, limit + 1))
    if len(found) > limit:
        raise InvalidInput(f"{complaint}; the limit is {limit:,}")
    return found


def check_flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{what} must be true or false, not {type(value).__name__}")
    return value


def check_number(value: object, what: str) -> int:
    """A whole number from 0 up that every backend can hold."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise InvalidInput(f"{what} must be a whole number from 0 up, not {short_repr(value)}")
    return value


def check_page(value: object) -> int:
    """How many entries of a list are wanted."""
    number = check_number(value, "limit")
    if number > MAX_PAGE:
        raise InvalidInput(f"limit is at most {MAX_PAGE}, not {number}; read further pages with offset")
    return number
