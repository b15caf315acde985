"""Which recalled messages say too little about a question to be shown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from limpet.knowledge.hits import is_off_topic, only_asks_for
from limpet.model.chunk import Hit, Source, SourceKind
from limpet.search.analysis import Question

NOW = datetime(2026, 5, 6, tzinfo=UTC)


def off_topic(
    text: str,
    question: str = "Who do I pay for flour and when?",
    *,
    role: str | None = "assistant",
    name: str | None = None,
    kind: SourceKind = SourceKind.MESSAGE,
    holds: bool = True,
) -> bool:
    hit = Hit(text, 0.5, {}, Source(kind, "1", NOW, role=role, name=name), holds=holds)
    return is_off_topic(hit, Question.parse(question, NOW))


@pytest.mark.parametrize(
    "reply",
    [
        "Grams it is.",
        "Try it for a month.",
        "That's big.",
        "Draft...",
        "Moved.",
        "About 80-85 %.",
        "Sure: 'Hi, your bike is ready. You can pick it up on Wednesday at 10am. Best, Ines'",
        "Your brother thinks you should open on Sundays, which is worth a try if you can find somebody for the till.",
    ],
)
def test_reply_about_something_else_is_off_topic(reply: str) -> None:
    assert off_topic(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "The flour costs more there.",  # a word of the question
        "The wheat bill is due monthly.",  # near it
        "The mill wants 40 euros on Fridays.",  # not far, and a number may be what is asked
    ],
)
def test_reply_that_may_say_something_stays(reply: str) -> None:
    assert not off_topic(reply)


def test_reply_stays_where_it_is_asked_for() -> None:
    assert not off_topic("Try it for a month.", "What did you advise about flour?")


def test_wish_about_something_else_is_off_topic_and_statement_is_not() -> None:
    assert off_topic("what's a good hydration for rye sourdough", role="user")
    assert off_topic("Write me an instagram caption for cardamom buns.", role="user")
    assert not off_topic("The oven is a MIWE.", role="user")


def test_statement_that_is_far_from_the_question_is_off_topic() -> None:
    assert off_topic("it's raining, nobody comes in", "What medication do I take?", role="user")
    assert not off_topic("I slept terribly, coffee number three", "I'm tired, what should I do tonight?", role="user")


@pytest.mark.parametrize(
    ("text", "question", "nothing"),
    [
        ("give me a quick lunch idea", "What do the kids eat?", True),
        ("how do I get chain grease out of a shirt", "What do the kids eat?", True),
        ("Translate 'the bike is ready' into French", "What do the kids eat?", True),
        ("Translate this into French, I speak Dutch", "What do the kids eat?", False),
        ("Give me a lunch idea for my son", "What do the kids eat?", False),
        ("The kids eat pasta", "What do the kids eat?", False),
        ("give me a quick lunch idea", "What lunch did you suggest?", False),
    ],
)
def test_request_states_nothing_unless_it_says_something_beside(text: str, question: str, nothing: bool) -> None:
    hit = Hit(text, 0.5, {}, Source(SourceKind.MESSAGE, "1", NOW, role="user"))
    assert only_asks_for(hit, Question.parse(question, NOW)) == nothing


def test_words_of_people_with_names_stay() -> None:
    assert not off_topic("That's big.", name="Caroline")


def test_claim_that_is_past_and_about_something_else_is_off_topic() -> None:
    said = "The exam is next Tuesday."
    assert off_topic(said, role="user", kind=SourceKind.RECORD, holds=False)
    assert not off_topic(said, role="user", kind=SourceKind.RECORD)
    assert not off_topic(said, "When is the exam?", role="user", kind=SourceKind.RECORD, holds=False)
