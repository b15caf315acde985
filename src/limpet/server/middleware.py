"""What stands around every request: its number, its size, whom it was sent to, how it ended, and all counts."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterable
from functools import partial
from secrets import token_hex
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from limpet.errors import LimpetError
from limpet.server.payload import Problem, problem_from_error, problem_response

if TYPE_CHECKING:
    from limpet import ActivityResult, Limpet


log = logging.getLogger("limpet.http")

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:@/\s]+)(?::\d{1,5})?")
_REQUEST_ID = re.compile(r"[\w.:-]{1,100}")
_ROUTER = {
    404: ("not_found", "there is nothing at this address"),
    405: ("wrong_method", "this address takes other methods; Allow names them"),
}
# Said twice, who is to be believed?
_SINGLE_HEADERS = (b"host", b"origin", b"authorization", b"idempotency-key", b"content-type")
_IMPORT = "/v1/import"  # a file, which is not read into memory
_MEMORY = ("/v1/", "/mcp", "/metrics")
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
MEDIA = CONTENT_TYPE_LATEST


class Metrics:
    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        count, time = partial(Counter, registry=registry), partial(Histogram, buckets=_SECONDS, registry=registry)
        gauge = partial(Gauge, registry=registry)
        self._requests = count("limpet_http_requests", "Requests", ("method", "route", "status"))
        self._seconds = time("limpet_http_request_seconds", "Seconds a request took", ("method", "route"))
        self._open = gauge("limpet_http_requests_open", "Requests that are being answered")
        about = "Calls of memory, jobs, schedules, and requests to models"
        self._calls = count("limpet_calls", about, ("kind", "name", "outcome", "code"))
        self._call_seconds = time("limpet_call_seconds", "Seconds they took", ("kind", "name"))
        self._store = gauge("limpet_store", "What the store holds", ("what",))

    def begin_request(self) -> None:
        self._open.inc()

    def end_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._open.dec()
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def observe_call(self, work: ActivityResult) -> None:
        """Calls, jobs, schedules, and requests to models, on whatever thread they ended."""
        self._calls.labels(work.kind, work.name, work.outcome, work.code or "").inc()
        self._call_seconds.labels(work.kind, work.name).observe(work.seconds)

    def render(self, memory: Limpet) -> bytes:
        """With what the store holds now."""
        for what, count in memory.admin.stats().items():
            if isinstance(count, int | float) and not isinstance(count, bool):
                self._store.labels(what).set(count)
        return generate_latest(self._registry)


class TooLarge(Problem):
    def __init__(self, most: int) -> None:
        super().__init__(413, "too_large", f"the body is larger than the {most:,} bytes this server takes")


class RequestMiddleware:
    """Pure ASGI, so that streams go through as they come."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], max_body: int, max_import: int, metrics: Metrics) -> None:
        self._app = app
        self._hosts = frozenset(host.lower().strip("[]") for host in hosts)
        self._max_body = max_body
        self._max_import = max_import
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given_id = headers.get("x-request-id", "")  # what a caller's own tracing calls it
        request_id = given_id if _REQUEST_ID.fullmatch(given_id) else token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        scope["app"] = self._app  # the router raises what it refuses only where it is part of something
        most = self._max_import if scope["path"] == _IMPORT else self._max_body
        began, sent, given = perf_counter(), _SendWrapper(send, request_id), _BodyLimiter(receive, most)
        self._metrics.begin_request()
        try:
            self._check(headers, scope["path"], most)
            await self._app(scope, given, sent)
        except ClientDisconnect:
            sent.status = sent.status or 499
        except Exception as error:  # why: whatever it was, the caller is told, and the log where it happened
            if sent.status:  # too late to tell the caller, who sees it cut off
                _log_unexpected(error, request_id)
                return
            found = given.refused or _to_problem(error, request_id)  # which others may have wrapped in errors of theirs
            await problem_response(found, request_id)(scope, receive, sent)
        finally:
            self._log_request(scope, sent.status, perf_counter() - began, request_id)

    def _check(self, headers: Headers, path: str, most: int) -> None:
        """A page of somebody else's must reach us neither under a name of its own nor from its own place."""
        names = [name for name, _ in headers.raw]
        for name in _SINGLE_HEADERS:
            if names.count(name) > 1:
                raise Problem(400, "invalid_input", f"the header {name.decode()} is given twice")
        host = headers.get("host", "")
        match = _HOST.fullmatch(host)
        if match is None or match[1].strip("[]").lower() not in self._hosts:
            raise Problem(
                421, "wrong_host", "this server does not answer to that Host; server.hosts names those it answers to"
            )
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != host.lower():
            raise Problem(403, "wrong_origin", "requests from pages of other origins are refused")
        # A picture on somebody's page asks without an Origin; its browser says where it came from all the same.
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and path.startswith(_MEMORY):
            raise Problem(403, "wrong_origin", "requests from pages of other origins are refused")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise Problem(400, "invalid_input", "Content-Length is not a number")
        if int(length) > most:
            raise TooLarge(most)

    def _log_request(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        self._metrics.end_request(scope["method"], route, status, seconds)
        fields = {
            "method": scope["method"],
            "route": route,
            "status": status,
            "milliseconds": round(seconds * 1000, 2),
            "caller": scope["state"].get("caller_name"),
            "request_id": request_id,
        }
        log.info("%s %s %d", scope["method"], route, status, extra={"event": "request", "fields": fields})


class _SendWrapper:
    """Adds the headers that every answer has, and remembers how it began."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), (b"x-request-id", self._request_id.encode())]
            given = {name for name, _ in headers}
            message["headers"] = headers + [each for each in _ALWAYS if each[0] not in given]
        await self._send(message)


class _BodyLimiter:
    """A body of unknown length is counted as it comes."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = most
        self._got = 0
        self.refused: Problem | None = None

    async def __call__(self) -> Message:
        message = await self._receive()
        self._got += len(message.get("body", b""))
        if self._got > self._most:
            self.refused = TooLarge(self._most)
            raise self.refused
        return message


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _to_problem(error: Exception, request_id: str) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, LimpetError):
        return problem_from_error(error)
    if isinstance(error, HTTPException):
        code, detail = _ROUTER.get(error.status_code, ("refused", "this server does not do that"))
        return Problem(error.status_code, code, detail, headers=error.headers or {})
    _log_unexpected(error, request_id)
    return Problem(500, "internal_error", f"an internal error occurred; the server's log has it under {request_id}")


def _log_unexpected(error: Exception, request_id: str) -> None:
    """Where it happened. Not its message: that may quote what somebody said."""
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    places = [f"{frame.filename.rpartition('/limpet/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
    fields = {"error": type(error).__name__, "at": places, "request_id": request_id}
    log.error("unexpected %s at %s", type(error).__name__, places[-1:], extra={"event": "fault", "fields": fields})
