"""Instants: aware datetimes outside, microseconds since 1970 inside."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo

from limpet.errors import InvalidInput
from limpet.model.text import short_repr

Clock = Callable[[], datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def system_clock() -> datetime:
    return datetime.now(UTC)


def check_time(value: object, what: str) -> datetime:
    """The same instant in UTC. A naive time is refused: nobody can tell which instant it means."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"{what} must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(f"{what} has no time zone; use datetime(..., tzinfo=UTC) or .astimezone()")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{what} is outside the years 1 to 9999 in UTC") from None


def check_ttl(value: object) -> timedelta:
    """A time to live: a positive timedelta, or a number of seconds."""
    span = value if isinstance(value, timedelta) else None
    if span is None and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            span = timedelta(seconds=value)
        except (OverflowError, ValueError):
            span = None
    if span is None or not timedelta(0) < span <= timedelta(days=365_000):
        raise InvalidInput(f"ttl must be a positive timedelta or number of seconds, not {short_repr(value)}")
    return span


def check_clock(clock: object) -> Clock:
    """A clock whose time is always an instant. One that is wrong is found out when it is given."""
    if not callable(clock):
        raise InvalidInput(f"clock must be a function that gives the time, not {short_repr(clock)}")

    def now() -> datetime:
        return check_time(clock(), "the clock's time")

    now()
    return now


def to_iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def to_micros(value: datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


def from_seconds(value: float) -> datetime:
    return from_micros(round(value * 1e6))


def from_micros(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def load_timezone(name: str) -> tzinfo:
    """The time zone of an IANA name. UTC needs no zone database."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, available_timezones  # late: most stores keep UTC

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        if not available_timezones():
            raise InvalidInput(
                f"{short_repr(name)} cannot be looked up: there is no time zone database here; pip install tzdata"
            ) from None
        raise InvalidInput(f"{short_repr(name)} is no IANA time zone such as Europe/Lisbon or UTC") from None


def check_day(value: object, what: str) -> date:
    """A calendar day: a date or its ISO text. A datetime is refused: its day depends on who asks."""
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise InvalidInput(f"{what} must be a day such as 2026-03-10, not {short_repr(value)}") from None
    if not isinstance(value, date) or isinstance(value, datetime):
        raise InvalidInput(f"{what} must be a date or text such as 2026-03-10, not {short_repr(value)}")
    return value
