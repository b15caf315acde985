"""A summary without a model covers all it claims, in the room it has."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet import Message, ToolCall
from limpet.model.tokens import estimate_tokens, shorten_text
from limpet.sessions.summary import summarize_by_rules


def said(number: int) -> Message:
    role = "assistant" if number % 2 else "user"
    return Message.new(
        role, f"well this is what I wanted to tell you about item{number}, which is rather nice and cheap"
    )


def test_digest_keeps_short_history_verbatim() -> None:
    told = [Message.new("user", "I moved to Lisbon", name="Alice"), Message.new("assistant", "Noted.")]
    assert (
        summarize_by_rules("", told, 500, estimate_tokens)
        == "- Alice (user): I moved to Lisbon\n- the assistant: Noted."
    )


def test_digest_shortens_every_line_when_budget_is_small() -> None:
    text = summarize_by_rules("", [said(number) for number in range(40)], 500, estimate_tokens)
    assert estimate_tokens(text) <= 500
    assert [number for number in range(40) if f"item{number}," not in text] == []


def test_digest_merges_oldest_lines_when_there_are_too_many() -> None:
    text = summarize_by_rules("", [said(number) for number in range(100)], 500, estimate_tokens)
    assert estimate_tokens(text) <= 500
    lines = text.split("\n")
    assert sum(int(line.split()[1][1:]) if "messages) " in line else 1 for line in lines) == 100
    assert "messages" in lines[0]
    assert "item99," in lines[-1]


def test_shorten_text_keeps_names_numbers_and_decisions() -> None:
    text = "the user: so well as it happens I think we decided to meet Biscuit at 09:40 and that is quite all there is"
    short = shorten_text(text, 50)
    assert len(short) <= 50
    for word in ("the user:", "decided", "Biscuit", "09:40"):
        assert word in short


def test_digest_shortens_previous_summary_instead_of_truncating() -> None:
    old = (
        "They met in Porto. "
        + "They spoke of the weather for a while and of nothing else. " * 30
        + "Ana owes 250 euros."
    )
    text = summarize_by_rules(old, [said(number) for number in range(10)], 500, estimate_tokens)
    assert estimate_tokens(text) <= 500
    assert "Porto" in text
    assert "250" in text
    assert "item9," in text


def test_digest_repeated_stays_bounded_and_keeps_first_message() -> None:
    text = ""
    for number in range(0, 400, 20):
        text = summarize_by_rules(text, [said(at) for at in range(number, number + 20)], 500, estimate_tokens)
        assert estimate_tokens(text) <= 500
    assert "item0" in text.split("\n")[0]
    assert "item399," in text


def test_digest_omits_tool_results_and_names_tool_calls() -> None:
    told = [
        Message.new("assistant", "", tool_calls=[ToolCall("1", "search", {"q": "x"})]),
        Message.new("tool", "SECRET OUTPUT", tool_call_id="1"),
    ]
    assert summarize_by_rules("", told, 500, estimate_tokens) == "- the assistant: [called search]"


def test_digest_shortens_text_without_word_boundaries() -> None:
    told = [Message.new("user", f"第{number}个" + "我搬到了里斯本" * 30) for number in range(20)]
    text = summarize_by_rules("", told, 500, estimate_tokens)
    assert estimate_tokens(text) <= 500
    assert [number for number in range(20) if f"第{number}个" not in text] == []


@pytest.mark.slow
def test_digest_of_thousands_of_long_messages_is_fast() -> None:
    begun = time.process_time()
    text = summarize_by_rules(
        "", [Message.new("user", f"{number} " + "Foo bar " * 300) for number in range(2000)], 500, estimate_tokens
    )
    assert time.process_time() - begun < 10
    assert estimate_tokens(text) <= 500


@given(st.text(max_size=2000), st.lists(st.text(max_size=400), max_size=60), st.integers(50, 600))
def test_digest_always_fits_budget(old: str, texts: list[str], most: int) -> None:
    told = [Message.new("user", "".join(char for char in text if char != "\0")) for text in texts]
    text = summarize_by_rules(old, told, most, estimate_tokens)
    assert estimate_tokens(text) <= most
    assert bool(text.strip()) == bool(told or old.strip())
