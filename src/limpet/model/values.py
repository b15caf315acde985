"""Single values: text, names, ids, times, and JSON; which of them may be stored, and what may name something.

Content is kept byte for byte, terminal escapes and all. Two things no database keeps faithfully are refused: NUL,
which PostgreSQL cannot hold, and lone surrogates, which have no UTF-8. Names (ids, keys, channels) also refuse
control characters, so that a name always prints as it compares. Instants are aware datetimes outside and microseconds
since 1970 inside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import cache, lru_cache
from itertools import count, islice
from os import PathLike
from typing import Any, NamedTuple, NoReturn, TypeVar

from limpet.errors import InvalidInput, InvalidKey
from limpet.model.late import load_modules

E = TypeVar("E", bound=StrEnum)

MAX_CONTENT_BYTES = 4 * 1024 * 1024
MAX_NAME_BYTES = 256
MAX_PATH_BYTES = 4096
_SHOWN = 120

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_text(value: object, name: str, *, max_bytes: int = MAX_CONTENT_BYTES) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be text, not {type(value).__name__}")
    if "\x00" in value:
        raise InvalidInput(
            f"{name} contains a NUL character at position {value.index(chr(0))}; remove it before storing"
        )
    # No UTF-8 text is longer than four bytes a character, so most texts need no encoding to be measured.
    if value.isascii():
        size = len(value)
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{name} contains a lone surrogate at position {error.start}; decode it with errors='replace' first"
            ) from None
    if size > max_bytes:
        raise InvalidInput(f"{name} is {size:,} bytes long; the limit is {max_bytes:,}")
    return value


def is_storable(text: str) -> bool:
    try:
        check_text(text, "text")
    except InvalidInput:
        return False
    return True


def check_name(value: object, name: str, *, max_bytes: int = MAX_NAME_BYTES) -> str:
    """A name is short printable text with no space at its ends."""
    if not isinstance(value, str):
        raise InvalidKey(f"{name} must be text, not {type(value).__name__}")
    if not value:
        raise InvalidKey(f"{name} is empty")
    if found := _CONTROL.search(value):
        raise InvalidKey(f"{name} contains the control character {found.group()!r}")
    if value != value.strip():
        raise InvalidKey(f"{name} begins or ends with white space: {short_repr(value[:80])}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidKey(f"{name} contains a lone surrogate") from None
    if size > max_bytes:
        raise InvalidKey(f"{name} is {size:,} bytes long; the limit is {max_bytes}")
    return value


def check_optional_name(value: object, name: str) -> str | None:
    return None if value is None else check_name(value, name)


def check_choice(kind: type[E], value: object, name: str) -> E:
    """The member of a closed list of words."""
    try:
        if isinstance(value, str):
            return kind(value)
    except ValueError:
        pass
    raise InvalidInput(f"{name} must be one of {', '.join(kind)}; not {short_repr(value)}")


_HIDDEN: ContextVar[bool] = ContextVar("hidden", default=False)
_JSON_TYPES = {int: "number", float: "number", str: "text", bool: "boolean", list: "list", dict: "object"}


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
        return f"the given {_JSON_TYPES.get(type(value), type(value).__name__)}"
    try:
        text = repr(value)
    except Exception as error:  # why: whatever its repr does, a value that is refused must be refused in our words
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def replace_unstorable(text: str) -> str:
    """The text with U+FFFD for what no database keeps. Halves of a character that belong together join."""
    whole = text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass")
    return whole.decode("utf-16", "replace")


def suggest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The end of an error message: which of the known words was probably meant, if one is close."""
    from difflib import get_close_matches  # late: only mistakes need it

    close = get_close_matches(word, known, 1, cutoff)
    return f"; did you mean {close[0]}?" if close else ""


def check_path(value: object, name: str) -> str:
    """The name of a file or folder: text or a path, and not empty."""
    if isinstance(value, PathLike):
        value = value.__fspath__()
    text = check_text(value, name, max_bytes=MAX_PATH_BYTES)
    if not text.strip():
        raise InvalidInput(f"{name} is empty")
    return text


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


def check_json(value: object, name: str, *, max_bytes: int = MAX_MAP_BYTES) -> str:
    """The value as compact JSON text, or an error that says which part cannot be JSON."""
    import json  # late: a command line that prints its help needs none

    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not JSON: {error}") from None
    if "\\u0000" in text and _NUL.search(text):
        raise InvalidInput(f"{name} contains a NUL character")
    check_text(text, name, max_bytes=max_bytes)
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise InvalidInput(f"{name} is nested more than {MAX_DEPTH} levels deep")
    return text


def _depth(text: str) -> int:
    """How deep brackets stand in each other. Deeper than a reader's stack, a value could be stored but never read."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def check_metadata(
    value: Mapping[str, Any] | None, name: str = "metadata", *, max_bytes: int = MAX_MAP_BYTES
) -> dict[str, Any]:
    """A flat or nested JSON object with text keys."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} must be a mapping, not {type(value).__name__}")
    if len(value) > MAX_KEYS:
        raise InvalidInput(f"{name} has {len(value):,} keys; the limit is {MAX_KEYS:,}")
    for key in value:
        if not isinstance(key, str):
            raise InvalidInput(f"a key of {name} must be text, not {type(key).__name__}")
    from json import loads

    copy: dict[str, Any] = loads(check_json(dict(value), name, max_bytes=max_bytes))
    return copy


