"""The whole server as one ASGI application: the API, MCP, the page, and the guard around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from limpet import Limpet
from limpet.mcp.http import WHOSE, McpOverHttp, over_http
from limpet.server.auth import LOCAL_NAMES, Door, is_local
from limpet.server.metrics import Metrics
from limpet.server.middleware import Guard
from limpet.server.openapi import described
from limpet.server.operation import Operation
from limpet.server.problems import Problem
from limpet.server.responses import json_bytes
from limpet.server.routes import OPERATIONS
from limpet.server.service import Service, timely
from limpet.server.static import Fixed

_PAGE_MEDIA = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_PAGE_RULES = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


def application(hf: Limpet, *, host: str, user: str, mcp: McpOverHttp | None = None) -> tuple[ASGIApp, Service]:
    """For a server at ``host``. ``user`` is whose memory is meant where there are no keys and nobody is named."""
    rules, local, metrics = hf.config.server, is_local(host), Metrics()
    door = Door(hf, user=user, is_local=local, per_minute=rules.requests_per_minute)
    # The guard has looked at hosts.
    service = Service(hf, door, metrics, mcp or over_http(allow_purge=hf.config.mcp.purge, hosts=None))
    routes: list[BaseRoute] = [
        Route("/openapi.json", partial(_openapi, service), methods=["GET"]),
        Route("/", _file, methods=["GET"]),
        Route("/ui/{name}", _file, methods=["GET"]),
        Route("/mcp", _Mcp(service)),
        *_routes(service),
    ]

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        stop = hf.observe(metrics.called)
        try:
            async with service.mcp.running():
                yield
        finally:
            service.stop()
            service.close()
            stop()

    # No more of the framework than that: the guard answers what goes wrong.
    app = Router(routes, redirect_slashes=False, lifespan=lifespan)
    named = [name.strip() for name in rules.hosts.split(",") if name.strip() not in ("", "none")]
    hosts = [*LOCAL_NAMES, *named, *([] if host in ("0.0.0.0", "::") else [host])]  # noqa: S104 - compared, not bound
    return Guard(app, hosts=hosts, max_body=rules.max_body_bytes, metrics=metrics), service


class _Mcp:
    """Who calls is settled here, as for any request; ``?user=`` says whose memory, where a key leaves that open."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        scope["state"][WHOSE] = await self._service.whose(request.headers, request.query_params.get("user"), scope)
        given = timely(receive, self._service.body_seconds) if scope["method"] == "POST" else receive
        await self._service.mcp(scope, given, send)


def _routes(service: Service) -> Iterator[Route]:
    """One for each path, so that a method it does not have is answered with those it has."""
    by_path: dict[str, dict[str, Operation]] = {}
    for each in OPERATIONS:
        by_path.setdefault(each.path, {})[each.method] = each
    for path, methods in by_path.items():
        yield Route(path, _endpoint(service, methods), methods=list(methods))


def _endpoint(service: Service, methods: Mapping[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        if operation.free:
            return await service.free(operation, request)
        return await (service.stream if operation.stream else service.answer)(operation, request)

    return endpoint


async def _openapi(service: Service, request: Request) -> Response:
    told = await service.run(lambda: _described(keyed=service.door.needs_key))
    return told.answer(request.headers)


@cache
def _described(*, keyed: bool) -> Fixed:
    return Fixed(json_bytes(described(OPERATIONS, keyed=keyed)), "application/json")


async def _file(request: Request) -> Response:
    found = _page().get(request.path_params.get("name", "index.html"))
    if found is None:
        raise Problem(404, "not_found", "there is no such page")
    return found.answer(request.headers)


@cache
def _page() -> dict[str, Fixed]:
    """The files of the page by name."""
    listed = [(each, each.name.rpartition(".")[2]) for each in (files("limpet.server") / "ui").iterdir()]
    return {
        each.name: Fixed(each.read_bytes(), _PAGE_MEDIA[kind], _PAGE_RULES)
        for each, kind in listed
        if kind in _PAGE_MEDIA
    }
