"""Pages: some entries, and where the next ones begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Generic, TypedDict, TypeVar

from limpet.model.times import from_micros, to_micros

T = TypeVar("T")

PageCursor = tuple[datetime, str]  # time and id of the last entry of a page


class Page(TypedDict, Generic[T]):
    items: Annotated[list[T], "the entries, `limit` at most"]
    next: Annotated[str | None, "where the next page begins; null: this is the last"]


def make_page(found: Sequence[T], limit: int, end: Callable[[T], PageCursor]) -> Page[T]:
    """Of one entry more than was asked for, which tells whether there are more."""
    shown = found[:limit]
    more = _format_cursor(end(shown[-1])) if shown and len(found) > limit else None
    return {"items": list(shown), "next": more}


def make_offset_page(found: Sequence[T], limit: int, offset: int) -> Page[T]:
    """The same, of a list that is counted."""
    more = str(offset + limit) if len(found) > limit else None
    return {"items": list(found[:limit]), "next": more}


def parse_cursor(cursor: str | None) -> PageCursor | None:
    """What the schema lets through is one: a time in microseconds, a dot, an id."""
    if cursor is None:
        return None
    micros, _, id_ = cursor.partition(".")
    return from_micros(int(micros)), id_


def _format_cursor(end: PageCursor) -> str:
    at, id_ = end
    return f"{to_micros(at)}.{id_}"
