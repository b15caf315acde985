"""What turns teach: facts that stay true, once, whoever learns them and however often."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, Message, Record, Session
from limpet.model.record import Layer, Origin, RecordType
from limpet.providers.fakes import FakeEmbedder
from limpet.testing import FakeClock

QUIET = {"jobs.worker": False}


@pytest.fixture
def opening(store_url: str, clock: FakeClock) -> Iterator[Callable[..., Limpet]]:
    """A store that does its background work only when told to."""
    opened: list[Limpet] = []

    def open_(llm: Any = None, embedder: Any = None, **settings: Any) -> Limpet:
        config = Config.load(
            overrides={**QUIET, **{name.replace("__", "."): value for name, value in settings.items()}}
        )
        opened.append(Limpet.open(store_url, config=config, clock=clock, llm=llm, embedder=embedder))
        return opened[-1]

    yield open_
    for memory in opened:
        memory.close()


@pytest.fixture
def learning(opening: Callable[..., Limpet]) -> Limpet:
    return opening()


def talk(memory: Limpet, *lines: str, reply: str = "I see.", chat: str = "1", user: str = "alice") -> Session:
    session = memory.session("test", chat, user=user)
    for line in lines:
        with session.turn(line) as turn:
            turn.reply(reply)
        memory.jobs.run()
    return session


def learned(memory: Limpet, user: str = "alice", **more: Any) -> list[Record]:
    return [record for record in memory.records(user=user, limit=1000, **more) if record.origin is Origin.EXTRACTED]


def facts(memory: Limpet, user: str = "alice", **more: Any) -> set[tuple[str | None, str | None, str | None]]:
    """What is known with its value; statements of which no rule knows the value are apart."""
    found = learned(memory, user, **more)
    return {(record.subject, record.attribute, record.value) for record in found if record.value is not None}


def test_turn_learns_fact_with_source_sentence(learning: Limpet) -> None:
    session = talk(learning, "The weather is fine. I live in Porto. What about you?")
    (record,) = learned(learning)
    assert (record.subject, record.attribute, record.value) == ("user", "home", "Porto")
    assert record.source.sentence == "I live in Porto."
    assert record.source.session_id == session.id
    assert record.source.sequences == (1,)
    assert record.level == "user"
    assert record.valid_from == session.messages()[0].created_at


def test_learned_fact_is_recalled_and_enters_context(learning: Limpet) -> None:
    talk(learning, "I am allergic to peanuts")
    with learning.session("test", "another", user="alice").turn("Which snack can I eat?") as turn:
        assert "peanuts" in turn.context.text
    assert any(hit.source.kind == "record" for hit in learning.recall("allergic", user="alice"))


def test_correction_replaces_fact_with_wrong_value(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "My partner's name is Alexa.", "My sister is called Kate.", "My sister is called Anna.")
    clock.advance(days=1)
    talk(learning, "Sorry, her name is Alexis, not Alexa.", "It's Monday, not Tuesday.", "She's called Anne, not Anna")
    names = {("user/partner", "name", "Alexis"), ("user/sister", "name", "Kate"), ("user/sister", "name", "Anne")}
    assert facts(learning) == names
    assert ("user/partner", "name", "Alexa") in facts(learning, history=True)


def test_changed_fact_supersedes_previous_one(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "I live in Porto", "My sister lives in Porto")
    before = clock.advance(days=30)
    clock.advance(days=1)
    talk(learning, "I moved to Lisbon")
    assert facts(learning) == {("user", "home", "Lisbon"), ("user/sister", "home", "Porto")}
    assert ("user", "home", "Porto") in facts(learning, as_of=before)
    assert ("user", "home", "Lisbon") not in facts(learning, as_of=before)
    (old,) = [record for record in learned(learning, history=True) if record.valid_to is not None]
    (new,) = [record for record in learned(learning) if record.value == "Lisbon"]
    assert old.superseded_by == new.id
    assert old.valid_to == new.valid_from
    assert [version.valid_to for version in learning.records.history(old.id)] == [None, new.valid_from]
    texts = [hit.text for hit in learning.recall("Where do I live?", user="alice") if hit.source.kind == "record"]
    assert "I live in Porto" not in texts


def test_changed_fact_ends_archived_one(opening: Callable[..., Limpet], clock: FakeClock) -> None:
    learning = opening(learn__decay=True)
    talk(learning, "I live in Porto")
    for _ in range(60):
        clock.advance(days=1)
        learning.jobs.run()
    (porto,) = learned(learning, history=True)
    assert porto.archived_at is not None
    talk(learning, "I moved to Oslo")
    assert learning.records.revive(porto.id, user="alice").valid_to == clock()
    assert facts(learning) == {("user", "home", "Oslo")}


def test_changed_home_ends_previous_one_only_for_unique_relative(learning: Limpet, clock: FakeClock) -> None:
    for line in ("My sister lives in Porto", "My sister moved to Lisbon", "I have two brothers"):
        clock.advance(hours=1)
        talk(learning, line)
    assert ("user/sister", "home", "Porto") not in facts(learning)
    for line in ("My brother lives in Rome", "My brother moved to Turin"):
        clock.advance(hours=1)
        talk(learning, line)
    homes = {(subject, value) for subject, attribute, value in facts(learning) if attribute == "home"}
    assert homes == {("user/sister", "Lisbon"), ("user/brother", "Rome"), ("user/brother", "Turin")}, (
        "which of the two?"
    )


def test_denied_fact_ends_without_successor(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "I work at Acme")
    clock.advance(days=3)
    talk(learning, "I no longer work at Acme")
    assert not [record for record in learned(learning) if record.attribute == "employer" and record.polarity]


def test_repeated_statement_is_counted_not_duplicated(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "I live in Porto")
    clock.advance(days=1)
    talk(learning, "i live in  PORTO", chat="2")
    (record,) = learned(learning)
    assert record.said == 2
    assert len(learning.records.history(record.id)) == 1
    assert record.last_used_at == clock.now


def test_near_duplicates_are_merged_by_vector_similarity(opening: Callable[..., Limpet]) -> None:
    class Same(FakeEmbedder):
        def embed(self, texts: Any) -> Any:
            return [[1.0, 0.0, 0.0] for _ in texts]

    memory = opening(embedder=Same())
    talk(memory, "I enjoy long walks by the sea", "I really enjoy long walks by the sea")
    assert len(learned(memory)) == 1


def test_explicit_record_is_never_superseded_by_learned_fact(learning: Limpet) -> None:
    stated = learning.remember("Alice lives in Porto", user="alice", key="home")
    talk(learning, "I moved to Lisbon")
    assert learning.records.get(stated.id).valid_to is None
    assert ("user", "home", "Lisbon") in facts(learning)


def test_finished_turn_is_stored_as_episodic_record(learning: Limpet) -> None:
    session = learning.session("test", "1", user="alice")
    with session.turn("Run the tests in tests/unit/test_cli.py", skill="build") as turn:
        turn.add("assistant", "", tool_calls=[{"id": "c", "name": "shell", "arguments": {"command": "pytest"}}])
        turn.add("tool", "2 failed", tool_call_id="c", is_error=True)
        turn.reply("Two tests fail.")
    with pytest.raises(ZeroDivisionError), session.turn("And now?") as turn:
        raise ZeroDivisionError
    (event,) = [record for record in learning.records(user="alice") if record.origin is Origin.TURN]
    assert (event.layer, event.type) == (Layer.EPISODIC, RecordType.TASK_STATE)
    assert event.content == "Asked: Run the tests in tests/unit/test_cli.py | Answered: Two tests fail."
    assert event.metadata == {"skill": "build", "outcome": "failed", "tools": "shell failed"}
    assert "tests/unit/test_cli.py" in event.references
    assert event.source.sequences == (1, 2, 3, 4)
    assert [hit for hit in learning.recall("tests", user="alice", kinds=["record"]) if hit.source.id == event.id] == []


def test_context_omits_turn_records_of_current_session(learning: Limpet) -> None:
    session = talk(learning, "Is the door locked?")
    assert "Asked:" not in session.context("door").text
    assert "Asked:" not in learning.session("test", "2", user="alice").context("hello").text  # the messages tell


def test_secrets_are_redacted_in_learned_records(learning: Limpet) -> None:
    secret = "sk-" + "proj-" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9" * 2
    session = talk(learning, f"I work at Acme with the key {secret}")
    assert secret in session.messages()[0].text
    for record in learning.records(user="alice", history=True):
        assert secret not in str(record)
    assert any("[secret" in record.content for record in learning.records(user="alice"))


def test_learning_disabled_stores_nothing(opening: Callable[..., Limpet]) -> None:
    memory = opening(learn__enabled=False)
    session = talk(memory, "I live in Porto")
    assert memory.records(user="alice") == []
    assert memory.jobs.list() == []
    assert session.learn().added == ()


def test_extractor_none_learns_nothing(opening: Callable[..., Limpet]) -> None:
    memory = opening(learn__extractor="none", learn__turns=False)
    talk(memory, "I live in Porto")
    assert memory.records(user="alice") == []


def test_learn_reads_appended_messages_once(learning: Limpet) -> None:
    session = learning.session("test", "1", user="alice")
    session.extend([Message.new("user", "I live in Porto"), Message.new("assistant", "Nice")])
    assert learned(learning) == []
    done = session.learn()
    assert len(done.added) == 1
    assert session.learn().added == ()
    assert facts(learning) == {("user", "home", "Porto")}


@pytest.mark.slow
def test_appended_user_message_is_learned_after_a_minute_without_reply(learning: Limpet, clock: FakeClock) -> None:
    session = learning.session("test", "1", user="alice")
    session.append("user", "I live in Porto.")
    learning.jobs.run()
    assert facts(learning) == set()
    clock.advance(minutes=1)
    learning.jobs.run()
    assert facts(learning) == {("user", "home", "Porto")}


def test_appended_message_shortly_before_job_is_learned_by_next_run(learning: Limpet, clock: FakeClock) -> None:
    session = learning.session("test", "1", user="alice")
    session.append("user", "I live in Porto.")
    clock.advance(seconds=50)
    session.append("user", "My sister is called Kate.")
    clock.advance(seconds=15)
    learning.jobs.run()
    assert facts(learning) == {("user", "home", "Porto")}
    clock.advance(minutes=1)
    learning.jobs.run()
    assert len(facts(learning)) == 2


def test_append_with_learn_true_is_learned_at_once_with_its_reply(learning: Limpet) -> None:
    session = learning.session("test", "1", user="alice")
    session.append("user", "I live in Porto.", learn=False)
    session.append("user", "I am allergic to peanuts.")
    session.append("assistant", "Noted.", learn=True)
    learning.jobs.run()
    assert [record.source.sentence for record in learned(learning)] == ["I am allergic to peanuts."]


def test_append_with_learn_false_teaches_nothing_ever(learning: Limpet, clock: FakeClock) -> None:
    session = learning.session("test", "1", user="alice")
    message = session.append("user", "I live in Porto.", learn=False)
    assert message.text == "I live in Porto."
    assert learning.jobs.list() == []
    session.learn()
    assert facts(learning) == set()


def test_append_asks_for_no_job_where_learning_is_disabled(opening: Callable[..., Limpet]) -> None:
    memory = opening(learn__enabled=False)
    memory.session("test", "1", user="alice").append("user", "I live in Porto.", learn=True)
    assert memory.jobs.list() == []


def test_learn_reads_more_messages_than_one_batch(learning: Limpet) -> None:
    session = learning.session("test", "1", user="alice")
    names = [f"{first}{second}" for first in "BCDFGHKLMN" for second in ("abor", "elin", "irov", "odan", "umis")]
    session.extend(
        message
        for name in names
        for message in (
            Message.new("user", f"My colleague {name} lives in {name}stad"),
            *(Message.new("assistant", "ok") for _ in range(9)),
        )
    )
    session.learn()
    assert {record.value for record in learned(learning)} >= {f"{name}stad" for name in names}


def test_unfinished_turn_is_learned_with_next_turn(learning: Limpet) -> None:
    session = learning.session("test", "1", user="alice")
    with session.turn("I live in Porto") as turn:
        pass
    talk(learning, "Hello again")
    assert facts(learning) == {("user", "home", "Porto")}
    assert turn.message.sequence == 1


# Twice, together, in between


def test_concurrent_workers_learn_same_fact_once(store_url: str) -> None:
    """Two handles on one store race for the jobs of many chats of one user; what is the same is one record."""
    config = Config.load(overrides=QUIET)
    with Limpet.open(store_url, config=config) as one:
        for number in range(12):
            with one.session("test", str(number), user="alice").turn("I live in Porto and I love tea") as turn:
                turn.reply("ok")
        others = [one] if store_url == ":memory:" else [one, Limpet.open(store_url, config=config)]
        threads = [threading.Thread(target=memory.jobs.run) for memory in (*others, *others)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        one.jobs.run()
        assert facts(one) == {("user", "home", "Porto"), ("user", "likes", "tea")}
        assert [record.said for record in learned(one)] == [12, 12]
        for memory in others[1:]:
            memory.close()


def test_learn_batch_commit_is_noop_when_already_learned(learning: Limpet) -> None:
    learner = learning._runtime.learner
    session = learning.session("test", "1", user="alice")
    session.append("user", "I live in Porto")
    late = learner._prepare(session.refresh(), patient=True, everything=True)
    assert late is not None
    assert len(session.learn().added) == 1
    assert learner._commit(late).added == ()
    assert len(learned(learning)) == 1


def test_session_deleted_before_extract_job_teaches_nothing(learning: Limpet) -> None:
    session = learning.session("test", "1", user="alice")
    with session.turn("I live in Porto") as turn:
        turn.reply("ok")
    session.delete()
    learning.jobs.run()
    assert learned(learning) == []
    assert learning.jobs.list(kind="extract") == []


def test_learned_facts_are_isolated_by_user_and_tenant(learning: Limpet) -> None:
    talk(learning, "I live in Porto", user="alice")
    talk(learning, "I moved to Lisbon", user="bob")
    talk(learning.tenant("other"), "I moved to Faro", user="alice")
    assert facts(learning) == {("user", "home", "Porto")}
    assert facts(learning, user="bob") == {("user", "home", "Lisbon")}
    assert facts(learning.tenant("other")) == {("user", "home", "Faro")}


def test_older_statement_learned_late_becomes_history(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "I moved to Lisbon")
    session = learning.session("test", "old", user="alice")
    old: datetime = clock.now - timedelta(days=900)
    session.append("user", "I live in Porto", created_at=old)
    session.learn()
    assert facts(learning) == {("user", "home", "Lisbon")}
    assert ("user", "home", "Porto") in {
        (record.subject, record.attribute, record.value) for record in learned(learning, history=True)
    }


@pytest.mark.parametrize(("zones", "day"), [("alice=Asia/Tokyo", "4 Mar 2026"), ("none", "3 Mar 2026")])
def test_tomorrow_is_a_day_of_the_users_time_zone(opening: Callable[..., Limpet], zones: str, day: str) -> None:
    memory = opening(notes__timezones=zones)
    session = memory.session("test", "1", user="alice")
    with session.turn("I'm moving to Lisbon tomorrow", created_at=datetime(2026, 3, 2, 16, 30, tzinfo=UTC)) as turn:
        turn.reply("I see.")
    memory.jobs.run()
    assert any(f"tomorrow ({day})" in record.content for record in learned(memory))
    (valid,) = {record.valid_from for record in learned(memory)}
    assert valid == datetime(2026, 3, 2, 16, 30, tzinfo=UTC)


def test_context_dates_what_was_remembered(learning: Limpet, clock: FakeClock) -> None:
    learning.remember("my flight leaves tomorrow at 7", user="alice")
    day = clock() + timedelta(days=1)
    clock.advance(days=30)
    text = learning.context("when is my flight?", user="alice").text
    assert f"my flight leaves tomorrow ({day.day} {day:%b %Y}) at 7" in text
    assert text.count("my flight leaves") == 1


def test_reopened_store_learns_nothing_twice(tmp_path: Path, clock: FakeClock) -> None:
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
def test_system_prompt_and_quoted_context_teach_nothing(learning: Limpet) -> None:
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


def test_tool_output_teaches_no_constraint(learning: Limpet) -> None:
    session = learning.session("test", "1", user="alice")
    with session.turn("Show the log") as turn:
        turn.add("assistant", "", tool_calls=[{"id": "c", "name": "cat", "arguments": {"file": "log.txt"}}])
        turn.add("tool", "error: you must not do this\nnever use port 80\nerror error", tool_call_id="c")
        turn.reply("There it is.")
    learning.jobs.run()
    assert [record for record in learned(learning) if record.type is RecordType.CONSTRAINT] == []


def test_shorter_correction_replaces_longer_statement(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "I live in a small flat near the river in Porto, Portugal")
    clock.advance(days=1)
    talk(learning, "I live in Faro")
    assert {value for subject, attribute, value in facts(learning) if attribute == "home"} == {"Faro"}


def test_unsure_statement_raises_no_confidence(learning: Limpet, clock: FakeClock) -> None:
    talk(learning, "I live in Porto")
    (before,) = learned(learning)
    clock.advance(days=1)
    talk(learning, "I think I might live in Faro now, not sure")
    after = learning.records.get(before.id)
    assert after.confidence <= before.confidence


def test_unrelated_facts_supersede_none(learning: Limpet, clock: FakeClock) -> None:
    said = (
        *("I live in Porto", "I work at Acme", "My sister lives in Berlin", "My brother works at Globex"),
        *("My dog is called Biscuit", "I love tea", "I hate mornings", "My favourite colour is green"),
        *("My friend Anna lives in Rome", "My friend Boris lives in Oslo", "I like jazz", "I like chess"),
    )
    for line in said:
        clock.advance(hours=1)
        talk(learning, line)
    assert [record for record in learned(learning, history=True) if record.valid_to or record.superseded_by] == []


def test_statement_repeated_in_one_message_is_one_record(learning: Limpet) -> None:
    talk(learning, "I live in Porto. " * 5 + "I live in Porto! Yes, I live in Porto. I'm living in Porto.")
    assert len(learned(learning)) == 1


def test_an_instruction_in_the_place_of_another_is_shown_as_one(learning: Limpet) -> None:
    talk(learning, "Always reply in German.", "English again please")
    instructions = learning.context("How does yeast work?", user="alice").text.partition("## Instructions")[2]
    assert "English again" in instructions
    assert "German" not in instructions


def test_a_name_in_a_question_takes_the_place_of_the_one_before(learning: Limpet) -> None:
    talk(learning, "My landlord is called Gunnar.", "how do I ask my landlord Piet for a new boiler?")
    ends = {record.content: record.valid_to for record in learned(learning, history=True)}
    assert ends["The user's landlord is called Piet."] is None
    assert ends["The user's landlord is called Gunnar."] is not None


def test_a_message_and_the_claim_it_taught_are_one_hit(opening: Callable[..., Limpet], clock: FakeClock) -> None:
    learning = opening(embedding__model="encoder")
    for line in (
        "I start at 5 every morning so don't suggest anything in the evenings after 8",
        "Don't suggest anything in the evenings after 8.",
        "my sister is called Magda",
        "new shift from april: start at 7, finish at 3",
    ):
        talk(learning, line)
        clock.advance(days=3)
    found = [hit.text for hit in learning.recall("Suggest a time for breakfast", user="alice")]
    assert len([text for text in found if text.startswith("new shift")]) == 1
