"""The whole server in this process, asked as over HTTP but without a port. Several threads may ask at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal

from limpet import Limpet
from limpet.server.app import create_app
from limpet.server.service import Service

BASE = "http://127.0.0.1:8420"


class Asked:
    """``key`` is the secret that is shown with every request."""

    def __init__(self, portal: BlockingPortal, app: Any, service: Service, key: str | None = None) -> None:
        self._portal, self.app, self.service, self.key = portal, app, service, key

    def __call__(self, method: str, path: str, json: Any = None, **more: Any) -> httpx2.Response:
        headers = dict(more.pop("headers", None) or {})
        if self.key is not None:
            headers.setdefault("authorization", f"Bearer {self.key}")

        async def ask() -> httpx2.Response:
            transport = httpx2.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
                return await client.request(method, path, json=json, headers=headers, **more)

        answer: httpx2.Response = self._portal.call(ask)
        return answer

    def get(self, path: str, status: int = 200, **query: Any) -> Any:
        return _read(self("GET", path, params=query), status)

    def post(self, path: str, status: int = 200, once: str | None = None, **body: Any) -> Any:
        headers = {"idempotency-key": once} if once else {}
        return _read(self("POST", path, body, headers=headers), status)

    def keyed(self, key: str | None) -> Asked:
        return Asked(self._portal, self.app, self.service, key)


def _read(answer: httpx2.Response, status: int) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


@contextmanager
def asked(memory: Limpet, *, host: str = "127.0.0.1", user: str = "me") -> Iterator[Asked]:
    with start_blocking_portal() as portal:
        app: Any
        app, service = create_app(memory, host=host, user=user)
        with portal.wrap_async_context_manager(app._app.lifespan_context(None)):
            yield Asked(portal, app, service)
