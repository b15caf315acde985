"""Listening: from the first request to the last one that was begun."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from limpet import Limpet
from limpet.errors import ConfigError
from limpet.mcp.http import McpHttpApp
from limpet.server.app import create_app
from limpet.server.auth import is_local
from limpet.server.protocol import configure_protocol
from limpet.server.service import Service


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
