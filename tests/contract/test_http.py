"""The main road through the HTTP API, on each backend that several processes may open."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from limpet import Config, Limpet
from limpet.server import streams
from limpet.testing import FakeClock
from tests.http_client import Asked, asked

PLAIN = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 5, 4, 9, 0, tzinfo=UTC))


@pytest.fixture
def memory(durable_url: str, clock: FakeClock) -> Iterator[Limpet]:
    with Limpet.open(durable_url, config=PLAIN, clock=clock) as opened:
        yield opened


@pytest.fixture
def ask(memory: Limpet) -> Iterator[Asked]:
    with asked(memory, user="ann") as opened:
        yield opened


def talked(ask: Asked, user: str = "ann", chat: str = "1", lines: int = 0) -> str:
    session = ask.post("/v1/sessions", channel="web", chat=chat, user=user)
    if lines:
        said = [{"role": ("user", "assistant")[at % 2], "content": f"line {at} of the talk"} for at in range(lines)]
        ask.post(f"/v1/sessions/{session['id']}/messages/batch", 201, messages=said)
    return str(session["id"])


def contents(ask: Asked, session: str) -> list[tuple[str, Any]]:
    listed = ask.get(f"/v1/sessions/{session}/messages", limit=1000)["items"]
    return [(each["role"], each["content"]) for each in listed]


def test_http_api_from_first_message_to_purge(ask: Asked, memory: Limpet, tmp_path: Path) -> None:
    session = talked(ask, lines=30)
    place = f"/v1/sessions/{session}"
    assert ask.post("/v1/sessions", channel="web", chat="1", user="ann")["id"] == session
    said = ask.post(f"{place}/messages", 201, role="user", content="My sister Vera lives in Porto")
    assert said["sequence"] == 31

    pages_are_whole(ask, place)
    batches_are_whole(ask, session)
    turns_are_taken_once(ask, session)

    context = ask.get(f"{place}/context", query="Where does Vera live?")
    assert "Porto" in str(context)
    assert ask.post(f"{place}/context", query="Vera", max_tokens=500)["tokens"] <= 500
    compacted = ask.post(f"{place}/compact", keep=4)
    assert compacted["done"]
    assert ask.get(f"{place}/summary")["summary"]["message_count"] >= compacted["messages"] > 0

    found = ask.get("/v1/recall", query="Who lives in Porto?")["hits"]
    assert "Vera" in found[0]["text"]
    assert found[0]["signals"]["words"]["rank"] == 1
    assert ask.post("/v1/recall", query="Who lives in Porto?", user="ann")["hits"] == found
    assert ask.post("/v1/recall", query="Porto", kinds=["document"])["hits"] == []
    assert ask.get("/v1/recall", query="Who lives in Porto?", user="bob")["hits"] == []

    exported(ask, memory, tmp_path, session)
    purged(ask, session)


def pages_are_whole(ask: Asked, place: str) -> None:
    seen: list[int] = []
    after: Any = 0
    while after is not None:
        page = ask.get(f"{place}/messages", after=after, limit=7)
        seen += [each["sequence"] for each in page["items"]]
        after = page["next"]
    assert seen == list(range(1, 32))
    assert [each["sequence"] for each in ask.get(f"{place}/messages", before=31, limit=3)["items"]] == [28, 29, 30]


def batches_are_whole(ask: Asked, session: str) -> None:
    before = contents(ask, session)
    bad = [
        {"role": "user", "content": "good"},
        {"role": "user", "content": "x", "created_at": "0001-01-01T00:00:00+23:59"},
    ]
    ask.post(f"/v1/sessions/{session}/messages/batch", 422, messages=bad)
    bad = [{"role": "user", "content": "good"}, {"role": "nobody", "content": "x"}]
    ask.post(f"/v1/sessions/{session}/messages/batch", 422, messages=bad)
    assert contents(ask, session) == before


def turns_are_taken_once(ask: Asked, session: str) -> None:
    before, place = contents(ask, session), f"/v1/sessions/{session}/turns"
    asked_for = ask.post(place, 201, once="t1", content="Where does my sister live?")
    assert asked_for["reply"] is None
    assert "Porto" in str(asked_for["context"])
    more = {"model": "m", "input_tokens": 10, "output_tokens": 2, "cost": 0.5}
    for _ in range(2):
        done = ask.post(place, 201, once="t1", content="Where does my sister live?", reply="In Porto.", usage=more)
        assert done["message"]["sequence"] == asked_for["message"]["sequence"]
        assert done["reply"]["content"] == "In Porto."
    assert contents(ask, session) == [*before, ("user", "Where does my sister live?"), ("assistant", "In Porto.")]
    used = ask.get("/v1/usage", session=session)
    assert (used["input_tokens"], used["cost"], used["models"][0]["calls"]) == (10, 0.5, 1)
    ask.post(place, 409, once="t1", content="Another question")
    again = ask.post(place, 201, once="t1", content="Where does my sister live?", reply="In Rome.")
    assert again["reply"]["content"] == "In Porto."  # the first reply counts


def exported(ask: Asked, memory: Limpet, tmp_path: Path, session: str) -> None:
    answer = ask("GET", "/v1/export", params={"user": "ann"})
    assert answer.headers["content-type"] == "application/zip"
    assert zipfile.ZipFile(io.BytesIO(answer.content)).testzip() is None
    (tmp_path / "export.zip").write_bytes(answer.content)
    with Limpet.open(":memory:", config=PLAIN) as other:
        other.transfer.import_(tmp_path / "export.zip")
        taken_in = other.load_session(session).messages(limit=1000)
        assert [each.text for each in taken_in] == [
            each.text for each in memory.load_session(session).messages(limit=1000)
        ]


def purged(ask: Asked, session: str) -> None:
    for confirm in (None, "someone else"):
        assert "confirm" in ask.post("/v1/purge/user", 422, user="ann", confirm=confirm)["detail"]
    ask.post("/v1/purge/session", 422, id=session, confirm=session[:-1])
    assert ask.post("/v1/purge/user", user="ann", dry_run=True)["counts"]["messages"] == 33
    assert ask.get("/v1/purge")["items"] == []
    done = ask.post("/v1/purge/user", user="ann", confirm="ann")
    assert done["verified"]
    ask.get(f"/v1/sessions/{session}", 404)
    (receipt,) = ask.get("/v1/purge")["items"]
    assert receipt["counts"] == done["counts"]
    assert "ann" not in str(receipt)


def test_http_api_records_documents_graph_and_notes(ask: Asked) -> None:
    made = ask.post("/v1/records", 201, content="Ann's dog is called Biscuit", key="dog", tags=["pets"])
    assert made["user"] == "ann"
    record = f"/v1/records/{made['id']}"
    changed = ask("PATCH", record, {"content": "Ann's dog is called Rusk"}).json()
    assert changed["content"] == "Ann's dog is called Rusk"
    said = [each["content"] for each in ask.get(f"{record}/history")["versions"]]
    assert said == ["Ann's dog is called Biscuit", "Ann's dog is called Rusk"]
    kept = ask.get(f"/v1/records/{changed['id']}")
    assert [each["id"] for each in ask.get("/v1/records", user="ann", tag="pets")["items"]] == [kept["id"]]
    ask.post("/v1/records", 201, content="Ann lives in Ghent", key="home")
    assert ask.post("/v1/forget", key="home")["forgotten"] == 1
    shared = ask.post(f"/v1/records/{changed['id']}/promote", scope="global")
    assert shared["user"] is None
    assert ask("DELETE", f"/v1/records/{shared['id']}").json()["forgotten"] >= 1

    for text in ("The red bicycle is broken", "The red car is fine", "The blue boat"):
        ask.post("/v1/records", 201, content=text)
    assert ask.post("/v1/forget", query="red bicycle", dry_run=True)["forgotten"] == 1
    assert ask.post("/v1/forget", query="red bicycle")["forgotten"] == 1
    (car,) = [each for each in ask.get("/v1/records")["items"] if "car" in each["content"]]
    assert ask("DELETE", f"/v1/records/{car['id']}").json()["forgotten"] == 1
    assert ask("DELETE", f"/v1/records/{car['id']}").status_code == 404
    assert [each["content"] for each in ask.get("/v1/records")["items"]] == ["The blue boat"]

    ask.post("/v1/documents", 201, uri="manual", text="The pump is opened with a hex key.", title="Pump")
    assert [each["uri"] for each in ask.get("/v1/documents")["items"]] == ["manual"]
    assert "hex key" in ask.get("/v1/recall", query="How is the pump opened?")["hits"][0]["text"]
    assert ask("DELETE", "/v1/documents", {"uri": "manual"}).json()["forgotten"] == 1
    assert ask.get("/v1/documents")["items"] == []

    written = ask("PUT", "/v1/notes", {"text": "Likes tea.\n"})
    first = ask.get("/v1/notes")
    assert written.json() == first
    assert first["text"] == "Likes tea.\n"
    again = ask("PUT", "/v1/notes", {"text": "Likes milk.\n"}).json()
    assert again == ask.get("/v1/notes")
    assert again["text"] == "Likes milk.\n"
    late = ask("PUT", "/v1/notes", {"text": "Likes rum.\n", "version": first["version"]})
    assert (late.status_code, ask.get("/v1/notes")) == (409, again)
    now = ask("PUT", "/v1/notes", {"text": "", "version": again["version"]}).json()
    assert now["text"] == ask.get("/v1/notes")["text"] == ""
    assert set(ask.get("/v1/graph", fresh="true")) == {"entities", "relations", "mentions", "cut"}


def test_http_api_schedules_and_runs(ask: Asked, memory: Limpet, clock: FakeClock) -> None:
    made = ask.post("/v1/schedules", 201, goal="water the plants", cadence="every: 1h")
    assert "worker" in made["note"]
    place = f"/v1/schedules/{made['id']}"
    clock.advance(hours=1, seconds=1)
    assert memory.schedules.run(lambda _firing: "watered " * 2000) == 1
    (run,) = ask.get(f"{place}/runs")["items"]
    assert run["status"] == "ok"
    first = ask.get(f"/v1/runs/{run['id']}/output", limit=1000)
    assert (len(first["text"]), first["next_offset"]) == (1000, 1000)
    assert ask.get(f"/v1/runs/{run['id']}/output", offset=first["characters"] - 8)["text"] in ("watered ", "watered")
    assert ask.post(f"{place}/pause")["state"] == "paused"
    assert ask.post(f"{place}/resume")["state"] == "active"
    assert ask("PATCH", place, {"goal": "feed the cat"}).json()["goal"] == "feed the cat"
    assert [each["id"] for each in ask.get("/v1/schedules", user="ann", text="cat")["items"]] == [made["id"]]
    assert ask("DELETE", place).json() == {"deleted": True}
    ask.get(place, 404)


def test_http_api_tools_metrics_health_and_openapi(ask: Asked) -> None:
    names = {each["function"]["name"] for each in ask.get("/v1/tools")["tools"]}
    assert "memory_save" in names
    assert {each["name"] for each in ask.get("/v1/tools", form="anthropic")["tools"]} == names
    ask.post("/v1/tools/memory_save", arguments={"content": "Ann keeps bees"})
    found = ask.post("/v1/tools/memory_search", arguments={"query": "bees"})
    assert "Ann keeps bees" in found["text"]
    assert ask.post("/v1/tools/memory_search", arguments={"wrong": 1})["is_error"]
    assert ask.get("/health")["status"] == "ok"
    told = ask("GET", "/metrics").text
    assert 'limpet_http_requests_total{method="GET",route="/v1/tools",status="200"} 2.0' in told
    assert 'name="remember",outcome="done"' in told
    assert 'limpet_store{what="records"}' in told
    described = ask.get("/openapi.json")
    assert described["openapi"] == "3.1.0"
    assert "/v1/events" in described["paths"]


def seen(feed: streams.Feed) -> list[tuple[str, str, Any]]:
    """What one look tells: what it is, which one, and what of it."""
    return [
        (each.kind, each.shape["id"], each.shape.get("state") or each.shape.get("content") or each.shape["kind"])
        for each in feed.poll()
    ]


def test_event_feed_reports_changes_and_deletions(memory: Limpet, clock: FakeClock) -> None:
    one, two = (memory.session("web", chat, user="ann") for chat in "12")
    kept, lost = (memory.remember(text, user="ann") for text in ("Ann keeps bees", "Ann keeps geese"))
    feed = streams.Feed(lambda: memory, "ann", clock(), clock)
    feed.poll()
    clock.advance(hours=1)
    assert feed.poll() == []
    one.pause()
    memory.forget(lost.id)
    assert seen(feed) == [("session", one.id, "PAUSED"), ("gone", lost.id, "record")]
    assert feed.poll() == []
    one.update_metadata({"topic": "bees"})
    two.delete()
    memory.records.update(kept.id, content="Ann keeps wasps")
    assert seen(feed) == [
        ("record", kept.id, "Ann keeps wasps"),
        ("session", one.id, "PAUSED"),
        ("gone", two.id, "session"),
    ]
    memory.privacy.purge_user("ann")
    assert sorted(seen(feed)) == sorted([("gone", one.id, "session"), ("gone", kept.id, "record")])
    assert feed.poll() == []


def test_event_feed_goes_on_after_change_from_the_future(memory: Limpet, clock: FakeClock) -> None:
    feed = streams.Feed(lambda: memory, "ann", clock(), clock)
    clock.advance(days=400)  # a clock that is wrong, and is set right
    early = memory.remember("Ann keeps bees", user="ann")
    clock.advance(days=-400)
    assert [each for _, each, _ in seen(feed)] == [early.id]
    later = []
    for number in range(3):
        clock.advance(minutes=1)
        later.append(memory.remember(f"Ann keeps {number} geese", user="ann").id)
        assert [each for _, each, _ in seen(feed)] == later[-1:]


def test_event_feed_does_not_report_items_beyond_first_page_as_deleted(
    memory: Limpet, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_PAGE", 3)
    made = [memory.remember(f"fact {number}", user="ann").id for number in range(3)]
    feed = streams.Feed(lambda: memory, "ann", clock(), clock)
    feed.poll()
    clock.advance(minutes=1)
    for number in range(3, 8):
        clock.advance(1)
        made.append(memory.remember(f"fact {number}", user="ann").id)
    assert [each for _, each, _ in seen(feed)] == made[3:]
    memory.forget(made[0])  # which nobody looks at any more
    memory.forget(made[6])
    assert seen(feed) == [("gone", made[6], "record")]
