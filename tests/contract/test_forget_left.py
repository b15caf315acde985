"""What forget says is left, and that a dry run says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from limpet import Config, Limpet
from limpet.errors import RecordNotFound
from limpet.testing import FakeClock
from tests.contract.test_forget_derived import everything
from tests.contract.test_learning import QUIET, learned, learning, opening, talk

pytestmark = pytest.mark.every_backend

__all__ = ["learning", "opening"]  # fixtures


def test_forget_reports_remaining_copies(learning: Limpet) -> None:
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


def test_forget_dry_run_changes_nothing(learning: Limpet) -> None:
    session = talk(learning, "I live in Porto")
    would = learning.forget(query="Porto", user="alice", dry_run=True)
    assert len(would.ids) == 2
    assert session.messages()[0].text == "I live in Porto"
    assert len(learned(learning)) == 1


@pytest.mark.parametrize("everywhere", [False, True])
def test_forget_dry_run_computes_ids_counts_and_left(learning: Limpet, everywhere: bool) -> None:
    session = learning.session("test", "1", user="alice")
    with session.turn("I live in Porto") as turn:
        turn.reply("Porto is lovely.")
    learning.jobs.run()
    (home,) = learned(learning)
    would = learning.forget(home.id, everywhere=everywhere, dry_run=True)
    assert would.sentences == (("I live in Porto", "Porto is lovely.") if everywhere else ("I live in Porto",))
    assert [message.text for message in session.messages()] == ["I live in Porto", "Porto is lovely."]
    gone = learning.forget(home.id, everywhere=everywhere)
    assert (gone.ids, gone.counts, gone.left) == (would.ids, would.counts, would.left)
    named = [place for place in gone.left if not place.startswith("the notes")]  # where the store has a folder
    assert named == ([] if everywhere else [f"message 2 of session {session.id}"])
    assert gone.sentences == ()


def test_forget_dry_run_answers_as_the_real_run(tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(tmp_path, config=Config.load(overrides=QUIET), clock=clock) as memory:
        session = memory.session("test", "1", user="alice")
        with session.turn("Hello. I live in Porto.") as turn:
            turn.reply("Porto is lovely.")
        memory.jobs.run()
        memory.notes.long_term("alice").write("- tea\n- likes Porto")
        session.set_working_memory("They are in Porto.")
        session.swap_summary("They talked about Porto.", 2, 0)
        (home,) = learned(memory)
        before = everything(memory), memory.notes.day("alice")
        for everywhere in (False, True):
            by_query = memory.forget(query="Porto", user="alice", everywhere=everywhere, dry_run=True)
            by_id = memory.forget(home.id, everywhere=everywhere, dry_run=True)
            assert (by_id.counts, set(by_id.ids), by_id.left) == (by_query.counts, set(by_query.ids), by_query.left)
            assert "I live in Porto." in by_id.sentences
            assert (everything(memory), memory.notes.day("alice")) == before
            if everywhere:
                done = memory.forget(home.id, everywhere=True)
                assert (done.counts, done.ids, done.left) == (by_id.counts, by_id.ids, by_id.left)


def test_forget_everywhere_removes_value_from_replies_summaries_and_notes(tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(tmp_path, config=Config.load(overrides=QUIET), clock=clock) as memory:
        session = memory.session("test", "1", user="alice")
        with session.turn("Hello. I live in Porto.") as turn:
            turn.reply("Good morning. Porto is lovely.")
        memory.jobs.run()
        memory.notes.long_term("alice").write("- tea\n- likes Porto\n")
        other = memory.session("test", "2", user="alice")
        other.append("user", "Which port?")
        other.swap_summary("They talked about Porto.", 1, 0)
        stated = memory.remember("Porto has a bridge", user="alice")
        (home,) = learned(memory)
        left = memory.forget(home.id, dry_run=True).left
        assert set(left) == {
            f"message 2 of session {session.id}",
            f"record {stated.id}",
            f"the summary of session {other.id}",
            "MEMORY.md",
            "the notes of 2026-03-10",
        }
        gone = memory.forget(home.id, everywhere=True)
        assert gone.left == (f"record {stated.id}",)
        assert (gone.counts["messages"], gone.counts["summaries"], gone.counts["note lines"]) == (2, 1, 2)
        assert [message.text for message in session.messages()] == [
            "Hello. [forgotten]",
            "Good morning. [forgotten]",
        ]
        assert memory.notes.long_term("alice").read() == "- tea\n"
        assert "Porto" not in memory.notes.day("alice")
        summary = other.summary()
        assert summary is not None
        assert "Porto" not in summary.text


def test_forget_names_schedules_and_what_other_sessions_keep(learning: Limpet) -> None:
    with learning.session("test", "1", user="alice").turn("I live in Porto.") as turn:
        turn.reply("Noted.")
    learning.jobs.run()
    other = learning.session("test", "2", user="alice", metadata={"city": "Porto"})
    other.set_working_memory("lives in Porto")
    due = learning.schedules.create(user="alice", goal="tell me the weather in Porto", cadence="every: 1d")
    learning.schedules.create(user="alice", goal="tell me the time", cadence="every: 1d")
    learning.schedules.create(user="bob", goal="tell me the weather in Porto", cadence="every: 1d")
    gone = learning.forget(query="Porto", user="alice")
    assert set(gone.left) == {
        f"working_memory of session {other.id}",
        f"the metadata of session {other.id}",
        f"schedule {due.id}",
    }


def test_forget_dry_run_everywhere_names_notes_that_only_mention_it(learning: Limpet) -> None:
    with learning.session("test", "1", user="alice").turn("My salary is 91234 euros.") as turn:
        turn.reply("Noted.")
    learning.jobs.run()
    learning.notes.long_term("alice").write("- 91234 a year\n- 91234 euros of salary\n")
    (salary,) = learned(learning)
    rehearsed = learning.forget(salary.id, everywhere=True, dry_run=True)
    gone = learning.forget(salary.id, everywhere=True)
    assert gone.left == rehearsed.left == ("MEMORY.md",)
    assert gone.counts == rehearsed.counts
    assert learning.notes.long_term("alice").read() == "- 91234 a year\n"


REPEATED = {
    "I live in Zanzibarville.": (
        *("You live in Zanzibarville.", "Noted: you live in Zanzibarville.", "Great! You live in Zanzibarville now."),
        *("I'll remember that you live in Zanzibarville.", "Zanzibarville is a lovely place to live."),
        *("So you're in Zanzibarville, nice.", "Nice, Zanzibarville!", "Living in Zanzibarville must be fun."),
        *("Okay, I've saved that you live in Zanzibarville.", "Your home is Zanzibarville, noted."),
        *("Got it, you live in Zanzibarville.", "Sure. Since you live in Zanzibarville, the ferry is near."),
    ),
    "My salary is 91234 euros.": ("Thanks, your salary of 91234 euros is noted.", "91234, that is a lot!"),
    "My PIN is 4821.": ("I will keep 4821 for you.", "Your PIN is safe with me."),
    "My therapist is Dr Okafor.": ("Okafor is said to be good.", "How is your therapist?"),
    "I am 34 years old.": ("34 is a good age.",),
    "I work at Acme Robotics.": ("Acme builds fine robots.",),
    "I'm getting divorced.": ("I am sorry about the divorce.",),
    "I have diabetes.": ("I'm sorry to hear about your diabetes.",),
}


@pytest.mark.parametrize("said", REPEATED)
def test_forget_gives_no_false_all_clear_for_replies_that_repeat_it(
    tmp_path: Path, clock: FakeClock, said: str
) -> None:
    """Each reply is gone or named, and after ``everywhere`` nothing is left of it; the dry run answers the same."""
    for number, reply in enumerate(REPEATED[said]):
        with Limpet.open(tmp_path / str(number), config=Config.load(overrides=QUIET), clock=clock) as memory:
            session = memory.session("test", "1", user="alice")
            with session.turn(said) as turn:
                turn.reply(f"Good morning. {reply}")
            with session.turn("What is a good book?") as turn:
                turn.reply("Read something by Austen.")
            memory.jobs.run()
            (fact,) = learned(memory)
            would = memory.forget(fact.id, dry_run=True)
            named = [place for place in would.left if place.startswith("message")]
            gone = any(sentence in reply for sentence in would.sentences)
            assert gone or named == [f"message 2 of session {session.id}"], reply
            assert memory.forget(fact.id, everywhere=True).left == ()
            assert reply not in [message.text for message in session.messages()]
            assert [message.text for message in session.messages()][2:] == [
                "What is a good book?",
                "Read something by Austen.",
            ]


def test_forget_everywhere_leaves_no_record_of_a_turn_that_says_it(learning: Limpet) -> None:
    session = learning.session("test", "1", user="alice")
    talk = {"I live in Porto.": "Noted.", "Where is coffee?": "In Porto, by the river.", "A book?": "Read Austen."}
    for said, answer in talk.items():
        with session.turn(said) as turn:
            turn.reply(answer)
    learning.jobs.run()
    (home,) = learned(learning)
    coffee = next(record for record in learning.records(user="alice") if "coffee" in record.content)
    left = learning.forget(home.id, dry_run=True).left
    assert left == (f"message 4 of session {session.id}", f"record {coffee.id}", "the notes of 2026-03-10")
    would = learning.forget(home.id, everywhere=True, dry_run=True)
    gone = learning.forget(home.id, everywhere=True)
    assert (gone.counts, gone.ids, gone.left) == (would.counts, would.ids, ())
    assert coffee.id in gone.ids
    assert [record.content for record in learning.records(user="alice")] == ["Asked: A book? | Answered: Read Austen."]


def test_forget_of_a_turn_names_the_messages_that_stay(learning: Limpet) -> None:
    session = learning.session("test", "1", user="alice")
    with session.turn("Where is coffee?") as turn:
        turn.reply("In Porto, by the river.")
    [record] = learning.records(user="alice")
    gone = learning.forget(record.id)
    assert gone.ids == (record.id,)
    assert gone.left == (f"message 1 of session {session.id}", f"message 2 of session {session.id}")


def test_forget_names_mentions_elsewhere_and_keeps_statements_about_others(learning: Limpet) -> None:
    """What only mentions it may be about anything: it is named, and stays even when all else goes."""
    talk(learning, "I work at Acme Robotics.", "My sister lives in Graz.")
    other = learning.session("test", "2", user="alice")
    other.append("assistant", "Acme makes anvils in cartoons.")
    learning.documents.add("note:jobs", "A list of firms: Acme, Umbrella.", user="alice")
    (work,) = [record for record in learned(learning) if record.attribute == "employer"]
    gone = learning.forget(work.id, everywhere=True)
    assert set(gone.left) == {f"message 1 of session {other.id}", "document note:jobs"}
    (sister,) = [record for record in learned(learning) if "Graz" in record.content]
    assert learning.forget(sister.id).left == ()


def test_forget_by_query_reports_where_words_remain(tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(tmp_path, config=Config.load(overrides=QUIET), clock=clock) as memory:
        session = memory.session("test", "1", user="alice")
        with session.turn("I live in Porto") as turn:
            turn.reply("Porto is lovely.")
        memory.jobs.run()
        memory.notes.long_term("alice").write("- tea\n- likes Porto")
        session.set_working_memory("They are in Porto.")
        assert memory.forget(query="Porto", user="alice").left == (
            f"message 2 of session {session.id}",
            "MEMORY.md",
            f"working_memory of session {session.id}",
            "the notes of 2026-03-10",
        )


def test_forget_reports_notes_that_mention_value(tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(tmp_path, config=Config.load(overrides=QUIET), clock=clock) as memory:
        session = talk(memory, "I live in Porto")
        session.set_working_memory("home: Porto")
        session.kv.set("tea", "green")
        memory.notes.long_term("alice").write("- resident of Porto\n- 44")
        (home,) = learned(memory)
        assert memory.forget(home.id).left == ("MEMORY.md", f"working_memory of session {session.id}")


@pytest.mark.parametrize(("pattern", "named"), [("MEMORY.md", "MEMORY.md"), ("20*.md", "the notes of 2026-03-10")])
def test_forget_reports_unreadable_file_without_failing(
    pattern: str, named: str, tmp_path: Path, clock: FakeClock
) -> None:
    with Limpet.open(tmp_path, clock=clock, config=Config.load(overrides={"jobs.worker": False})) as memory:
        memory.notes.long_term("alice").write("Her own words\n")
        talk(memory, "I live in Porto")
        [home] = [record for record in memory.records(user="alice") if record.attribute == "home"]
        [file] = tmp_path.rglob(pattern)
        file.unlink()
        file.mkdir()
        assert memory.forget(home.id).left == (f"{named}, which cannot be read",)
        with pytest.raises(RecordNotFound):
            memory.records.get(home.id)
