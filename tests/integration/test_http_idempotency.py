"""Asking again, all at once, and page by page."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("starlette")

from limpet import Config, Limpet
from tests.http_client import Asked, asked


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    config = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})
    with Limpet.open(tmp_path_factory.mktemp("once") / "data", config=config) as memory, asked(memory) as opened:
        yield opened


@pytest.fixture
def session(ask: Asked, request: pytest.FixtureRequest) -> str:
    return str(ask.post("/v1/sessions", channel="web", chat=request.node.name[:200], user="me")["id"])


def cases(session: str) -> dict[str, tuple[str, dict[str, Any], dict[str, Any], str]]:
    """Where, what, what else under the same key, and where to count it."""
    messages = f"/v1/sessions/{session}/messages"
    return {
        "message": (messages, {"role": "user", "content": "a"}, {"role": "user", "content": "b"}, messages),
        "turn": (f"/v1/sessions/{session}/turns", {"content": "a", "reply": "r"}, {"content": "b"}, messages),
        "record": ("/v1/records", {"content": f"a {session}"}, {"content": "b"}, "/v1/records"),
        "schedule": (
            "/v1/schedules",
            {"goal": f"a {session}", "cadence": "every: 1h"},
            {"goal": "a", "cadence": "every: 2h"},
            "/v1/schedules",
        ),
    }


@pytest.mark.parametrize("what", ("message", "turn", "record", "schedule"))
def test_idempotency_key_creates_resource_only_once(ask: Asked, session: str, what: str) -> None:
    path, body, other, where = cases(session)[what]
    before = len(ask.get(where, limit=1000)["items"])
    with ThreadPoolExecutor(10) as threads:
        answers = list(threads.map(lambda _: ask("POST", path, body, headers={"idempotency-key": session}), range(10)))
    assert {answer.status_code for answer in answers} == {201}
    names = {
        str(answer.json().get("id") or answer.json().get("message", answer.json())["sequence"]) for answer in answers
    }
    assert len(names) == 1
    again = ask("POST", path, body, headers={"idempotency-key": session})
    assert again.status_code == 201
    assert len(ask.get(where, limit=1000)["items"]) - before == (2 if what == "turn" else 1)
    conflict = ask("POST", path, other, headers={"idempotency-key": session})
    assert (conflict.status_code, conflict.json()["code"]) == (409, "idempotency_conflict")
    assert len(ask.get(where, limit=1000)["items"]) - before == (2 if what == "turn" else 1)
    assert ask("POST", path, body).status_code == 201  # without a key it is another one


@pytest.mark.parametrize("key", ("", "a b", "é", "x" * 201, "a\tb"))
def test_idempotency_key_rejects_invalid_values(ask: Asked, key: str) -> None:
    answer = ask("POST", "/v1/records", {"content": "x"}, headers={"idempotency-key": key.encode()})
    assert answer.status_code == 422
    assert ask("POST", "/v1/records", {"content": "x"}, headers={"idempotency-key": "~" * 200}).status_code == 201


def test_idempotency_key_of_maximum_length_works_for_turn(ask: Asked, session: str) -> None:
    for _ in range(2):
        ask.post(f"/v1/sessions/{session}/turns", 201, once="k" * 200, content="a", reply="b")
    assert len(ask.get(f"/v1/sessions/{session}/messages")["items"]) == 2


@pytest.mark.parametrize("others", (["a", "b", "c"], ["A", "b", "c"], ["a", "B"]))
def test_idempotency_key_of_batch_conflicts_with_other_messages(ask: Asked, session: str, others: list[str]) -> None:
    def batch(texts: list[str]) -> tuple[int, list[int]]:
        body = {"messages": [{"role": "user", "content": text} for text in texts]}
        answer = ask("POST", f"/v1/sessions/{session}/messages/batch", body, headers={"idempotency-key": "one"})
        return answer.status_code, [each["sequence"] for each in answer.json().get("items", ())]

    assert batch(["a", "b"]) == batch(["a", "b"]) == (201, [1, 2])
    assert batch(others) == (409, [])
    assert [each["content"] for each in ask.get(f"/v1/sessions/{session}/messages")["items"]] == ["a", "b"]


def test_idempotency_key_conflicts_with_other_metadata(ask: Asked, session: str) -> None:
    path = f"/v1/sessions/{session}/messages"
    for _ in range(2):
        ask.post(path, 201, once="m", role="user", content="a", metadata={"n": 1}, created_at="2026-05-02T09:30:00Z")
    ask.post(path, 201, once="m", role="user", content="a", metadata={"n": 1})  # whoever gives no time takes any
    ask.post(path, 409, once="m", role="user", content="a", metadata={"n": 2})
    ask.post(path, 409, once="m", role="user", content="a", metadata={"n": 1}, created_at="2026-05-02T09:31:00Z")


def test_record_pages_are_stable_during_writes(ask: Asked) -> None:
    kept = [ask.post("/v1/records", 201, content=f"paged {at}", user="pages")["id"] for at in range(25)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        page = ask.get("/v1/records", user="pages", limit=4, **more)
        seen += [each["id"] for each in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
        ask.post("/v1/records", 201, content=f"meanwhile {cursor}", user="pages")
    assert seen == kept[::-1]
    assert len(ask.get("/v1/records", user="pages", limit=1000)["items"]) == 31


def test_page_that_is_exactly_full_has_no_next(ask: Asked) -> None:
    for at in range(3):
        ask.post("/v1/documents", 201, uri=f"{at}", text="text", user="full")
    assert ask.get("/v1/documents", user="full", limit=3)["next"] is None
    assert ask.get("/v1/documents", user="full", limit=2)["next"] is not None


def test_messages_before_skips_sequence_gaps(ask: Asked, session: str) -> None:
    handle = ask.service.memory.load_session(session)
    for number in (1, 2, 3, 500, 90_000, 90_001):
        handle.append("user", f"{number}", sequence=number)
    for before, limit, expected in (
        (90_001, 3, [3, 500, 90_000]),
        (2**53, 2, [90_000, 90_001]),
        (500, 1, [3]),
        (1, 5, []),
        (90_001, 100, [1, 2, 3, 500, 90_000]),
    ):
        found = ask.get(f"/v1/sessions/{session}/messages", before=before, limit=limit)["items"]
        assert [each["sequence"] for each in found] == expected


def test_purge_confirmation_accepts_uppercase_id(ask: Asked, session: str) -> None:
    large = session.upper()
    ask.post("/v1/purge/session", 422, id=large, confirm="me")
    assert ask.post("/v1/purge/session", id=large, confirm=large)["verified"]
    ask.get(f"/v1/sessions/{session}", 404)


def test_idempotency_key_that_no_header_can_hold_is_percent_encoded(ask: Asked, session: str) -> None:
    path, key = f"/v1/sessions/{session}/messages", "utf-8''caf%C3%A9%20bill"
    first = ask.post(path, 201, once=key, role="user", content="hello")
    assert first["idempotency_key"] == "café bill"
    assert ask.post(path, 201, once=key, role="user", content="hello") == first
    for wrong in ("utf-8''", "utf-8''%FF", "utf-8''%07", "two words"):
        assert ask.post(path, 422, once=wrong, role="user", content="hello")["code"] == "invalid_input"
