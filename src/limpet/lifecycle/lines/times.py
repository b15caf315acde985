"""Times in lines: ISO 8601 in UTC, to the microsecond, and always with their zone."""

from __future__ import annotations

from datetime import datetime

from limpet.errors import InvalidInput
from limpet.model.text import short_repr
from limpet.model.times import check_time


def format_time(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def format_time_or_none(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def parse_time(value: object, what: str) -> datetime:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None:
        raise InvalidInput(f"{what}: {short_repr(value)} is no ISO 8601 time with a zone")
    return check_time(found, what)


def parse_time_or_none(value: object, what: str) -> datetime | None:
    return None if value is None else parse_time(value, what)
