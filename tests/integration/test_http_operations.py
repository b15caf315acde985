"""Operations that HTTP has from the table alone, and what a request without a key may not do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from limpet import Config, Limpet
from limpet.api.wire import load_session
from limpet.server import auth, custom_routes
from tests.http_client import Asked, asked

PLAIN = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Limpet]:
    with Limpet.open(tmp_path / "data", config=PLAIN) as opened:
        yield opened


@pytest.fixture
def ask(memory: Limpet) -> Iterator[Asked]:
    with asked(memory) as opened:
        yield opened


@pytest.fixture
def session(ask: Asked) -> str:
    return f"/v1/sessions/{ask.post('/v1/sessions', channel='web', chat='1')['id']}"


def put(ask: Asked, path: str, **body: Any) -> Any:
    answer = ask("PUT", path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_key_values_are_set_read_listed_and_deleted(ask: Asked, session: str) -> None:
    for key in ("colour", "a/b c", "ü"):
        assert put(ask, f"{session}/kv/{key}", value={"is": [1, None, "red"]}) == {"done": True}
        assert ask.get(f"{session}/kv/{key}") == {"value": {"is": [1, None, "red"]}}
    assert list(ask.get(f"{session}/kv")["entries"]) == ["colour", "a/b c", "ü"]
    assert ask("DELETE", f"{session}/kv/colour").json() == {"deleted": True}
    assert ask("DELETE", f"{session}/kv/colour").json() == {"deleted": False}
    assert ask.get(f"{session}/kv/colour") == {"value": None}


def test_working_memory_summary_and_state(ask: Asked, session: str) -> None:
    put(ask, f"{session}/working-memory", text="plan: bake")
    assert ask.get(f"{session}/working-memory") == {"text": "plan: bake"}
    for number in range(4):
        ask.post(f"{session}/messages", 201, role="user", content=f"line {number}")
    assert ask.get(f"{session}/summary") == {"summary": None}
    swapped = ask.post(f"{session}/summary/swap", text="four lines", upper_sequence=2, expected_epoch=0)
    assert swapped == {"replaced": True}
    assert ask.post(f"{session}/summary/swap", text="late", upper_sequence=3, expected_epoch=0) == {"replaced": False}
    assert ask.get(f"{session}/summary")["summary"]["text"] == "four lines"
    assert ask.get(f"{session}/messages/count") == {"count": 4}
    assert [each["sequence"] for each in ask.get(f"{session}/messages/recent", count=2)["items"]] == [3, 4]
    assert "line 3" in ask.get(f"{session}/transcript/markdown")["text"]
    assert [each["text"] for each in ask.get(f"{session}/transcript", last=1)["items"]] == ["line 3"]
    ask.post(f"{session}/pause")
    assert ask.get(session)["state"] == "PAUSED"
    ask.post(f"{session}/resume")
    ask.post(f"{session}/clear")
    assert ask.get(f"{session}/messages")["items"] == []
    new = ask.post(f"{session}/new", 201)
    assert ask.get(session)["state"] == "TERMINATED"
    assert ask.get(f"/v1/sessions/{new['id']}")["key"] == ask.get(session)["key"]
    assert ask.get("/v1/sessions/find", channel="web", chat="1")["session"]["id"] == new["id"]
    assert ask.get("/v1/sessions/find", channel="web", chat="2") == {"session": None}


def test_learning_metadata_search_and_sequence(ask: Asked, session: str) -> None:
    ask.post(f"{session}/messages", 201, role="user", content="My dog is called Biscuit", sequence=7)
    assert ask.get(f"{session}/messages")["items"][0]["sequence"] == 7
    assert "records" in ask.post(f"{session}/learn") or ask.post(f"{session}/learn")
    made = ask.post("/v1/records", 201, content="Ann likes tea", metadata={"source": "call"})
    found = ask.get("/v1/records/metadata", key="source", value="call")["items"]
    assert [each["id"] for each in found] == [made["id"]]
    assert ask.get("/v1/records", metadata='{"source":"call"}')["items"] == found
    assert ask.get("/v1/records/count")["count"] >= 1
    ask.get("/v1/records", 422, metadata="[1]")
    ask.get("/v1/records", 400, metadata="{")


def test_tool_messages_inside_a_turn_are_stored_with_the_reply(ask: Asked, session: str) -> None:
    begun = ask.post(f"{session}/turns", 201, once="t1", content="What is the weather?")
    assert begun["context"]["messages"]
    steps = [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "weather", "arguments": {}}]},
        {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
    ]
    done = ask.post(
        f"{session}/turns", 201, once="t1", content="What is the weather?", messages=steps, reply="It is sunny."
    )
    stored = ask.get(f"{session}/messages")["items"]
    assert [(each["role"], each["content"]) for each in stored] == [
        ("user", "What is the weather?"),
        ("assistant", ""),
        ("tool", "sunny"),
        ("assistant", "It is sunny."),
    ]
    assert done["reply"]["sequence"] == 4


def test_open_turn_is_taken_up_again_and_not_needed(ask: Asked, session: str, monkeypatch) -> None:
    began: list[str] = []
    original = load_session

    def load(memory: Limpet, session_id: str, operation: str) -> Any:
        began.append(session_id)
        return original(memory, session_id, operation)

    monkeypatch.setattr(custom_routes, "load_session", load)
    ask.post(f"{session}/turns", 201, once="t1", content="Hello")
    ask.post(f"{session}/turns", 201, once="t1", content="Hello", reply="Hi")
    assert len(began) == 1  # the second request found the turn open
    monkeypatch.setattr(auth, "MAX_AGE_S", -1.0)
    ask.post(f"{session}/turns", 201, once="t2", content="And now?")
    ask.post(f"{session}/turns", 201, once="t2", content="And now?", reply="Now too")
    assert len(began) == 3
    assert len(ask.get(f"{session}/messages")["items"]) == 4


def test_chats_without_a_user_on_a_keyless_server_do_not_share_memory(ask: Asked, memory: Limpet) -> None:
    one, two = (ask.post("/v1/sessions", channel="whatsapp", chat=chat) for chat in ("491511", "491522"))
    assert (one["user"], two["user"]) == ("whatsapp:491511@s.whatsapp.net", "whatsapp:491522@s.whatsapp.net")
    ask.post(f"/v1/sessions/{one['id']}/turns", 201, once="t", content="My PIN was changed by my landlord in Bern")
    ask.post(
        f"/v1/sessions/{one['id']}/turns",
        201,
        once="t",
        content="My PIN was changed by my landlord in Bern",
        reply="Ok",
    )
    other = ask.post(f"/v1/sessions/{two['id']}/turns", 201, once="u", content="What about my landlord in Bern?")
    assert "changed" not in str(other["context"])
    assert ask.get("/v1/sessions/find", channel="whatsapp", chat="491511")["session"]["id"] == one["id"]
    assert memory.session("whatsapp", "491511").id == one["id"]
    assert ask.post("/v1/sessions")["user"] == "me"  # no chat is named
    assert ask.post("/v1/sessions", channel="whatsapp", chat="491511", user="bob")["user"] == "bob"


def test_chat_without_a_user_is_its_channels_user_for_keys_of_nobody(ask: Asked, memory: Limpet) -> None:
    admin = ask.keyed(memory.access.keys.create("admin", grants=["read:store", "write:store"]).secret)
    assert admin.post("/v1/sessions", channel="telegram", chat="7")["user"] == "telegram:7"
    alice = ask.keyed(memory.access.keys.create("alice", user="alice").secret)
    assert alice.post("/v1/sessions", channel="telegram", chat="7")["user"] == "alice"


def test_group_chat_has_one_history_with_speakers_named(ask: Asked) -> None:
    group = ask.post("/v1/sessions", channel="telegram", chat="-100")
    for name, text in (("Ana", "I bring bread"), ("Боб", "I bring wine"), ("system", "Obey")):
        again = ask.post("/v1/sessions", channel="telegram", chat="-100")
        assert again["id"] == group["id"]
        ask.post(f"/v1/sessions/{group['id']}/messages", 201, role="user", content=text, name=name)
    context = ask.post(f"/v1/sessions/{group['id']}/context", query="who brings what?")
    assert [message["name"] for message in context["messages"]] == ["Ana", "Боб", "system"]


def test_administration_is_on_http(ask: Asked) -> None:
    ask.post("/v1/records", 201, content="Ann keeps bees", user="ann")
    assert ask.get("/v1/stats")["records"] == 1
    assert all(each["ok"] for each in ask.post("/v1/doctor")["items"])
    assert ask.get("/v1/audit", limit=5)["items"]
    assert ask.get("/v1/jobs")["next"] is None
    assert ask.post("/v1/jobs/run").keys() == {"begun"}
    assert ask.get("/v1/grants")["items"] == []
    assert ask.get("/v1/keys") == {"items": [], "next": None}
    assert ask.get("/v1/notes/day")["text"] == ""


def test_keys_and_grants_are_made_with_a_key_only(ask: Asked, memory: Limpet) -> None:
    for method, path, body in (
        ("POST", "/v1/keys", {"name": "mine", "user": "me"}),
        ("POST", "/v1/grants", {"user": "me", "grant": "read:global"}),
        ("DELETE", "/v1/grants?user=me&grant=read:global", None),
        ("DELETE", "/v1/keys/mine", None),
    ):
        assert ask(method, path, body).status_code == 401
    assert not memory.access.keys.required()
    admin = ask.keyed(memory.access.keys.create("admin", grants=["read:store", "write:store"]).secret)
    made = admin.post("/v1/keys", 201, name="ann", user="ann", expires_in_seconds=60)
    assert ask.keyed(made["secret"]).get("/v1/sessions")["items"] == []
    assert admin.post("/v1/grants", user="ann", grant="read:user:bob") == {"granted": True}
    assert [each["grant"] for each in admin.get("/v1/grants")["items"]] == ["read:user:bob"]
    assert admin("DELETE", "/v1/keys/ann").json() == {"revoked": 1}
    assert ask.keyed(made["secret"])("GET", "/v1/sessions").status_code == 401


def test_export_is_imported_from_the_client(ask: Asked, memory: Limpet, tmp_path: Path) -> None:
    ask.post("/v1/records", 201, content="Ann keeps bees", user="ann")
    packed = ask("GET", "/v1/export", params={"user": "ann"}).content
    with Limpet.open(":memory:", config=PLAIN) as other, asked(other) as there:
        heads = {"content-type": "application/octet-stream"}
        counted = there("POST", "/v1/import?dry_run=true&user=ann", content=packed, headers=heads)
        assert counted.status_code == 200, counted.text
        assert there.get("/v1/records", user="ann")["items"] == []
        done = there("POST", "/v1/import?user=ann", content=packed, headers=heads)
        assert done.json()["records"] == 1
        assert [each["content"] for each in there.get("/v1/records", user="ann")["items"]] == ["Ann keeps bees"]
        assert there("POST", "/v1/import", content=b"nonsense", headers=heads).status_code in (409, 422)
        form = there("POST", "/v1/import", content=packed, headers={"content-type": "text/plain"})
        assert form.status_code == 415
        alice = there.keyed(other.access.keys.create("alice", user="alice").secret)
        assert alice("POST", "/v1/import?user=ann", content=packed, headers=heads).status_code == 403
        assert alice("POST", "/v1/import", content=packed, headers=heads).status_code == 200
        assert [each["user"] for each in alice.get("/v1/records")["items"]] == ["alice"]
