"""``limpet serve`` as a process: how it starts, what it streams and logs, and how it ends."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

pytest.importorskip("starlette")

from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from limpet import Config, Limpet
from limpet.cli.main import main
from limpet.server.auth import is_local
from tests.server_process import Server

pytestmark = pytest.mark.slow

PLAIN = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})
SECRET = "the-launch-code-is-0000"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def opened(data: Path) -> Limpet:
    return Limpet.open(data, config=PLAIN)


def asked(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    place = urlsplit(url)
    with closing(http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)) as connection:
        heads = headers if body is None else {**headers, "content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), heads)
        with connection.getresponse() as answer:
            said = answer.read()
        return answer.status, json.loads(said) if said else None


class Listening:
    """One reader of live events: each as its id, kind, and what it tells."""

    def __init__(self, url: str, path: str = "/v1/events", **headers: str) -> None:
        place = urlsplit(url)
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        self._connection.request("GET", path, headers={name.replace("_", "-"): each for name, each in headers.items()})
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        if self.status == 200:
            assert self._answer.readline() == b"retry: 2000\n"

    def next(self) -> tuple[str, str, Any]:
        found: dict[str, str] = {}
        while True:
            line = self._answer.readline()
            assert line, "the stream ended"
            name, colon, value = line.decode().rstrip("\n").partition(": ")
            if colon:
                found[name] = value
            elif found:
                return found.get("id", ""), found["event"], json.loads(found["data"])

    def rest(self) -> bytes:
        """What comes until the stream ends."""
        return self._answer.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()
        self._connection.close()


def until(true: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


class Keyed(NamedTuple):
    server: Server
    data: Path
    secret: str  # alice's
    log: Path


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    folder = tmp_path_factory.mktemp("keyed")
    data, log = folder / "data", folder / "log"
    with opened(data) as memory:
        secret = memory.access.keys.create("laptop", user="alice").secret
        memory.remember("Bob keeps a walrus", user="bob")
    with Server(data, "--log-format", "json", "--log-level", "info", log=log) as server:
        yield Keyed(server, data, secret, log)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared") / "data"


@pytest.fixture(scope="module")
def shared(place: Path) -> Iterator[Server]:
    with Server(place, env={"LIMPET_SERVER_STREAMS": "3"}) as server:
        yield server


def test_event_stream_shows_changes_of_other_process_and_resumes(shared: Server, place: Path) -> None:
    with opened(place) as memory:
        memory.remember("long known", user="kim")
        time.sleep(0.01)
        with Listening(shared.url, "/v1/events?user=kim") as listening:
            memory.remember("told to bob", user="bob")
            first = memory.remember("first", user="kim")
            last, kind, told = listening.next()
            assert (kind, told["id"], told["content"]) == ("record", first.id, "first")
            chat = memory.session("web", "k", user="kim")
            chat.append("user", "hello")
            _, kind, told = listening.next()
            if told["message_count"] == 0:  # the server happened to look between the two calls
                _, kind, told = listening.next()
            assert (kind, told["user"], told["message_count"]) == ("session", "kim", 1)
            memory.forget(first.id)
            assert listening.next() == ("", "gone", {"kind": "record", "id": first.id})
        with Listening(shared.url, "/v1/events?user=kim", last_event_id=last) as resumed:
            kinds = [resumed.next()[1:] for _ in range(2)]  # it reaches back a little: what was told may come again
            assert ("session", told) in kinds


def test_event_stream_readers_are_limited_and_slots_released(shared: Server) -> None:
    def taken() -> list[int]:
        with ThreadPoolExecutor(12) as threads:
            readers = list(threads.map(lambda _: Listening(shared.url), range(12)))
        for each in readers:
            each.__exit__()
        return sorted(each.status for each in readers)

    for _ in range(2):
        until(lambda: taken() == [*[200] * 3, *[503] * 9])


def test_event_stream_ends_when_api_key_is_revoked(keyed: Keyed) -> None:
    with opened(keyed.data) as memory:
        secret = memory.access.keys.create("stolen", user="ann").secret
        with Listening(keyed.server.url, authorization=f"Bearer {secret}") as listening:
            memory.remember("one", user="ann")
            assert listening.next()[2]["content"] == "one"
            memory.access.keys.revoke("stolen")
            memory.remember("two", user="ann")
            assert b"two" not in listening.rest()


def test_serve_shutdown_finishes_requests_and_keeps_acknowledged_writes(data: Path) -> None:
    kept: list[str] = []
    stopping = threading.Event()
    with Server(data) as server, ThreadPoolExecutor(50) as threads, Listening(server.url) as listening:
        _, session = asked(server.url, "POST", "/v1/sessions", {"channel": "web", "chat": "1"})

        def write(number: int) -> None:
            place = urlsplit(server.url)
            path, heads = f"/v1/sessions/{session['id']}/messages", {"Content-Type": "application/json"}
            with closing(http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)) as connection:
                for count in range(10_000):
                    text = f"{number}/{count}"
                    try:
                        connection.request("POST", path, json.dumps({"role": "user", "content": text}), heads)
                        with connection.getresponse() as answer:
                            answer.read()
                    except (OSError, http.client.HTTPException):
                        assert stopping.is_set()
                        return
                    assert answer.status == 201
                    kept.append(text)

        writing = [threads.submit(write, number) for number in range(50)]
        until(lambda: len(kept) > 100)
        stopping.set()
        assert server.stop(60) == 0
        listening.rest()  # which ended, too
        for each in writing:
            each.result()
    with opened(data) as memory:
        found = [message.text for message in memory.load_session(session["id"]).messages()]
    assert len(found) == len(set(found))
    assert set(kept) <= set(found)


def test_two_servers_share_one_store(shared: Server, place: Path) -> None:
    one = shared
    with Server(place) as two, ThreadPoolExecutor(8) as threads:
        _, session = asked(one.url, "POST", "/v1/sessions", {"channel": "web", "chat": "two"})

        def write(number: int) -> int:
            url = (one, two)[number % 2].url
            path = f"/v1/sessions/{session['id']}/messages"
            status, made = asked(url, "POST", path, {"role": "user", "content": f"{number}"})
            assert status == 201
            return int(made["sequence"])

        assert sorted(threads.map(write, range(40))) == list(range(1, 41))
        assert asked(one.url, "GET", f"/v1/sessions/{session['id']}")[1]["message_count"] == 40


def learned(server: Server) -> None:
    body = {"channel": "web", "chat": "1", "user": "ann"}
    _, session = asked(server.url, "POST", "/v1/sessions", body)
    turn = {"content": "My name is Ann and I live in Ghent.", "reply": "Noted."}
    assert asked(server.url, "POST", f"/v1/sessions/{session['id']}/turns", turn)[0] == 201


def test_serve_worker_runs_background_jobs(shared: Server) -> None:
    learned(shared)

    def known() -> bool:
        found = asked(shared.url, "GET", "/v1/records?user=ann&layer=semantic")[1]["items"]
        return any("Ghent" in each["content"] for each in found)

    until(known)


def test_serve_no_worker_leaves_background_jobs(data: Path) -> None:
    with opened(data) as memory, Server(data, "--no-worker") as server:
        learned(server)
        assert [job.kind for job in memory.jobs.list() if job.kind == "extract"] == ["extract"]
        time.sleep(1)  # much longer than the worker of the test before takes
        assert [job.kind for job in memory.jobs.list() if job.kind == "extract"] == ["extract"]
        assert asked(server.url, "GET", "/v1/records?user=ann&layer=semantic")[1]["items"] == []
        server.process.send_signal(signal.SIGINT)  # Ctrl-C ends it as well
        assert server.process.wait(60) in (0, 130)


def test_request_log_is_json_without_user_text(keyed: Keyed) -> None:
    url, secret, before = keyed.server.url, keyed.secret, len(keyed.log.read_text())
    heads = {"authorization": f"Bearer {secret}", "x-request-id": "mine-7"}
    assert asked(url, "POST", "/v1/records", {"content": SECRET, "tags": [SECRET]}, **heads)[0] == 201
    assert asked(url, "GET", f"/v1/recall?query={SECRET}", **heads)[0] == 200
    assert asked(url, "GET", f"/v1/{SECRET}", **heads)[0] == 404
    assert asked(url, "POST", "/v1/records", {"content": "x", SECRET: SECRET}, **heads)[0] == 422
    assert asked(url, "GET", "/v1/sessions", authorization=f"Bearer {secret}x")[0] == 401
    assert sent(url, b"no HTTP at all\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    until(lambda: keyed.log.read_text()[before:].count('"event": "request"') >= 5)
    written = keyed.log.read_text()[before:]
    assert SECRET not in written
    assert secret[3:] not in written
    assert "query=" not in written
    lines = [json.loads(line) for line in written.splitlines()]
    requests = [each for each in lines if each["event"] == "request"]
    shown = [(each["method"], each["route"], each["status"], each["caller"]) for each in requests]
    assert shown == [
        ("POST", "/v1/records", 201, "key:laptop"),
        ("GET", "/v1/recall", 200, "key:laptop"),
        ("GET", "other", 404, None),
        ("POST", "/v1/records", 422, "key:laptop"),
        ("GET", "/v1/sessions", 401, None),
    ]
    assert all(0 < each["milliseconds"] < 10_000 for each in requests)
    assert [each["request_id"] for each in requests[:4]] == ["mine-7"] * 4
    assert re.fullmatch("[0-9a-f]{16}", requests[4]["request_id"])


def sent(url: str, *pieces: bytes) -> bytes:
    """What comes back until the server closes."""
    place = urlsplit(url)
    connection = socket.create_connection((place.hostname or "", place.port or 0), timeout=60)
    with connection, connection.makefile("rb") as answer, suppress(ConnectionError):
        for piece in pieces:
            connection.sendall(piece)
        return answer.read()
    return b""


def test_request_with_endless_headers_is_cut_off(shared: Server) -> None:
    endless = [b"x" * 2**16] * 2000  # 125 MB
    for head in (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ", b"GET /health?"):
        answer = sent(shared.url, head, *endless)
        assert answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 ")) or not answer  # cut off before it was read
    assert asked(shared.url, "GET", "/health")[0] == 200
    body = json.dumps({"query": "x " * 100_000, "user": "me"}).encode()
    heads = "Host: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    fine = sent(
        shared.url,
        f"POST /v1/recall HTTP/1.1\r\n{heads}Content-Length: {len(body)}\r\n\r\n".encode(),
        body[:100],
        body[100:],
    )
    assert fine.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 422 "))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that it says."""
    capsys.readouterr()
    assert main(["serve", *arguments]) == 1
    out, error = capsys.readouterr()
    assert not out
    (line,) = error.splitlines()
    return line


