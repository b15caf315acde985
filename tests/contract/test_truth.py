"""What memory says is what holds: in recall and in the context, after a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from limpet import Config, Limpet
from limpet.knowledge import apply, learn, read, reconcile
from limpet.knowledge.change import Change
from limpet.search.analysis import Question
from limpet.testing import FakeClock

Say = Callable[..., None]


@pytest.fixture
def memory(store_url: str, clock: FakeClock) -> Iterator[Limpet]:
    config = Config.load(overrides={"jobs.worker": False, "embedding.model": "none"})
    with Limpet.open(store_url, config=config, clock=clock) as opened:
        yield opened


@pytest.fixture
def say(memory: Limpet, clock: FakeClock) -> Say:
    def talk(*lines: str, user: str = "alice") -> None:
        session = memory.session("test", "1", user=user)
        for line in lines:
            clock.advance(days=3)
            with session.turn(line) as turn:
                turn.reply("All right.")
            session.learn()

    return talk


def test_recall_ranks_new_value_before_old(memory: Limpet, say: Say) -> None:
    say("I live in Porto", "My sister lives in Braga", "Where do I live?", "I moved to Lisbon last week")
    first, *others = memory.recall("Where do I live?", user="alice")
    assert "Lisbon" in first.text
    assert first.holds
    assert not any("Where do I live" in hit.text for hit in others)
    (old,) = [hit for hit in others if "Porto" in hit.text]
    assert (old.holds, old.superseded_by) == (False, first.source.id)
    assert old.until is not None
    assert old.why


def test_recall_of_the_past_ranks_old_value_first(memory: Limpet, say: Say) -> None:
    say("I live in Porto", "I moved to Lisbon last week")
    texts = [hit.text for hit in memory.recall("Where did I live before?", user="alice")]
    assert "Porto" in texts[0]


def test_recall_gives_claim_and_its_message_as_one_hit(memory: Limpet, say: Say) -> None:
    say("I am allergic to peanuts")
    (hit,) = [hit for hit in memory.recall("allergic peanuts", user="alice") if "peanuts" in hit.text]
    record = memory.records.get(hit.source.id)
    session = memory.session("test", "1", user="alice")
    assert hit.text == record.content == "The user is allergic to peanuts."
    assert (hit.source.session_id, hit.source.first_sequence) == (session.id, 1)


def test_recall_finds_claim_by_words_people_use_for_its_attribute(memory: Limpet, say: Say) -> None:
    say("I'm pescatarian")
    assert [hit.text for hit in memory.recall("What is my diet?", user="alice")] == ["The user is pescatarian."]


def test_changed_fact_leaves_the_other_of_its_sentence(memory: Limpet, say: Say) -> None:
    say("I'm vegetarian and allergic to peanuts.", "I'm pescatarian now")
    current = {record.content for record in memory.records(user="alice") if record.attribute}
    assert current == {"The user is allergic to peanuts.", "The user is pescatarian."}


def test_context_states_what_holds_once_and_dated(memory: Limpet, say: Say) -> None:
    say("I live in Porto", "I'm allergic to peanuts", "I moved to Lisbon last week")
    text = memory.context("What can I cook for dinner?", user="alice").text
    assert "Porto" not in text
    assert text.count("Lisbon") == 1
    assert text.count("peanuts") == 1
    assert "2026" in next(line for line in text.splitlines() if "peanuts" in line)


def test_context_leaves_out_claims_whose_message_it_shows(memory: Limpet, say: Say) -> None:
    say("I'm allergic to peanuts")
    context = memory.session("test", "1", user="alice").context("cooking")
    assert "peanuts" not in context.text
    assert any("peanuts" in message.text for message in context.messages)


@pytest.mark.parametrize("said", ["My aunt Vera died this morning", "I quit my job today", "paid the vet bill today"])
def test_event_of_a_day_stays_true(memory: Limpet, say: Say, clock: FakeClock, said: str) -> None:
    say(said)
    clock.advance(days=14)
    word = said.split()[-3]
    lines = [
        line for line in memory.context(f"What about {said[:-6]}?", user="alice").text.splitlines() if word in line
    ]
    assert lines
    assert not any("no longer true" in line or "(past)" in line for line in lines)


def test_passing_state_is_past_after_two_weeks(memory: Limpet, say: Say, clock: FakeClock) -> None:
    say("I have a terrible headache today")
    clock.advance(days=14)
    for line in memory.context("How am I?", user="alice").text.splitlines():
        assert "headache" not in line or "(past)" in line or "user:" in line
    assert not [record for record in memory.records(user="alice") if record.attribute and "headache" in record.content]


@pytest.mark.long
def test_lasting_fact_is_in_context_after_400_days_of_other_talk(clock: FakeClock) -> None:
    config = Config.load(overrides={"jobs.worker": False, "embedding.model": "none", "graph.enabled": False})
    with Limpet.open(":memory:", config=config, clock=clock) as memory:
        session = memory.session("test", "1", user="alice")
        with session.turn("I'm allergic to peanuts") as turn:
            turn.reply("Noted.")
        for day in range(400):
            clock.advance(days=1)
            with session.turn(f"Sort list number {day} of the garden sheds by height") as turn:
                turn.reply("Done.")
            if day % 50 == 0:
                memory.jobs.run()
        memory.jobs.run()
        dinner = memory.session("test", "2", user="alice").context("What can I cook for dinner?")
        assert "allergic to peanuts" in dinner.text
        [claim] = [record for record in memory.records(user="alice", limit=1000) if record.attribute == "allergy"]
        assert (claim.archived_at, claim.uses) == (None, 0), "being shown is not being used"
        assert memory.recall("peanuts", user="alice")[0].source.id == claim.id
        assert session.count() == 802


def test_expired_statement_said_again_is_another_record(memory: Limpet, clock: FakeClock) -> None:
    first = memory.remember("Tea at five", user="alice", ttl=60)
    longer = memory.remember("Tea at five", user="alice", ttl=120)
    assert (longer.id, longer.expires_at) == (first.id, clock() + timedelta(seconds=120))
    assert memory.remember("Tea at five", user="alice", ttl=60).expires_at == longer.expires_at
    clock.advance(hours=1)
    assert memory.remember("Tea at five", user="alice").id != first.id


def test_claim_said_again_is_used(memory: Limpet, say: Say) -> None:
    say("I'm allergic to peanuts", "What should I read?", "I'm allergic to peanuts")
    [claim] = [record for record in memory.records(user="alice") if "peanuts" in record.content and record.attribute]
    assert (claim.said, claim.uses) == (2, 1)


def test_ended_habit_is_not_current(memory: Limpet, say: Say) -> None:
    say("I drink coffee every morning", "I gave up coffee")
    current = [record.content for record in memory.records(user="alice") if record.origin == "extracted"]
    assert "The user drinks coffee every morning." not in current


def test_recall_floor_false_returns_best_whatever_they_score(memory: Limpet, say: Say) -> None:
    say("I'm allergic to peanuts")
    assert memory.recall("zebra quantum", user="alice") == []
    assert len(memory.recall("peanuts zebra quantum flux harmonic", user="alice", floor=False)) >= 1


def test_statements_of_one_message_do_not_take_each_other_back(memory: Limpet, say: Say, clock: FakeClock) -> None:
    say("We moved to Aveiro last week. I start at the new hospital on Monday.")
    clock.advance(days=30)
    text = memory.context("Where do I live and work?", user="alice").text
    assert "Aveiro" in text
    assert "no longer true" not in next(line for line in text.splitlines() if "Aveiro" in line)


def test_rule_in_a_sentence_with_a_fact_is_worded_about_the_user(memory: Limpet, say: Say) -> None:
    say("I'm coeliac, so no wheat please.")
    text = memory.context("What can I cook?", user="alice").text
    assert "coeliac" in text
    assert "I'm coeliac" not in text


def test_recall_without_shared_words_gives_what_is_known(memory: Limpet, say: Say) -> None:
    say("I drive a Dacia Duster")
    (hit,) = memory.recall("Which tyres should the garage order?", user="alice")
    assert "Dacia" in hit.text
    assert "known" in hit.signals
    assert memory.recall("tyres", user="alice") == []  # a keyword asks for itself alone


def test_doubted_claim_stays_in_context_and_says_so(memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "CONTRADICTS", 1.1)  # nothing is sure enough to end a claim
    monkeypatch.setattr(reconcile, "DOUBTS", 0.01)
    say("I do payroll at Brightwater Logistics", "Handed in my notice, I start at Corven Dental on the 2nd")
    (line,) = [
        line
        for line in memory.context("Where do I work?", user="alice").text.splitlines()
        if "Brightwater" in line and "payroll" in line
    ]
    assert line.endswith("perhaps no longer true)")
    first = next(hit for hit in memory.recall("Where do I work?", user="alice") if "at " in hit.text)
    assert "Corven" in first.text


def test_context_prints_rule_or_its_message_and_never_both(memory: Limpet, say: Say) -> None:
    say("I take warfarin every evening. Is it fine to have it after dinner rather than before?")
    assert memory.context("Is warfarin fine after dinner?", user="alice").text.count("warfarin") == 1


def test_context_prints_message_or_its_claim_and_never_both(memory: Limpet, say: Say) -> None:
    say("Our app is called Ploverly. Need five taglines, it shows tide times for people with dogs.")
    text = memory.context("What is the Ploverly app about, and who needs taglines?", user="alice").text
    assert text.count("Ploverly") == 1


def test_message_that_takes_claims_back_twice_is_one_record(
    memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("I row on Mondays", "I paint on Tuesdays", "I swim on Fridays", "I bake on Sundays", "I sing in a choir")
    monkeypatch.setattr(apply, "find_changes", lambda text, claims: [Change(0.9, 0, len(text))] * len(claims))
    say("Sold the boat. My shoulder will not take it any more. We got a tandem instead.")
    contents = [record.content for record in memory.records(user="alice") if record.origin == "extracted"]
    assert len(contents) == len(set(contents))


def test_ended_unemployment_reads_as_a_sentence(memory: Limpet, say: Say) -> None:
    say("My husband Rui was unemployed for a year, but he found a job at the port.")
    assert not any("work as unemployed" in record.content for record in memory.records(user="alice"))


def judge(monkeypatch: pytest.MonkeyPatch, **likely: float) -> None:
    """Let a message that begins with one of these words take back every earlier claim so likely, by all its words."""

    def find(message: str, claims: list[str]) -> list[Change]:
        probability = next((each for word, each in likely.items() if message.lower().startswith(word)), 0.0)
        return [Change(probability, 0, len(message)) for _ in claims]

    monkeypatch.setattr(apply, "find_changes", find)
    for module in (apply, learn, read):
        monkeypatch.setattr(module, "tells_of_change", lambda message: True)


def test_claim_is_doubted_by_the_likeliest_message(memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    say("I keep bees behind the barn")
    judge(monkeypatch, frost=0.5, rain=0.3)
    say("Frost has killed the last hive", "Rain came through the roof of the shed")
    (bees,) = [record for record in memory.records(user="alice") if "keeps bees" in record.content]
    (reason,) = [record for record in memory.records(user="alice") if record.id == bees.metadata["doubted_by"]]
    assert "hive" in reason.content
    (hit,) = [hit for hit in memory.recall("Do I keep bees?", user="alice") if "keeps bees" in hit.text]
    assert hit.why.endswith("and perhaps no longer holds.")


def test_what_takes_the_place_of_something_lasts(
    memory: Limpet, say: Say, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("My address is 22 Harbour Lane")
    judge(monkeypatch, please=0.9)
    say("Please note my new address: 7 Quarry Street, valid from today")
    clock.advance(days=30)
    learned = [record for record in memory.records(user="alice") if record.origin == "extracted"]
    (known,) = [record for record in learned if "address" in record.content]
    assert "Quarry Street" in known.content
    assert known.expires_at is None


def test_words_that_nothing_was_read_from_make_doubtful(
    memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("I keep bees behind the barn")
    text = "I sold the barn. How much is honey?"
    claim = "How much is honey?"
    monkeypatch.setattr(
        apply, "find_changes", lambda message, claims: [Change(0.9, text.index(claim), len(text)) for _ in claims]
    )
    for module in (apply, learn, read):
        monkeypatch.setattr(module, "tells_of_change", lambda message: True)
    say(text)
    (bees,) = [record for record in memory.records(user="alice") if "keeps bees" in record.content]
    assert "doubted_by" in bees.metadata


@pytest.mark.parametrize("question", ["What do I have to learn before Tuesday?", "Which bread should I bake first?"])
def test_order_of_things_to_do_is_not_the_past(question: str) -> None:
    assert not Question.parse(question, None).asks_back


@pytest.mark.parametrize("question", ["Where did I live before?", "What was my first job?", "My previous address?"])
def test_question_about_the_past_asks_back(question: str) -> None:
    assert Question.parse(question, None).asks_back


@pytest.mark.parametrize(
    ("first", "then", "old", "new"),
    [
        ("I live in Porto", "no wait, I said Porto but I meant Braga", "Porto", "Braga"),
        ("call me Sam", "actually it's Samuel, please", "Sam.", "Samuel"),
        ("I can't eat gluten", "turns out it wasn't gluten after all, bread is fine again", "can't eat", "wasn't"),
    ],
)
def test_correction_takes_the_place_of_what_it_corrects(
    memory: Limpet, say: Say, first: str, then: str, old: str, new: str
) -> None:
    say(first, then)
    text = memory.context("What do you know about me?", user="alice").text
    assert new in text
    assert old not in text


def test_name_that_only_begins_like_another_corrects_nothing(memory: Limpet, say: Say) -> None:
    say("call me Sam", "actually it's Oslo, please")
    assert "Sam" in memory.context("What is my name?", user="alice").text


def test_what_has_a_last_day_to_come_holds_until_then(
    memory: Limpet, say: Say, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("I keep bees behind the barn")
    judge(monkeypatch, sold=0.9)
    day = clock.now + timedelta(days=40)
    say(f"Sold the hives, my last day with them is {day:%B} {day.day}")
    (bees,) = [record for record in memory.records(user="alice", history=True) if "keeps bees" in record.content]
    assert bees.is_valid_at(clock.now)
    assert bees.superseded_by is None
    assert not bees.is_valid_at(day + timedelta(days=2))
