"""What was told in one sentence is several claims: when one changes, the others hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from limpet import Config, Limpet
from limpet.knowledge import apply
from limpet.knowledge.change import Change
from limpet.testing import FakeClock


@pytest.fixture
def memory(store_url: str, clock: FakeClock) -> Iterator[Limpet]:
    config = Config.load(overrides={"jobs.worker": False, "embedding.model": "none"})
    with Limpet.open(store_url, config=config, clock=clock) as opened:
        yield opened


def say(memory: Limpet, clock: FakeClock, *lines: str) -> None:
    session = memory.session("test", "1", user="alice")
    for line in lines:
        clock.advance(days=3)
        with session.turn(line) as turn:
            turn.reply("All right.")
        session.learn()


def test_each_thing_of_a_list_is_a_claim(memory: Limpet, clock: FakeClock) -> None:
    say(memory, clock, "I've got asthma, a mortgage and a very loud dog.")
    claims = {record.content for record in memory.records(user="alice") if not record.content.startswith("Asked")}
    assert claims == {
        "The user has got asthma.",
        "The user has got a mortgage.",
        "The user has got a very loud dog.",
    }


def test_message_is_about_what_it_names_of_things_told_together(
    memory: Limpet, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        apply, "find_changes", lambda message, claims: [Change(0.5, 0, len(message)) for claim in claims]
    )
    say(memory, clock, "I drive a Transit for work and a little Polo at home.", "The Polo is no longer with us, sadly")
    doubted = {record.content: "doubted_by" in record.metadata for record in memory.records(user="alice")}
    assert not doubted["The user drives a Transit for work."]
    assert doubted["The user drives a little Polo at home."]
