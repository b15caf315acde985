"""What is not JSON: live events, exports and imports as files, and the numbers for Prometheus.

Events say what changed and not what it says now, besides what a list would show. The store is asked, not the server:
another process may have written. A time is given to a change before it is committed, so each look reaches back a
little, and what was told already is left out. A removal leaves no row, and a session's state no time: both are seen
where they change the first page of a list.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from time import monotonic
from typing import IO, Annotated, Any, NamedTuple, TypedDict

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from limpet import Limpet, Record, __version__
from limpet.api import parameters as given
from limpet.errors import InvalidInput, LimpetError
from limpet.model.schema import codec, to_json
from limpet.model.session import SessionInfo
from limpet.model.transfer import ImportResult
from limpet.model.types import Name
from limpet.model.values import Clock, PageCursor, from_micros, system_clock, to_micros
from limpet.security.operation import OPERATIONS
from limpet.server.auth import Caller
from limpet.server.middleware import MEDIA
from limpet.server.operation_routes import Routes
from limpet.server.payload import Problem, json_bytes, json_response
from limpet.server.service import Service

_OVERLAP = timedelta(seconds=5)
_PAGE = 100
_MOST = 1_000  # of one kind in one poll; a client that was away longer reads the lists again
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
        raise InvalidInput("this Last-Event-ID is not from this server; leave it out to start now")
    return from_micros(int(last_event_id))


async def stream_events(
    feed: Feed, changes: list[Change], run: Callable[[Callable[[], list[Change]]], Any], stopping: asyncio.Event
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


routes = Routes()

_PIECE = 1 << 18
_EVENTS = "text/event-stream"
_FILE = "application/octet-stream"
_UNSAFE = re.compile(r"[^\w.-]+|^\.+")
_Whose = Annotated[given.OfUser, "whose; left out: your own, or all of the tenant if you may"]


@routes.add("GET /v1/events", media=_EVENTS, stream=True)
async def get_events(
    service: Service, request: Request, who: Caller, /, *, user: given.OfUser | None = None
) -> Response:
    """Live events: a `record` or a `session`, as in a list, when it changes, and `gone` when it is removed

    Changes of a session's state and metadata, and `gone` (with `kind` and `id`), have no event id, and come only for
    the first 100 of each list. `Last-Event-ID` continues after the last change that has one.
    """
    own = service.streams_of[who.id]
    if service.streams >= service.most_streams or (who.id and own >= max(1, service.most_streams // 4)):
        raise Problem(
            503, "too_many_streams", "too many event streams are open; try again later", headers={"Retry-After": "5"}
        )
    begin = parse_last_event_id(request.headers.get("last-event-id"))
    since = min(begin or system_clock(), system_clock())
    feed = Feed(lambda: service.authenticator.identify(request.headers).memory, user, since, system_clock)
    # Checked once before the response begins: a caller without the right is refused, a new reader starts from now.
    service.open_stream(who.id)
    try:
        missed = await service.run(feed.poll)
    except BaseException:  # why: whatever it was, the place is free again; it goes on as it came
        service.close_stream(who.id)
        raise
    if request.method == "HEAD":
        return _Live(service, who.id, _nothing())
    return _Live(service, who.id, stream_events(feed, [] if begin is None else missed, service.run, service.stopping))


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


class _Live(StreamingResponse):
    """Takes a place among the readers until its last byte, or until the reader goes before the first."""

    def __init__(self, service: Service, reader: str, told: AsyncIterator[bytes]) -> None:
        super().__init__(told, media_type=_EVENTS, headers={"X-Accel-Buffering": "no"})
        self._service = service
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._service.close_stream(self._reader)


@routes.add("GET /v1/export", media="application/zip", stream=True)
async def export(service: Service, request: Request, who: Caller, /, *, user: _Whose | None = None) -> Response:
    """Export everything of a user, or of the whole tenant, as a zip for `limpet import`"""
    who.refuse_anonymous(OPERATIONS["transfer.archive"])
    # Written whole before the first byte goes out: an export that fails is a problem, not half a file.
    file = TemporaryFile()  # noqa: SIM115 - closed when the last byte was sent
    try:
        await service.run(lambda: who.memory.transfer.archive(file, user), request.headers.get("authorization"))
    except BaseException:  # why: whatever it was, the file goes; it goes on as it came
        file.close()
        raise
    size = file.tell()
    file.seek(0)
    headers = {"Content-Length": str(size), "Content-Disposition": 'attachment; filename="limpet-export.zip"'}
    return StreamingResponse(_read(service, file), media_type="application/zip", headers=headers)


@routes.add("POST /v1/import", takes=_FILE, stream=True, answers=ImportResult)
async def import_file(
    service: Service,
    request: Request,
    who: Caller,
    /,
    *,
    user: Annotated[given.OfUser, "whose memory it becomes; left out: your own, or as the file says if you may"]
    | None = None,
    name: Annotated[Name, "the file's name, which may tell its format"] = "import",
    format: given.Format = "auto",
    learn: given.LearnFromImport = True,
    dry_run: given.DryRun = False,
) -> Response:
    """Import a file: an export of Limpet or of another program

    The body is the file itself. What exists already is not imported twice.
    """
    who.refuse_anonymous(OPERATIONS["transfer.import_file"])
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FILE:
        raise Problem(415, "wrong_media_type", f"send the file as Content-Type: {_FILE}")
    with TemporaryDirectory(prefix="limpet-") as folder:
        path = Path(folder, _UNSAFE.sub("_", name)[-100:])
        with path.open("wb") as file:  # noqa: ASYNC230 - a file of our own, which is opened at once
            async for piece in _receive(service, request):
                await service.run_unlimited(lambda piece=piece: file.write(piece))  # type: ignore[misc]
        options = {"user": user, "format": format, "learn": learn, "dry_run": dry_run}
        answer = await service.run(lambda: _import(who, path, options), request.headers.get("authorization"))
    return json_response(answer)


def _import(who: Caller, path: Path, options: dict[str, Any]) -> bytes:
    with path.open("rb") as file:
        return json_bytes(codec(ImportResult).write(who.memory.transfer.import_file(file, **options)))


async def _receive(service: Service, request: Request) -> AsyncIterator[bytes]:
    """The body as it comes. Each piece has its time, the whole has none."""
    pieces = request.stream()
    while True:
        try:
            piece = await asyncio.wait_for(anext(pieces), service.body_seconds)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Problem(400, "too_slow", f"no data of the file arrived for {service.body_seconds} seconds") from None
        yield piece


async def _read(service: Service, file: IO[bytes]) -> AsyncIterator[bytes]:
    try:
        while piece := await service.run_unlimited(lambda: file.read(_PIECE)):
            yield piece
    finally:
        file.close()


class Health(TypedDict):
    status: Annotated[str, "ok; where the store does not answer, a problem comes instead"]
    version: Annotated[str, "of the server"]


@routes.add("GET /health", public=True)
async def health(service: Service, /) -> Health:
    """Check that the store answers"""
    await service.run(service.memory.access.keys.required)
    return {"status": "ok", "version": __version__}


@routes.add("GET /metrics", media=MEDIA.partition(";")[0], stream=True)
async def metrics(service: Service, _request: Request, who: Caller, /) -> Response:
    """Metrics for Prometheus: requests, calls, and what the store holds"""
    who.refuse_anonymous(OPERATIONS["admin.stats"])
    return Response(await service.run(lambda: service.metrics.render(who.memory)), media_type=MEDIA)
