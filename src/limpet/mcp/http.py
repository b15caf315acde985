"""MCP over streamable HTTP, as one ASGI app for a server that has decided who calls.

The server puts a ``ToolContext`` into ``scope["state"]["whose"]`` of each request; nobody without one gets in. Both
ways of the protocol are spoken: requests that stand alone, and sessions that begin with ``initialize``. A session
belongs to the caller that began it, and each request in it acts for whom that request came with.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from limpet.mcp.server import McpHandlers, RequestContext, create_server
from limpet.tools import ToolContext

TOOL_CONTEXT = "whose"  # in the state of a request's scope
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_MAX_SESSIONS = 1000
_SESSIONS_OF_ONE = 20
_SESSION = b"mcp-session-id"
_IDLE_S = 1800
_GRACE_S = 5.0

Message = MutableMapping[str, Any]


def get_tool_context(call: RequestContext) -> ToolContext:
    """Of the HTTP request this call came with, also within a session."""
    assert call.request is not None
    found = call.request.scope["state"][TOOL_CONTEXT]
    assert isinstance(found, ToolContext)
    return found


def create_http_app(*, allow_purge: bool = False, hosts: Iterable[str] | None = LOOPBACK) -> McpHttpApp:
    """``hosts`` are the names the server answers to; None if the mounting app has checked Host and Origin."""
    return McpHttpApp(create_server(McpHandlers(get_tool_context, allow_purge=allow_purge)), hosts=hosts)


class McpHttpApp:
    """To be mounted with ``Route("/mcp", endpoint=…)``, within ``lifespan()``; a Mount would redirect to ``/mcp/``.

    A server that shuts down calls ``close()`` before it waits for its connections: streams may be open for hours.
    """

    def __init__(
        self,
        made: Server[Any],
        *,
        hosts: Iterable[str] | None = LOOPBACK,
        events: EventStore | None = None,
        retry_ms: int | None = None,
    ) -> None:
        self._sessions = StreamableHTTPSessionManager(
            made,
            event_store=events,
            retry_interval=retry_ms,
            security_settings=_security_settings(hosts),
            session_idle_timeout=_IDLE_S,
            max_sessions=_MAX_SESSIONS,
        )
        self._open: set[_Request] = set()
        self._begun: dict[str, deque[bytes]] = {}  # sessions by caller, the oldest first
        self._is_closing = False

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """For the lifespan of the app around it; once."""
        return self._sessions.run()

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        whose = scope.get("state", {}).get(TOOL_CONTEXT)
        reply = _Reply(send)
        if not isinstance(whose, ToolContext):
            return await reply.refuse(401, "say who you are")
        if self._is_closing:
            return await reply.refuse(503, "the server is shutting down")
        caller = AuthenticatedUser(AccessToken(token="", client_id=whose.identity, scopes=[]))
        # Blanks around a header's value are none of it; not every HTTP server takes them off.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        known = {**scope, "headers": headers, "user": caller}
        request = _Request(scope["method"], receive)
        self._open.add(request)
        try:
            await self._sessions.handle_request(known, request.receive, reply.send)
        finally:
            self._open.discard(request)
        if request.ended.is_set():
            await reply.end()
            if request.method == "POST":
                await self._end_session(known)
        elif reply.session is not None and not any(name == _SESSION for name, _ in headers):
            await self._evict_sessions(known, whose.identity, reply.session)
        return None

    async def _evict_sessions(self, scope: Message, caller: str, session: bytes) -> None:
        """A caller's oldest session goes for its newest: nobody takes the places of all others."""
        mine = self._begun.pop(caller, deque())
        self._begun[caller] = mine  # the last to be forgotten
        mine.append(session)
        if len(mine) > _SESSIONS_OF_ONE:
            await self._end_session({**scope, "headers": [*scope["headers"], (_SESSION, mine.popleft())]})
        if len(self._begun) > _MAX_SESSIONS:
            del self._begun[next(iter(self._begun))]

    async def _end_session(self, scope: Message) -> None:
        """As its client would: what still waits in it, such as for the user's answer, then gives up at once."""

        async def receive_empty() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def discard(_message: Message) -> None:
            pass

        await self._sessions.handle_request({**scope, "method": "DELETE"}, receive_empty, discard)

    def close(self, grace_s: float = _GRACE_S) -> None:
        """End all streams: those that only wait for news now, answers in the making after some seconds' grace.

        To be called in the event loop. What is being written is written to its end.
        """
        self._is_closing = True
        for request in list(self._open):
            later = 0.0 if request.method == "GET" else grace_s
            asyncio.get_running_loop().call_later(later, request.end)


class _Request:
    """Can be ended from outside: the handler sees it as if the client had disconnected."""

    def __init__(self, method: str, receive: Any) -> None:
        self.method = method
        self._receive = receive
        self.ended = anyio.Event()

    def end(self) -> None:
        self.ended.set()

    async def receive(self) -> Message:
        message: Message = {"type": "http.disconnect"}

        async def receive_message() -> None:
            nonlocal message
            message = await self._receive()
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(receive_message)
            await self.ended.wait()
            group.cancel_scope.cancel()
        return message


class _Reply:
    """Remembers how far an answer has come, so that one cut off ends as HTTP wants it."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self._is_begun = self._is_over = False
        self.session: bytes | None = None  # that was named in the answer

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.session = dict(message.get("headers", ())).get(_SESSION)
        self._is_begun = True
        self._is_over = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    async def refuse(self, status: int, why: str) -> None:
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": why.encode()})

    async def end(self) -> None:
        if not self._is_begun:
            await self.refuse(503, "the server is shutting down")
        elif not self._is_over:
            await self.send({"type": "http.response.body", "body": b""})


def _security_settings(hosts: Iterable[str] | None) -> TransportSecuritySettings:
    """A page that a browser was led to by a changed name of ours has that name in Host, or its own in Origin."""
    if hosts is None:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    named = [each for host in hosts for each in (host, f"{host}:*")]
    origins = [f"{scheme}://{each}" for each in named for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=named, allowed_origins=origins)
