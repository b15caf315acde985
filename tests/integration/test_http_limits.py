"""A caller that means harm, or only takes too much: the server stays there for the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from time import process_time
from typing import Any

import pytest

pytest.importorskip("starlette")

from limpet import Config, Limpet
from limpet.errors import InvalidInput
from limpet.testing import FakeClock
from tests.http_client import Asked, asked

PLAIN = {"embedding.model": "none", "jobs.worker": False, "server.threads": 2, "server.streams": 8}


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[Limpet]:
    with Limpet.open(":memory:", config=Config.load(overrides=PLAIN), clock=clock) as opened:
        yield opened


@pytest.fixture
def ask(memory: Limpet) -> Iterator[Asked]:
    with asked(memory) as opened:
        yield opened


@pytest.mark.parametrize(
    "body",
    [
        {"channel": "t", "chat": "1", "metadata": {"a": ["\x00"] * 200_000}},
        {"channel": "t", "chat": "1", **{f"x{number}": 1 for number in range(100_000)}},
    ],
    ids=("many values", "many names"),
)
def test_request_with_many_errors_is_rejected_quickly(ask: Asked, body: dict[str, Any]) -> None:
    began = process_time()
    assert ask("POST", "/v1/sessions", body).status_code == 422
    assert process_time() - began < 5
    assert ask.get("/v1/sessions")["items"] == []


def test_unauthenticated_request_body_is_not_read(ask: Asked, memory: Limpet) -> None:
    memory.access.keys.create("one", user="alice")

    read = []

    class Body:
        async def __aiter__(self) -> Any:
            read.append("somebody read it")
            yield b"{}"

    length = {"content-length": str(8 * 2**20), "content-type": "application/json"}
    answer = ask("POST", "/v1/records", content=Body(), headers=length)
    assert answer.status_code == 401
    assert read == []


def test_one_api_key_cannot_occupy_all_threads(ask: Asked) -> None:
    hold, held = threading.Event(), threading.Semaphore(0)

    def wait() -> None:
        held.release()
        assert hold.wait(60)

    def run(lane: str, work: Any) -> Any:
        async def call() -> Any:
            return await ask.service.run(work, lane)

        return ask._portal.start_task_soon(call)

    waiting = [run("alice", wait) for _ in range(5)]
    assert held.acquire(timeout=60)
    assert run("bob", lambda: "answered").result(60) == "answered"
    assert not held.acquire(timeout=0.1)
    hold.set()
    for each in waiting:
        each.result(60)


def test_expired_api_key_does_not_reopen_server(ask: Asked, memory: Limpet, clock: FakeClock) -> None:
    made = memory.access.keys.create("short", user="alice", expires_in=timedelta(seconds=60))
    assert ask.keyed(made.secret)("GET", "/v1/records").status_code == 200
    clock.advance(seconds=61)
    assert ask("GET", "/v1/records").status_code == 401
    with pytest.raises(InvalidInput, match="revoke all of them first"):
        memory.access.keys.allow_anonymous()
    memory.access.keys.revoke(made.info.id)
    assert ask("GET", "/v1/records").status_code == 401
    memory.access.keys.allow_anonymous()
    assert ask("GET", "/v1/records").status_code == 200


def test_purge_of_the_last_key_holder_does_not_open_the_store(ask: Asked, memory: Limpet) -> None:
    memory.remember("Bob is looking for another job", user="bob")
    alice = ask.keyed(memory.access.keys.create("phone", user="alice").secret)
    assert alice("POST", "/v1/purge/user", {"user": "alice", "confirm": "alice"}).status_code == 200
    assert memory.access.keys(include_revoked=True) == []
    for path in ("/v1/recall?query=job&user=bob", "/v1/records", "/v1/export", "/v1/tools"):
        assert ask("GET", path).status_code == 401
    assert ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status_code == 401


def test_stored_keys_of_earlier_versions_are_required_after_the_last_one_is_gone(ask: Asked, memory: Limpet) -> None:
    """They have keys, and not the property."""
    for end in (
        lambda: memory.access.keys.revoke("phone"),
        lambda: memory.privacy.purge_user("alice"),
    ):
        memory.access.keys.create("phone", user="alice")
        memory._runtime.store.write(lambda tx: tx.db.run("api_keys.allow_anonymous", {}))
        end()
        assert ask("GET", "/v1/records").status_code == 401
        memory.access.keys.allow_anonymous()
        assert ask("GET", "/v1/records").status_code == 200


def test_restore_of_a_backup_without_keys_does_not_open_the_store(ask: Asked, memory: Limpet, tmp_path: Path) -> None:
    memory.admin.backup(tmp_path / "before.db")
    memory.access.keys.create("phone", user="alice")
    memory.admin.restore(tmp_path / "before.db", overwrite=True)
    assert memory.access.keys() == []
    assert ask("GET", "/v1/records").status_code == 401


@pytest.mark.parametrize("header", ["via", "x-forwarded-host", "x-client-ip", "cf-connecting-ip", "forwarded"])
def test_proxied_request_is_not_treated_as_local(ask: Asked, header: str) -> None:
    assert ask("GET", "/v1/records", headers={header: "anything"}).status_code == 401


def test_cross_site_browser_request_is_rejected(ask: Asked) -> None:
    for path in ("/v1/export", "/metrics", "/mcp"):
        assert ask("GET", path, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert ask("GET", "/", headers={"sec-fetch-site": "cross-site"}).status_code == 200
    assert ask("GET", "/v1/records", headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_mcp_sessions_per_caller_are_limited(ask: Asked, memory: Limpet) -> None:
    keys = [ask.keyed(memory.access.keys.create(name, user=name).secret) for name in ("alice", "bob")]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    accepts = {"accept": "application/json, text/event-stream"}

    def begin(who: Asked) -> str:
        answer = who("POST", "/mcp", hello, headers=accepts)
        assert answer.status_code == 200
        return str(answer.headers["mcp-session-id"])

    def ping(who: Asked, session: str) -> int:
        told = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        headers = {**accepts, "mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
        return who("POST", "/mcp", told, headers=headers).status_code

    alice, bob = keys
    others = begin(bob)
    mine = [begin(alice) for _ in range(22)]
    assert [ping(alice, session) for session in (mine[0], mine[1], mine[2], mine[-1])] == [404, 404, 200, 200]
    assert ping(bob, others) == 200


def test_message_batch_is_idempotent_under_its_key(ask: Asked) -> None:
    session = ask.post("/v1/sessions", channel="t", chat="1")["id"]
    path, two = f"/v1/sessions/{session}/messages/batch", [{"role": "user", "content": text} for text in ("a", "b")]
    first = ask.post(path, 201, once="k", messages=two)
    assert ask.post(path, 201, once="k", messages=two) == first
    other = [two[0], {"role": "user", "content": "c"}]
    assert ask.post(path, 409, once="k", messages=other)["code"] == "idempotency_conflict"
    assert len(ask.get(f"/v1/sessions/{session}/messages")["items"]) == 2


def test_purge_receipt_omits_api_key_named_after_user(ask: Asked, memory: Limpet) -> None:
    alice = ask.keyed(memory.access.keys.create("alice-laptop", user="alice").secret)
    alice.post("/v1/records", 201, content="tea")
    done = alice.post("/v1/purge/user", user="alice", confirm="alice")
    assert done["asked_by"] == "http"


def test_agent_api_key_uses_agent_memory(ask: Asked, memory: Limpet) -> None:
    coder = ask.keyed(memory.access.keys.create("coder", agent="coder").secret)
    assert coder.post("/v1/records", 201, content="Run the tests with make")["agent"] == "coder"
    assert coder.get("/v1/recall", query="tests")["hits"] != []
