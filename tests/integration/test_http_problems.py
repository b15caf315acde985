"""What is refused over HTTP, and how: problem details that tell what to do and quote nobody."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

pytest.importorskip("starlette")

from limpet import Config, Limpet, errors
from limpet.errors import LimpetError, StoreBusy
from limpet.server.payload import problem_from_error
from tests.http_client import Asked, asked

PLAIN = {"embedding.model": "none", "jobs.worker": False, "server.max_body_bytes": 4096}
NOWHERE = "00000000-0000-7000-8000-000000000000"
SECRET = "the-launch-code-is-0000"
TYPED = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def memory() -> Iterator[Limpet]:
    with Limpet.open(":memory:", config=Config.load(overrides=PLAIN)) as opened:
        yield opened


@pytest.fixture(scope="module")
def ask(memory: Limpet) -> Iterator[Asked]:
    with asked(memory) as opened:
        yield opened


@pytest.fixture(scope="module")
def session(ask: Asked) -> str:
    return str(ask.post("/v1/sessions", channel="web", chat="1", user="me")["id"])


def family(kind: type[LimpetError] = LimpetError) -> Iterator[type[LimpetError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from family(each)


EXPECTED = {
    "InvalidInput": 422,
    "WrongState": 409,
    "IdempotencyConflict": 409,
    "NotFound": 404,
    "SessionNotFound": 404,
    "SequenceConflict": 409,
    "LeaseLost": 409,
    "PermissionDenied": 403,
    "Unauthenticated": 401,
    "Unsupported": 409,
    "ProviderError": 502,
    "StoreBusy": 503,
    "OutcomeUnknown": 503,
    "StoreFull": 507,
    "DecryptionFailed": 500,
    "ConstraintFailed": 409,
    "LimpetError": 500,
}


@pytest.mark.parametrize("kind", [each for each in family() if each.__module__ == errors.__name__])
def test_every_error_maps_to_http_status(kind: type[LimpetError]) -> None:
    found = problem_from_error(kind("say what to do"))
    body = found.body("r1")
    assert 400 <= found.status < 600
    assert found.status == EXPECTED.get(kind.__name__, found.status)
    assert (body["code"], body["status"], body["detail"]) == (kind.code, found.status, "say what to do")
    assert ("WWW-Authenticate" in found.headers) == (found.status == 401)
    assert ("Retry-After" in found.headers) == (found.status == 503)


def test_storage_error_is_returned_as_problem_details(ask: Asked, memory: Limpet, session: str, monkeypatch):
    def full(*_: Any, **__: Any) -> Any:
        raise errors.StoreFull("no space left; free some")

    monkeypatch.setattr(type(memory._runtime.store), "write", full)
    answer = ask("POST", "/v1/records", {"content": "x"})
    assert (answer.status_code, answer.json()["code"]) == (507, "store_full")
    assert answer.headers["content-type"] == "application/problem+json"


def test_internal_error_hides_exception_text(ask: Asked, monkeypatch, caplog) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(Limpet, "recall", broken)
    answer = ask("GET", "/v1/recall", params={"query": "x"}, headers={"x-request-id": "mine-1"})
    body = answer.json()
    assert (answer.status_code, body["code"], body["request_id"]) == (500, "internal_error", "mine-1")
    assert answer.headers["x-request-id"] == "mine-1"
    assert SECRET not in answer.text + caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("reply", (None, "Fine."))
def test_turn_that_was_not_stored_is_an_error(ask: Asked, session: str, monkeypatch, reply: str | None) -> None:
    from limpet.api import turn

    def busy(*_: Any) -> Any:
        raise StoreBusy("another process writes")

    monkeypatch.setattr(turn, "store_messages", busy)
    answer = ask("POST", f"/v1/sessions/{session}/turns", {"content": "How are you?", "reply": reply})
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert ask.get(f"/v1/sessions/{session}/messages")["items"] == []


@pytest.mark.parametrize(
    "path", ("/v1/nothing", "/v1/sessions/", "/v1", "/v1/sessions/x/y/z", "/ui/../app.py", "/ui/x")
)
def test_unknown_path_is_404(ask: Asked, path: str) -> None:
    answer = ask("GET", path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/sessions", "GET HEAD POST"),
        ("POST", f"/v1/sessions/{NOWHERE}", "DELETE GET HEAD"),
        ("DELETE", "/v1/notes", "GET HEAD POST PUT"),
        ("OPTIONS", "/v1/records", "GET HEAD POST"),
        ("POST", "/health", "GET HEAD"),
        ("POST", "/", "GET HEAD"),
    ],
)
def test_wrong_method_is_405_with_allow_header(ask: Asked, method: str, path: str, allowed: str) -> None:
    answer = ask(method, path)
    assert (answer.status_code, answer.json()["code"]) == (405, "wrong_method")
    assert sorted(each.strip() for each in answer.headers["allow"].split(",")) == allowed.split()


def test_head_is_supported_like_get(ask: Asked) -> None:
    for path in ("/v1/sessions", "/health", "/", "/openapi.json", "/v1/events", "/metrics"):
        assert ask("HEAD", path).status_code == 200, path
    assert ask("HEAD", "/v1/events").headers["content-type"].startswith("text/event-stream")
    assert ask.service.streams == 0


DEEP = b'{"content": "x", "metadata": ' + b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"}"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"[]", 422),
        (b"null", 422),
        (b'"x"', 422),
        (b'{"content": "x"} {}', 400),
        (b'{"content": "\xff"}', 400),
        (b'{"content": "\\ud800"}', 400),
        (b'{"content": "a\\u0000b"}', 422),
        (b'{"content": "x", "nobody_knows": 1}', 422),
        (b'{"content": 7}', 422),
        (b'{"content": "x", "confidence": NaN}', 422),
        (b'{"content": "x", "confidence": 1e999}', 422),
        (b'{"content": "x", "confidence": "0.5"}', 422),
        (b'{"content": "x", "pinned": 1}', 422),
        (b'{"content": "x", "tags": ["a\\u0000"]}', 422),
        (b'{"content": "x", "user": "a", "scope": "global"}', 422),
        (b'{"content": "x", "user": " a"}', 422),
        (DEEP[:4096], 400),
        (b"\x00", 400),
        ('{"content": "x"}'.encode("utf-16"), 400),
    ],
)
def test_invalid_body_is_rejected(ask: Asked, memory: Limpet, body: bytes, status: int) -> None:
    before = memory.records.count()
    answer = ask("POST", "/v1/records", content=body, headers=TYPED)
    assert answer.status_code == status, answer.text
    assert answer.json()["code"] in ("invalid_json", "invalid_input")
    assert memory.records.count() == before
    assert ask.get("/health")["status"] == "ok"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/recall?query=a&query=b", 422),
        ("/v1/recall", 422),
        ("/v1/recall?query=%ff", 400),
        ("/v1/recall?query=%00", 422),
        ("/v1/recall?query=x&nobody_knows=1", 422),
        ("/v1/recall?query=x&k=1.0", 422),
        ("/v1/recall?query=x&k=0", 422),
        ("/v1/recall?query=x&k=%D9%A1", 422),
        ("/v1/records?history=yes", 422),
        ("/v1/records?since=yesterday", 422),
        ("/v1/records?since=0001-01-01T00:00:00%2B23:59", 422),
        ("/v1/records?layer=none", 422),
        ("/v1/sessions?limit=0", 422),
        ("/v1/sessions?limit=1001", 422),
        ("/v1/sessions?cursor=nonsense", 422),
        (f"/v1/sessions?cursor=9999999999999999.{NOWHERE}", 200),
        ("/v1/purge?cursor=-1", 422),
        ("/health?x=1", 422),
        ("/v1/records/not-an-id", 404),
        (f"/v1/records/{NOWHERE}", 404),
        (f"/v1/sessions/{NOWHERE}/messages?after=-1", 422),
        ("/v1/events?user=%00", 422),
    ],
)
def test_invalid_query_is_rejected(ask: Asked, path: str, status: int) -> None:
    assert ask("GET", path).status_code == status


@pytest.mark.parametrize("last", ("x", "-1", "-62135596800000000", "9" * 30, "", "\u0661"))
def test_invalid_last_event_id_is_rejected_before_stream_starts(ask: Asked, last: str) -> None:
    assert ask("GET", "/v1/events", headers={"last-event-id": last.encode()}).status_code == 422


def test_validation_error_does_not_echo_input(ask: Asked) -> None:
    for path, body in (
        ("/v1/purge/older", {"days": SECRET, "user": "a"}),
        ("/v1/records", {"content": "x", "type": SECRET}),
        ("/v1/records", {"content": "x", "confidence": SECRET}),
        ("/v1/schedules", {"goal": "x", "cadence": f"{SECRET} {SECRET}"}),
        ("/v1/sessions", {"channel": "a\u0007" + SECRET, "chat": "x"}),
    ):
        answer = ask("POST", path, body)
        assert answer.status_code == 422
        assert SECRET not in answer.text
    assert ask.post("/v1/recall", 422, query="x", k=0)["detail"].endswith("from 1 to 1000, not the given number")


def test_wrong_media_type_is_rejected(ask: Asked) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = ask("POST", "/v1/records", content=b'{"content": "x"}', headers={"content-type": kind})
        assert (answer.status_code, answer.json()["code"]) == (415, "wrong_media_type")
    fine = ask(
        "POST", "/v1/records", content=b'{"content": "x"}', headers={"content-type": "Application/JSON; charset=utf-8"}
    )
    assert fine.status_code == 201
    packed = ask("POST", "/v1/records", content=b'{"content": "x"}', headers={**TYPED, "content-encoding": "gzip"})
    assert (packed.status_code, packed.json()["code"]) == (415, "wrong_media_type")


@pytest.mark.parametrize("path", ("/v1/records", "/mcp", "/v1/sessions"))
def test_oversized_body_is_rejected_with_and_without_length(ask: Asked, path: str) -> None:
    async def pieces() -> Any:
        for _ in range(5):
            yield b"x" * 1000

    heads = {**TYPED, "accept": "application/json, text/event-stream"}
    for content in (b"x" * 5000, pieces()):
        answer = ask("POST", path, content=content, headers=heads)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8420", 200),
        ("127.0.0.1", 200),
        ("localhost:1", 200),
        ("LOCALHOST", 200),
        ("[::1]:8420", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example@127.0.0.1", 421),
        ("127.0.0.1:8420, evil.example", 421),
        ("[::2]", 421),
        ("", 421),
    ],
)
def test_host_header_must_name_this_server(ask: Asked, host: str, status: int) -> None:
    assert ask("GET", "/health", headers={"host": host}).status_code == status


@pytest.mark.parametrize("name", ("host", "origin", "authorization", "idempotency-key", "content-type"))
def test_duplicate_security_headers_are_rejected(ask: Asked, name: str) -> None:
    """Whoever stands before this server may have believed the other one."""
    app: Any = ask.app
    statuses: list[int] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    given = {"host": b"127.0.0.1", "origin": b"http://127.0.0.1"}
    headers = [(key.encode(), value) for key, value in given.items()] + [(name.encode(), b"other")] * 2
    scope = {"type": "http", "method": "GET", "path": "/health", "query_string": b"", "headers": headers}
    anyio.run(app, scope, receive, send)
    assert statuses[0] == 400


def test_hosts_setting_adds_allowed_host_names() -> None:
    config = Config.load(overrides={**PLAIN, "server.hosts": "memory.example.org, second.example"})
    with Limpet.open(":memory:", config=config) as memory, asked(memory) as ask:
        for host in ("memory.example.org", "Second.Example:443", "localhost"):
            assert ask("GET", "/health", headers={"host": host}).status_code == 200
        assert ask("GET", "/health", headers={"host": "third.example"}).status_code == 421


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8420", 200),
        ("https://127.0.0.1:8420", 200),
        ("http://127.0.0.1:9999", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("", 403),
    ],
)
def test_other_origins_are_rejected(ask: Asked, origin: str, status: int) -> None:
    for method, path in (("GET", "/v1/sessions"), ("POST", "/v1/recall")):
        answer = ask(method, path, {"query": "x"} if method == "POST" else None, headers={"origin": origin})
        assert answer.status_code == status
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_responses_have_security_headers(ask: Asked) -> None:
    for path in ("/", "/v1/sessions", "/v1/nothing", "/health", "/openapi.json"):
        headers = ask("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] in ("no-store", "no-cache")
        assert headers["x-request-id"]
    for bad in ("a b", "x" * 200, "\u00e9"):
        assert ask("GET", "/health", headers={"x-request-id": bad.encode()}).headers["x-request-id"] != bad


async def plainly(ask: Asked, method: str, path: str, query: str = "") -> None:
    """Without a client that takes longer, and keeps more, than what is looked at."""
    heads = [(b"host", b"127.0.0.1"), (b"x-request-id", f"{path[-20:]}".encode())]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": heads}

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: Any) -> None:
        pass

    await ask.app(scope, receive, send)


def growth(work: Callable[[], None]) -> int:
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    work()
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - before


@pytest.mark.long
def test_server_memory_does_not_grow_with_requests(ask: Asked) -> None:
    def some(count: int) -> None:
        async def run() -> None:
            for number in range(count):
                await plainly(ask, "GET", f"/unknown/{number}")
                await plainly(ask, "GET", "/v1/sessions")
                await plainly(ask, "GET", "/v1/recall", f"query=word{number}")

        ask._portal.call(run)

    some(200)
    ask("GET", "/metrics")
    lines = len(ask("GET", "/metrics").text.splitlines())
    gc.collect()
    tracemalloc.start()
    try:
        some(50)
        grown = min(growth(lambda: some(400)) for _ in range(3))  # other threads may allocate meanwhile
    finally:
        tracemalloc.stop()
    told = ask("GET", "/metrics").text
    assert len(told.splitlines()) == lines  # unknown addresses are counted together
    assert 'route="other",status="404"' in told
    assert "unknown" not in told
    assert grown < 150_000


@pytest.mark.parametrize("path", ["/v1/purge/user", "/v1/purge/older"])
def test_purge_route_requires_the_name_as_confirmation(ask: Asked, path: str) -> None:
    body: dict[str, Any] = {"user": "me"} | ({"days": 1} if path.endswith("older") else {})
    ask.post("/v1/records", 201, content="The dog is called Biscuit", user="me")
    assert "confirm" in ask.post(path, 422, **body)["detail"]
    assert "confirm" in ask.post(path, 422, **body, confirm="you")["detail"]
    assert ask.get("/v1/records", user="me")["items"]
    ask.post(path, **body, confirm="me")
