"""Records as they were, are and will be; and how they change."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from limpet import Limpet
from limpet.errors import (
    InvalidInput,
    LimpetError,
    RecordNotFound,
    StorageError,
)
from limpet.testing import FakeClock
from tests.contract.rows import every_row, faults, sql
from tests.contract.test_records import UNKNOWN, contents
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend


# Changing


def test_update_changes_only_given_fields(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("old text", user="alice", key="k", tags=["a"], metadata={"m": "1"}, title="T")
    clock.advance(5)
    changed = timed.records.update(record.id, content="new text", tags=["b"], salience=0.1, pinned=True, type="note")
    assert (changed.id, changed.created_at, changed.key, changed.title) == (
        record.id,
        record.created_at,
        "k",
        "T",
    )
    assert (changed.content, changed.tags, changed.metadata) == ("new text", ("b",), {"m": "1"})
    assert (changed.salience, changed.pinned, changed.type) == (0.1, True, "note")
    assert (changed.updated_at, changed.version) == (clock.now, 2)
    assert timed.records.get(record.id) == changed
    assert timed.records.history(record.id) == [record, changed]
    assert timed.records(user="alice", tags=["a"]) == []
    assert timed.records(user="alice", tags=["b"]) == [changed]
    assert timed.recall("old", user="alice") == []
    assert [hit.source.id for hit in timed.recall("new", user="alice")] == [record.id]
    assert faults(timed) == []


def test_update_rejects_invalid_fields_and_changes_nothing(memory: Limpet) -> None:
    record = memory.remember("text", user="alice", key="taken", tags=["a"])
    other = memory.remember("other", user="alice")
    before = every_row(memory)
    wrong: list[dict[str, Any]] = [
        {"content": ""}, {"content": "  \n"}, {"content": 5}, {"content": "\x00"}, {"content": "x" * 5_000_000},
        {"key": "Bad"}, {"tags": "text"}, {"metadata": {"a": 1}}, {"confidence": 1.1}, {"confidence": "1"},
        {"salience": -0.1}, {"salience": float("nan")}, {"type": "x"}, {"layer": "x"},
        {"valid_to": datetime(2026, 1, 1)},
        {"ttl": 0}, {"ttl": -5}, {"ttl": "1"}, {"ttl": float("inf")}, {"ttl": float("nan")}, {"ttl": timedelta.max},
        {"colour": "red"}, {"id": UNKNOWN}, {"created_at": datetime(2026, 1, 1, tzinfo=UTC)}, {"title": "x" * 5000},
        {"content": "new", "colour": "red"}, {"clear": "expires_at"}, {"clear": ["content"]},
        {"title": "x", "clear": ["title"]},
    ]  # fmt: skip
    for changes in wrong:
        with pytest.raises(InvalidInput):
            memory.records.update(record.id, **changes)
    with pytest.raises(LimpetError):
        memory.records.update(other.id, content="with a key that is taken", key="taken")
    assert every_row(memory) == before


def test_update_without_changes_adds_no_version(memory: Limpet) -> None:
    record = memory.remember("text", user="alice", tags=["a"])
    assert memory.records.update(record.id) == record
    assert memory.records.update(record.id, content="text", tags=["a"]) == record
    assert memory.records.history(record.id) == [record]


def test_history_returns_all_versions_in_order(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("v1", user="alice")
    for number in range(2, 21):
        clock.advance(1)
        timed.records.update(record.id, content=f"v{number}")
    assert contents(timed.records.history(record.id)) == [f"v{number}" for number in range(1, 21)]
    assert timed.admin.stats()["chunks"] == 1


def test_history_stays_ordered_when_clock_moves_back(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("one", user="alice")
    clock.advance(days=-30)
    changed = timed.records.update(record.id, content="two")
    assert changed.updated_at is not None
    assert record.updated_at is not None
    assert changed.updated_at >= record.updated_at
    assert contents(timed.records.history(record.id)) == ["one", "two"]


def test_update_from_many_threads_loses_no_version(memory: Limpet) -> None:
    record = memory.remember("v", user="alice")
    at_once(lambda number: memory.records.update(record.id, content=f"version by {number}"))
    history = memory.records.history(record.id)
    assert [version.version for version in history] == list(range(1, 10))
    assert sorted(contents(history)[1:]) == [f"version by {number}" for number in range(8)]
    assert faults(memory) == []


# Time


def test_records_as_of_returns_version_of_that_time(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    city = timed.remember("lives in Porto", user="alice", key="city")
    clock.advance(days=10)
    timed.remember("lives in Lisbon", user="alice", key="city")
    clock.advance(days=10)
    timed.remember("has a dog", user="alice")

    def then(days: float) -> list[str]:
        return sorted(contents(timed.records(user="alice", as_of=start + timedelta(days=days))))

    assert then(-1) == []
    assert then(0) == ["lives in Porto"]
    assert then(9.9) == ["lives in Porto"]
    assert then(10) == ["lives in Lisbon"]
    assert then(25) == ["has a dog", "lives in Lisbon"]
    assert contents(timed.records.history(city.id)) == ["lives in Porto", "lives in Lisbon"]


def test_records_as_of_returns_value_before_later_change(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    timed.remember("lives in Porto", user="alice", key="city")
    clock.advance(days=10)
    timed.remember("lives in Lisbon", user="alice", key="city", valid_from=clock.now)
    assert contents(timed.records(user="alice", as_of=start + timedelta(days=5))) == ["lives in Porto"]
    assert contents(timed.records(user="alice")) == ["lives in Lisbon"]


def test_records_as_of_includes_record_ended_later(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    record = timed.remember("works at Acme", user="alice")
    clock.advance(days=10)
    timed.records.update(record.id, valid_to=clock.now)
    clock.advance(days=1)
    assert timed.records(user="alice") == []
    assert contents(timed.records(user="alice", history=True)) == ["works at Acme"]
    assert contents(timed.records(user="alice", as_of=start + timedelta(days=5))) == ["works at Acme"]
    assert timed.records(user="alice", as_of=start + timedelta(days=10)) == []


def test_record_with_future_valid_from_is_not_returned_yet(timed: Limpet, clock: FakeClock) -> None:
    timed.remember("the walrus moves to Rome", user="alice", valid_from=clock.now + timedelta(days=30))
    assert timed.records(user="alice") == []
    assert timed.recall("walrus", user="alice") == []
    clock.advance(days=30)
    assert len(timed.records(user="alice")) == 1
    assert len(timed.recall("walrus", user="alice")) == 1


def test_record_expires_after_ttl(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("walrus for a minute", user="alice", ttl=60, metadata={"k": "v"})
    timed.remember("walrus for an hour", user="alice", ttl=timedelta(hours=1))
    clock.advance(59.999999)
    assert len(timed.records(user="alice")) == 2
    clock.advance(microseconds=1)
    assert contents(timed.records(user="alice")) == ["walrus for an hour"]
    assert timed.records.search_metadata("k", "v", user="alice") == []
    assert [hit.text for hit in timed.recall("walrus", user="alice")] == ["walrus for an hour"]
    assert timed.records.count(user="alice") == 1
    assert timed.records.get(record.id).content == "walrus for a minute"
    assert len(timed.records(user="alice", as_of=clock.now - timedelta(seconds=30))) == 2


def test_session_delete_removes_its_records(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    inner = memory.remember("inner", session=session.id, key="k", tags=["t"])
    outer = memory.remember("outer", user="alice", key="k", tags=["t"])
    session.delete()
    with pytest.raises(RecordNotFound):
        memory.records.get(inner.id)
    assert memory.records(user="alice") == [outer]
    assert sql(memory, "SELECT count(*) FROM record_tags") == [(1,)]
    assert faults(memory) == []


def _let_statement_fail(memory: Limpet, fail_at: int) -> tuple[Any, list[int]]:
    """Let the n-th statement of the write connection fail. Answers how to undo it, and what was counted."""
    store: Any = memory._runtime.store
    db = store._connection.db
    counted = [0]
    real = {name: getattr(db, name) for name in ("one", "all", "run", "run_many")}

    def wrap(name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            counted[0] += 1
            if counted[0] == fail_at:
                raise StorageError("the disk is gone")
            return real[name](*arguments, **options)

        return call

    for name in real:
        setattr(db, name, wrap(name))

    def undo() -> None:
        for name in real:
            delattr(db, name)

    return undo, counted


def test_update_that_fails_at_any_statement_changes_nothing(memory: Limpet) -> None:
    record = memory.remember("the first walrus", user="alice", key="k", tags=["a", "b"], metadata={"m": "1"})
    before = every_row(memory)
    fail_at = 0
    while True:
        fail_at += 1
        undo, counted = _let_statement_fail(memory, fail_at)
        try:
            memory.records.update(record.id, content="the second penguin", tags=["c"], metadata={"n": "2"}, key="l")
        except StorageError:
            undo()
            assert every_row(memory) == before, f"statement {fail_at}"
            assert memory.records.get(record.id) == record
        else:
            undo()
            break
    assert fail_at > 8
    assert counted[0] < fail_at
    assert memory.records.get(record.id).content == "the second penguin"
    assert faults(memory) == []
