"""A real server in a thread of this process, on a free port, and clients of it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import count
from threading import Event, Thread
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from limpet import Limpet
from limpet.server import app as server_app
from limpet.server.auth import Authenticator, Caller

USER = "me"


class TrustingAuthenticator(Authenticator):
    """Whoever calls is who the memory acts for, as in process. Keys have tests of their own."""

    def identify(self, headers: Mapping[str, str]) -> Caller:
        me = self._memory.principal
        key = headers.get("idempotency-key")
        return replace(self._anonymous, user=me.user, agent=me.agent, id=me.name, idempotency_key=key)


class SharedServer(uvicorn.Server):
    """One for all tests of a process. Each store has a path of its own, behind which its app stands."""

    def __init__(self) -> None:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        rules = {"interface": "asgi3", "ws": "none", "lifespan": "off", "log_config": None, "access_log": False}
        super().__init__(uvicorn.Config(self._dispatch, **rules))  # type: ignore[arg-type]
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = Event()
        self._apps: dict[str, tuple[ASGIApp, asyncio.Queue[Any], asyncio.Task[Any]]] = {}
        self._numbers = count(1)
        Thread(target=self.run, args=([listening],), daemon=True).start()
        assert self._started.wait(60), "the server does not start"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._started.set()

    def mount(self, app: ASGIApp) -> str:
        """Start an app. Returns its address."""
        name = f"/{next(self._numbers)}"
        self._run(self._start(name, app))
        return self.url + name

    def unmount(self, url: str) -> None:
        self._run(self._stop(url.removeprefix(self.url)))

    def _run(self, work: Any) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _start(self, name: str, app: ASGIApp) -> None:
        events: asyncio.Queue[Any] = asyncio.Queue()
        ready = asyncio.Event()

        async def send(message: Any) -> None:
            assert not message["type"].endswith("failed"), message
            ready.set()

        await events.put({"type": "lifespan.startup"})
        task: asyncio.Task[Any] = asyncio.create_task(app({"type": "lifespan", "state": {}}, events.get, send))  # type: ignore[arg-type]
        await ready.wait()
        self._apps[name] = app, events, task

    async def _stop(self, name: str) -> None:
        _, events, task = self._apps.pop(name)
        await events.put({"type": "lifespan.shutdown"})
        await task

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        name, slash, rest = scope["path"][1:].partition("/")
        app = self._apps[f"/{name}"][0]
        await app({**scope, "path": slash + rest, "raw_path": b""}, receive, send)


@cache
def shared_server() -> SharedServer:
    return SharedServer()


def mount(memory: Limpet, trusted: Limpet | None = None) -> str:
    """Serve a store. Whoever calls acts as ``trusted``; without it, as the key says that they send."""
    app, service = server_app.create_app(memory, host="127.0.0.1", user=USER)
    if trusted is not None:
        service.authenticator = TrustingAuthenticator(trusted, user=USER, is_local=True, per_minute=0)
    return shared_server().mount(app)


@contextmanager
def served(memory: Limpet) -> Iterator[str]:
    """The address of a server on this store."""
    url = mount(memory)
    try:
        yield url
    finally:
        shared_server().unmount(url)


class OpenedRemotely:
    """Takes the place of ``Limpet.open``: the store is opened and served, and what comes back is a client.

    Another tenant, or somebody with fewer rights, is another client, as one with another key would be. Tests that look
    into the tables see those of the server.
    """

    def __init__(self) -> None:
        self._open = Limpet.open

    def __call__(self, *args: Any, **options: Any) -> Limpet:
        memory = self._open(*args, **options)
        urls: list[str] = []
        clients: list[Any] = []

        def connect(served: Limpet) -> Any:
            urls.append(mount(memory, served))
            me = served.principal
            made: Any = Limpet.connect(urls[-1], user=USER if me.is_operator else me.user, timeout=60)
            clients.append(made._view.client)
            made._view.__dict__.update(runtime=served._view.runtime, agents=served._view.agents)
            made.tenant = lambda *given, **more: connect(served.tenant(*given, **more))
            made.acting = lambda *given, **more: connect(served.acting(*given, **more))
            return made

        def close() -> None:
            while clients:
                clients.pop().close()
            while urls:
                shared_server().unmount(urls.pop())
            memory.close()

        try:
            client = connect(memory)
        except BaseException:
            memory.close()
            raise
        client.close = close
        opened: Limpet = client
        return opened
