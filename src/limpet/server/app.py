"""The whole server as one ASGI application: the API, MCP, the page, and the middleware around them."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from hashlib import sha256
from importlib.resources import files

from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Router
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from limpet import Limpet
from limpet.mcp.http import TOOL_CONTEXT, McpHttpApp, create_http_app
from limpet.model.constraints import ForeignId, Uuid
from limpet.model.values import FOREIGN_ID
from limpet.server.auth import LOCAL_NAMES, Authenticator, is_local
from limpet.server.custom_routes import list_routes
from limpet.server.middleware import Metrics, RequestMiddleware
from limpet.server.openapi import build_openapi
from limpet.server.operation_routes import JSON, Route
from limpet.server.payload import Problem, json_bytes
from limpet.server.service import Service, limit_receive_time


class StaticFile:
    """Each form has an ETag of its own: a cache must not take one for the other."""

    def __init__(self, content: bytes, media: str, headers: Mapping[str, str] | None = None) -> None:
        digest = sha256(content).hexdigest()[:32]
        rules = {"Vary": "Accept-Encoding", "Cache-Control": "no-cache", **(headers or {})}
        self._media = media
        self._plain = content, {**rules, "ETag": f'"{digest}"'}
        self._packed = gzip.compress(content, 9, mtime=0), {**rules, "ETag": f'"{digest}-gzip"'}

    def respond(self, asked: Headers) -> Response:
        is_packed = _accepts_gzip(asked.get("accept-encoding", ""))
        content, headers = self._packed if is_packed else self._plain
        known = {each.strip().removeprefix("W/") for each in asked.get("if-none-match", "").split(",")}
        if known & {headers["ETag"], "*"}:
            return Response(status_code=304, headers=headers)
        packing = {"Content-Encoding": "gzip"} if is_packed else {}
        return Response(content, media_type=self._media, headers=headers | packing)


def _accepts_gzip(accepted: str) -> bool:
    """Named, or meant by a star; and not refused with a weight of nothing."""
    weights = {}
    for each in accepted.split(","):
        name, _, parameters = each.partition(";")
        _, _, weight = parameters.replace(" ", "").lower().partition("q=")
        weights[name.strip().lower()] = weight.strip("0.") != "" or not weight
    return weights.get("gzip", weights.get("*", False))


_FREQUENT = ("/v1/recall", *(f"/v1/sessions/{{session_id}}/{each}" for each in ("context", "messages", "turns")))
_PAGE_MEDIA = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_PAGE_RULES = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}


def create_app(memory: Limpet, *, host: str, user: str, mcp: McpHttpApp | None = None) -> tuple[ASGIApp, Service]:
    """For a server at ``host``. ``user`` is whose memory is meant where there are no keys and nobody is named."""
    rules, local, metrics = memory.config.server, is_local(host), Metrics()
    authenticator = Authenticator(memory, user=user, is_local=local, per_minute=rules.requests_per_minute)
    # The middleware has checked the hosts.
    service = Service(
        memory, authenticator, metrics, mcp or create_http_app(allow_purge=memory.config.mcp.purge, hosts=None)
    )
    listed = list_routes()
    routes: list[BaseRoute] = [
        *_build_routes(service, listed),
        StarletteRoute("/openapi.json", _describe_api(service, listed), methods=["GET"]),
        StarletteRoute("/", _file, methods=["GET"]),
        StarletteRoute("/ui/{name}", _file, methods=["GET"]),
        StarletteRoute("/mcp", _McpEndpoint(service)),
    ]

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        stop = memory.admin.observe(metrics.observe_call)
        try:
            async with service.mcp.lifespan():
                yield
        finally:
            service.stop()
            service.close()
            stop()

    # No more of the framework than that: the middleware answers what goes wrong.
    app = Router(routes, redirect_slashes=False, lifespan=lifespan)
    named = [name.strip() for name in rules.hosts.split(",") if name.strip() not in ("", "none")]
    hosts = [*LOCAL_NAMES, *named, *([] if host in ("0.0.0.0", "::") else [host])]  # noqa: S104 - compared, not bound
    return RequestMiddleware(
        app, hosts=hosts, max_body=rules.max_body_bytes, max_import=rules.max_import_bytes, metrics=metrics
    ), service


class _McpEndpoint:
    """Who calls is settled here, as for any request; ``?user=`` says whose memory, where a key leaves that open."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        scope["state"][TOOL_CONTEXT] = await self._service.tool_context(
            request.headers, request.query_params.get("user"), scope
        )
        given = limit_receive_time(receive, self._service.body_seconds) if scope["method"] == "POST" else receive
        await self._service.mcp(scope, given, send)


def _build_routes(service: Service, listed: list[Route]) -> Iterator[StarletteRoute]:
    """One for each path, so that a method it does not have is answered with those it has."""
    by_path: dict[str, dict[str, Route]] = {}
    for each in listed:
        by_path.setdefault(each.form.path, {})[each.form.method] = each
    for path in sorted(by_path, key=_rank_path):
        methods = by_path[path]
        made = StarletteRoute(_pattern(path, methods), service.make_endpoint(methods), methods=list(methods))
        made.path = path  # as metrics and logs name it
        yield made


def _rank_path(path: str) -> tuple[bool, list[tuple[bool, str]]]:
    """Paths are tried in turn: those asked for most come first, and /v1/records/count before /v1/records/{id}."""
    return path not in _FREQUENT, [(part.startswith("{"), part) for part in path.split("/")]


def _pattern(path: str, methods: Mapping[str, Route]) -> str:
    """An id has its form. A name at the end of a path may contain slashes."""
    for key, argument in next(iter(methods.values())).form.in_path.items():
        if argument.holds(Uuid):
            path = path.replace(f"{{{key}}}", f"{{{key}:id}}")
        elif argument.holds(ForeignId):
            path = path.replace(f"{{{key}}}", f"{{{key}:foreign_id}}")
        elif path.endswith(f"{{{key}}}"):
            path = path.replace(f"{{{key}}}", f"{{{key}:path}}")
    return path


class _IdConvertor(Convertor[str]):
    """So that /v1/records/count is not taken for a record."""

    regex = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _ForeignIdConvertor(_IdConvertor):
    regex = FOREIGN_ID


register_url_convertor("id", _IdConvertor())
register_url_convertor("foreign_id", _ForeignIdConvertor())


def _describe_api(service: Service, listed: list[Route]) -> Callable[[Request], Awaitable[Response]]:
    @cache
    def build(*, keyed: bool) -> StaticFile:
        return StaticFile(json_bytes(build_openapi(listed, keyed=keyed)), JSON)

    async def endpoint(request: Request) -> Response:
        file = await service.run(lambda: build(keyed=service.authenticator.needs_key))
        return file.respond(request.headers)

    return endpoint


async def _file(request: Request) -> Response:
    found = _page_files().get(request.path_params.get("name", "index.html"))
    if found is None:
        raise Problem(404, "not_found", "there is no such page")
    return found.respond(request.headers)


@cache
def _page_files() -> dict[str, StaticFile]:
    listed = [(each, each.name.rpartition(".")[2]) for each in (files("limpet.server") / "ui").iterdir()]
    return {
        each.name: StaticFile(each.read_bytes(), _PAGE_MEDIA[kind], _PAGE_RULES)
        for each, kind in listed
        if kind in _PAGE_MEDIA
    }
