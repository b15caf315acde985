"""The connection of ``Limpet.connect``: what it sends again, what it refuses, and when it gives up."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from limpet import errors
from limpet.api.remote import http
from limpet.api.remote.http import Address, Client, Request, find_error

GET = Request("GET", "/v1/records", is_repeatable=True)
POST = Request("POST", "/v1/records", b"{}", {"Content-Type": "application/json"})
KEYED = POST._replace(headers={**POST.headers, "Idempotency-Key": "k"}, is_repeatable=True)

Reaction = Callable[[BaseHTTPRequestHandler], None]


class FakeServer:
    """Answers each request with the next reaction; the last one stays."""

    def __init__(self, *reactions: Reaction) -> None:
        self.reactions = list(reactions)
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections: set[Any] = set()


@contextmanager
def serve(*reactions: Reaction, tls: ssl.SSLContext | None = None) -> Iterator[tuple[FakeServer, str]]:
    fake = FakeServer(*reactions)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fake.connections.add(self.client_address)
            fake.requests.append((self.command, self.path, dict(self.headers), body))
            react = fake.reactions.pop(0) if len(fake.reactions) > 1 else fake.reactions[0]
            react(self)

        do_GET = do_POST = handle_any  # noqa: N815 - the names that the base class calls

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield fake, f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def answer(status: int = 200, body: Any = None, **headers: str) -> Reaction:
    def react(handler: BaseHTTPRequestHandler) -> None:
        data = json.dumps(body if body is not None else {"ok": True}).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return react


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def drip(handler: BaseHTTPRequestHandler) -> None:
    """One byte now and then: each comes in time, the answer never."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    try:
        for _ in range(1000):
            handler.wfile.write(b" ")
            time.sleep(0.05)
    except OSError:
        handler.close_connection = True


@contextmanager
def connected(url: str, key: str | None = "lim_secret", timeout: float = 60) -> Iterator[Client]:
    client = Client(Address.parse(url), key, timeout)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_FIRST_PAUSE_S", 0.001)


def test_requests_share_a_connection_and_carry_the_key():
    with serve(answer()) as (fake, url), connected(url) as client:
        for _ in range(3):
            assert client.send(GET) == {"ok": True}
        assert len(fake.connections) == 1
        assert {headers["Authorization"] for _, _, headers, _ in fake.requests} == {"Bearer lim_secret"}


def test_a_prefix_of_the_address_stands_before_every_path():
    with serve(answer()) as (fake, url), connected(f"{url}/memory/") as client:
        client.send(GET)
        assert fake.requests[0][1] == "/memory/v1/records"


def test_a_connection_that_the_server_closed_is_not_used_again():
    closed = threading.Semaphore(0)

    def close_after(handler: BaseHTTPRequestHandler) -> None:
        answer()(handler)
        handler.wfile.flush()
        hang_up(handler)
        closed.release()

    with serve(close_after) as (fake, url), connected(url) as client:
        client.send(POST)
        assert closed.acquire(timeout=60)
        client.send(POST)
        assert len(fake.requests) == 2


@pytest.mark.parametrize("request_", [GET, KEYED], ids=["get", "idempotency key"])
@pytest.mark.parametrize("reaction", [hang_up, answer(503, Retry_After="0"), answer(429, Retry_After="0")])
def test_what_is_safe_to_repeat_is_repeated(request_: Request, reaction: Reaction):
    with serve(reaction, reaction, answer()) as (fake, url), connected(url) as client:
        assert client.send(request_) == {"ok": True}
        assert len(fake.requests) == 3


def test_what_is_not_safe_to_repeat_is_sent_once_and_its_outcome_is_unknown():
    with serve(hang_up, answer()) as (fake, url), connected(url) as client:
        with pytest.raises(errors.OutcomeUnknown, match="may have done what was asked"):
            client.send(POST)
        assert len(fake.requests) == 1


def test_a_busy_server_is_not_asked_again_for_what_is_not_safe_to_repeat():
    busy = answer(503, {"code": "store_busy", "detail": "somebody writes"}, Retry_After="0")
    with serve(busy, answer()) as (fake, url), connected(url) as client:
        with pytest.raises(errors.StoreBusy, match="somebody writes"):
            client.send(POST)
        assert len(fake.requests) == 1


def test_repeating_ends_after_a_few_attempts():
    with serve(hang_up) as (fake, url), connected(url) as client:
        with pytest.raises(errors.StoreUnavailable):
            client.send(GET)
        assert len(fake.requests) == 4


