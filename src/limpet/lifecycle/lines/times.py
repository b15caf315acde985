"""Times in lines: ISO 8601 in UTC, to the microsecond, and always with their zone."""

from __future__ import annotations

from datetime import datetime

from limpet.errors import InvalidInput
from limpet.model.text import shown
from limpet.model.times import checked_time


def stamp(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def stamp_or_none(moment: datetime | None) -> str | None:
    return None if moment is None else stamp(moment)


def moment(value: object, what: str) -> datetime:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None:
        raise InvalidInput(f"{what}: {shown(value)} is no ISO 8601 time with a zone")
    return checked_time(found, what)


def moment_or_none(value: object, what: str) -> datetime | None:
    return None if value is None else moment(value, what)
