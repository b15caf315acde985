"""Times as text in files: ISO 8601, UTC, to the microsecond."""

from __future__ import annotations

from datetime import UTC, datetime

from limpet.model.values import check_time


def format_timestamp(value: datetime) -> str:
    return check_time(value, "time").replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_timestamp(text: str) -> datetime:
    """The instant, in UTC. A time without a zone, as people type it, is taken as UTC. ValueError if it is no time."""
    moment = datetime.fromisoformat(text)
    return check_time(moment if moment.tzinfo else moment.replace(tzinfo=UTC), "time")
