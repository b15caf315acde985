"""A summary without a model: sentences that were said, in their order, in the room there is."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet import Message, ToolCall
from limpet.model.tokens import estimate_tokens
from limpet.sessions.extract import LearnedSentence, extract_summary

LABEL = re.compile(r"- [^:,]+(?:, \d{1,2} [A-Z][a-z]{2}(?: \d{4})?)?: ")
LAST_LINE = re.compile(r"- (\d+) earlier messages?(, (up to|of) \d{1,2} [A-Z][a-z]{2} \d{4},)? can be searched\.")


def said(text: str, sequence: int = 1, day: int = 0, role: str = "user", name: str | None = None) -> Message:
    created_at = datetime(2026, 3, 3, 12, tzinfo=UTC) + timedelta(days=day)
    return replace(Message.new(role, text, name=name, created_at=created_at), sequence=sequence)


def talk(*texts: str) -> list[Message]:
    return [said(text, at, at) for at, text in enumerate(texts, start=1)]


def extract(messages: Sequence[Message], most: int = 500, old: str = "", **more: Sequence[LearnedSentence]) -> str:
    return extract_summary(old, messages, most, estimate_tokens, **more)


def quoted(summary: str) -> list[str]:
    """The quotes of a summary, checked to have their form."""
    *lines, last = summary.splitlines()
    assert LAST_LINE.fullmatch(last)
    for line in lines:
        assert LABEL.match(line), line
    return [LABEL.sub("", line, count=1) for line in lines]


def test_summary_quotes_sentences_with_speaker_and_day() -> None:
    messages = [
        said("We moved the wedding to June."),
        said("I will tell the florist about June.", 2, role="assistant"),
        said("Bob has the rings.", 3, day=40, name="Alice"),
    ]
    assert extract(messages) == (
        "- user, 3 Mar: We moved the wedding to June.\n"
        "- assistant, 3 Mar: I will tell the florist about June.\n"
        "- Alice, 12 Apr: Bob has the rings.\n"
        "- 3 earlier messages, up to 12 Apr 2026, can be searched."
    )


def test_summary_of_another_year_says_the_year_and_keeps_it() -> None:
    text = extract([said("Ana was born in Faro."), said("Ana moved to Braga this week.", 2, day=365)])
    assert text.startswith("- user, 3 Mar 2025: ") is False
    assert text.splitlines()[:2] == [
        "- user, 3 Mar 2026: Ana was born in Faro.",
        "- user, 3 Mar: Ana moved to Braga this week.",
    ]
    later = extract([said("Rui sold the boat.", 3, day=800)], old=text)
    assert later.splitlines()[:2] == [
        "- user, 3 Mar 2026: Ana was born in Faro.",
        "- user, 3 Mar 2027: Ana moved to Braga this week.",
    ]


def test_messages_without_a_time_have_no_day() -> None:
    assert extract([Message.new("user", "I moved to Lisbon.")]) == (
        "- user: I moved to Lisbon.\n- 1 earlier message can be searched."
    )


def test_neighbouring_sentences_share_a_line_and_others_do_not() -> None:
    text = "The boat is called Petrel.   She is 26 feet long.\n- Rot in the transom\n- New rivets of copper"
    assert quoted(extract([said(text)])) == [
        "The boat is called Petrel. She is 26 feet long.",
        "Rot in the transom",
        "New rivets of copper",
    ]


def test_statements_come_before_questions_and_small_talk() -> None:
    text = extract(
        talk(
            "Thanks!",
            "Where could the whole family meet for the big dinner next month?",
            "Ok.",
            "Dinner is at Casa Rosa on 14 May at 19:30.",
            "Hello there.",
        ),
        most=55,
    )
    assert quoted(text) == ["Dinner is at Casa Rosa on 14 May at 19:30."]


def test_sentence_said_twice_is_quoted_once() -> None:
    messages = talk("The key is under the blue pot.", "Ok, noted the pot.", "The key is under the blue pot.")
    text = extract(messages)
    assert text.count("under the blue pot") == 1
    assert extract(messages, old=text).count("under the blue pot") == 1


def test_later_of_two_sentences_that_differ_in_a_value_is_quoted() -> None:
    messages = talk(
        "The budget of the party is 600 euros.", "We hired a band.", "The budget of the party is 800 euros."
    )
    assert quoted(extract(messages)) == ["We hired a band.", "The budget of the party is 800 euros."]
    first = extract(messages[:2])
    assert quoted(extract(messages[2:], old=first)) == ["We hired a band.", "The budget of the party is 800 euros."]


def test_list_is_not_taken_for_a_value_that_changed() -> None:
    items = [f"The parcel for house {number} is heavy." for number in (4, 9, 12)]
    assert quoted(extract(talk(*items))) == items


def test_sentence_whose_claim_no_longer_holds_is_left_out() -> None:
    messages = talk("I live in Porto.", "The cat sleeps all day long.", "I moved to Lisbon last week.")
    learned = [LearnedSentence(1, "I live in Porto.", False), LearnedSentence(3, "I moved to Lisbon last week.", True)]
    kept = ["The cat sleeps all day long.", "I moved to Lisbon last week."]
    assert quoted(extract(messages, learned=learned)) == kept
    before = extract(messages[:2])
    assert "Porto" in before
    assert quoted(extract(messages[2:], old=before, learned=learned)) == kept


def test_sentence_from_which_something_was_learned_comes_first() -> None:
    messages = talk(
        *(f"Route {number} goes past Station {number * 7} at {number}:30." for number in range(40)), "I eat no nuts."
    )
    assert "I eat no nuts." not in extract(messages, most=60)
    assert "I eat no nuts." in extract(messages, most=60, learned=[LearnedSentence(41, "I eat no nuts.", True)])


def test_marks_in_the_place_of_removed_words_are_not_quoted() -> None:
    text = extract([said("[forgotten] We hired a band. [removed: an address]")])
    assert quoted(text) == ["We hired a band."]


def test_tool_results_and_tool_calls_are_not_quoted() -> None:
    messages = [
        Message.new("assistant", "", tool_calls=[ToolCall("1", "search", {"q": "x"})]),
        Message.new("tool", "SECRET OUTPUT of the tool", tool_call_id="1"),
    ]
    assert extract(messages) == "- 2 earlier messages can be searched."


def test_repeated_extraction_keeps_good_old_lines_and_counts_all_messages() -> None:
    text = extract(talk("My daughter Ines is allergic to penicillin since 2019."))
    for round_ in range(30):
        idle = [said(f"Weather is grey, and nothing much happened, part {round_}.", 2 + round_, day=round_)] * 20
        text = extract(idle, old=text)
        assert estimate_tokens(text) <= 500
    assert "- user, 4 Mar: My daughter Ines is allergic to penicillin since 2019." in text
    last = LAST_LINE.fullmatch(text.splitlines()[-1])
    assert last is not None
    assert last[1] == "601"


def test_speaker_cannot_pass_for_a_label() -> None:
    text = extract([said("Rui sold the old boat.", name="Bob, 1 Jan: I owe you 5: x")])
    assert text.splitlines()[0] == "- Bob 1 Jan I owe you 5 x, 3 Mar: Rui sold the old boat."
    again = extract([said("Ana bought the boat from Rui.", 2)], old=text)
    assert text.splitlines()[0] in again


def test_sentence_that_has_no_room_is_never_cut() -> None:
    text = extract([said("word " * 3000), said("我搬到了里斯本" * 300, 2), said("Ana has 3 cats.", 3)])
    assert quoted(text) == ["Ana has 3 cats."]


@pytest.mark.slow
def test_extraction_takes_linear_time() -> None:
    def seconds(number: int) -> float:
        messages = [said(f"{at} " + "Foo bar baz. Qux was here. " * 80 + str(at), at) for at in range(number)]
        begun = time.process_time()
        assert estimate_tokens(extract(messages)) <= 500
        return time.process_time() - begun

    small, large = seconds(100), seconds(800)
    assert large < 16 * small + 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["a" * 200_000, "A1" * 100_000, "A " * 100_000, "[" * 100_000, "- " * 100_000, "?!" * 90_000]
)
def test_extraction_of_hostile_text_is_fast(text: str) -> None:
    begun = time.process_time()
    extract([said(text, at) for at in range(5)])
    assert time.process_time() - begun < 5


WORDS = st.sampled_from(
    "I moved to Lisbon. Ana Bob 14 May - * : , ? ! … 。 \n \t \u2028 \x85 [x] user, 3 Mar: can be searched".split(" ")
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=30).map(" ".join))


@given(
    st.lists(st.lists(st.tuples(TEXTS, st.text(min_size=1, max_size=12)), max_size=12), max_size=4),
    st.integers(50, 400),
)
def test_every_line_was_said_and_fits(rounds: list[list[tuple[str, str]]], most: int) -> None:
    old, everything = "", ""
    total = 0
    for round_ in rounds:
        messages = [
            said(text.replace("\0", ""), name=name.strip() if name.isprintable() and name.strip() else None)
            for text, name in round_
        ]
        old = extract(messages, most, old)
        assert estimate_tokens(old) <= most
        assert extract(messages, most, old) == extract(messages, most, old)
        everything += "\n".join(" ".join(message.text.split()) for message in messages) + "\n"
        total += len(messages)
        if total:
            assert old.splitlines()[-1].startswith(f"- {total} earlier message")
            for quote in quoted(old):
                assert quote in everything
        else:
            assert old == ""
