"""Faults of learning that cost somebody their memory, each with a test that fails where it is made again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from limpet import Config, Limpet
from limpet.testing import FakeClock
from tests.extracted_records import learn, of_session


@pytest.fixture
def patient(store_url: str, clock: FakeClock) -> Iterator[Limpet]:
    """A store that archives by age, and does its background work only when told to."""
    config = Config.load(overrides={"jobs.worker": False, "learn.decay": True})
    with Limpet.open(store_url, config=config, clock=clock) as opened:
        yield opened


def live_on(memory: Limpet, clock: FakeClock, days: int, *, recalling: str | None = None) -> None:
    """Days in which the work that is due is done, and perhaps something is recalled."""
    for _ in range(days):
        clock.advance(days=1)
        if recalling is not None:
            memory.recall(recalling, user="alice")
        memory.jobs.run()


# With time


@pytest.mark.slow
def test_decay_deletes_stated_preferences_and_ignores_use(patient: Limpet, clock: FakeClock) -> None:
    stated = patient.remember("I prefer tea", user="alice", type="preference", confidence=0.1, salience=0.0)
    used = learn(patient, "Alice plays the harpsichord")
    unused = learn(patient, "Alice once saw a walrus", layer="procedural", confidence=0.1, salience=0.1)
    with patient.session("test", "1", user="alice").turn("Hello") as turn:
        turn.reply("Hello.")
    live_on(patient, clock, 100)
    assert patient.records.get(stated.id).archived_at is None
    assert patient.records.get(unused.id).archived_at is not None
    assert [hit.source.id for hit in patient.recall("tea", user="alice")] == [stated.id]
    assert patient.records.get(used.id).archived_at is not None
    patient.records.revive(used.id)
    live_on(patient, clock, 100, recalling="Does Alice play the harpsichord?")
    assert patient.records.get(used.id).archived_at is None
    live_on(patient, clock, 400)
    assert patient.records.get(stated.id).archived_at is None


def test_promotion_makes_content_of_one_chat_visible_to_all(patient: Limpet, clock: FakeClock) -> None:
    chat, other = (patient.session("test", key, user="alice") for key in ("1", "2"))
    learn(patient, "The surprise party is on Friday", layer="episodic", confidence=0.99, home=of_session(chat))
    with chat.turn("Hello") as turn:
        turn.reply("Hello.")
    live_on(patient, clock, 2)
    [promoted] = [record for record in patient.records(user="alice") if record.origin == "promoted"]
    assert promoted.session_id == chat.id
    assert "Friday" in chat.context("When is the surprise party?").text
    assert "Friday" not in other.context("When is the surprise party?").text
    assert "Friday" not in patient.profile("alice").text
    assert patient.recall("surprise party", user="alice", session=other.id) == []
