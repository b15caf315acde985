"""What a change of one thing does to what was known of others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from limpet import Limpet
from limpet.knowledge import apply, learn, read
from limpet.knowledge.change import Change
from limpet.testing import FakeClock
from tests.contract.test_truth import Say, judge, memory, say

__all__ = ["memory", "say"]  # fixtures


@pytest.mark.parametrize(
    ("known", "told", "question", "old"),
    [
        (
            "I train at the Ironhouse gym on Tuesdays",
            "I've switched gyms, AquaFit now",
            "When does it open?",
            "Ironhouse",
        ),
        ("I drive a Toyota Yaris", "Sold the old car and bought a Skoda Octavia", "Which tyres?", "Yaris"),
        ("My girlfriend is called Odile", "We broke up in May. I'm fine.", "What do I give my partner?", "Odile"),
    ],
)
def test_change_of_what_people_have_one_of_marks_what_was_known(
    memory: Limpet, say: Say, known: str, told: str, question: str, old: str
) -> None:
    say(known, told)
    lines = [line for line in memory.context(question, user="alice").text.splitlines() if old in line]
    assert all("no longer true" in line for line in lines)
    hits = [hit for hit in memory.recall(old, user="alice") if old in hit.text]
    assert hits
    assert all(not hit.holds or "doubted_by" in hit.metadata for hit in hits)


def test_change_of_somebody_elses_leaves_the_users_alone(memory: Limpet, say: Say) -> None:
    say("I drive a Toyota Yaris", "My neighbour sold his car and drives a Tesla now")
    (car,) = [record for record in memory.records(user="alice") if "Yaris" in record.content and record.value]
    assert "doubted_by" not in car.metadata


def test_name_is_doubted_only_when_somebody_is_gone(memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    say("My cat is called Biscuit")
    judge(monkeypatch, woke=0.5)
    say("Woke up so early today that even the cat was asleep, and I felt very proud")
    (cat,) = [record for record in memory.records(user="alice") if record.attribute == "name"]
    assert "doubted_by" not in cat.metadata


def test_allergy_is_not_doubted_by_a_change_of_diet(memory: Limpet, say: Say) -> None:
    say(
        "I'm allergic to peanuts and vegetarian, so keep that in mind",
        "Turns out I'm pescatarian now, fish twice a week.",
    )
    lines = memory.context("What can I cook for dinner?", user="alice").text.splitlines()
    (line,) = [line for line in lines if "peanuts" in line]
    assert line.startswith("- The user is allergic to peanuts. (")
    assert line.endswith(")")
    assert "perhaps" not in line
    assert any("pescatarian" in line for line in lines)


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ("I'm allergic to peanuts", "I work at Corven Dental now"),
        ("My name is Robin", "I live in Lisbon now"),
        ("I take metformin for my diabetes", "I am vegan now"),
    ],
)
def test_health_and_names_are_left_alone_by_other_attributes(
    memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch, known: str, told: str
) -> None:
    say(known)
    judge(monkeypatch, i=0.9)
    say(told)
    records = [record for record in memory.records(user="alice") if record.origin == "extracted"]
    old = [record for record in records if record.source.sentence == known]
    assert old
    assert not any("doubted_by" in record.metadata for record in old)


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


def test_question_marks_claim_that_a_later_message_outdates_in_other_words(memory: Limpet, say: Say) -> None:
    say(
        "I take the train to work, Zwolle to Meppel, with the same eleven people",
        "My dog is called Biscuit",
        "My year pass ended and I won't renew it, so it's the e-bike and me now, twenty kilometres to work",
    )
    text = memory.context("How do I get to work?", user="alice").text
    (line,) = [line for line in text.splitlines() if "train" in line]
    assert "perhaps no longer true" in line
    assert "e-bike" in line
    first = next(hit for hit in memory.recall("How do I get to work?", user="alice") if "e-bike" in hit.text)
    old = next(hit for hit in memory.recall("How do I get to work?", user="alice") if "train" in hit.text)
    assert first.score >= old.score


def test_change_makes_doubtful_what_was_said_of_the_same_person_beside_it(memory: Limpet, say: Say) -> None:
    say(
        "My vet is Dr Hallam over in Otley. Dr Hallam has known the dog since he fitted in a shoe",
        "We have changed vets. The dog is registered at Mill Lane now",
    )
    (known,) = [record for record in memory.records(user="alice") if "shoe" in record.content and record.subject]
    assert "doubted_by" in known.metadata


def test_change_leaves_the_other_facts_of_a_sentence_alone(
    memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("I mend clocks in Graz and I sing in a choir")
    judge(monkeypatch, thursday=0.0)
    monkeypatch.setattr(
        apply,
        "find_changes",
        lambda message, claims: [Change(0.5 if "choir" in each else 0.3, 0, len(message)) for each in claims],
    )
    say("Thursday evenings are mine now, it was too much Bach")
    doubted = [each.content for each in memory.records(user="alice") if "doubted_by" in each.metadata]
    assert doubted == ["The user sings in a choir."]


def test_words_that_surely_tell_of_a_change_are_kept_as_doubtful(memory: Limpet, say: Say) -> None:
    say(
        "Right, the kids had a vote and the collar tag's been engraved so there's no going back. "
        "Pickle came when called for the first time today!! What treats are ok for recall training?"
    )
    (kept,) = [record for record in memory.records(user="alice") if "Pickle" in record.content and record.subject]
    assert kept.confidence < 0.5


@pytest.mark.parametrize(
    ("first", "then", "again", "question", "old"),
    [
        (
            "I live in Galway, in a flat over a chip shop",
            "moved to Leeds for the job, what should I see first",
            "back in Galway since Saturday and it has not stopped raining",
            "Which pool could I walk to?",
            "Leeds",
        ),
        (
            "our internet is with Telvia, 50 Mbit on a good day, what can I do",
            "switched to Kabelnord, the router is as big as a shoebox",
            "we've gone back to Telvia after all that, same bad speed but they answer the phone",
            "Write to our internet provider",
            "Kabelnord",
        ),
    ],
)
def test_what_is_back_makes_doubtful_what_took_its_place(
    memory: Limpet, say: Say, first: str, then: str, again: str, question: str, old: str
) -> None:
    say(first, then, again)
    between = [each for each in memory.records(user="alice", history=True) if old in each.content]
    assert any(each.superseded_by is not None or "doubted_by" in each.metadata for each in between)
    lines = [line for line in memory.context(question, user="alice").text.splitlines() if old in line]
    assert all("no longer true" in line for line in lines)


def test_person_who_is_back_ends_nothing_that_was_said_since(memory: Limpet, say: Say) -> None:
    say("My son Kevin lives in Adelaide", "Kevin got a job at a vineyard", "Kevin is back for good, thinner")
    job = [each for each in memory.records(user="alice", history=True) if "vineyard" in each.content]
    assert job
    assert all(each.superseded_by is None and "doubted_by" not in each.metadata for each in job)
