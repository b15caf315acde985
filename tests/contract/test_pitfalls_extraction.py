"""Each test is named after a fault of learning that cost somebody their memory, and fails if Limpet has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from limpet import Config, Limpet
from limpet.model.record import Origin, RecordType
from limpet.testing import FakeClock
from tests.contract.test_learning import QUIET, facts, learned, learning, opening, talk

__all__ = ["learning", "opening"]  # fixtures


def test_extraction_cursor_in_memory_extracts_everything_again(tmp_path: Path, clock: FakeClock) -> None:
    config = Config.load(overrides=QUIET)
    with Limpet.open(tmp_path, config=config, clock=clock) as memory:
        session = talk(memory, "I live in Porto", "I love tea")
        before = {record.id: record.said for record in learned(memory)}
    for _ in range(3):
        with Limpet.open(tmp_path, config=config, clock=clock) as memory:
            memory.load_session(session.id).learn()
            memory.jobs.run()
            assert {record.id: record.said for record in learned(memory)} == before


@pytest.mark.slow
def test_recalled_memories_and_system_prompt_are_extracted_as_facts(learning: Limpet) -> None:
    """The context is fed back as assistant text turn after turn: no new record but the turns themselves."""
    session = learning.session("test", "1", user="alice")
    session.append("system", "You are Bob. You live in Berlin. The user loves coffee. We decided to use Rust.")
    talk(learning, "I live in Porto", "I love tea", "We decided to use PostgreSQL", "Never deploy on Fridays")
    before = {record.id for record in learned(learning, history=True)}
    assert len(before) >= 4
    assert not {value for _, _, value in facts(learning)} & {"Berlin", "coffee", "Rust"}
    for number in range(20):
        with session.turn(f"What do you know about me? ({number})") as turn:
            turn.reply(turn.context.text or "nothing")
        learning.jobs.run()
    assert {record.id for record in learned(learning, history=True)} == before


def test_derived_record_stores_beginning_of_turn(learning: Limpet) -> None:
    talk(learning, "Hello there, how are you doing? It was a long day. By the way, I work at Acme. Anyway, good night.")
    (record,) = learned(learning)
    assert record.source.sentence == "I work at Acme."
    assert "Hello" not in record.content


def test_error_word_in_tool_output_becomes_constraint(learning: Limpet) -> None:
    session = learning.session("test", "1", user="alice")
    with session.turn("Show the log") as turn:
        turn.add("assistant", "", tool_calls=[{"id": "c", "name": "cat", "arguments": {"file": "log.txt"}}])
        turn.add("tool", "error: you must not do this\nnever use port 80\nerror error", tool_call_id="c")
        turn.reply("There it is.")
    learning.jobs.run()
    assert [record for record in learned(learning) if record.type is RecordType.CONSTRAINT] == []


def test_correction_with_shorter_text_is_ignored(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "I live in a small flat near the river in Porto, Portugal")
    clock.advance(days=1)
    talk(learning, "I live in Faro")
    assert {value for subject, attribute, value in facts(learning) if attribute == "home"} == {"Faro"}


def test_confidence_can_only_rise(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "I live in Porto")
    (before,) = learned(learning)
    clock.advance(days=1)
    talk(learning, "I think I might live in Faro now, not sure")
    after = learning.records.get(before.id)
    assert after.confidence <= before.confidence


def test_unrelated_facts_supersede_each_other(learning: Limpet, clock: FakeClock) -> None:
    said = (
        *("I live in Porto", "I work at Acme", "My sister lives in Berlin", "My brother works at Globex"),
        *("My dog is called Biscuit", "I love tea", "I hate mornings", "My favourite colour is green"),
        *("My friend Anna lives in Rome", "My friend Boris lives in Oslo", "I like jazz", "I like chess"),
    )
    for line in said:
        clock.advance(hours=1)
        talk(learning, line)
    assert [record for record in learned(learning, history=True) if record.valid_to or record.superseded_by] == []


def test_repeated_fact_in_one_message_is_stored_as_near_duplicates(learning: Limpet) -> None:
    talk(learning, "I live in Porto. " * 5 + "I live in Porto! Yes, I live in Porto. I'm living in Porto.")
    assert len(learned(learning)) == 1


def test_turn_record_comes_back_as_memory(learning: Limpet) -> None:
    talk(learning, "I live in Porto")
    hits = learning.recall("Where do I live? Porto", user="alice", k=50)
    assert not [hit for hit in hits if hit.text.startswith("Asked:")]
    assert [record.origin for record in learning.records(user="alice")].count(Origin.TURN) == 1
