"""Forget means forget: every copy, everything derived, found by no search afterwards, and truthful counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, Message, TextPart
from limpet.model.record import Origin
from limpet.testing import FakeClock
from tests.contract.test_learning import QUIET, learned, learning, opening, talk

pytestmark = pytest.mark.every_backend

__all__ = ["learning", "opening"]  # fixtures


def everything(memory: Limpet, user: str = "alice") -> str:
    """All that any verb shows of a user."""
    records = [memory.records.history(record.id) for record in memory.records(user=user, history=True, limit=1000)]
    hits = memory.recall("Where do I live? Porto", user=user, k=100)
    sessions = [memory.load_session(info.id) for info in memory.sessions(user=user, limit=1000)]
    spoken = [(session.messages(), session.summary(), session.context("Porto").text) for session in sessions]
    return repr((records, hits, spoken, memory.graph(user=user, fresh=True)))


def test_forget_redacts_sentence_in_message_and_deletes_derived_data(learning: Limpet) -> None:
    session = talk(learning, "Hello there. I live in Porto. I love tea.", "What is the time?")
    (home,) = [record for record in learned(learning) if record.attribute == "home"]
    gone = learning.forget(home.id)
    assert "Porto" not in everything(learning)
    assert session.messages()[0].text == "Hello there. [forgotten] I love tea."
    assert gone.counts["messages"] == 1
    assert gone.counts["records"] == len(gone.ids) == 2, "the fact and the record of its turn"
    assert gone.left == ()
    assert {record.value for record in learned(learning)} == {"tea"}
    assert [hit.text for hit in learning.recall("tea", user="alice") if hit.source.kind == "message"]
    assert [finding for finding in learning.admin.doctor() if not finding.ok] == []


def test_forgotten_fact_is_not_learned_again(learning: Limpet) -> None:
    """Neither by learning again, nor by jobs that were waiting, nor by repair."""
    session = talk(learning, "I live in Porto. I love tea.")
    learning.forget(query="Porto", user="alice")
    session.learn()
    learning.jobs.run()
    learning.admin.doctor(repair=True)
    assert "Porto" not in everything(learning)


def test_forget_rewrites_summary_without_fact(learning: Limpet) -> None:
    session = talk(learning, "I live in Porto", *(f"Tell me about number {number}" for number in range(12)))
    session.compact(keep=2)
    before = session.summary()
    assert before is not None
    assert "Porto" in before.text
    learning.forget(query="Porto", user="alice")
    after = session.summary()
    assert after is not None
    assert "Porto" not in after.text
    assert after.epoch > before.epoch
    assert after.upper_sequence == before.upper_sequence


def test_summary_without_model_leaves_out_what_no_longer_holds(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "I live in Porto.")
    clock.advance(days=3)
    session = talk(learning, "I moved to Lisbon.", "The boat is called Petrel.")
    session.compact(keep=0)
    summary = session.summary()
    assert summary is not None
    assert "I moved to Lisbon." in summary.text
    assert "The boat is called Petrel." in summary.text
    assert "Porto" not in summary.text


def test_forget_replaces_summary_that_was_written_with_quotes(learning: Limpet) -> None:
    session = talk(learning, "I live in Porto", "The boat is called Petrel")
    session.set_summary("They live in a town by the Douro, and have a boat.", 4)
    learning.forget(query="Porto", user="alice")
    after = session.summary()
    assert after is not None
    assert "Douro" not in after.text
    assert "[forgotten]" not in after.text
    assert ": The boat is called Petrel\n" in after.text
    assert (after.upper_sequence, after.written_sequence, after.written_characters) == (4, 0, 0)


def test_forget_superseded_record_keeps_current_one(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "I live in Porto")
    clock.advance(days=1)
    talk(learning, "I moved to Lisbon")
    (old,) = [record for record in learned(learning, history=True) if record.value == "Porto"]
    learning.forget(old.id)
    assert "Porto" not in everything(learning)
    assert [record.value for record in learned(learning)] == ["Lisbon"]


def test_forget_keeps_messages_of_other_users(learning: Limpet) -> None:
    talk(learning, "I live in Porto")
    bob = talk(learning, "I live in Porto", user="bob")
    learning.forget(query="Porto", user="alice")
    assert bob.messages()[0].text == "I live in Porto"
    assert len(learned(learning, "bob")) == 1


def test_forget_redacts_message_with_parts_and_masked_secret(learning: Limpet) -> None:
    secret = "sk-" + "proj-" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9" * 2
    session = learning.session("test", "1", user="alice")
    session.extend([Message.new("user", [TextPart(f"I work at Acme with {secret}."), TextPart("And more.")])])
    session.append("assistant", "ok")
    session.learn()
    learning.forget(query="Acme", user="alice")
    assert secret not in session.messages()[0].text
    assert "And more." in session.messages()[0].text


def test_forget_works_after_session_is_deleted(learning: Limpet) -> None:
    session = talk(learning, "I live in Porto")
    session.delete()
    for record in learned(learning):
        learning.forget(record.id)
    assert learned(learning) == []


def test_forget_by_query_does_not_match_the_words_that_the_engine_adds(learning: Limpet) -> None:
    """Every learned record begins with "The user", which nobody said."""
    talk(learning, "I live in Porto.", "I love tea")
    assert learning.forget(query="user", user="alice", dry_run=True).ids == ()
    stated = learning.remember("The user id is 7", user="alice")
    assert learning.forget(query="user", user="alice", dry_run=True).ids == (stated.id,)


def test_forget_by_query_ignores_words_around_what_was_said(learning: Limpet) -> None:
    talk(learning, "What is the weather?", "I asked my sister about tea")
    turns = [record for record in learning.records(user="alice") if record.origin is Origin.TURN]
    assert len(turns) == 2
    gone = learning.forget(query="asked", user="alice")
    assert {record.id for record in turns} & set(gone.ids) == {turn.id for turn in turns if "sister" in turn.content}
    assert learning.forget(query="answered", user="alice").ids == ()


def test_forget_by_query_ignores_reply_that_only_takes_notice(learning: Limpet) -> None:
    session = learning.session("test", "chat", user="alice")
    for said, reply in (
        ("I have a ferret.", "Noted."),
        ("My rug is red.", "Got it. Noted!"),
        ("I noted a stain.", "Oh."),
    ):
        with session.turn(said) as turn:
            turn.reply(reply)
    turns = [record for record in learning.records(user="alice") if record.origin is Origin.TURN]
    assert len(turns) == 3
    gone = learning.forget(query="noted", user="alice")
    assert {record.id for record in turns} & set(gone.ids) == {turn.id for turn in turns if "stain" in turn.content}


def test_forget_redacts_line_in_daily_notes(tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(tmp_path, config=Config.load(overrides=QUIET), clock=clock) as memory:
        talk(memory, "Hello. I live in Porto.", "I love tea")
        assert "Porto" in memory.notes.day("alice")
        gone = memory.forget(query="Porto", user="alice")
        assert "Porto" not in memory.notes.day("alice")
        assert "I love tea" in memory.notes.day("alice")
        assert "[forgotten]" in memory.notes.day("alice")
        assert gone.counts["note lines"] == 1
    text = "\n".join(path.read_text(errors="ignore") for path in tmp_path.rglob("*.md"))
    assert "Porto" not in text


def test_forget_redacts_paraphrases_in_other_messages(learning: Limpet) -> None:
    """One record, and its words in several messages, one of them a question's beginning, one a reply."""
    talk(learning, "I live in Porto, can you suggest a bar?")
    other = learning.session("test", "2", user="alice")
    for said, answered in (
        ("I'm based in Porto.", "Since you live in Porto, try Base."),
        ("My sister lives in Porto", "ok"),
    ):
        with other.turn(said) as turn:
            turn.reply(answered)
    learning.jobs.run()
    (home,) = [record for record in learned(learning) if record.subject == "user"]
    assert home.said == 2
    gone = learning.forget(home.id)
    assert learning.session("test", "1", user="alice").messages()[0].text == "[forgotten], can you suggest a bar?"
    assert [message.text for message in other.messages()] == [
        "[forgotten]",
        "[forgotten]",
        "My sister lives in Porto",
        "ok",
    ]
    assert gone.counts["messages"] == 3
    assert gone.left == ()
    assert [record.subject for record in learned(learning)] == ["user/sister"]