def test_serve_on_public_address_requires_api_key(data: Path, capsys) -> None:
    assert "api-keys create" in refused(capsys, "--data", str(data), "--host", "0.0.0.0", "--port", "0")


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_is_local_accepts_loopback_addresses_only(host: str, local: bool) -> None:
    assert is_local(host) == local


def test_serve_reports_port_in_use(data: Path, capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"127.0.0.1:{port}" in refused(capsys, "--data", str(data), "--port", port)


def test_serve_rejects_invalid_port(data: Path, capsys) -> None:
    assert "a port is a number from 0 to 65535" in refused(capsys, "--data", str(data), "--port", "65536")


def test_serve_includes_mcp(keyed: Keyed) -> None:
    server, secret = keyed.server, keyed.secret

    async def run() -> None:
        http_client = httpx2.AsyncClient(headers={"authorization": f"Bearer {secret}"}, timeout=60)
        async with http_client, Client(streamable_http_client(f"{server.url}/mcp", http_client=http_client)) as client:
            assert "memory_save" in {tool.name for tool in (await client.list_tools()).tools}
            await client.call_tool("memory_save", {"content": "Alice keeps bees"})
            found = await client.call_tool("memory_search", {"query": "Who keeps bees?"})
            assert "Alice keeps bees" in str(found.structured_content)
            others = await client.call_tool("memory_search", {"query": "Who keeps a walrus?"})
            assert "walrus" not in str(others.structured_content).lower()

    anyio.run(run)
    heads = {"authorization": f"Bearer {secret}"}
    found = asked(server.url, "GET", "/v1/recall?query=bees", **heads)[1]["hits"]
    assert found[0]["text"] == "Alice keeps bees"


def test_mcp_api_key_cannot_act_for_other_user(keyed: Keyed) -> None:
    server, secret = keyed.server, keyed.secret
    answers: list[Any] = []

    async def run() -> None:
        http_client = httpx2.AsyncClient(headers={"authorization": f"Bearer {secret}"}, timeout=60)
        url = f"{server.url}/mcp?user=bob"
        async with http_client, Client(streamable_http_client(url, http_client=http_client)) as client:
            for tool, given in (("memory_search", {"query": "walrus"}), ("memory_save", {"content": "alice was here"})):
                answers.append(await client.call_tool(tool, given))

    anyio.run(run)
    assert [each.is_error for each in answers] == [True, True]
    assert all("Bob keeps" not in str(each) for each in answers)
    assert asked(server.url, "POST", "/mcp", {})[0] == 401


def test_slow_request_is_cut_off(data: Path) -> None:
    """Before the first byte, within the headers, after an answer, and within a body, answered already or not.

    And whoever takes nothing of an answer.
    """
    asks, tells = (f"{what} HTTP/1.1\r\nhost: localhost\r\n".encode() for what in ("GET /health", "POST /v1/records"))
    begun = {
        "nothing": (b"", b""),
        "headers": (asks, b"x"),
        "another": (asks + b"\r\n", b"\r\n"),  # an empty line, which begins no request
        "late": (asks + b"content-length: 99\r\n\r\n", b"x"),
        "body": (tells + b"content-length: 99\r\n\r\n", b"x"),
    }
    env = {f"LIMPET_SERVER_{what}_SECONDS": "1" for what in ("HEADER", "BODY", "ANSWER")}
    with Server(data, env=env) as server, ThreadPoolExecutor(len(begun) + 1) as threads:
        place = urlsplit(server.url)

        def trickled(first: bytes, more: bytes) -> tuple[bytes, float]:
            with closing(socket.create_connection((place.hostname, place.port), timeout=0.1)) as connection:
                began, heard = time.monotonic(), b""
                connection.sendall(first)
                with suppress(ConnectionError):
                    while time.monotonic() < began + 60:
                        with suppress(TimeoutError):
                            if not (piece := connection.recv(4096)):
                                break
                            heard += piece
                            continue
                        connection.sendall(more)
                return heard, time.monotonic() - began

        def untaken() -> None:
            with closing(socket.create_connection((place.hostname, place.port), timeout=60)) as connection:
                # The answers are 40 MB, more than the system keeps for anybody.
                connection.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 200)
                with pytest.raises(ConnectionError):
                    until(lambda: connection.sendall(b"\r\n"))

        late = threads.submit(untaken)
        found = {name: threads.submit(trickled, *each) for name, each in begun.items()}
        heard = {name: each.result() for name, each in found.items()}
        late.result()
        assert asked(server.url, "GET", "/health")[0] == 200
    assert {name: said[9:12] for name, (said, _) in heard.items()} == {
        "nothing": b"",
        "headers": b"408",
        "another": b"200",
        "late": b"200",
        "body": b"400",
    }
    assert b'"code":"too_slow"' in heard["body"][0]
    assert max(seconds for _, seconds in heard.values()) < 50  # else they ended by themselves
