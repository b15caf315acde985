"""Purging by session, by user and by age, on every backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, Message
from limpet.errors import InvalidInput, InvalidKey, SessionNotFound
from limpet.lifecycle import purge as purging
from limpet.lifecycle import purge_rows as purging_rows
from limpet.lifecycle.purge_repository import ANONYMIZED_TABLES, UNOWNED_TABLES, find_user_tables
from limpet.model.job import PURGE
from limpet.model.privacy import ErasureState, purge_digest
from limpet.providers.fakes import FakeEmbedder
from limpet.store.tables import TABLES
from limpet.testing import FakeClock
from tests.contract.rows import every_row, faults

pytestmark = pytest.mark.every_backend

MARK = "quuxmarker"
CONFIG = Config.load(overrides={"jobs.worker": False, "retention.enabled": False})


@pytest.fixture
def memory(store_url: str, clock: FakeClock) -> Iterator[Limpet]:
    with Limpet.open(store_url, config=CONFIG, clock=clock, embedder=FakeEmbedder()) as opened:
        yield opened


def fill(memory: Limpet, user: str, mark: str, messages: int = 6) -> str:
    """A user with something of every kind, all of it marked. Answers a session's id."""
    session = memory.session("telegram", f"chat-{mark}", user=user, metadata={mark: mark})
    for number in range(messages // 2):
        with session.turn(f"My name is {mark.title()} and I live in {mark.title()}ville, number {number}.") as turn:
            turn.reply(f"Hello {mark}, that is {number}.")
    session.append("tool", f"result {mark}", tool_call_id=mark, name=mark, metadata={mark: mark})
    session.kv.set(mark, mark)
    session.set_working_memory(f"working on {mark}")
    session.add_usage(mark, input_tokens=1)
    session.compact(keep=2)
    memory.remember(f"likes {mark}", user=user, key="likes", title=mark, tags=[mark], metadata={mark: mark})
    memory.remember(f"likes {mark} very much", user=user, key="likes", references=[mark])
    memory.remember(f"only here {mark}", session=session.id)
    memory.documents.add(f"file:///{mark}.txt", text=f"A document of {mark}. " * 20, user=user)
    memory.jobs.run()
    memory.session("telegram", f"chat-{mark}", user=user).append("user", f"a job waits for {mark}")
    memory.recall(mark, user=user)
    memory.graph(user=user)
    return session.id


def tables_with(memory: Limpet, *marks: str) -> list[str]:
    """Tables in which a mark stands anywhere."""
    found = []
    for name, rows in every_row(memory).items():
        texts = [str(value).casefold() for row in rows for value in row if not isinstance(value, bytes | int | float)]
        if any(mark.casefold() in text for mark in marks for text in texts):
            found.append(name)
    return found


def test_purge_covers_every_table_with_an_owner() -> None:
    whose = {
        "partition_id",
        "session_id",
        "record_id",
        "user_id",
        "document_id",
        "entity_id",
        "schedule_id",
        "owner",
    }
    told = {table.name for table in TABLES if whose & set(table.columns)} - {"partitions", *ANONYMIZED_TABLES}
    purged = {rows.table for rows in find_user_tables()}
    assert told == purged, "a table that belongs to a user is purged with them"
    assert {table.name for table in TABLES} == purged | {*UNOWNED_TABLES, *ANONYMIZED_TABLES}, (
        "say of a new table whose it is"
    )


def test_purge_user_deletes_everything_and_user_can_start_again(memory: Limpet) -> None:
    fill(memory, f"user-{MARK}", MARK)
    fill(memory, "bob", "other")
    assert set(tables_with(memory, MARK)) >= {
        "messages",
        "records",
        "chunks",
        "sessions",
        "kv",
        "documents",
        "entities",
    }
    before = {
        name: rows for name, rows in every_row(memory).items() if name not in ("partitions", "receipts", "properties")
    }
    receipt = memory.privacy.purge_user(f"user-{MARK}")
    assert tables_with(memory, MARK) == []
    assert receipt.verified
    assert receipt.left == ()
    assert receipt.done_at is not None
    assert receipt.counts["sessions"] == 1
    assert receipt.counts["messages"] == 8
    assert receipt.counts["records"] >= 2
    assert receipt.counts["documents"] == 1
    assert memory.recall(MARK, user=f"user-{MARK}") == []
    assert memory.sessions(user=f"user-{MARK}") == []
    assert faults(memory) == []
    after = every_row(memory)
    others = {name: [row for row in rows if "other" in repr(row)] for name, rows in before.items()}
    assert {name: [row for row in after[name] if "other" in repr(row)] for name in before} == others
    assert fill(memory, f"user-{MARK}", "second")
    assert memory.recall("second", user=f"user-{MARK}")
    assert memory.records(user=f"user-{MARK}", history=True, limit=100)
    assert faults(memory) == []


def test_purge_receipt_is_anonymous_and_verifiable(memory: Limpet) -> None:
    fill(memory, "alice", MARK)
    receipt = memory.privacy.purge_user("alice", asked_by="the clerk")
    [kept] = memory.privacy.receipts()
    assert kept == receipt
    assert kept.is_about("alice")
    assert not kept.is_about("alicia")
    assert kept.digest == purge_digest("default", "alice")
    assert kept.asked_by == "the clerk"
    assert "alice" not in repr(every_row(memory)["receipts"])
    assert memory.tenant("other").privacy.receipts() == []


@pytest.mark.parametrize("nobody", ["", " ", "\n", None, 0])
def test_purge_rejects_missing_user_and_changes_nothing(memory: Limpet, nobody: Any) -> None:
    fill(memory, "alice", MARK)
    before = every_row(memory)
    with pytest.raises((InvalidKey, InvalidInput)):
        memory.privacy.purge_user(nobody)
    with pytest.raises((InvalidKey, InvalidInput)):
        memory.privacy.purge_older(nobody, 0, everything=True)
    assert every_row(memory) == before


def test_purge_older_keeps_messages_of_other_users(memory: Limpet, clock: FakeClock) -> None:
    fill(memory, "alice", MARK)
    fill(memory, "bob", "other")
    memory.tenant("elsewhere").session("c", "1", user="alice").append("user", "another alice")
    clock.advance(days=40)
    memory.privacy.purge_older("alice", 30, everything=True)
    assert tables_with(memory, MARK) == []
    assert memory.sessions(user="bob")[0].message_count == 8
    assert memory.tenant("elsewhere").sessions(user="alice")[0].message_count == 1
    assert faults(memory) == []


def test_purge_user_drops_cached_partitions(memory: Limpet) -> None:
    fill(memory, "alice", MARK)
    fill(memory, "bob", "other")
    memory.recall(MARK, user="alice", recipe="graph_global")
    store: Any = memory._runtime.store
    known = len(store.caches.list_partitions())
    assert known >= 2
    memory.privacy.purge_user("alice")
    assert len(store.caches.list_partitions()) == known - 1


def test_purge_user_drops_caches_of_other_process_on_next_read(store_url: str, clock: FakeClock) -> None:
    if store_url == ":memory:":
        pytest.skip("a store in memory has one process")
    embedder = FakeEmbedder()
    with (
        Limpet.open(store_url, config=CONFIG, clock=clock, embedder=embedder) as one,
        Limpet.open(store_url, config=CONFIG, clock=clock, embedder=embedder) as two,
    ):
        fill(one, "alice", MARK)
        fill(one, "bob", "other")
        for user in ("alice", "bob"):
            two.recall(MARK, user=user)
        store: Any = two._runtime.store
        assert len(store.caches.list_partitions()) >= 2
        one.privacy.purge_user("alice")
        two.recall("other", user="bob")
        assert len(store.caches.list_partitions()) == 1


def test_purge_user_deletes_global_records_learned_only_from_user(memory: Limpet) -> None:
    only = memory.remember(f"the {MARK} server is down", user="alice", layer="episodic", tags=[MARK])
    memory.records.promote(only.id, scope="global")
    both = [
        memory.remember("Deploys happen on Tuesday", user=user, layer="episodic", tags=[mark], title=mark)
        for user, mark in (("alice", MARK), ("bob", "fine"))
    ]
    shared = [memory.records.promote(record.id, scope="global") for record in both]
    assert shared[0].id == shared[1].id
    stated = memory.remember("For everybody", scope="global")
    memory.privacy.purge_user("alice")
    assert tables_with(memory, MARK) == []
    left = {record.id: record for record in memory.records(history=True) if record.user is None}
    assert set(left) == {shared[0].id, stated.id}
    assert (left[shared[0].id].content, left[shared[0].id].inputs) == ("Deploys happen on Tuesday", (both[1].id,))
    assert left[shared[0].id].title == "fine"
    assert faults(memory) == []


def test_purge_session_deletes_records_learned_only_from_it(memory: Limpet) -> None:
    one, two = memory.session("c", "1", user="alice"), memory.session("c", "2", user="alice")
    for session, place in ((one, "Porto"), (two, "Lisbon")):
        with session.turn(f"I love {place}tea. My favourite food is {place}soup.") as turn:
            turn.reply("Noted.")
    memory.jobs.run()
    stated = memory.remember("Stated outright", user="alice")
    assert "records" in tables_with(memory, "portotea")
    receipt = memory.privacy.purge_session(one.id)
    assert tables_with(memory, "porto") == []
    assert "records" in tables_with(memory, "lisbontea")
    assert memory.records.get(stated.id) == stated
    assert receipt.verified
    assert receipt.is_about(one.id)
    assert receipt.counts["sessions"] == 1
    assert receipt.counts["records"] >= 1
    with pytest.raises(SessionNotFound):
        memory.load_session(one.id)
    with pytest.raises(SessionNotFound):
        memory.privacy.purge_session(one.id)
    assert faults(memory) == []


def test_purge_session_of_other_tenant_or_user_is_not_found(memory: Limpet) -> None:
    session = memory.session("c", "1", user="alice")
    for other in (
        lambda: memory.tenant("x").privacy.purge_session(session.id),
        lambda: memory.privacy.purge_session(session.id, user="bob"),
    ):
        with pytest.raises(SessionNotFound):
            other()
    assert memory.load_session(session.id)


def test_purge_older_with_everything_deletes_old_rows_of_every_kind(memory: Limpet, clock: FakeClock) -> None:
    session = memory.session("c", "1", user="alice")
    session.extend([Message.new("user", f"I said {MARK} and {MARK}{number}") for number in range(3)])
    session.append("user", "said again and again")
    session.kv.set("old", MARK)
    session.compact(keep=1)
    old = memory.remember(f"old {MARK}", user="alice", pinned=True)
    changed = memory.remember(f"before {MARK}", user="alice", key="changed")
    memory.documents.add("file:///old.txt", text=MARK, user="alice")
    ended = memory.session("c", "ended", user="alice")
    ended.append("user", f"long ago {MARK}")
    memory.jobs.run()
    clock.advance(days=20)
    session.append("user", "said again and again")
    session.append("user", "something new", created_at=clock() - timedelta(days=2))
    session.append("user", f"told late {MARK}", created_at=clock() - timedelta(days=15))
    session.kv.set("new", "kept")
    memory.records.update(changed.id, content="after")
    memory.documents.add("file:///new.txt", text="new", user="alice")
    memory.jobs.run()
    receipt = memory.privacy.purge_older("alice", 10, everything=True)
    assert tables_with(memory, MARK) == []
    assert receipt.verified
    assert receipt.before == clock() - timedelta(days=10)
    assert [message.text for message in session.messages()] == ["said again and again", "something new"]
    assert session.count() == 2
    assert session.kv.items() == {"new": "kept"}
    assert [each.uri for each in memory.documents.list(user="alice")] == ["file:///new.txt"]
    assert [record.id for record in memory.records(user="alice")] == [changed.id]
    assert [version.content for version in memory.records.history(changed.id)] == ["after"]
    assert old.id not in {record.id for record in memory.records(user="alice", history=True)}
    assert [info.id for info in memory.sessions(user="alice")] == [session.id]
    assert memory.recall("said again", user="alice")[0].source.first_sequence == 5
    assert faults(memory) == []
    assert session.append("user", "next").sequence == 8


def test_purge_older_keeps_explicit_and_pinned_memories_unless_told(memory: Limpet, clock: FakeClock) -> None:
    """It is about what was said. What somebody saved, pinned or wrote goes only when it is asked for."""
    session = memory.session("c", "1", user="alice")
    with session.turn("I live in Porto.") as turn:
        turn.reply(f"Noted {MARK}.")
    holding = memory.session("c", "2", user="alice")
    holding.append("user", f"said {MARK}")
    memory.jobs.run()
    (learned,) = [each for each in memory.records(user="alice") if each.attribute == "home"]
    kept = {
        memory.remember("My bank is Foo", user="alice").id,
        memory.remember("For this chat only", session=holding.id).id,
        memory.records.update(memory.remember("Tea", user="alice", key="drink").id, content="Green tea").id,
    }
    memory.documents.add("file:///old.txt", text="a document", user="alice")
    clock.advance(days=20)
    would = memory.privacy.purge_older("alice", 10, dry_run=True)
    receipt = memory.privacy.purge_older("alice", 10)
    assert (receipt.counts, receipt.left, receipt.verified) == (would.counts, (), True)
    assert tables_with(memory, MARK) == []
    assert {each.id for each in memory.records(user="alice")} == kept
    assert learned.id not in {each.id for each in memory.records(user="alice", history=True)}
    assert [each.id for each in memory.sessions(user="alice")] == [holding.id]
    assert len(memory.documents.list(user="alice")) == 1
    assert [each.what.value for each in memory.privacy.receipts()] == ["older"]
    assert memory.privacy.purge_older("alice", 10, everything=True).verified
    assert memory.records(user="alice", history=True) == []
    assert memory.sessions(user="alice") == []
    assert memory.documents.list(user="alice") == []
    assert faults(memory) == []


def test_purge_older_keeps_pinned_learned_memory(memory: Limpet, clock: FakeClock) -> None:
    with memory.session("c", "1", user="alice").turn("I live in Porto.") as turn:
        turn.reply("Noted.")
    memory.jobs.run()
    (home,) = [each for each in memory.records(user="alice") if each.attribute == "home"]
    memory.records.update(home.id, pinned=True)
    clock.advance(days=20)
    assert memory.privacy.purge_older("alice", 10).verified
    assert [each.id for each in memory.records(user="alice")] == [home.id]
    assert faults(memory) == []


def test_purge_older_of_0_days_needs_an_explicit_word(memory: Limpet, clock: FakeClock) -> None:
    memory.session("c", "1", user="alice").append("user", MARK)
    before = every_row(memory)
    with pytest.raises(InvalidInput, match="0 days removes everything up to now"):
        memory.privacy.purge_older("alice", 0)
    assert every_row(memory) == before
    clock.advance(seconds=1)
    assert memory.privacy.purge_older("alice", 0, everything=True).verified
    assert tables_with(memory, MARK) == []


def test_purge_older_keeps_index_of_repeated_message_in_between(memory: Limpet, clock: FakeClock) -> None:
    session = memory.session("c", "1", user="alice")
    for days in (50, 1, 50):
        session.append("user", "the lighthouse keeper", created_at=clock() - timedelta(days=days))
    memory.privacy.purge_older("alice", 30)
    [hit] = memory.recall("lighthouse", user="alice")
    assert (hit.source.first_sequence, hit.source.last_sequence) == (2, 2)
    assert faults(memory) == []


def test_purge_older_rewrites_summary(memory: Limpet, clock: FakeClock) -> None:
    session = memory.session("c", "1", user="alice")
    session.append("user", f"the old {MARK}")
    clock.advance(days=20)
    session.append("user", "the new harbour")
    session.append("user", "and more")
    session.compact(keep=1)
    summary = session.summary()
    assert summary is not None
    assert MARK in summary.text
    memory.privacy.purge_older("alice", 10)
    after = session.summary()
    assert after is not None
    assert MARK not in after.text
    assert "harbour" in after.text
    assert after.epoch == summary.epoch + 1


def test_purge_dry_run_counts_and_changes_nothing(memory: Limpet, clock: FakeClock) -> None:
    session = fill(memory, "alice", MARK)
    clock.advance(days=20)
    before = every_row(memory)
    calls: list[Callable[[bool], Any]] = [
        lambda dry: memory.privacy.purge_session(session, dry_run=dry),
        lambda dry: memory.privacy.purge_older("alice", 10, dry_run=dry),
        lambda dry: memory.privacy.purge_user("alice", dry_run=dry),
    ]
    counted = [call(True) for call in calls]
    assert every_row(memory) == before
    assert memory.privacy.receipts() == []
    assert all(each.done_at is None for each in counted)
    assert counted[2].counts == memory.privacy.purge_user("alice").counts


def test_purge_of_large_user_runs_in_several_transactions(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(memory, "alice", MARK, messages=40)
    fill(memory, "bob", "other")
    expected = memory.privacy.purge_user("alice", dry_run=True).counts
    monkeypatch.setattr(purging_rows, "LIMIT", 7)
    assert memory.privacy.purge_user("alice").counts == expected
    assert tables_with(memory, MARK) == []
    assert faults(memory) == []


class Killed(BaseException):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("finisher", ["call", "worker"])
@pytest.mark.parametrize("what", ["user", "session", "older"])
@pytest.mark.parametrize("step", ["rows", "files", "finish", "bytes"])
def test_interrupted_purge_is_finished_by_next_call_or_worker(
    memory: Limpet, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, step: str, what: str, finisher: str
) -> None:
    session = fill(memory, "alice", MARK, messages=10)
    clock.advance(days=20)
    calls: dict[str, Callable[[], Any]] = {
        "user": lambda: memory.privacy.purge_user("alice"),
        "session": lambda: memory.privacy.purge_session(session),
        "older": lambda: memory.privacy.purge_older("alice", 10, everything=True),
    }

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        steps = {"rows": "purge.Purger._delete_batch", "finish": "purge.Purger._finish", "bytes": "purge._record_bytes"}
        target = steps.get(step)
        patch.setattr(f"limpet.lifecycle.{target or 'purge_files.PurgeFiles.delete_after_rows'}", die)
        with pytest.raises(Killed):
            calls[what]()
    [receipt] = memory.privacy.receipts()
    assert (receipt.done_at is None) == (step != "bytes"), "never half reported as done"
    if finisher == "worker":
        clock.advance(minutes=2)
        memory.jobs.run()
    elif step == "rows" or what != "session":
        calls[what]()
    else:
        memory.privacy.purge_user("alice")  # the session is not there to be named again
        clock.advance(minutes=2)
        memory.jobs.run()
    assert [each for each in memory.privacy.receipts() if each.done_at is None] == []
    assert receipt.id in {each.id for each in memory.privacy.receipts()}
    assert [each for each in memory.jobs.list() if each.kind == PURGE] == []
    if what != "session":
        assert tables_with(memory, MARK) == []
    assert faults(memory) == []


@pytest.mark.parametrize("killed", ["call", "worker"])
def test_killed_purge_is_finished_by_next_run_at_once(
    memory: Limpet, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    """Not when the head start of the caller, or the lease of the worker that was killed, is over."""
    fill(memory, "alice", MARK, messages=10)

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(purging.Purger, "_delete_batch", die)
        with pytest.raises(Killed):
            memory.privacy.purge_user("alice")
        if killed == "worker":
            clock.advance(minutes=2)
            with pytest.raises(Killed):
                memory.jobs.run()
    assert tables_with(memory, MARK)
    memory.jobs.run()
    assert [each.done_at is None for each in memory.privacy.receipts()] == [False]
    assert tables_with(memory, MARK) == []


def test_purge_receipt_reports_erasure_of_bytes(memory: Limpet) -> None:
    fill(memory, "alice", MARK)
    expected = ErasureState.VACUUM if memory.admin.stats()["backend"] == "postgres" else ErasureState.GONE
    assert memory.privacy.purge_user("alice").bytes is expected
    assert memory.privacy.receipts()[0].bytes is expected
    fill(memory, "alice", MARK)
    anew = memory.privacy.purge_user("alice", vacuum=True)
    assert anew.bytes is ErasureState.GONE
    assert {receipt.id: receipt.bytes for receipt in memory.privacy.receipts()}[anew.id] is ErasureState.GONE
    assert faults(memory) == []


def test_purge_user_includes_agents_with_own_store(tmp_path: Path, clock: FakeClock) -> None:
    config = Config.load(overrides={"agents.apart.memory.place": "own", "jobs.worker": False})
    with Limpet.open(tmp_path, config=config, clock=clock) as memory:
        memory.session("c", "1", user="alice", agent="apart").append("user", MARK)
        memory.session("c", "1", user="alice").append("user", MARK)
    with Limpet.open(tmp_path, config=config, clock=clock) as memory:
        assert memory.privacy.purge_user("alice").counts["messages"] == 2
        assert memory.agent("apart").recall(MARK, user="alice") == []
        assert len(memory.agent("apart").privacy.receipts()) == 1
    assert MARK.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_purge_with_memory_disabled_finds_nothing(clock: FakeClock) -> None:
    config = Config.load(overrides={"memory.enabled": False})
    with Limpet.open(":memory:", config=config, clock=clock) as memory:
        receipt = memory.privacy.purge_user("alice")
        assert (receipt.total, receipt.verified, receipt.bytes) == (0, True, ErasureState.GONE)
