"""Listening, from the first request to the last one that was begun; and an end to what uvicorn would wait for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from limpet import Limpet
from limpet.errors import ConfigError
from limpet.mcp.http import McpHttpApp
from limpet.server.app import create_app
from limpet.server.auth import is_local
from limpet.server.service import Service

MOST_HEAD = 2**16  # bytes of an address and headers that came in several pieces; one piece is no longer than 256 KiB
_REFUSED = "HTTP/1.1 {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LARGE = _REFUSED.format("431 Request Header Fields Too Large").encode()
_TOO_SLOW = _REFUSED.format("408 Request Timeout").encode()


class _Part(Enum):
    """Of a request, what is being read."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class HttpProtocol(HttpToolsProtocol):
    """Limits how long a client may take to send a request's head, or the rest of a body.

    The limit holds whether bytes trickle in or none come. While a request is handled there is none: reading its body
    has a limit of its own. Between two requests uvicorn's own counts, until the next byte.
    """

    header_seconds = 10.0
    answer_seconds = 60.0  # in which somebody who is sent something has to take some of it

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._part = _Part.NOTHING
        self._head = 0
        self._late: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_timer()
        self._cancel_abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._part, self._head = _Part.HEAD, 0

    def on_headers_complete(self) -> None:
        self._part = _Part.BODY
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._part = _Part.NOTHING
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._part is _Part.HEAD:
            self._head += len(data)
            if self._head > MOST_HEAD and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE)
                self._end()
        self._start_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._start_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(self.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_abort()

    def _cancel_abort(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def timeout_keep_alive_handler(self) -> None:
        self._end()

    def _start_timer(self) -> None:
        is_worked_on = self.cycle and not self.cycle.response_complete
        if is_worked_on or self.transport.is_closing() or not self._is_awaiting_data():
            self._cancel_timer()
        elif self._late is None:
            self._late = self.loop.call_later(self.header_seconds, self._time_out)

    def _is_awaiting_data(self) -> bool:
        """An empty line before a request begins none, and ends uvicorn's wait all the same."""
        return self._part is not _Part.NOTHING or self.timeout_keep_alive_task is None

    def _cancel_timer(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _time_out(self) -> None:
        if self._part is _Part.HEAD and not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
        self._end()

    def _end(self) -> None:
        """What was written is sent first, but that is waited for no longer, either."""
        self.transport.close()
        self.loop.call_later(self.header_seconds, self.transport.abort)


def configure_protocol(header_seconds: float, answer_seconds: float) -> type[HttpProtocol]:
    return type("Protocol", (HttpProtocol,), {"header_seconds": header_seconds, "answer_seconds": answer_seconds})


def serve(
    memory: Limpet,
    *,
    host: str,
    port: int,
    user: str,
    ready: Callable[[str], None],
    work: Callable[[Callable[[], bool]], None] = lambda _: None,
    mcp: McpHttpApp | None = None,
) -> None:
    """Until a signal. ``ready`` is told the address once requests are taken.

    ``work`` begins what is done in the background; it is given a function that says whether somebody waits.
    ``mcp`` takes the place of the usual one.
    """
    if not is_local(host) and not memory.access.keys.required():
        raise ConfigError(
            f"{host} can be reached by others, and this store has no API key: make one with"
            " 'limpet api-keys create NAME --admin', or listen on 127.0.0.1"
        )
    with _open_socket(host, port) as listening:
        app, service = create_app(memory, host=host, user=user, mcp=mcp)
        rules = uvicorn.Config(
            app,
            http=configure_protocol(memory.config.server.header_seconds, memory.config.server.answer_seconds),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_keep_alive=30,
            limit_concurrency=memory.config.server.waiting + memory.config.server.streams + 1000,
            timeout_graceful_shutdown=memory.config.server.shutdown_seconds,
            # A proxy's word on who calls is not taken: a header can say anything.
            proxy_headers=False,
        )
        work(service.is_busy)
        shown = f"[{host}]" if ":" in host else host
        _UvicornServer(rules, service, lambda: ready(f"http://{shown}:{listening.getsockname()[1]}")).run([listening])


class _UvicornServer(uvicorn.Server):
    """Ends live streams before it waits for requests: those would never end by themselves."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._service = service
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.stop()
        await super().shutdown(sockets)


def _open_socket(host: str, port: int) -> socket.socket:
    try:
        return _bind_socket(host.strip("[]"), port)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    except OverflowError:
        raise ConfigError(f"cannot listen on {host}:{port}: a port is a number from 0 to 65535") from None


def _bind_socket(host: str, port: int) -> socket.socket:
    # The protocol is named: asyncio sends small answers at once only on a socket that it knows to be TCP.
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(2048)
    except (OSError, OverflowError):
        made.close()
        raise
    return made
