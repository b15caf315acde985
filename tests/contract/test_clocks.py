"""Clocks that differ: of two processes, of a machine before and after its clock is set, of who dates a message."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from limpet import Limpet
from limpet.testing import FakeClock

FAR = datetime(9999, 12, 31, tzinfo=UTC)


@pytest.fixture
def right() -> FakeClock:
    return FakeClock()


@pytest.fixture
def reader(durable_url: str, right: FakeClock, no_worker: None) -> Iterator[Limpet]:
    with Limpet.open(durable_url, clock=right) as opened:
        yield opened


@pytest.fixture(params=[timedelta(seconds=3), timedelta(days=400)], ids=["seconds", "a year"])
def ahead(request: pytest.FixtureRequest, durable_url: str, reader: Limpet, right: FakeClock) -> Iterator[Limpet]:
    """Another process on the same store, whose clock is ahead."""
    with Limpet.open(durable_url, clock=lambda: right() + request.param) as opened:
        yield opened


def test_clock_ahead_hides_no_record(ahead: Limpet, reader: Limpet) -> None:
    record = ahead.remember("I am allergic to peanuts", user="alice", key="allergy")
    assert [each.id for each in reader.records("alice")] == [record.id]
    assert reader.records.count("alice") == 1
    assert [hit.source.id for hit in reader.recall("Who is allergic to peanuts?", user="alice")] == [record.id]
    session = reader.session(user="alice")
    assert "peanuts" in session.context("What am I allergic to? Peanuts?", max_tokens=1000).text
    assert reader.forget(query="peanuts", user="alice", dry_run=True).ids == (record.id,)


def test_clock_ahead_hides_no_change_of_record(ahead: Limpet, reader: Limpet) -> None:
    reader.remember("The dog is Rex", user="alice", key="dog")
    ahead.remember("The dog is Biscuit", user="alice", key="dog")
    assert [each.content for each in reader.records("alice")] == ["The dog is Biscuit"]


def test_clock_ahead_hides_nothing_learned(ahead: Limpet, reader: Limpet) -> None:
    session = ahead.session(user="alice")
    session.append("user", "My dog is called Rex.")
    session.append("assistant", "Noted.")
    reader.load_session(session.id).learn()
    assert [each.attribute for each in reader.records("alice") if each.value == "Rex"]


def test_message_from_the_future_teaches_what_is_true_now(timed: Limpet, no_worker: None) -> None:
    session = timed.session(user="alice")
    session.append("user", "My dog is called Rex.", created_at=FAR)
    session.append("assistant", "Noted.", created_at=FAR)
    session.learn()
    assert [each for each in timed.records("alice") if each.value == "Rex"]


def test_message_from_the_future_does_not_lead_the_list_of_sessions(timed: Limpet, clock: FakeClock) -> None:
    first = timed.session(user="alice", chat="future")
    first.append("user", "from the future", created_at=FAR)
    first.refresh()
    assert first.last_active_at <= clock()
    clock.advance(minutes=1)
    second = timed.session(user="alice", chat="later")
    second.append("user", "later")
    assert [info.id for info in timed.sessions(user="alice")] == [second.id, first.id]


def test_record_that_begins_later_stays_hidden_until_then(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("The shop opens", user="alice", key="shop", valid_from=clock() + timedelta(days=2))
    timed.records.update(record.id, title="A shop")
    assert list(timed.records("alice")) == []
    assert timed.recall("When does the shop open?", user="alice") == []
    clock.advance(days=3)
    assert [each.id for each in timed.records("alice")] == [record.id]
    assert timed.recall("When does the shop open?", user="alice")


def test_record_of_the_past_is_not_true_before_it_began(timed: Limpet, clock: FakeClock) -> None:
    before = clock()
    clock.advance(days=2)
    timed.remember("The shop opened", user="alice", key="shop")
    assert list(timed.records("alice", as_of=before)) == []
    assert timed.recall("shop opened", user="alice", as_of=before) == []
