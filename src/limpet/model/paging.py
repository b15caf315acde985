"""Where a page of a list ended, the latest first: what comes behind it stays the same when new entries come."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from limpet.errors import InvalidInput
from limpet.model.ids import check_id
from limpet.model.text import short_repr
from limpet.model.times import check_time


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
