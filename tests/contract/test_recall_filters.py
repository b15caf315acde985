"""Recall within a session, a kind, a time, or an owner."""

from datetime import timedelta
from typing import Any

import pytest

from limpet import Limpet
from limpet.errors import InvalidInput, SessionNotFound
from limpet.testing import FakeClock
from tests.contract.test_recall import memory, said, store, timed

pytestmark = pytest.mark.every_backend


__all__ = ["memory", "timed"]  # fixtures


# Filters


def test_recall_covers_one_session_or_all_of_user(memory: Limpet) -> None:
    one, two = memory.session("t", "1", user="alice"), memory.session("t", "2", user="alice")
    one.append("user", "walrus one")
    two.append("user", "walrus two")
    inner = memory.remember("walrus record of one", session=one.id)
    memory.remember("walrus record of alice", user="alice")
    store(memory, "walrus of bob", user="bob", chat="3")
    assert set(said(memory.recall("walrus", user="alice"))) == {
        "walrus one",
        "walrus two",
        "walrus record of one",
        "walrus record of alice",
    }
    assert set(said(memory.recall("walrus", session=one.id))) == {"walrus one", "walrus record of one"}
    assert [hit.source.id for hit in memory.recall("walrus", session=one.id, kinds=["record"])] == [inner.id]
    assert said(memory.recall("walrus", session=two.id, user="alice")) == ["walrus two"]
    with pytest.raises(SessionNotFound):
        memory.recall("walrus", session=one.id, user="bob")


def test_recall_filters_by_kind(memory: Limpet) -> None:
    store(memory, "walrus said")
    memory.remember("walrus known", user="alice")
    assert said(memory.recall("walrus", user="alice", kinds=["message"])) == ["walrus said"]
    assert said(memory.recall("walrus", user="alice", kinds="record")) == ["walrus known"]
    assert memory.recall("walrus", user="alice", kinds=["document"]) == []
    assert len(memory.recall("walrus", user="alice", kinds=["message", "record"])) == 2
    assert len(memory.recall("walrus", user="alice", kinds=[])) == 2
    wrong: list[Any] = [["fact"], 5, [5], [None]]
    for bad in wrong:
        with pytest.raises(InvalidInput):
            memory.recall("walrus", user="alice", kinds=bad)


def test_recall_filters_by_since_and_until(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    session = timed.session("t", "1", user="alice")
    for day in range(4):
        session.append("user", f"walrus of day {day}", created_at=start + timedelta(days=day))

    def found(**filters: Any) -> list[str]:
        return sorted(hit.text[-1] for hit in timed.recall("walrus", user="alice", **filters))

    assert found() == ["0", "1", "2", "3"]
    assert found(since=start + timedelta(days=1)) == ["1", "2", "3"]
    assert found(until=start + timedelta(days=1)) == ["0"]
    assert found(since=start + timedelta(days=1), until=start + timedelta(days=3)) == ["1", "2"]
    assert found(as_of=start + timedelta(days=2)) == ["0", "1", "2"]
    assert found(since=start + timedelta(days=9)) == []


def test_recall_finds_repeated_text_at_both_times(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    session = timed.session("t", "1", user="alice")
    session.append("user", "I need the walrus report")
    clock.advance(days=30)
    session.append("user", "I need the walrus report")
    assert len(timed.recall("walrus", user="alice", until=start + timedelta(days=1))) == 1
    assert len(timed.recall("walrus", user="alice", since=start + timedelta(days=29))) == 1


def test_recall_as_of_omits_later_versions(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    timed.remember("the walrus lives in Porto", user="alice", key="city")
    clock.advance(days=10)
    timed.remember("the walrus lives in Lisbon", user="alice", key="city")
    for hit in timed.recall("walrus", user="alice", as_of=start + timedelta(days=5)):
        assert hit.text == "the walrus lives in Porto"
    assert said(timed.recall("walrus", user="alice", as_of=clock.now)) == ["the walrus lives in Lisbon"]


def test_recall_as_of_omits_records_not_valid_then(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    timed.remember("walrus for a day", user="alice", ttl=timedelta(days=1))
    timed.remember("walrus from day five", user="alice", valid_from=start + timedelta(days=5))
    ended = timed.remember("walrus until day three", user="alice")
    clock.advance(days=3)
    timed.records.update(ended.id, valid_to=clock.now)
    clock.advance(days=30)

    def then(days: float) -> set[str]:
        return set(said(timed.recall("walrus", user="alice", as_of=start + timedelta(days=days))))

    assert then(2) == {"walrus until day three"}
    assert then(4) == set()
    assert then(6) == {"walrus from day five"}


def test_recall_of_agent_and_global_memory_requires_owner(memory: Limpet) -> None:
    memory.remember("walrus of alice", user="alice")
    memory.remember("walrus of the coder", agent="coder")
    memory.remember("walrus of everybody", scope="global")
    assert said(memory.recall("walrus", user="alice")) == ["walrus of alice"]
    assert said(memory.recall("walrus", agent="coder")) == ["walrus of the coder"]
    assert said(memory.recall("walrus", scope="global")) == ["walrus of everybody"]
    assert memory.recall("walrus", agent="alice") == []
    assert memory.recall("walrus", user="coder") == []


def test_recall_rejects_too_many_filters(memory: Limpet) -> None:
    store(memory, "walrus")
    with pytest.raises(InvalidInput):
        memory.recall("walrus", user="alice", tags=[f"tag {number}" for number in range(5000)])
    assert memory.recall("walrus", user="alice", kinds=["message"] * 10_000)
    assert memory.records(user="alice", layers=["semantic"] * 10_000, types=["fact"] * 10_000) == []