def test_forget_keeps_other_fact_of_redacted_sentence(learning: Limpet) -> None:
    talk(learning, "I live in Porto and my dog is called Rex.")
    (home,) = [record for record in learned(learning) if record.attribute == "home"]
    learning.forget(home.id)
    learning.jobs.run()
    assert "Porto" not in everything(learning)
    assert [record.content for record in learned(learning)] == ["The user's dog is called Rex."]


# Forgetting


def test_forget_deletes_episodic_twin_of_fact(learning: Limpet) -> None:
    talk(learning, "I live in Porto")
    (fact,) = learned(learning)
    gone = learning.forget(fact.id)
    assert not [record for record in learning.records(user="alice") if record.origin is Origin.TURN]
    assert gone.total == 2
    assert learning.recall("Porto", user="alice") == []


def test_forget_deletes_vectors_graph_nodes_and_job_payloads(opening: Any) -> None:
    from limpet.providers.hashed import HashEmbedder

    memory = opening(embedder=HashEmbedder())
    session = memory.session("test", "1", user="alice")
    with session.turn("My sister Ludmilla lives in Porto") as turn:
        turn.reply("ok")
    memory.jobs.run()
    assert "Ludmilla" in repr(memory.graph(user="alice", fresh=True))
    for record in learned(memory):
        memory.forget(record.id)
    assert "Ludmilla" not in repr(memory.graph(user="alice", fresh=True))
    assert "Ludmilla" not in repr(memory.jobs.list())
    assert [finding for finding in memory.admin.doctor() if not finding.ok] == []
    memory.jobs.run()
    assert "Ludmilla" not in repr(memory.recall("Ludmilla", user="alice"))


def test_forget_rejects_missing_filter_and_keeps_other_users(learning: Limpet) -> None:
    from limpet.errors import InvalidInput

    talk(learning, "I live in Porto", user="alice")
    talk(learning, "I live in Porto", user="bob")
    missing: list[dict[str, Any]] = [{}, {"query": "", "user": "alice"}]
    for wrong in missing:
        with pytest.raises(InvalidInput):
            learning.forget(**wrong)
    assert learning.forget(query="Porto").ids == ()  # without a user it is the default user's, and nobody else's
    assert len(learned(learning, "alice")) == 1
    learning.forget(query="Porto", user="alice")
    assert learned(learning, "alice") == []
    assert len(learned(learning, "bob")) == 1