def test_a_wait_longer_than_the_time_limit_is_not_waited_for():
    with serve(answer(503, {"code": "overloaded", "detail": "too many"}, Retry_After="3600")) as (fake, url):
        with connected(url) as client, pytest.raises(errors.StoreBusy):
            client.send(GET)
        assert len(fake.requests) == 1


def test_an_answer_that_drips_ends_at_the_time_limit():
    late = pytest.raises(errors.StoreUnavailable, match=r"within 0\.3 seconds")
    with serve(drip) as (_, url), connected(url, timeout=0.3) as client, late:
        client.send(GET)


def test_an_answer_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http, "MAX_ANSWER_BYTES", 1 << 20)
    large = pytest.raises(errors.StorageError, match="more than 1 MB")
    with serve(answer(200, "x" * (2 << 20))) as (_, url), connected(url) as client, large:
        client.send(GET)


def test_an_answer_that_ends_too_early_is_an_error():
    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.close_connection = True

    broken = pytest.raises(errors.OutcomeUnknown, match="stopped in the middle")
    with serve(cut) as (_, url), connected(url) as client, broken:
        client.send(POST)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_refused_and_the_key_goes_nowhere_else(status: int):
    refused = pytest.raises(errors.StorageError, match=r"redirects to http://127\.0\.0\.1, which is not followed")
    with serve(answer()) as (elsewhere, other):
        moved = answer(status, Location=f"{other}/v1/records")
        with serve(moved) as (_, url), connected(url) as client, refused:
            client.send(GET)
        assert elsewhere.requests == []


def test_nobody_there_says_how_to_start_a_server():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        gone = pytest.raises(errors.StoreUnavailable, match=f"cannot reach {url}: .*; start it with limpet serve")
        with connected(url) as client, gone:
            client.send(POST)


def test_a_certificate_that_does_not_verify_is_refused(tmp_path: Path):
    tls = make_certificate(tmp_path)
    with serve(answer(), tls=tls) as (fake, url), connected(url) as client:
        with pytest.raises(errors.StoreUnavailable, match="certificate that does not verify"):
            client.send(GET)
        assert fake.requests == []


def test_https_works_with_a_certificate_that_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tls = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with serve(answer(), tls=tls) as (fake, url), connected(url) as client:
        assert [client.send(GET) for _ in range(2)] == [{"ok": True}] * 2
        assert len(fake.connections) == 1


def test_a_closed_client_refuses_as_a_closed_store_does():
    with serve(answer()) as (_, url):
        with connected(url) as client:
            client.send(GET)
        client.close()
        with pytest.raises(errors.StoreUnavailable, match="closed"):
            client.send(GET)


def test_many_threads_share_a_client():
    with serve(answer()) as (fake, url), connected(url) as client:
        threads = [threading.Thread(target=lambda: [client.send(GET) for _ in range(5)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(fake.requests) == 40
        assert len(fake.connections) <= 8


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8420", "ftp://host", "http://", "http://a b", "http://me:secret@host", "http://h/?a=1", "data", 5],
)
def test_what_is_not_an_address_is_refused_without_its_password(url: Any):
    with pytest.raises(errors.InvalidInput) as refused:
        Address.parse(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("key", ["", "two words", "line\r\nX-Header: 1", "schlüssel", 5])
def test_what_cannot_be_a_key_is_refused_without_showing_it(key: Any):
    with pytest.raises(errors.InvalidInput) as refused:
        Client(Address.parse("http://127.0.0.1:1"), key, 1)
    assert not key or str(key) not in str(refused.value)


@pytest.mark.parametrize("kind", [each for each in vars(errors).values() if hasattr(each, "code")])
def test_every_error_comes_back_as_itself(kind: type[errors.LimpetError]):
    found = find_error(500, json.dumps({"code": kind.code, "detail": "why"}).encode(), "http://here")
    assert type(found) is kind
    assert str(found).startswith("why")


def test_a_missing_grant_is_named():
    body = {"code": "permission_denied", "detail": "no", "missing": "read:global"}
    found = find_error(403, json.dumps(body).encode(), "http://here")
    assert isinstance(found, errors.PermissionDenied)
    assert found.missing == "read:global"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"detail": "x"}', b"[" * 100_000])
def test_what_is_not_limpet_is_asked_about(body: bytes):
    found = find_error(404, body, "http://here")
    assert isinstance(found, errors.StoreUnavailable)
    assert "http://here answered 404" in str(found)


def make_certificate(folder: Path) -> ssl.SSLContext:
    """A certificate that nobody vouches for but itself."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    where = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    try:
        subprocess.run([*command.split(), *where], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    return tls