def check_strings(value: Mapping[str, str] | None, name: str = "metadata") -> dict[str, str]:
    """Metadata of a record: text to text, so that it can be searched by equality on every backend."""
    copy = check_metadata(value, name)
    for key, item in copy.items():
        check_label(key, f"a key of {name}")
        if not isinstance(item, str):
            raise InvalidInput(f"{name}[{short_repr(key)}] must be text, not {type(item).__name__}")
    return copy


def check_label(value: object, name: str) -> str:
    """A tag, or a metadata key: any text short enough for an index entry on every backend."""
    text = check_text(value, name, max_bytes=MAX_LABEL_BYTES)
    if not text:
        raise InvalidInput(f"{name} is empty")
    return text


def take_at_most(limit: int, values: Iterable[T], complaint: str) -> list[T]:
    """The values, read no further than the limit: an iterable may have no end."""
    found = list(islice(values, limit + 1))
    if len(found) > limit:
        raise InvalidInput(f"{complaint}; the limit is {limit:,}")
    return found


def split_pages(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def iter_pages(size: int, find: Callable[[int], Sequence[T]]) -> Iterator[T]:
    """All there are, a page at a time: ``find`` gives those from an offset on."""
    for offset in count(step=size):
        page = find(offset)
        yield from page
        if len(page) < size:
            return


def check_flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be true or false, not {type(value).__name__}")
    return value


def check_number(value: object, name: str) -> int:
    """A whole number from 0 up that every backend can hold."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise InvalidInput(f"{name} must be a whole number from 0 up, not {short_repr(value)}")
    return value


def check_page(value: object) -> int:
    number = check_number(value, "limit")
    if number > MAX_PAGE:
        raise InvalidInput(f"limit is at most {MAX_PAGE}, not {number}; read further pages with offset")
    return number


IdFactory = Callable[[], str]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def uuid7(now: datetime, randomness: bytes) -> str:
    """48 bits of milliseconds, then 74 of the ten random bytes given."""
    milliseconds = max(0, to_micros(now) // 1000) & ((1 << 48) - 1)
    noise = int.from_bytes(randomness, "big")
    value = milliseconds << 80 | 0x7 << 76 | (noise >> 62 & 0xFFF) << 64 | 0b10 << 62 | noise & ((1 << 62) - 1)
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def with_bucket(id: str, bucket: int) -> str:
    """The id with its partition's bucket in the 12 bits after the version: who has only the id knows the bucket."""
    return f"{id[:15]}{bucket:03x}{id[18:]}"


def bucket_of_id(id: str) -> int:
    """The bucket an id of ours says. Of an id that somebody else made, any number."""
    return int(id[15:18], 16)


def check_id(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidKey(f"{name} must be text, not {type(value).__name__}")
    lowered = value.lower()
    if not _UUID.fullmatch(lowered):
        raise InvalidKey(f"{name} is not a UUID: {value[:80]!r}")
    return lowered


@cache
def parse_user_zones(text: str) -> Mapping[str, str]:
    """``ana=Europe/Lisbon, ben=Asia/Tokyo``: zones by user. Raises InvalidInput."""
    zones = {}
    for entry in [] if text == "none" else filter(None, (entry.strip() for entry in text.split(","))):
        user, sign, zone = (part.strip() for part in entry.rpartition("="))
        if not sign:
            raise InvalidInput(f"{entry!r} is not USER=ZONE, such as ana=Europe/Lisbon")
        load_timezone(zone)
        zones[check_name(user, "user")] = zone
    return zones


FOREIGN_ID = r"[A-Za-z0-9][A-Za-z0-9._:@+=~-]{0,127}"


def is_id(value: str) -> bool:
    return _UUID.fullmatch(value.lower()) is not None


def check_any_id(value: object, name: str) -> str:
    """An id of ours, or one that another program gave."""
    if isinstance(value, str) and is_id(value):
        return value.lower()
    if isinstance(value, str) and not re.fullmatch(FOREIGN_ID, value):
        raise InvalidKey(f"{name} is not a UUID, nor up to 128 letters, digits and . _ : @ + = ~ -: {value[:80]!r}")
    return value if isinstance(value, str) else check_id(value, name)


Clock = Callable[[], datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def system_clock() -> datetime:
    return datetime.now(UTC)


def check_time(value: object, name: str) -> datetime:
    """The same instant in UTC. A naive time is refused: nobody can tell which instant it means."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"{name} must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(f"{name} has no time zone; use datetime(..., tzinfo=UTC) or .astimezone()")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{name} is outside the years 1 to 9999 in UTC") from None


def check_ttl(value: object, name: str) -> timedelta:
    """A time to live: a positive timedelta, or a number of seconds."""
    span = value if isinstance(value, timedelta) else None
    if span is None and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            span = timedelta(seconds=value)
        except (OverflowError, ValueError):
            span = None
    if span is None or not timedelta(0) < span <= timedelta(days=365_000):
        raise InvalidInput(f"{name} must be a positive timedelta or number of seconds, not {short_repr(value)}")
    return span


def compute_expiry(now: datetime, ttl: timedelta | float | None) -> datetime | None:
    """When something ends that lasts so long; ``ttl`` is checked."""
    assert ttl is None or isinstance(ttl, timedelta)
    try:
        return None if ttl is None else now + ttl
    except OverflowError:
        raise InvalidInput(f"what lasts {ttl} from now ends after the year 9999; leave it out for no end") from None


def check_clock(clock: object) -> Clock:
    """A clock whose time is always an instant. One that is wrong is found out when it is given."""
    if not callable(clock):
        raise InvalidInput(f"clock must be a function that gives the time, not {short_repr(clock)}")

    def now() -> datetime:
        return check_time(clock(), "the clock's time")

    now()
    return clock if clock is system_clock else now


def to_iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def format_utc(moment: datetime) -> str:
    """ISO 8601 in UTC, to the microsecond: equal times are equal texts."""
    return check_time(moment, "time").replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def to_micros(value: datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


def from_seconds(value: float) -> datetime:
    return from_micros(round(value * 1e6))


@lru_cache(maxsize=1 << 10)  # one moment stands in several columns of a row, and in many rows
def from_micros(value: int) -> datetime:
    return _EPOCH + timedelta(0, 0, value)  # by place: a third quicker than by name, and every row has several


def micros(value: datetime | None) -> int | None:
    return None if value is None else to_micros(value)


def moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)


def to_local(moment: datetime, *, zone: str) -> datetime:
    try:
        return moment if zone == "UTC" else moment.astimezone(load_timezone(zone))
    except OverflowError:
        return moment


def load_timezone(name: str) -> tzinfo:
    """The time zone of an IANA name. UTC needs no zone database."""
    if name == "UTC":
        return UTC
    load_modules("zoneinfo")
    from zoneinfo import ZoneInfo, available_timezones  # late: most stores keep UTC

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        if not available_timezones():
            raise InvalidInput(
                f"{short_repr(name)} cannot be looked up: there is no time zone database here; pip install tzdata"
            ) from None
        raise InvalidInput(f"{short_repr(name)} is not an IANA time zone such as Europe/Lisbon or UTC") from None


def check_day(value: object, name: str) -> date:
    """A calendar day: a date or its ISO text. A datetime is refused: its day depends on who asks."""
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise InvalidInput(f"{name} must be a day such as 2026-03-10, not {short_repr(value)}") from None
    if not isinstance(value, date) or isinstance(value, datetime):
        raise InvalidInput(f"{name} must be a date or text such as 2026-03-10, not {short_repr(value)}")
    return value


class PageCursor(NamedTuple):
    at: datetime
    id: str


def check_cursor(value: object) -> PageCursor | None:
    """Time and id of the last entry that was read."""
    if value is None:
        return None
    if not isinstance(value, tuple) or len(value) != 2:
        raise InvalidInput(f"before takes the time and the id of the last entry you have, not {short_repr(value)}")
    return PageCursor(check_time(value[0], "the time in before"), check_id(value[1], "the id in before"))


MAX_RECORD_KEY = 64
_RECORD_KEY = re.compile(r"[a-z][a-z0-9_]*")
_INTERNAL = "internal_"  # what the engine keeps for itself
_RESERVED = ("system_", _INTERNAL)
PROFILE = f"{_INTERNAL}profile"


def check_record_key(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidKey(f"a memory's key must be text, not {type(value).__name__}")
    if len(value) > MAX_RECORD_KEY:
        raise InvalidKey(f"the key is {len(value)} characters long; the limit is {MAX_RECORD_KEY}")
    if not _RECORD_KEY.fullmatch(value):
        raise InvalidKey(f"a memory's key is lower-case letters, digits and _, beginning with a letter; not {value!r}")
    if value.startswith(_RESERVED):
        raise InvalidKey(f"keys beginning with {' or '.join(_RESERVED)} are reserved; not {value!r}")
    return value


def is_internal(key: str | None) -> bool:
    """Whether a record is the engine's own: neither listed nor recalled."""
    return key is not None and key.startswith(_INTERNAL)


def refuse_constant(constant: str) -> NoReturn:
    """For ``parse_constant`` of the json module, which takes NaN and Infinity for numbers."""
    raise ValueError(f"{constant} is not JSON")


def format_count(number: int, kinds: str) -> str:
    """A number with its noun, which is given in the plural: 1 summary, 2 summaries."""
    if number != 1:
        return f"{number:,} {kinds}"
    return f"1 {kinds.removesuffix('ies')}y" if kinds.endswith("ies") else f"1 {kinds.removesuffix('s')}"
