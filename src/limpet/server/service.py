"""What the parts of the server share, and how one operation is answered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import parse_qsl
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope

from limpet import Limpet
from limpet.api.async_pool import Pool
from limpet.mcp.http import McpHttpApp
from limpet.server.auth import Authenticator, Caller
from limpet.server.middleware import Metrics
from limpet.server.operation_routes import JSON, Route
from limpet.server.payload import Problem, json_bytes, json_response, read_arguments
from limpet.tools import ToolContext

T = TypeVar("T")

_SMALL = 64 * 1024  # of a body that is read from anybody
_MOST_BYTES = 128 * 2**20  # of all larger ones together


class Service:
    """One hop to a thread for each request: authentication, arguments, the operation and the JSON.

    A large body takes two: who it is comes before it is read.
    """

    def __init__(self, memory: Limpet, authenticator: Authenticator, metrics: Metrics, mcp: McpHttpApp) -> None:
        rules = memory.config.server
        self.memory = memory
        self.authenticator = authenticator
        self.metrics = metrics
        self.stopping = asyncio.Event()
        self.streams = 0
        self.streams_of: Counter[str] = Counter()  # by key
        self.most_streams = rules.streams
        self.mcp = mcp
        self._pool = Pool(rules.threads)
        self._waiting = 0
        self._most_waiting = rules.waiting
        self._share = max(1, rules.threads // 2)
        self._lanes: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._max_body = rules.max_body_bytes
        self.body_seconds = rules.body_seconds
        self._bytes = 0  # of large bodies that are being read or worked on

    async def run(self, work: Callable[[], T], lane: str | None = None) -> T:
        """Refused when too many wait already: an answer that comes too late helps nobody.

        Who comes with the same key, its ``lane``, gets half of the threads at most, so that nobody waits for them only.
        """
        if self._waiting >= self._most_waiting:
            raise Problem(
                503, "overloaded", "too many requests are waiting; try again later", headers={"Retry-After": "1"}
            )
        self._waiting += 1
        try:
            if lane is None:
                return await self._pool.run(work)
            share = self._lanes.setdefault(lane, asyncio.Semaphore(self._share))
            async with share:
                return await self._pool.run(work)
        finally:
            self._waiting -= 1

    async def run_unlimited(self, work: Callable[[], T]) -> T:
        """With an answer that was begun: it is not refused in the middle."""
        return await self._pool.run(work)

    def open_stream(self, reader: str) -> None:
        self.streams += 1
        self.streams_of[reader] += 1

    def close_stream(self, reader: str) -> None:
        self.streams -= 1
        self.streams_of[reader] -= 1
        self.streams_of += Counter()  # without those that have none

    def is_busy(self) -> bool:
        """Somebody waits besides the one that is answered: background work gives way."""
        return self._waiting > 1

    def make_endpoint(self, methods: Mapping[str, Route]) -> Callable[[Request], Awaitable[Response]]:
        """For one path: the route of each method it has."""

        async def endpoint(request: Request) -> Response:
            route = methods["GET" if request.method == "HEAD" else request.method]
            if route.public:
                return await self.answer_public(route, request)
            return await (self.stream if route.stream else self.answer)(route, request)

        return endpoint

    async def answer(self, route: Route, request: Request) -> Response:
        state, headers, form = request.scope["state"], request.headers, route.form
        path, query = request.path_params, _parse_query(request)
        async with self._reserve_body(headers):
            raw = await self._body(request, takes_json=form.has_body)

            def work() -> bytes:
                who = self.authenticate(headers, state)
                return json_bytes(route.run(who, read_arguments(form, path, query, raw)))

            return json_response(await self.run(work, headers.get("authorization")), form.status)

    async def stream(self, route: Route, request: Request) -> Response:
        """An answer that is not JSON, or a body that is not: the route reads that itself."""
        state, headers, form = request.scope["state"], request.headers, route.form
        path, query = request.path_params, _parse_query(request)
        raw = await self._body(request, takes_json=False) if route.takes == JSON else b""

        def work() -> tuple[Caller, dict[str, Any]]:
            return self.authenticate(headers, state), read_arguments(form, path, query, raw)

        who, arguments = await self.run(work, headers.get("authorization"))
        response: Response = await route.run(self, request, who, **arguments)
        return response

    async def answer_public(self, route: Route, request: Request) -> Response:
        """For everybody; it says nothing of anybody."""
        arguments = read_arguments(route.form, request.path_params, _parse_query(request), b"")
        answer = route.form.answer.write(await route.run(self, **arguments), arguments)
        return json_response(json_bytes(answer), route.form.status)

    async def tool_context(self, headers: Mapping[str, str], user: str | None, scope: Scope) -> ToolContext:
        """For MCP, whose tools work on one user's memory."""
        return await self.run(lambda: self.authenticate(headers, scope["state"]).tool_context(user))

    @asynccontextmanager
    async def _reserve_body(self, headers: Mapping[str, str]) -> AsyncIterator[None]:
        """For a body. A large one is read only from those who are let in, and only so many at a time."""
        length = headers.get("content-length")
        size = self._max_body if "transfer-encoding" in headers else int(length or 0)
        if size <= _SMALL:
            yield
            return
        await self.run(lambda: self.authenticator.identify(headers), headers.get("authorization"))
        if self._bytes + size > max(_MOST_BYTES, 2 * self._max_body):
            raise Problem(
                503, "overloaded", "too many large requests at once; try again later", headers={"Retry-After": "1"}
            )
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size

    async def _body(self, request: Request, *, takes_json: bool) -> bytes:
        try:
            async with asyncio.timeout(self.body_seconds):
                raw = await request.body()
        except TimeoutError:
            raise Problem(400, "too_slow", f"the body did not arrive within {self.body_seconds} seconds") from None
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        # What a form of somebody else's page could send is no JSON.
        if raw and takes_json and kind != JSON:
            raise Problem(415, "wrong_media_type", "send the body as Content-Type: application/json")
        if raw and request.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise Problem(415, "wrong_media_type", "send the body without a Content-Encoding")
        return raw

    def authenticate(self, headers: Mapping[str, str], state: dict[str, Any]) -> Caller:
        who = self.authenticator.authenticate(headers)
        state["caller_name"] = who.name
        return who

    def stop(self) -> None:
        """No more live streams, which would never end by themselves."""
        if not self.stopping.is_set():
            self.stopping.set()
            self.mcp.close()

    def close(self) -> None:
        """Every request that was begun is carried out."""
        self._pool.shutdown()


def _parse_query(request: Request) -> list[tuple[str, str]]:
    """As it was meant, or not at all: the framework would put question marks where it is no UTF-8."""
    try:
        return parse_qsl(request.scope["query_string"].decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise Problem(400, "invalid_input", "what follows the question mark is not UTF-8") from None


def limit_receive_time(receive: Receive, seconds: float) -> Receive:
    """For a body that somebody else reads: it comes in time, or the caller is taken to have gone."""
    until, is_whole = monotonic() + seconds, False

    async def receive_in_time() -> Message:
        nonlocal is_whole
        if is_whole:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), max(0.0, until - monotonic()))
        except TimeoutError:
            return {"type": "http.disconnect"}
        is_whole = not message.get("more_body", False)
        return message

    return receive_in_time
