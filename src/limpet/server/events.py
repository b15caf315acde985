"""What changes, told as it does: server-sent events for live views.

The store is asked, not the server: another process may have written. Events say what changed and not what it says now,
besides what a list would show. A time is given to a change before it is committed, so each look reaches back a little,
and what was told already is left out. A removal leaves no row, and a session's state no time: both are seen where they
change the first page of a list.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from limpet import Limpet, Record
from limpet.errors import InvalidInput, LimpetError
from limpet.model.schema import to_json
from limpet.model.session import SessionInfo
from limpet.model.values import Clock, PageCursor, from_micros, to_micros
from limpet.server.payload import json_bytes
from limpet.server.problems import Problem

_OVERLAP = timedelta(seconds=5)
_PAGE = 100
_MOST = 1_000  # of one kind in one look; whoever was away longer reads the lists anew
_POLL_S = 1.0
_HEARTBEAT_S = 15.0
_LAST = re.compile(r"[0-9]{1,16}")


class Change(NamedTuple):
    """``at`` is None where the store does not know it: of a removal, and of a session in which nothing was said."""

    at: datetime | None
    kind: str
    shape: Any


class _ListEntry(NamedTuple):
    at: datetime
    id: str
    form: int  # another one after any change, also one that leaves the time as it was
    shape: Callable[[], Any]


_Read = Callable[[Limpet, str | None, PageCursor | None], list[_ListEntry]]


class Feed:
    """All that was changed since a moment, each change once. ``opened`` is asked each time: a key may be revoked."""

    def __init__(self, opened: Callable[[], Limpet], user: str | None, since: datetime, clock: Clock) -> None:
        self._opened = opened
        self._user = user
        self._clock = clock
        self._lists = (_ListWatcher("session", _read_sessions, since), _ListWatcher("record", _read_records, since))

    def poll(self) -> list[Change]:
        memory = self._opened()
        now = self._clock()
        found = [each for one in self._lists for each in one.poll(memory, self._user, now)]
        return sorted(found, key=lambda each: (each.at is None, each.at and to_micros(each.at)))


class _ListWatcher:
    """One list of the store, the latest change first, as a reader has seen it.

    Its first page is read at every look anyway. What stood there, stands nowhere near now, and did not sink below the
    page's end is gone: an entry's time never goes back.
    """

    def __init__(self, kind: str, read: _Read, since: datetime) -> None:
        self._kind = kind
        self._read = read
        self._since = since
        self._told: dict[str, datetime] = {}
        self._top: dict[str, _ListEntry] = {}

    def poll(self, memory: Limpet, user: str | None, now: datetime) -> list[Change]:
        top = self._read(memory, user, None)
        found = self._read_after(self._since - _OVERLAP, top, partial(self._read, memory, user))
        new = {each.id: each for each in found if self._told.get(each.id) != each.at}
        changes = [Change(each.at, self._kind, each.shape()) for each in new.values()]
        quiet = [each for each in top if each.id not in new and self._has_changed(each)]
        changes += [Change(None, self._kind, each.shape()) for each in quiet]
        changes += [Change(None, "gone", {"kind": self._kind, "id": id_}) for id_ in self._find_removed(top)]
        # What has a date to come is told once, and does not hide what comes before that date.
        self._since = max([self._since, *(each.at for each in found if each.at <= now)])
        self._told = {each.id: each.at for each in found if each.at >= self._since - 2 * _OVERLAP}
        self._top = {each.id: each._replace(shape=dict) for each in top}  # what it said need not be kept
        return changes

    def _read_after(
        self, back: datetime, page: list[_ListEntry], read: Callable[[PageCursor], list[_ListEntry]]
    ) -> list[_ListEntry]:
        found = [each for each in page if each.at > back]
        while len(page) == _PAGE and page[-1].at > back and len(found) < _MOST:
            page = read(PageCursor(page[-1].at, page[-1].id))
            found += [each for each in page if each.at > back]
        return found

    def _has_changed(self, entry: _ListEntry) -> bool:
        before = self._top.get(entry.id)
        return before is not None and before.form != entry.form

    def _find_removed(self, top: list[_ListEntry]) -> list[str]:
        here = {each.id for each in top}
        end = top[-1][:2] if len(top) == _PAGE else None
        return [id_ for id_, was in self._top.items() if id_ not in here and (end is None or was[:2] > end)]


def _read_sessions(memory: Limpet, user: str | None, end: PageCursor | None) -> list[_ListEntry]:
    def entry(info: SessionInfo) -> _ListEntry:
        shape = to_json(info)
        return _ListEntry(info.last_active_at, info.id, hash(json_bytes(shape)), lambda: shape)

    return [entry(each) for each in memory.sessions(user, limit=_PAGE, before=end)]


def _read_records(memory: Limpet, user: str | None, end: PageCursor | None) -> list[_ListEntry]:
    def entry(record: Record) -> _ListEntry:
        assert record.updated_at is not None  # every stored one has it
        return _ListEntry(record.updated_at, record.id, record.version, partial(to_json, record))

    return [entry(each) for each in memory.records(user, limit=_PAGE, history=True, before=end)]


def parse_last_event_id(last_event_id: str | None) -> datetime | None:
    if last_event_id is None:
        return None
    if not _LAST.fullmatch(last_event_id):
        raise InvalidInput("this Last-Event-ID is none of ours; leave it out to begin now")
    return from_micros(int(last_event_id))


async def stream_events(
    feed: Feed,
    changes: list[Change],
    run: Callable[[Callable[[], list[Change]]], Any],
    stopping: asyncio.Event,
) -> AsyncIterator[bytes]:
    """First these changes, then all others, until the reader goes, may not look any more, or the server stops."""
    yield b"retry: 2000\n\n"
    quiet, pause = 0.0, _POLL_S
    while not stopping.is_set():
        for each in changes:
            # A reader that comes back goes on behind the last change whose time is known.
            id_ = "" if each.at is None else f"id: {to_micros(each.at)}\n"
            yield f"{id_}event: {each.kind}\ndata: ".encode() + json_bytes(each.shape) + b"\n\n"
        quiet = 0.0 if changes else quiet + pause
        if quiet >= _HEARTBEAT_S:
            quiet = 0.0
            yield b": still here\n\n"
        try:
            await asyncio.wait_for(stopping.wait(), pause)
        except TimeoutError:
            began = monotonic()
            try:
                changes = await run(feed.poll)
            except (LimpetError, Problem):
                return  # the reader comes back, and is told then
            # A look at a large store takes its time; a tenth of it at most goes into looking.
            pause = max(_POLL_S, 9 * (monotonic() - began))
