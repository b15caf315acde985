"""What a speaker asks not to have remembered is not learned, and nothing is forgotten by such words either."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from limpet.knowledge.english.assertions import is_forget_request, is_opt_out
from limpet.knowledge.english.extract import TurnMessage
from limpet.knowledge.english.extract import extract_candidates as extract
from limpet.knowledge.english.graph import extract_from_message
from limpet.knowledge.learn import build_turn_event
from limpet.knowledge.llm_extract import parse_answer
from limpet.model.message import Message, Role
from limpet.model.scope import Level, Owner, Scope

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def learned(text: str) -> list[tuple[str, str | None, str | None]]:
    return [(one.subject, one.attribute, one.value) for one in extract([TurnMessage(1, Role.USER, text, NOON)])]


@pytest.mark.parametrize(
    "text",
    [
        "Please don't remember this: I live in Porto.",
        "I live in Porto. Please do not save this.",
        "dont remember that pls, i live in porto",
        "Off the record, I work at Nokia.",
        "I work at Nokia, but keep it between us.",
        "Do not store anything I say today. I am vegan.",
        "I'm allergic to nuts. Never write down any of this!",
    ],
)
def test_opt_out_message_is_not_learned(text):
    assert is_opt_out(text)
    assert learned(text) == []


@pytest.mark.parametrize(
    ("text", "home"),
    [
        ("Never store passwords in the repo. I live in Porto.", "Porto"),
        ("I don't remember that. I live in Porto.", "Porto"),
        ("Do not save it yet. I live in Porto.", "Porto"),
        ("Don't forget that I live in Porto.", "Porto"),
        ("Forget that I live in Bergen, I live in Turku.", "Turku"),
        ("I live in Vaasa. Scratch that, I live in Espoo.", "Espoo"),
    ],
)
def test_opt_out_lookalikes_are_learned(text, home):
    assert [value for _, attribute, value in learned(text) if attribute == "home"] == [home]


@pytest.mark.parametrize(
    "text",
    [
        "Forget that I live in Porto.",
        "Please forget what I told you about my sister, who lives in Porto.",
        "Can you delete my birthday? My birthday is May 3. Forget that.",
        "I live in Porto. Please forget I said that.",
    ],
)
def test_forget_request_is_not_learned(text):
    assert learned(text) == []


def test_forget_request_adds_nothing_to_graph():
    message = Message(Role.USER, "Forget that my sister Anna lives in Porto.", sequence=1, created_at=NOON)
    assert is_forget_request(message.text)
    assert extract_from_message(message, "s", NOON, 20).relations == ()
    hushed = Message(Role.USER, "Don't remember this: Anna lives in Porto.", sequence=1, created_at=NOON)
    assert extract_from_message(hushed, "s", NOON, 20).entities == ()


def test_opt_out_message_is_not_learned_by_llm():
    turn = [TurnMessage(1, Role.USER, "Don't remember this: I live in Porto.", NOON)]
    assert parse_answer('[{"statement": "lives in Porto", "sentence": "I live in Porto."}]', turn) == []
    asked = [TurnMessage(1, Role.USER, "Forget that I live in Porto.", NOON)]
    assert parse_answer('[{"statement": "lives in Porto", "sentence": "I live in Porto."}]', asked) == []


def test_opt_out_turn_creates_no_turn_event():
    home = Owner(Scope("t", user="alice"), Level.USER)

    def event(text: str) -> object:
        turn = [
            Message(Role.USER, text, sequence=1, created_at=NOON),
            Message(Role.ASSISTANT, "ok", sequence=2, created_at=NOON),
        ]
        return build_turn_event("id", home, "s", turn, None, str, NOON)

    assert event("I live in Porto.") is not None
    assert event("Don't remember this: I live in Porto.") is None


def test_forget_can_still_extract_opt_out_messages():
    for text in ("Forget that I live in Porto.", "Don't remember this: I live in Porto."):
        (found,) = extract([TurnMessage(1, Role.USER, text, NOON)], unheard_too=True)
        assert (found.attribute, found.value, found.sentence) == ("home", "Porto", "I live in Porto.")


@pytest.mark.parametrize("piece", ["\n", "- ", "please ", "don't ", "do not remember ", "keep this just ", "oh, "])
def test_is_opt_out_runs_in_linear_time(piece):
    import time

    start = time.process_time()
    is_opt_out(piece * (100_000 // len(piece)))
    assert time.process_time() - start < 2
