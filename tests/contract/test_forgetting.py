"""Forget means forget: every copy, everything derived, found by no search afterwards, and truthful counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, Message, TextPart
from limpet.errors import RecordNotFound
from limpet.model.record import Origin
from limpet.testing import FakeClock
from tests.contract.test_learning import QUIET, learned, learning, opening, talk

pytestmark = pytest.mark.every_backend

__all__ = ["learning", "opening"]  # fixtures


def everything(hf: Limpet, user: str = "alice") -> str:
    """All that any verb shows of a user."""
    records = [hf.records.history(record.id) for record in hf.records(user=user, history=True, limit=1000)]
    hits = hf.recall("Where do I live? Porto", user=user, k=100)
    sessions = [hf.load_session(info.id) for info in hf.sessions(user=user, limit=1000)]
    spoken = [(session.messages(), session.summary(), session.context("Porto").text) for session in sessions]
    return repr((records, hits, spoken, hf.graph(user=user, fresh=True)))


def test_the_sentence_goes_from_its_message_and_everything_made_of_it(learning: Limpet) -> None:
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


def test_it_does_not_come_back(learning: Limpet) -> None:
    """Neither by learning again, nor by jobs that were waiting, nor by repair."""
    session = talk(learning, "I live in Porto. I love tea.")
    learning.forget(query="Porto", user="alice")
    session.learn()
    learning.jobs.run()
    learning.admin.doctor(repair=True)
    assert "Porto" not in everything(learning)


def test_a_summary_is_told_anew_without_it(learning: Limpet) -> None:
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


def test_what_was_superseded_goes_with_its_own_id_only(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "I live in Porto")
    clock.advance(days=1)
    talk(learning, "I moved to Lisbon")
    (old,) = [record for record in learned(learning, history=True) if record.value == "Porto"]
    learning.forget(old.id)
    assert "Porto" not in everything(learning)
    assert [record.value for record in learned(learning)] == ["Lisbon"]


def test_another_users_words_stay(learning: Limpet) -> None:
    talk(learning, "I live in Porto")
    bob = talk(learning, "I live in Porto", user="bob")
    learning.forget(query="Porto", user="alice")
    assert bob.messages()[0].text == "I live in Porto"
    assert len(learned(learning, "bob")) == 1


def test_what_is_left_is_named(learning: Limpet) -> None:
    """Said outright, said elsewhere without being learned, or in a document: nobody is told that it is gone."""
    stated = learning.remember("I live in Porto", user="alice", pinned=True)
    learning.documents.add("note:home", "I live in Porto. So there.", user="alice")
    session = talk(learning, "I love tea")
    other = learning.session("test", "2", user="alice")
    other.append("assistant", "I live in Porto")
    fact = learning.remember("I live in Porto", user="alice", key="home")
    gone = learning.forget(fact.id)
    assert fact.id in gone.ids
    assert f"record {stated.id}" in gone.left
    assert "document note:home" in gone.left
    assert f"message 1 of session {other.id}" in gone.left
    assert session.count() == 2


def test_parts_and_masked_secrets_are_found_in_the_message(learning: Limpet) -> None:
    secret = "sk-" + "proj-" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9" * 2
    session = learning.session("test", "1", user="alice")
    session.extend([Message.new("user", [TextPart(f"I work at Acme with {secret}."), TextPart("And more.")])])
    session.append("assistant", "ok")
    session.learn()
    learning.forget(query="Acme", user="alice")
    assert secret not in session.messages()[0].text
    assert "And more." in session.messages()[0].text


def test_a_deleted_session_is_no_obstacle(learning: Limpet) -> None:
    session = talk(learning, "I live in Porto")
    session.delete()
    for record in learned(learning):
        learning.forget(record.id)
    assert learned(learning) == []


def test_a_dry_run_changes_nothing(learning: Limpet) -> None:
    session = talk(learning, "I live in Porto")
    would = learning.forget(query="Porto", user="alice", dry_run=True)
    assert len(would.ids) == 2
    assert session.messages()[0].text == "I live in Porto"
    assert len(learned(learning)) == 1


def test_the_line_in_the_days_notes_goes_too(tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(tmp_path, config=Config.load(overrides=QUIET), clock=clock) as hf:
        talk(hf, "Hello. I live in Porto.", "I love tea")
        assert "Porto" in hf.notes.day("alice")
        gone = hf.forget(query="Porto", user="alice")
        assert "Porto" not in hf.notes.day("alice")
        assert "I love tea" in hf.notes.day("alice")
        assert "[forgotten]" in hf.notes.day("alice")
        assert gone.counts["note lines"] == 1
    text = "\n".join(path.read_text(errors="ignore") for path in tmp_path.rglob("*.md"))
    assert "Porto" not in text


def test_what_was_said_again_in_other_words_goes_too(learning: Limpet) -> None:
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


def test_what_the_same_sentence_taught_beside_it_stays_without_the_sentence(learning: Limpet) -> None:
    talk(learning, "I live in Porto and my dog is called Rex.")
    (home,) = [record for record in learned(learning) if record.attribute == "home"]
    learning.forget(home.id)
    learning.jobs.run()
    assert "Porto" not in everything(learning)
    assert [record.content for record in learned(learning)] == ["The user's dog is called Rex."]


def test_where_the_words_of_a_query_still_stand_is_named(tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(tmp_path, config=Config.load(overrides=QUIET), clock=clock) as hf:
        session = hf.session("test", "1", user="alice")
        with session.turn("I live in Porto") as turn:
            turn.reply("Porto is lovely.")
        hf.jobs.run()
        hf.notes.long_term("alice").write("- tea\n- likes Porto")
        session.set_working_memory("They are in Porto.")
        assert hf.forget(query="Porto", user="alice").left == (
            f"message 2 of session {session.id}",
            "MEMORY.md",
            f"working_memory of session {session.id}",
            "the notes of 2026-03-10",
        )


def test_what_an_agent_noted_in_its_own_words_is_named(tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(tmp_path, config=Config.load(overrides=QUIET), clock=clock) as hf:
        session = talk(hf, "I live in Porto")
        session.set_working_memory("home: Porto")
        session.kv.set("tea", "green")
        hf.notes.long_term("alice").write("- resident of Porto\n- 44")
        (home,) = learned(hf)
        assert hf.forget(home.id).left == ("MEMORY.md", f"working_memory of session {session.id}")


# PITFALLS, "Forgetting"


def test_forgot_one_item_while_the_episodic_twin_stays_and_comes_back(learning: Limpet) -> None:
    talk(learning, "I live in Porto")
    (fact,) = learned(learning)
    gone = learning.forget(fact.id)
    assert not [record for record in learning.records(user="alice") if record.origin is Origin.TURN]
    assert gone.total == 2
    assert learning.recall("Porto", user="alice") == []


def test_vectors_graph_nodes_or_job_payloads_survive(opening: Any) -> None:
    from limpet.providers.hashed import HashEmbedder

    hf = opening(embedder=HashEmbedder())
    session = hf.session("test", "1", user="alice")
    with session.turn("My sister Ludmilla lives in Porto") as turn:
        turn.reply("ok")
    hf.jobs.run()
    assert "Ludmilla" in repr(hf.graph(user="alice", fresh=True))
    for record in learned(hf):
        hf.forget(record.id)
    assert "Ludmilla" not in repr(hf.graph(user="alice", fresh=True))
    assert "Ludmilla" not in repr(hf.jobs.list())
    assert [finding for finding in hf.admin.doctor() if not finding.ok] == []
    hf.jobs.run()
    assert "Ludmilla" not in repr(hf.recall("Ludmilla", user="alice"))


def test_delete_all_of_a_user_with_a_missing_filter_wiped_every_user(learning: Limpet) -> None:
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


@pytest.mark.parametrize(("pattern", "named"), [("MEMORY.md", "MEMORY.md"), ("20*.md", "the notes of 2026-03-10")])
def test_a_file_that_cannot_be_read_is_named_and_does_not_say_that_forgetting_failed(
    pattern: str, named: str, tmp_path: Path, clock: FakeClock
) -> None:
    with Limpet.open(tmp_path, clock=clock, config=Config.load(overrides={"jobs.worker": False})) as hf:
        hf.notes.long_term("alice").write("Her own words\n")
        talk(hf, "I live in Porto")
        [home] = [record for record in hf.records(user="alice") if record.attribute == "home"]
        [file] = tmp_path.rglob(pattern)
        file.unlink()
        file.mkdir()
        assert hf.forget(home.id).left == (f"{named}, which cannot be read",)
        with pytest.raises(RecordNotFound):
            hf.records.get(home.id)
