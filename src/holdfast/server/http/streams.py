"""What is no JSON: live events, an export as a file, and the numbers for Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from tempfile import TemporaryFile
from typing import IO, Annotated, TypedDict

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from holdfast import __version__
from holdfast.domain.times import system_clock
from holdfast.server import events
from holdfast.server.door import Caller
from holdfast.server.given import Name, Query
from holdfast.server.metrics import MEDIA
from holdfast.server.operation import Operations
from holdfast.server.problems import Problem
from holdfast.server.service import Service

operations = Operations("streams")

_PIECE = 1 << 18
_EVENTS = "text/event-stream"


class ExportQuery(Query):
    user: Annotated[Name | None, Field(description="whose; left out: your own, or all of the tenant if you may")] = None


@operations.get("/v1/events", media=_EVENTS, stream=True)
async def get_events(service: Service, request: Request, _who: Caller, query: events.EventsQuery) -> Response:
    """Live: `session` and `record` events as they change, each with the thing as a list would show it

    `Last-Event-ID` goes on where a reader stopped.
    """
    if service.streams >= service.most_streams:
        raise Problem(503, "too_many_streams", "too many listen already", headers={"Retry-After": "5"})
    begin = events.since(request.headers.get("last-event-id"))
    feed = events.Feed(lambda: service.door.known(request.headers).hf, query.user, begin or system_clock())
    # Asked once before the answer begins: whoever may not look is told so, and a fresh reader starts from now.
    missed = await service.run(feed.look)
    if request.method == "HEAD":
        return Response(media_type=_EVENTS)

    async def told() -> AsyncIterator[bytes]:
        service.streams += 1
        try:
            async for piece in events.told(feed, [] if begin is None else missed, service.run, service.stopping):
                yield piece
        finally:
            service.streams -= 1

    return StreamingResponse(told(), media_type=_EVENTS, headers={"X-Accel-Buffering": "no"})


@operations.get("/v1/export", media="application/zip", stream=True)
async def export(service: Service, _request: Request, who: Caller, query: ExportQuery) -> Response:
    """Everything of a user, or of the whole tenant, as a zip that `holdfast import` takes in again"""
    # Written whole before the first byte goes out: an export that fails is a problem, not half a file.
    file = TemporaryFile()  # noqa: SIM115 - closed when the last byte was sent
    try:
        await service.run(lambda: who.hf.archive(file, query.user))
    except BaseException:  # why: whatever it was, the file goes; it goes on as it came
        file.close()
        raise
    size = file.tell()
    file.seek(0)
    headers = {"Content-Length": str(size), "Content-Disposition": 'attachment; filename="holdfast-export.zip"'}
    return StreamingResponse(_read(service, file), media_type="application/zip", headers=headers)


async def _read(service: Service, file: IO[bytes]) -> AsyncIterator[bytes]:
    try:
        while piece := await service.run(lambda: file.read(_PIECE)):
            yield piece
    finally:
        file.close()


class Health(TypedDict):
    status: str
    version: str


@operations.get("/health", free=True)
async def health(service: Service) -> Health:
    """Whether the store answers"""
    await service.run(service.hf.keys.any_live)
    return {"status": "ok", "version": __version__}


@operations.get("/metrics", media=MEDIA.partition(";")[0], stream=True)
async def metrics(service: Service, _request: Request, who: Caller) -> Response:
    """For Prometheus: requests, calls of memory, and what the store holds"""
    return Response(await service.run(lambda: service.metrics.written(who.hf)), media_type=MEDIA)
