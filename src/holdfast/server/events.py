"""What changes, told as it does: server-sent events for live views.

The store is asked, not the server: another process may have written. Events say what changed and not what it says now,
besides what a list would show. A time is given to a change before it is committed, so each look reaches back a little,
and what was told already is left out.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, NamedTuple

from holdfast import Holdfast, shapes
from holdfast.domain.times import from_micros, to_micros
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.server.answer import json_bytes
from holdfast.server.given import OfUser, Query
from holdfast.server.problems import Problem

_BACK = timedelta(seconds=5)
_PAGE = 100
_MOST = 1_000  # of one kind in one look; whoever was away longer reads the lists anew
_EVERY = 1.0
_BEAT = 15.0
_LAST = re.compile(r"[0-9]{1,16}")


class EventsQuery(Query):
    user: OfUser | None = None


class Change(NamedTuple):
    at: datetime
    kind: str
    id: str
    shape: Any


class Feed:
    """All that was changed since a moment, each change once. ``opened`` is asked each time: a key may be revoked."""

    def __init__(self, opened: Callable[[], Holdfast], user: str | None, since: datetime) -> None:
        self._opened = opened
        self._user = user
        self._since = since
        self._told: dict[tuple[str, str], datetime] = {}

    def look(self) -> list[Change]:
        hf, back = self._opened(), self._since - _BACK
        found = sorted([*self._sessions(hf, back), *self._records(hf, back)], key=lambda each: each[:3])
        new = [each for each in found if self._told.get((each.kind, each.id)) != each.at]
        self._since = max([self._since, *(each.at for each in found)])
        self._told = {(each.kind, each.id): each.at for each in found if each.at >= self._since - 2 * _BACK}
        return new

    def _sessions(self, hf: Holdfast, back: datetime) -> list[Change]:
        def read(end: tuple[datetime, str] | None) -> list[Change]:
            page = hf.sessions(self._user, limit=_PAGE, before=end)
            return [Change(info.last_active_at, "session", info.id, shapes.session(info)) for info in page]

        return _since(back, read)

    def _records(self, hf: Holdfast, back: datetime) -> list[Change]:
        def read(end: tuple[datetime, str] | None) -> list[Change]:
            page = hf.records(self._user, limit=_PAGE, history=True, before=end)
            return [Change(each.updated_at, "record", each.id, shapes.record(each)) for each in page if each.updated_at]

        return _since(back, read)


def _since(back: datetime, read: Callable[[tuple[datetime, str] | None], list[Change]]) -> list[Change]:
    found: list[Change] = []
    end: tuple[datetime, str] | None = None
    while len(found) < _MOST:
        page = read(end)
        found += [each for each in page if each.at > back]
        if len(page) < _PAGE or page[-1].at <= back:
            break
        end = (page[-1].at, page[-1].id)
    return found


def since(last_event_id: str | None) -> datetime | None:
    if last_event_id is None:
        return None
    if not _LAST.fullmatch(last_event_id):
        raise InvalidInput("this Last-Event-ID is none of ours; leave it out to begin now")
    return from_micros(int(last_event_id))


async def told(
    feed: Feed,
    changes: list[Change],
    run: Callable[[Callable[[], list[Change]]], Any],
    stopping: asyncio.Event,
) -> AsyncIterator[bytes]:
    """First these changes, then all others, until the reader goes, may not look any more, or the server stops."""
    yield b"retry: 2000\n\n"
    quiet, pause = 0.0, _EVERY
    while not stopping.is_set():
        for each in changes:
            id_ = to_micros(each.at)
            yield f"id: {id_}\nevent: {each.kind}\ndata: ".encode() + json_bytes(each.shape) + b"\n\n"
        quiet = 0.0 if changes else quiet + pause
        if quiet >= _BEAT:
            quiet = 0.0
            yield b": still here\n\n"
        try:
            await asyncio.wait_for(stopping.wait(), pause)
        except TimeoutError:
            began = monotonic()
            try:
                changes = await run(feed.look)
            except (HoldfastError, Problem):
                return  # the reader comes back, and is told then
            # A look at a large store takes its time; a tenth of it at most goes into looking.
            pause = max(_EVERY, 9 * (monotonic() - began))
