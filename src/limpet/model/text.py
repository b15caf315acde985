"""What text may be stored, and what may name something.

Content is kept byte for byte, terminal escapes and all. Two things no database keeps faithfully are refused: NUL,
which PostgreSQL cannot hold, and lone surrogates, which have no UTF-8. Names (ids, keys, channels) also refuse
control characters, so that a name always prints as it compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from os import PathLike
from typing import TypeVar

from limpet.errors import InvalidInput, InvalidKey

E = TypeVar("E", bound=StrEnum)

MAX_CONTENT_BYTES = 4 * 1024 * 1024
MAX_NAME_BYTES = 256
MAX_PATH_BYTES = 4096
_SHOWN = 120

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_text(value: object, what: str, *, max_bytes: int = MAX_CONTENT_BYTES) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be text, not {type(value).__name__}")
    if "\x00" in value:
        raise InvalidInput(
            f"{what} contains a NUL character at position {value.index(chr(0))}; remove it before storing"
        )
    # No UTF-8 text is longer than four bytes a character, so most texts need no encoding to be measured.
    if value.isascii():
        size = len(value)
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{what} contains a lone surrogate at position {error.start}; decode it with errors='replace' first"
            ) from None
    if size > max_bytes:
        raise InvalidInput(f"{what} is {size:,} bytes long; the limit is {max_bytes:,}")
    return value


def check_name(value: object, what: str, *, max_bytes: int = MAX_NAME_BYTES) -> str:
    """A name is short printable text with no space at its ends."""
    if not isinstance(value, str):
        raise InvalidKey(f"{what} must be text, not {type(value).__name__}")
    if not value:
        raise InvalidKey(f"{what} is empty")
    if found := _CONTROL.search(value):
        raise InvalidKey(f"{what} contains the control character {found.group()!r}")
    if value != value.strip():
        raise InvalidKey(f"{what} begins or ends with white space: {short_repr(value[:80])}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidKey(f"{what} contains a lone surrogate") from None
    if size > max_bytes:
        raise InvalidKey(f"{what} is {size:,} bytes long; the limit is {max_bytes}")
    return value


def check_optional_name(value: object, what: str) -> str | None:
    return None if value is None else check_name(value, what)


def check_choice(kind: type[E], value: object, what: str) -> E:
    """The member of a closed list of words."""
    try:
        if isinstance(value, str):
            return kind(value)
    except ValueError:
        pass
    raise InvalidInput(f"{what} must be one of {', '.join(kind)}; not {short_repr(value)}")


_HIDDEN: ContextVar[bool] = ContextVar("hidden", default=False)


@contextmanager
def hide_values() -> Iterator[None]:
    """Error messages of this block name the type of a value instead of the value: others may read them."""
    token = _HIDDEN.set(True)
    try:
        yield
    finally:
        _HIDDEN.reset(token)


def short_repr(value: object) -> str:
    """A value in an error message: short, and safe for what cannot be printed, such as a number of 5,000 digits."""
    if _HIDDEN.get():
        return f"this {type(value).__name__}"
    try:
        text = repr(value)
    except Exception as error:  # why: whatever its repr does, a value that is refused must be refused in our words
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def check_path(value: object, what: str) -> str:
    """The name of a file or folder: text or a path, and not empty."""
    if isinstance(value, PathLike):
        value = value.__fspath__()
    text = check_text(value, what, max_bytes=MAX_PATH_BYTES)
    if not text.strip():
        raise InvalidInput(f"{what} is empty")
    return text


_JOINER = "\u200d"
_LONGEST_CLUSTER = 64  # characters that are looked back over for a place to cut


def truncate_text(text: str, most: int) -> str:
    """The beginning of a text, at most so long, that ends where what a reader sees as one character ends."""
    if len(text) <= most:
        return text
    for at in range(most, max(0, most - _LONGEST_CLUSTER), -1):
        if not _extends_cluster(text, at):
            return text[:at]
    return text[:most]


def _extends_cluster(text: str, at: int) -> bool:
    """Whether the sign at a place belongs to the one before it."""
    before, sign = text[at - 1], text[at]
    if _JOINER in (before, sign) or (before, sign) == ("\r", "\n"):
        return True
    if sign < "\u0300":
        return False
    from unicodedata import category  # late: few texts are cut inside anything but plain letters

    return category(sign)[0] == "M" or _is_modifier(sign) or _splits_flag(text, at) or _splits_syllable(before, sign)


def _is_modifier(sign: str) -> bool:
    """Skin tones and the invisible letters of flags."""
    return "\U0001f3fb" <= sign <= "\U0001f3ff" or "\U000e0020" <= sign <= "\U000e007f"


def _splits_flag(text: str, at: int) -> bool:
    """A flag is two letters of the regional alphabet; they pair up from where a row of them begins."""
    begin = at
    while begin and _is_regional(text[begin - 1]):
        begin -= 1
    return _is_regional(text[at]) and (at - begin) % 2 == 1


def _is_regional(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"


def _splits_syllable(before: str, sign: str) -> bool:
    """Vowels and finals of Hangul written in parts."""
    return "\u1160" <= sign <= "\u11ff" and ("\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3")
