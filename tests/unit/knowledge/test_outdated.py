"""Which claims a question finds outdated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from limpet.knowledge.hits import doubt_message
from limpet.knowledge.outdated import MessageDoubts, mark_outdated, may_concern
from limpet.knowledge.prominence import DOUBTED_BY, FOLLOWS, TELLS
from limpet.model.chunk import Hit, Source, SourceKind
from limpet.model.record import Layer, Origin, Record, RecordSource, RecordType
from limpet.model.scope import Level, Owner, Scope

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
QUESTION = "How do I get to work?"
TRAIN = "The user takes the train to work."
BIKE = "The user gets to work by bike now, their year pass ended."


def make_claim(id: str, content: str, day: int, **fields: Any) -> Record:
    return Record(
        id=id,
        home=Owner(Scope("default", user="alice"), Level.USER),
        layer=Layer.SEMANTIC,
        type=fields.pop("type", RecordType.FACT),
        content=content,
        origin=fields.pop("origin", Origin.EXTRACTED),
        source=RecordSource("session", (day,), None, content),
        created_at=NOW + timedelta(days=day),
        valid_from=NOW + timedelta(days=day),
        **fields,
    )


def find_marked(question: str, *claims: Record) -> dict[str, str]:
    marked = mark_outdated(question, claims)
    return {each.id: each.metadata[DOUBTED_BY] for each in marked if DOUBTED_BY in each.metadata}


def later(**metadata: str) -> Record:
    return make_claim("bike", BIKE, 20, metadata={TELLS: "2.5", FOLLOWS: "train", **metadata})


def test_claim_is_marked_by_later_one_that_tells_of_a_change_and_is_asked_for_too() -> None:
    dog = make_claim("dog", "The user's dog is called Biscuit.", 2)
    assert find_marked(QUESTION, make_claim("train", TRAIN, 1), dog, later()) == {"train": "bike"}


def test_what_was_said_of_the_same_thing_with_a_marked_claim_is_marked_with_it() -> None:
    """The spaniel is fourteen and deaf: a question that marks one of them marks the other."""
    train, from_ = make_claim("train", "The user takes the Otley train to work.", 1), "The Otley line has old seats."
    other = make_claim("other", "The user's mother lives in Otley.", 2)
    beside = make_claim("beside", from_, 1)
    assert find_marked(QUESTION, train, beside, other, later()) == {"train": "bike", "beside": "bike"}
    assert "beside" not in find_marked(QUESTION, train, make_claim("beside", from_, 2), other, later())


def test_of_facts_of_one_sentence_only_the_one_that_a_change_is_about_is_marked() -> None:
    train, bees = make_claim("train", TRAIN, 1), make_claim("bees", "The user keeps bees at home", 1)
    assert find_marked("Is my way to work nice?", train, bees, later()) == {"train": "bike"}
    assert find_marked("the bees at home", train, bees, later()) == {}


def test_message_that_has_nothing_in_common_with_a_claim_does_not_mark_it() -> None:
    bees = "The user keeps bees behind the barn."
    assert may_concern("The bees are gone.", bees)
    assert may_concern("I no longer do that.", bees)
    assert not may_concern("FILM DONE. I wrote nine pages by hand.", bees)


def test_claim_is_not_marked_for_question_that_is_not_about_it() -> None:
    dog = make_claim("dog", "The user's dog is called Biscuit.", 2)
    assert find_marked("What is my dog called?", make_claim("train", TRAIN, 1), dog, later()) == {}


def test_claim_is_not_marked_by_message_that_tells_of_no_change() -> None:
    earlier = make_claim("train", TRAIN, 1)
    assert find_marked(QUESTION, earlier, make_claim("bike", BIKE, 20, metadata={FOLLOWS: "train"})) == {}
    assert find_marked(QUESTION, earlier, later(**{TELLS: "-6.0"})) == {}


def test_claim_is_not_marked_by_what_was_said_before_it_or_no_longer_holds() -> None:
    assert find_marked(QUESTION, make_claim("train", TRAIN, 30), later()) == {}
    ended = make_claim("bike", BIKE, 20, metadata={TELLS: "2.5", FOLLOWS: "train"}, valid_to=NOW + timedelta(days=25))
    assert find_marked(QUESTION, make_claim("train", TRAIN, 1), ended) == {}


@pytest.mark.parametrize(
    "fields",
    [{"origin": Origin.EXPLICIT}, {"pinned": True}, {"type": RecordType.TASK_STATE}],
    ids=["stated outright", "pinned", "no claim"],
)
def test_what_only_the_user_changes_is_not_marked(fields: dict[str, Any]) -> None:
    assert find_marked(QUESTION, make_claim("train", TRAIN, 1, **fields), later()) == {}


def test_health_is_marked_only_by_what_is_surer() -> None:
    question, later = "What do I take for my diabetes?", {TELLS: "-1.0", FOLLOWS: "old"}
    said = make_claim("new", "The nurse showed the user how the pen for their diabetes works.", 20, metadata=later)
    assert find_marked(question, make_claim("old", "The user takes metformin for diabetes.", 1), said) == {"old": "new"}
    vital = make_claim("old", "The user takes metformin for diabetes.", 1, attribute="medication", subject="user")
    assert find_marked(question, vital, said) == {}


def test_another_number_makes_claim_more_likely_outdated() -> None:
    rent = make_claim("rent", "Rent is 780 a month for one room.", 1)
    question, told = "What is left of my pay after rent?", {TELLS: "1.0"}
    text = "The landlady wants {} from the first."
    assert find_marked(question, rent, make_claim("new", text.format("815"), 20, metadata=told)) == {"rent": "new"}
    assert find_marked(question, rent, make_claim("new", text.format("more"), 20, metadata=told)) == {}


@pytest.mark.parametrize("value", ["stories", "-1e9", "nan", ""])
def test_metadata_of_a_program_that_has_the_same_name_breaks_nothing(value: str) -> None:
    mine = make_claim("mine", BIKE, 20, origin=Origin.EXPLICIT, metadata={TELLS: value})
    edited = make_claim("edited", BIKE, 21, metadata={TELLS: value})
    assert find_marked(QUESTION, make_claim("train", TRAIN, 1), mine, edited) == {}


def test_empty_question_marks_nothing() -> None:
    assert find_marked(" ", make_claim("train", TRAIN, 1), later()) == {}


RIDE = "what do I do with the train's crumbs on my suit, every ride to work"


@pytest.mark.parametrize(
    ("question", "day", "claims", "found"),
    [
        (QUESTION, 1, [later()], "bike"),
        (QUESTION, 30, [later()], None),  # said after it
        (QUESTION, 1, [later(**{TELLS: "-3.0"})], None),
        ("What is my dog called?", 1, [later(), make_claim("dog", "The user's dog is called Biscuit.", 2)], None),
        ("", 1, [later()], None),
        (QUESTION, 1, [], None),
    ],
)
def test_message_that_taught_nothing_is_doubted_by_later_change_of_what_is_asked(
    question: str, day: int, claims: list[Record], found: str | None
) -> None:
    assert MessageDoubts(question, claims).find(RIDE, NOW + timedelta(days=day)) == found


@pytest.mark.parametrize(("role", "metadata"), [("user", {DOUBTED_BY: "bike"}), ("assistant", {})])
def test_hit_of_outdated_message_of_the_user_names_what_was_said_since(role: str, metadata: dict[str, str]) -> None:
    hit = Hit(RIDE, 0.5, {}, Source(SourceKind.MESSAGE, "1", NOW, role=role))
    assert doubt_message(hit, MessageDoubts(QUESTION, [later()])).metadata == metadata


@pytest.mark.parametrize(
    ("question", "earlier", "now"),
    [
        (
            "Which oil do I buy for the next service?",
            "The user drives a Toyota Yaris.",
            "The user's Skoda pulls to the left since the garage.",
        ),
        (
            "Which account number do I give the tax office?",
            "The user's salary goes into Santander.",
            "The user's wages land at Monzo around midnight.",
        ),
        (
            "What do I answer when they ask how I come to work?",
            "The user takes the ferry every morning.",
            "By tram it takes the user half an hour.",
        ),
    ],
)
def test_claim_is_marked_by_later_one_about_the_same_that_hardly_tells_of_a_change(
    question: str, earlier: str, now: str
) -> None:
    dog = make_claim("dog", "The user's dog is called Biscuit.", 2)
    later = make_claim("later", now, 20, metadata={TELLS: "-0.3"})
    assert find_marked(question, make_claim("earlier", earlier, 1), dog, later) == {"earlier": "later"}
