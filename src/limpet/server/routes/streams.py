"""What is not JSON: live events, exports and imports as files, and the numbers for Prometheus."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Annotated, Any, TypedDict

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from limpet import __version__
from limpet.api import parameters as given
from limpet.model.schema import codec
from limpet.model.transfer import ImportResult
from limpet.model.types import Name
from limpet.model.values import system_clock
from limpet.security.operation import OPERATIONS
from limpet.server import events
from limpet.server.auth import Caller
from limpet.server.metrics import MEDIA
from limpet.server.payload import json_bytes, json_response
from limpet.server.problems import Problem
from limpet.server.route import Routes
from limpet.server.service import Service

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
    """Live: a `record` or a `session` as a list would show it whenever it changes, and `gone` when it is removed

    Whose time the store does not know comes without an id, and only of the 100 that stand first in each list: a
    session's state and metadata, and `gone`, which has the `kind` and the `id`. `Last-Event-ID` goes on behind the last
    change that has one.
    """
    own = service.streams_of[who.id]
    if service.streams >= service.most_streams or (who.id and own >= max(1, service.most_streams // 4)):
        raise Problem(503, "too_many_streams", "too many listen already", headers={"Retry-After": "5"})
    begin = events.parse_last_event_id(request.headers.get("last-event-id"))
    since = min(begin or system_clock(), system_clock())
    feed = events.Feed(lambda: service.door.identify(request.headers).memory, user, since, system_clock)
    # Asked once before the answer begins: whoever may not look is told so, and a fresh reader starts from now.
    service.open_stream(who.id)
    try:
        missed = await service.run(feed.poll)
    except BaseException:  # why: whatever it was, the place is free again; it goes on as it came
        service.close_stream(who.id)
        raise
    if request.method == "HEAD":
        return _Live(service, who.id, _nothing())
    return _Live(
        service, who.id, events.stream_events(feed, [] if begin is None else missed, service.run, service.stopping)
    )


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
    """Everything of a user, or of the whole tenant, as a zip that `limpet import` takes in again"""
    who.check_may(OPERATIONS["transfer.archive"])
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
    """Take in a file: an export of ours, or what another program wrote

    The body is the file itself. What is here already is not taken in twice.
    """
    who.check_may(OPERATIONS["transfer.import_file"])
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
            raise Problem(400, "too_slow", f"nothing of the file came for {service.body_seconds} seconds") from None
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
    """Whether the store answers"""
    await service.run(service.memory.access.keys.required)
    return {"status": "ok", "version": __version__}


@routes.add("GET /metrics", media=MEDIA.partition(";")[0], stream=True)
async def metrics(service: Service, _request: Request, who: Caller, /) -> Response:
    """For Prometheus: requests, calls of memory, and what the store holds"""
    who.check_may(OPERATIONS["admin.stats"])
    return Response(await service.run(lambda: service.metrics.render(who.memory)), media_type=MEDIA)
