"""Retention and expiry, on every backend: what the settings no longer keep goes, by tenant and agent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.api.jobs import ensure_periodic_jobs
from limpet.config import RetentionSettings
from limpet.errors import ConfigError, SessionNotFound, WrongState
from limpet.lifecycle.retention import RetentionSweeper
from limpet.store.jobs import JobLease, JobQueue
from limpet.testing import FakeClock
from tests.contract.rows import every_row, faults

pytestmark = pytest.mark.every_backend

Open = Callable[..., Limpet]


@pytest.fixture
def opening(store_url: str, clock: FakeClock) -> Iterator[Open]:
    opened = []

    def open_(**overrides: Any) -> Limpet:
        settings = {
            "jobs.worker": False,
            "retention.messages_days": 90,
            **{name.replace("__", "."): value for name, value in overrides.items()},
        }
        opened.append(Limpet.open(store_url, config=Config.load(overrides=settings), clock=clock))
        ensure_periodic_jobs(opened[-1]._runtime, stays=True)  # as a worker that stays does
        return opened[-1]

    yield open_
    for memory in opened:
        memory.close()


def say(memory: Limpet, clock: FakeClock, *ages: float, user: str = "alice", agent: str | None = None) -> Any:
    session = memory.session("c", "1", user=user, agent=agent)
    for age in ages:
        session.append("user", f"I said this {age} days ago", created_at=clock() - timedelta(days=age))
    return session


def test_retention_of_messages_leaves_no_word_of_them_in_records_of_turns(opening: Open, clock: FakeClock) -> None:
    memory = opening(embedding__model="none", learn__extractor="none")
    session = memory.session("c", "1", user="alice")
    for at in range(60):
        with session.turn(f"The xylophonist number {at} came by.") as turn:
            turn.reply("Did the xylophonist play?")
    memory.jobs.run()
    clock.advance(days=3)  # the turns of a day are condensed into one record
    memory.jobs.run()
    with session.turn("And today came a drummer.") as turn:
        turn.reply("Loud.")
    clock.advance(days=88)
    [would, *_] = memory.privacy.retention(dry_run=True)
    [done, *_] = memory.privacy.retention()
    assert (would.counts["messages"], would.counts["records"]) == (done.counts["messages"], done.counts["records"])
    assert session.count() == 2
    assert [record.content for record in memory.records(user="alice", history=True) if "xylo" in record.content] == []
    assert "drummer" in str(memory.records(user="alice", history=True))
    assert not [name for name, rows in every_row(memory).items() if "xylo" in str(rows)]


def test_retention_takes_the_record_of_a_turn_by_the_time_of_its_messages(opening: Open, clock: FakeClock) -> None:
    memory = opening(embedding__model="none", learn__extractor="none")
    session = memory.session("c", "1", user="alice")
    with session.turn("My locker word is xylophone", created_at=clock() - timedelta(days=100)) as turn:
        turn.reply("Noted.", created_at=clock() - timedelta(days=100))
    memory.jobs.run()
    memory.privacy.retention()
    assert session.count() == 0
    assert "xylophone" not in str(memory.records(user="alice", history=True))


@pytest.mark.parametrize("how", ["retention", "delete"])
def test_learned_fact_is_found_by_its_words_when_its_message_is_gone(opening: Open, clock: FakeClock, how: str) -> None:
    memory = opening(embedding__model="none")
    session = memory.session("c", "1", user="alice")
    with session.turn("My sister is called Rhoda. I met a xylophonist yesterday.") as turn:
        turn.reply("Nice.")
    memory.jobs.run()
    if how == "delete":
        session.delete()
    clock.advance(days=91)
    memory.jobs.run()
    assert memory.recall("Nice", user="alice") == []
    for asked in ("Rhoda", "xylophonist", "met a xylophonist"):
        assert [hit.source.kind.value for hit in memory.recall(asked, user="alice")] == ["record"], asked


def test_retention_deletes_messages_after_90_days_and_keeps_records(opening: Open, clock: FakeClock) -> None:
    memory = opening()
    session = say(memory, clock, 95, 91, 89, 1)
    with session.turn("I love tea.") as turn:
        turn.reply("Noted.")
    memory.jobs.run()
    learned = {record.id for record in memory.records(user="alice")}
    clock.advance(hours=2)
    memory.jobs.run()
    assert [message.text[:19] for message in session.messages()][:2] == ["I said this 89 days", "I said this 1 days "]
    assert session.count() == 4
    assert {record.id for record in memory.records(user="alice")} == learned
    assert faults(memory) == []


def test_retention_uses_created_at_of_messages(opening: Open, clock: FakeClock) -> None:
    memory = opening()
    session = say(memory, clock, 1, 200, 2)
    [done, _] = memory.privacy.retention()
    assert dict(done.counts) == {"messages": 1, "chunks": 1}
    assert [message.sequence for message in session.messages()] == [1, 3]
    assert dict(memory.privacy.retention()[0].counts) == {}


def test_retention_job_runs_every_hour(opening: Open, clock: FakeClock) -> None:
    memory = opening()
    session = say(memory, clock, 89.99)
    memory.jobs.run()
    assert session.count() == 1
    for _ in range(2):
        clock.advance(hours=1)
        memory.jobs.run()
    assert session.count() == 0
    session.append("user", "old again", created_at=clock() - timedelta(days=100))
    clock.advance(hours=1)
    memory.jobs.run()
    assert session.count() == 0


def test_retention_of_zero_days_or_disabled_deletes_nothing(opening: Open, clock: FakeClock) -> None:
    default = RetentionSettings()
    assert (default.messages_days, default.records_days, default.documents_days) == (0, 0, 0)
    for memory in (opening(retention__messages_days=0), opening(retention__enabled=False)):
        session = say(memory, clock, 4000)
        clock.advance(hours=2)
        memory.jobs.run()
        assert session.count() >= 1


def test_retention_days_are_set_by_agent_and_tenant(opening: Open, clock: FakeClock) -> None:
    memory = opening(
        retention__messages_days=30,
        retention__tenants="acme=10, beta=0",
        agents__brief__retention__messages_days=5,
    )
    spoken = {
        (tenant, agent): say(memory.tenant(tenant), clock, 40, 20, 7, 1, agent=agent)
        for tenant in ("default", "acme", "beta")
        for agent in ("assistant", "brief")
    }
    clock.advance(hours=2)
    memory.jobs.run()
    counts = {key: session.count() for key, session in spoken.items()}
    assert counts == {
        ("default", "assistant"): 3,
        ("default", "brief"): 1,
        ("acme", "assistant"): 2,
        ("acme", "brief"): 2,
        ("beta", "assistant"): 4,
        ("beta", "brief"): 4,
    }


def test_retention_dry_run_counts_by_agent_and_changes_nothing(opening: Open, clock: FakeClock) -> None:
    memory = opening(retention__records_days=10, retention__documents_days=10)
    say(memory, clock, 100, 95, 1)
    say(memory, clock, 100, agent="second")
    memory.documents.add("note:1", text="a document", user="alice")
    memory.session("c", "short", user="alice", ttl=timedelta(days=1))
    clock.advance(days=20)
    before = every_row(memory)
    counted = {done.agent: dict(done.counts) for done in memory.privacy.retention(dry_run=True)}
    assert every_row(memory) == before
    assert counted == {"assistant": {"messages": 2, "sessions": 1}, "second": {"messages": 1}, None: {"documents": 1}}
    removed = {done.agent: dict(done.counts) for done in memory.privacy.retention()}
    assert removed["second"] == {"messages": 1, "chunks": 1}
    assert removed[None] == {"documents": 1}
    assert faults(memory) == []


def test_retention_does_not_touch_other_tenant(opening: Open, clock: FakeClock) -> None:
    memory = opening()
    mine, other = say(memory, clock, 100), say(memory.tenant("other"), clock, 100)
    memory.privacy.retention()
    assert (mine.count(), other.count()) == (0, 1)


def test_retention_of_records_and_documents_has_own_settings(opening: Open, clock: FakeClock) -> None:
    memory = opening(retention__records_days=30, retention__documents_days=50, learn__decay=False)
    with memory.session("c", "1", user="alice").turn("I love tea. I live in Porto.") as turn:
        turn.reply("Noted.")
    memory.jobs.run()
    stated = memory.remember("Stated", user="alice")
    memory.documents.add("note:1", text="a document", user="alice")
    assert len(memory.records(user="alice", history=True)) > 1
    clock.advance(days=40)
    memory.privacy.retention()
    assert [record.id for record in memory.records(user="alice", history=True)] == [stated.id]
    assert len(memory.documents.list(user="alice")) == 1
    clock.advance(days=11)
    memory.privacy.retention()
    assert memory.documents.list(user="alice") == []
    assert faults(memory) == []


def test_retention_deletes_expired_sessions(opening: Open, clock: FakeClock, store_url: str) -> None:
    memory = opening()
    short = memory.session("c", "short", user="alice", ttl=timedelta(hours=3))
    short.append("user", "not for long")
    own = memory.remember("only here", session=short.id)
    long = memory.session("c", "long", user="alice", ttl=timedelta(hours=3))
    long.expire_in(timedelta(days=3))
    folder = memory._runtime.session_folder(short.id)
    if folder is not None:
        folder.mkdir(parents=True)
        Path(folder, "note.txt").write_text("x")
    clock.advance(hours=4)
    memory.jobs.run()
    with pytest.raises(SessionNotFound):
        memory.load_session(short.id)
    assert memory.load_session(long.id)
    assert own.id not in {record.id for record in memory.records(user="alice", history=True)}
    assert folder is None or not folder.exists()
    assert faults(memory) == []


def test_retention_keeps_summary_updated_within_period(opening: Open, clock: FakeClock) -> None:
    memory = opening(retention__messages_days=10)
    session = say(memory, clock, 0, 0, 0)
    session.compact(keep=1)
    clock.advance(days=5)
    session.append("user", "more")
    session.append("user", "and more")
    session.compact(keep=1)
    clock.advance(days=7)
    memory.privacy.retention()
    assert session.count() == 2
    summary = session.summary()
    assert summary is not None
    assert summary.text.splitlines()[-1].startswith("- 1 earlier message, of ")
    clock.advance(days=5)
    memory.privacy.retention()
    assert session.count() == 0
    assert session.summary() is None


@pytest.mark.parametrize("text", ["acme", "acme=", "=3", "acme=-1", "acme=1.5", "acme=1000000", " acme=1=x"])
def test_retention_settings_reject_invalid_tenant_days(text: str) -> None:
    with pytest.raises(ConfigError, match=r"retention\.tenants"):
        RetentionSettings(tenants=text)


def test_retention_job_is_enqueued_when_non_empty_store_is_opened(tmp_path: Path, clock: FakeClock) -> None:
    config = Config.load(overrides={"jobs.worker": False, "retention.messages_days": 90})
    for expected in (0, 1, 1):
        with Limpet.open(tmp_path, config=config, clock=clock) as memory:
            assert JobQueue(memory._runtime.store).count([("retention", "")]) == expected
            say(memory, clock, 100)
    clock.advance(hours=2)
    with Limpet.open(tmp_path, config=config, clock=clock) as memory:
        memory.jobs.run()
        assert memory.sessions(user="alice")[0].message_count == 0


def test_retention_runs_in_program_that_stays_open_and_only_appends(
    store_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = threading.Event()
    run_job = RetentionSweeper.run_job

    def sweep(self: RetentionSweeper, lease: JobLease) -> Any:
        again = run_job(self, lease)
        swept.set()
        return again

    monkeypatch.setattr(RetentionSweeper, "run_job", sweep)
    settings = {"retention.messages_days": 90, "embedding.model": "none", "jobs.worker": True}
    with Limpet.open(store_url, config=Config.load(overrides=settings), clock=clock) as memory:  # a new, empty store
        session = say(memory, clock, 100)
        for _ in range(3):
            clock.advance(hours=1)
            session.append("user", "and on")
        assert swept.wait(60)
        assert [message.text for message in session.messages()] == ["and on"] * 3


def test_retention_runs_without_worker_when_jobs_are_run(store_url: str, clock: FakeClock) -> None:
    settings = {"retention.messages_days": 90, "jobs.worker": False}
    with Limpet.open(store_url, config=Config.load(overrides=settings), clock=clock) as memory:  # a new, empty store
        session = say(memory, clock, 100)
        memory.jobs.run()
        clock.advance(hours=2)
        memory.jobs.run()
        assert session.count() == 0


def test_retention_leaves_no_word_of_deleted_message_in_summary(opening: Open, clock: FakeClock) -> None:
    memory = opening(retention__messages_days=10)
    session = memory.session("c", "1", user="alice")
    session.append("user", "The walrus lives in the harbour")
    clock.advance(days=5)
    for text in ("The ferry leaves at noon", "The tram is late", "The bus is full"):
        session.append("user", text)
    session.compact(keep=1)
    before = session.summary()
    assert before is not None
    assert "walrus" in before.text
    clock.advance(days=7)
    memory.privacy.retention()
    after = session.summary()
    assert after is not None
    assert "walrus" not in after.text
    assert "ferry" in after.text


@pytest.mark.parametrize(("days", "left"), [(-1, 1), (0, 2), (30, 2), (1, 1)])
def test_retention_deletes_daily_notes_with_messages_or_by_their_own_days(
    tmp_path: Path, clock: FakeClock, days: int, left: int
) -> None:
    settings = {"retention.messages_days": 10, "retention.notes_days": days, "jobs.worker": False}
    with Limpet.open(tmp_path, config=Config.load(overrides=settings), clock=clock) as memory:
        memory.notes.long_term("alice").write("Alice keeps bees\n")
        for wait in (12, 0):
            with memory.session("c", "1", user="alice").turn("The walrus lives in the harbour") as turn:
                turn.reply("It does.")
            clock.advance(days=wait)
        would_go = memory.privacy.retention(dry_run=True)[-1].counts.get("notes", 0)
        assert memory.privacy.retention()[-1].counts.get("notes", 0) == would_go
        notes = [path for path in tmp_path.rglob("*.md") if "walrus" in path.read_text()]
        assert len(notes) == left
        assert memory.notes.long_term("alice").read() == "Alice keeps bees\n"


def test_expired_session_is_not_handed_out_live(opening: Open, clock: FakeClock) -> None:
    memory = opening()
    old = memory.session("c", "1", user="alice", ttl=timedelta(hours=1))
    old.append("user", "not for long")
    clock.advance(hours=2)  # and nothing has swept yet
    assert memory.find_session("c", "1", user="alice") is None
    with pytest.raises(WrongState, match="expired"):
        old.append("user", "too late")
    fresh = memory.session("c", "1", user="alice")
    assert fresh.id != old.id
    assert fresh.append("user", "in time").sequence == 1
    memory.privacy.retention()
    with pytest.raises(SessionNotFound):
        memory.load_session(old.id)
    assert memory.session("c", "1", user="alice").id == fresh.id
    assert faults(memory) == []
