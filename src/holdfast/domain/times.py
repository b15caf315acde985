"""Instants: aware datetimes outside, microseconds since 1970 inside."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

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


def to_micros(value: datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


def from_seconds(value: float) -> datetime:
    return from_micros(round(value * 1e6))


def from_micros(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)
