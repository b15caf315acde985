"""Who may what over HTTP: keys, whose memory they open, and what they never tell."""

from __future__ import annotations

import io
import logging
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from limpet import Config, Limpet
from limpet.api.parameters import LocalPath
from limpet.server.custom_routes import list_routes
from limpet.testing import FakeClock
from tests.http_client import Asked, asked

PLAIN = {"embedding.model": "none", "jobs.worker": False}
Two = tuple[Asked, Asked, dict[str, str]]
ADMIN = ("read:store", "write:store")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def memory(data: Path, clock: FakeClock) -> Iterator[Limpet]:
    with Limpet.open(data, config=Config.load(overrides=PLAIN), clock=clock) as opened:
        yield opened


@pytest.fixture
def ask(memory: Limpet) -> Iterator[Asked]:
    with asked(memory) as opened:
        yield opened


def refused(ask: Asked, path: str = "/v1/sessions", **headers: str) -> None:
    answer = ask("GET", path, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_api_key_changes_of_other_process_apply_immediately(ask: Asked, data: Path) -> None:
    ask.get("/v1/sessions")
    assert "security" not in ask.get("/openapi.json")
    with Limpet.open(data, config=Config.load(overrides=PLAIN)) as other:
        secret = other.access.keys.create("first", user="alice").secret
        refused(ask)
        for path in ("/mcp", "/v1/events", "/metrics", "/v1/export", "/v1/tools"):
            refused(ask, path)
        assert ask("GET", "/health").status_code == ask("GET", "/").status_code == 200
        assert ask.get("/openapi.json")["security"] == [{"key": []}]
        alice = ask.keyed(secret)
        alice.get("/v1/sessions")
        other.access.keys.create("second", user="bob")
        other.access.keys.revoke("first")
        refused(alice)


def test_api_key_that_is_expired_or_invalid_is_rejected(ask: Asked, memory: Limpet, clock: FakeClock, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    secret = memory.access.keys.create("short", user="alice", expires_in=60).secret
    memory.access.keys.create("long", user="alice")
    ask.keyed(secret).get("/v1/sessions")
    clock.advance(61)
    refused(ask.keyed(secret))
    wrong = secret[:-1] + ("a" if secret[-1] != "a" else "b")
    for given in (
        f"Bearer {wrong}",
        "Bearer",
        "Bearer ",
        f"Basic {secret}",
        secret,
        f"Bearer {secret} {secret}",
        "Bearer x",
    ):
        answer = ask("GET", "/v1/sessions", headers={"authorization": given})
        assert answer.status_code == 401, given
        assert secret not in answer.text
        assert wrong not in answer.text
    assert "lim_" not in caplog.text.replace("Bearer lim_…", "")


def test_forwarded_request_requires_api_key(ask: Asked, memory: Limpet) -> None:
    for name in ("forwarded", "x-forwarded-for", "x-real-ip"):
        refused(ask, **{name: "127.0.0.1"})
    secret = memory.access.keys.create("proxied", user="alice").secret
    assert ask.keyed(secret)("GET", "/v1/sessions", headers={"x-forwarded-for": "9.9.9.9"}).status_code == 200


@pytest.fixture
def two(ask: Asked, memory: Limpet) -> Two:
    """Alice, bob, and the addresses of what is bob's."""
    alice, bob = (ask.keyed(memory.access.keys.create(name, user=name).secret) for name in ("alice", "bob"))
    session = bob.post("/v1/sessions", channel="web", chat="b", user="bob")["id"]
    bob.post(f"/v1/sessions/{session}/messages", 201, role="user", content="Bob keeps a walrus")
    record = bob.post("/v1/records", 201, content="Bob's walrus is called Tusk", key="walrus")["id"]
    schedule = bob.post("/v1/schedules", 201, goal="feed the walrus", cadence="every: 1h")["id"]
    bob.post("/v1/documents", 201, uri="walrus", text="All about walruses")
    alice.post("/v1/records", 201, content="Alice has a cat")
    return alice, bob, {"sessions": session, "records": record, "schedules": schedule}


WHOLE_STORE = (
    ("GET", "/v1/stats"),
    ("GET", "/v1/audit"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/export"),
    ("GET", "/metrics"),
    ("POST", "/v1/jobs/run"),
    ("POST", "/v1/retention"),
    ("POST", "/v1/doctor"),
)


@pytest.mark.parametrize(("method", "path"), WHOLE_STORE)
def test_whole_store_without_key_is_for_programs_on_this_machine(
    data: Path, method: str, path: str, clock: FakeClock
) -> None:
    config = Config.load(overrides={**PLAIN, "server.hosts": "memory.lan"})
    with Limpet.open(data, config=config, clock=clock) as memory, asked(memory) as ask:
        for host in ("127.0.0.1:8420", "localhost", "[::1]:8420", "[::1]"):
            assert ask(method, path, headers={"host": host}).status_code == 200, host
        page = {"host": "127.0.0.1:8420", "origin": "http://127.0.0.1:8420"}
        for headers in (page, {"host": "memory.lan"}, {"sec-fetch-site": "same-origin"}):
            assert ask(method, path, headers=headers).json()["code"] == "unauthenticated", headers
            assert ask("GET", "/v1/records", headers=headers).status_code == 200
        secret = memory.access.keys.create("admin", grants=ADMIN).secret
        assert ask.keyed(secret)(method, path, headers=page).status_code == 200


def test_import_without_key_is_refused_from_a_page(ask: Asked) -> None:
    file = {"content-type": "application/octet-stream", "origin": "http://127.0.0.1"}
    answer = ask("POST", "/v1/import?name=x.json&user=alice", content=b"{}", headers=file | {"host": "127.0.0.1"})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_no_request_names_a_file_of_the_server(ask: Asked, tmp_path: Path) -> None:
    found = {
        (route.form.name, each.name)
        for route in list_routes()
        for each in route.form.arguments
        if each.field.hints & set(LocalPath)
    }
    assert found == {("documents.add", "uri_or_path")}
    secret = tmp_path / "secret.txt"
    secret.write_text("the server's own walrus")
    for uri in (str(secret), secret.as_uri()):
        ask.post("/v1/documents", 422, uri=uri, user="alice")
        ask.post("/v1/documents", 201, uri=uri, user="alice", text="sent")
        assert ask.get("/v1/documents/text", uri=uri, user="alice") == {"text": "sent"}
    assert ask.get("/v1/recall", query="walrus", user="alice")["hits"] == []


def test_api_key_cannot_access_other_users_data(two: Two) -> None:
    alice, bob, ids = two
    session, record, schedule = (f"/v1/{noun}/{id_}" for noun, id_ in ids.items())
    tries: list[tuple[str, str, dict[str, Any] | None]] = [
        *(("GET", f"{session}{rest}", None) for rest in ("", "/messages", "/context", "/summary")),
        ("POST", f"{session}/messages", {"role": "user", "content": "alice was here"}),
        ("POST", f"{session}/messages/batch", {"messages": [{"role": "user", "content": "alice was here"}]}),
        ("POST", f"{session}/turns", {"content": "alice was here"}),
        ("POST", f"{session}/context", {}),
        ("POST", f"{session}/compact", {}),
        *(("POST", f"{session}/{rest}", {}) for rest in ("pause", "resume", "terminate", "clear")),
        ("DELETE", session, None),
        *(("GET", f"{record}{rest}", None) for rest in ("", "/history")),
        ("PATCH", record, {"content": "alice was here"}),
        ("POST", f"{record}/promote", {"scope": "global"}),
        ("DELETE", record, None),
        *(("GET", f"{schedule}{rest}", None) for rest in ("", "/runs")),
        ("PATCH", schedule, {"goal": "alice was here"}),
        ("POST", f"{schedule}/pause", {}),
        ("DELETE", schedule, None),
        *(
            ("GET", f"/v1/{noun}?user=bob", None)
            for noun in (
                "sessions",
                "records",
                "documents",
                "schedules",
                "graph",
                "notes",
                "profile",
                "usage",
                "events",
                "export",
            )
        ),
        ("GET", "/v1/recall?query=walrus&user=bob", None),
        ("GET", f"/v1/recall?query=walrus&session={ids['sessions']}", None),
        ("POST", "/v1/recall", {"query": "walrus", "user": "bob"}),
        ("POST", "/v1/records", {"content": "alice was here", "user": "bob"}),
        ("POST", "/v1/records", {"content": "alice was here", "scope": "global"}),
        ("POST", "/v1/documents", {"uri": "x", "text": "alice was here", "user": "bob"}),
        ("DELETE", "/v1/documents", {"uri": "walrus", "user": "bob"}),
        ("POST", "/v1/forget", {"query": "walrus", "user": "bob"}),
        ("POST", "/v1/forget", {"key": "walrus", "user": "bob"}),
        ("PUT", "/v1/notes", {"text": "alice was here", "user": "bob"}),
        ("POST", "/v1/schedules", {"goal": "x", "cadence": "every: 1h", "user": "bob"}),
        ("POST", "/v1/sessions", {"channel": "web", "chat": "z", "user": "bob"}),
        ("POST", "/v1/purge/user", {"user": "bob", "confirm": "bob"}),
        ("POST", "/v1/purge/user", {"user": "bob", "dry_run": True}),
        ("POST", "/v1/purge/session", {"id": ids["sessions"], "confirm": ids["sessions"]}),
        ("GET", "/metrics", None),
    ]
    for method, path, body in tries:
        answer = alice(method, path, body)
        assert answer.status_code in (403, 404), (method, path, answer.status_code, answer.text[:300])
        assert "walrus" not in answer.text.lower().replace("'walrus'", ""), (method, path)
    told = alice.post("/v1/tools/memory_search", arguments={"query": "walrus"}, user="bob")  # a model reads it
    assert told["is_error"]
    assert told["data"] is None
    resumed = alice("GET", "/v1/events?user=bob", headers={"last-event-id": "1"})
    assert resumed.status_code == 403

    assert bob.get(session)["message_count"] == 1
    assert [each["content"] for each in bob.get("/v1/records")["items"]] == ["Bob's walrus is called Tusk"]
    assert bob.get(schedule)["state"] == "active"


def test_api_key_defaults_to_its_own_user(two: Two) -> None:
    alice, _, _ = two
    assert alice.get("/v1/sessions")["items"] == alice.get("/v1/schedules")["items"] == []
    assert [each["content"] for each in alice.get("/v1/records")["items"]] == ["Alice has a cat"]
    assert alice.get("/v1/documents")["items"] == []
    assert alice.get("/v1/recall", query="walrus")["hits"] == []
    assert "cat" in alice.post("/v1/tools/memory_search", arguments={"query": "cat"})["text"]
    packed = zipfile.ZipFile(io.BytesIO(alice("GET", "/v1/export").content))
    whole = b"".join(packed.read(name) for name in packed.namelist()).lower()
    assert b"cat" in whole
    assert b"walrus" not in whole
    assert alice.post("/v1/sessions", channel="web", chat="mine", user="alice")["user"] == "alice"


def test_api_key_grants_widen_access(ask: Asked, memory: Limpet, two: Two) -> None:
    _, _, ids = two
    reader = ask.keyed(memory.access.keys.create("carol", user="carol", grants=["read:user:bob"]).secret)
    assert len(reader.get("/v1/records", user="bob")["items"]) == 1
    assert reader("DELETE", f"/v1/records/{ids['records']}").status_code in (403, 404)
    admin = ask.keyed(memory.access.keys.create("admin", grants=ADMIN).secret)
    assert len(admin.get("/v1/records")["items"]) == 2
    assert admin("GET", "/metrics").status_code == 200
    answer = admin("POST", "/v1/schedules", {"goal": "x", "cadence": "every: 1h"})
    assert answer.status_code == 422  # for nobody in particular
    assert "user=" in answer.json()["detail"]


def test_api_key_that_may_only_write_a_session_appends_to_it_and_reads_nothing(ask: Asked, memory: Limpet) -> None:
    mine, other = (memory.session(user="ann", channel="web", chat=chat) for chat in "12")
    collector = ask.keyed(memory.access.keys.create("collector", grants=[f"write:session:{mine.id}"]).secret)
    said = {"role": "user", "content": "door opened"}
    assert collector("POST", f"/v1/sessions/{mine.id}/messages", json=said).status_code == 201
    assert [message.text for message in mine.messages()] == ["door opened"]
    for method, path, body in (
        ("POST", f"/v1/sessions/{other.id}/messages", said),
        ("POST", f"/v1/sessions/{mine.id}/turns", {"content": "hello"}),
        ("POST", f"/v1/sessions/{mine.id}/context", {"query": "door"}),
        ("GET", f"/v1/sessions/{mine.id}/messages", None),
        ("GET", f"/v1/sessions/{mine.id}/summary", None),
        ("GET", f"/v1/sessions/{mine.id}", None),
    ):
        assert collector(method, path, json=body).status_code == 403, path
    assert (mine.count(), other.count()) == (1, 0)


def test_api_keys_isolate_tenants_and_rate_limits(data: Path) -> None:
    config = Config.load(overrides={**PLAIN, "server.requests_per_minute": 3})
    with Limpet.open(data, config=config) as memory, asked(memory) as ask:
        here, there = (
            ask.keyed(each.access.keys.create("laptop", user="alice").secret)
            for each in (memory, memory.tenant("elsewhere"))
        )
        made = here.post("/v1/records", 201, content="Said here")
        assert there("GET", f"/v1/records/{made['id']}").status_code == 404
        assert there.get("/v1/records")["items"] == []
        here.get("/v1/records")
        here.get("/v1/records")
        answer = here("GET", "/v1/records")
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        there.get("/v1/records")  # of the same name, in another tenant
        assert here("GET", "/health").status_code == 200


def test_server_on_public_address_always_requires_api_key(memory: Limpet) -> None:
    with asked(memory, host="0.0.0.0") as ask:
        refused(ask)
        assert ask("GET", "/health", headers={"host": "0.0.0.0"}).status_code == 421
