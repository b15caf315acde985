"""A server without keys and a browser on one machine: no page of somebody else reaches it, under whatever name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")

from limpet import Config, Limpet
from limpet.server.custom_routes import list_routes
from tests.contract.rows import every_row
from tests.http_client import Asked, asked

ID = "01a1e486-a22b-790e-aef2-82054abcee35"
# Names that an attacker has pointed to this machine, and odd ways to write the right ones.
REBOUND = [
    *(
        "evil.example",
        "evil.example:8420",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8420",
        "127.0.0.1@evil.example",
    ),
    *(
        "localhost.",
        "0.0.0.0:8420",
        "2130706433",
        "0x7f.1",
        "169.254.169.254",
        "[::2]",
        "[::ffff:7f00:1]",
        "127.0.0.1 evil",
    ),
]
ORIGINS = ["https://evil.example", "null", "", "http://localhost:3000", "http://127.0.0.1.evil.example:8420", "file://"]
SIMPLE = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None]


@pytest.fixture
def memory() -> Iterator[Limpet]:
    config = Config.load(overrides={"embedding.model": "none", "jobs.worker": False, "audit.enabled": False})
    with Limpet.open(":memory:", config=config) as opened:
        opened.remember("Alice keeps bees", user="me")
        yield opened


@pytest.fixture
def ask(memory: Limpet) -> Iterator[Asked]:
    with asked(memory) as opened:
        yield opened


def addresses() -> list[tuple[str, str]]:
    routes = [(each.form.method, re.sub(r"\{[^}]*\}", ID, each.form.path)) for each in list_routes()]
    return [*routes, ("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp")]


def test_every_route_refuses_names_that_were_rebound_to_this_machine(ask: Asked, memory: Limpet) -> None:
    before = every_row(memory)
    for method, path in [*addresses(), ("GET", "/"), ("GET", "/openapi.json"), ("GET", "/ui/index.html")]:
        for host in REBOUND:
            page = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
            answer = ask(method, path, {}, headers=page)
            assert (answer.status_code, host) == (421, host), f"{method} {path}"
            assert "bees" not in answer.text
    assert every_row(memory) == before


def test_every_route_refuses_requests_of_foreign_pages(ask: Asked, memory: Limpet) -> None:
    before = every_row(memory)
    for method, path in addresses():
        for origin in ORIGINS:
            answer = ask(method, path, {}, headers={"origin": origin})
            assert (answer.status_code, origin) == (403, origin), f"{method} {path}"
        if path != "/health":
            for site in ("cross-site", "same-site"):  # without an Origin: a picture, a script, a link
                assert ask(method, path, {}, headers={"sec-fetch-site": site}).status_code == 403, f"{method} {path}"
        assert "access-control-allow-origin" not in ask("OPTIONS", path, headers={"origin": ORIGINS[0]}).headers
    assert every_row(memory) == before


def test_forms_that_browsers_send_without_asking_change_nothing(ask: Asked, memory: Limpet) -> None:
    """As from a browser so old that it says neither where it comes from nor that it is one."""
    before = every_row(memory)
    for method, path in addresses():
        if method == "POST":
            for kind in SIMPLE:
                headers = {"content-type": kind} if kind else {}
                body = b'{"content": "forged", "user": "me", "channel": "x", "chat": "1"}'
                assert ask(method, path, content=body, headers=headers).status_code >= 400, f"{path} as {kind}"
    assert every_row(memory) == before


def test_page_of_the_server_itself_may_not_change_the_whole_store(ask: Asked, memory: Limpet) -> None:
    page = {"origin": "http://127.0.0.1:8420", "sec-fetch-site": "same-origin"}
    assert ask("GET", "/v1/records", headers=page).status_code == 200
    for method, path in (("GET", "/v1/export"), ("POST", "/v1/doctor"), ("GET", "/v1/audit"), ("POST", "/v1/jobs/run")):
        assert ask(method, path, {} if method == "POST" else None, headers=page).status_code == 401, path
