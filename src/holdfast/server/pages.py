"""Pages: some entries, and where the next ones begin."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Generic, TypedDict, TypeVar

from holdfast.domain.times import from_micros, to_micros
from holdfast.errors import InvalidInput

T = TypeVar("T")
S = TypeVar("S")

End = tuple[datetime, str]  # time and id of the last entry of a page


class Page(TypedDict, Generic[T]):
    items: list[T]
    next: str | None


def page(found: Sequence[S], limit: int, shape: Callable[[S], T], end: Callable[[S], End]) -> Page[T]:
    """Of one entry more than was asked for, which tells whether there are more."""
    shown = found[:limit]
    more = _written(end(shown[-1])) if shown and len(found) > limit else None
    return {"items": [shape(each) for each in shown], "next": more}


def before(cursor: str | None) -> End | None:
    if cursor is None:
        return None
    try:
        micros, id_ = urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)).decode().split("/")
        return from_micros(int(micros)), id_
    except (ValueError, Error, OverflowError):
        raise InvalidInput("this cursor is none of ours; begin without one") from None


def number(cursor: str | None) -> int:
    """Where a list goes on that is counted."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise InvalidInput("this cursor is none of ours; begin without one")
    return int(cursor)


def _written(end: End) -> str:
    at, id_ = end
    return urlsafe_b64encode(f"{to_micros(at)}/{id_}".encode()).decode().rstrip("=")
