"""Instants: aware datetimes outside, microseconds since 1970 inside."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from holdfast.domain.text import shown
from holdfast.errors import InvalidInput

Clock = Callable[[], datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def system_clock() -> datetime:
    return datetime.now(UTC)


def checked_time(value: object, what: str) -> datetime:
    """The same instant in UTC. A naive time is refused: nobody can tell which instant it means."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"{what} must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(f"{what} has no time zone; use datetime(..., tzinfo=UTC) or .astimezone()")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{what} is outside the years 1 to 9999 in UTC") from None


def checked_ttl(value: object) -> timedelta:
    """A time to live: a positive timedelta, or a number of seconds."""
    span = value if isinstance(value, timedelta) else None
    if span is None and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            span = timedelta(seconds=value)
        except (OverflowError, ValueError):
            span = None
    if span is None or not timedelta(0) < span <= timedelta(days=365_000):
        raise InvalidInput(f"ttl must be a positive timedelta or number of seconds, not {shown(value)}")
    return span


def checked_clock(clock: object) -> Clock:
    """A clock whose time is always an instant. One that is wrong is found out when it is given."""
    if not callable(clock):
        raise InvalidInput(f"clock must be a function that gives the time, not {shown(clock)}")

    def now() -> datetime:
        return checked_time(clock(), "the clock's time")

    now()
    return now


def to_micros(value: datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


def from_seconds(value: float) -> datetime:
    return from_micros(round(value * 1e6))


def from_micros(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)
