"""The context of the next prompt, on every backend."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from limpet import Config, Limpet, Message, ToolCall
from limpet.config import ContextSettings
from limpet.errors import BudgetTooSmall, InvalidInput, SessionNotFound
from limpet.model.tokens import estimate_tokens
from limpet.search import search
from limpet.testing import FakeClock

DOG = "What is my dog called?"


def test_memory_of_other_sessions_comes_with_its_source(timed: Limpet, clock: FakeClock) -> None:
    before = timed.session("t", "1", user="alice")
    before.append("user", "My dog is called Biscuit", name="Alice")
    before.append("assistant", "What a lovely name for a dog")
    clock.advance(days=3)
    session = timed.session("t", "2", user="alice")
    session.append("user", DOG)
    context = session.context(DOG)
    relevant = context.sections["Relevant Memory"].split("\n")
    assert relevant[0] == "2026-03-10"
    assert "- Alice: My dog is called Biscuit" in relevant
    assert context.hits[0].source.session_id == before.id
    assert [message.text for message in context.messages] == [DOG]
    assert context.tokens == estimate_tokens(context.text) + sum(message.tokens for message in context.messages)


def test_the_current_message_is_not_recalled_as_its_own_best_match(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    session.append("user", DOG)
    context = session.context(DOG)
    assert context.text == ""
    assert context.hits == ()


def test_hits_do_not_repeat_messages_that_are_already_in_the_context(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    session.append("user", "My dog is called Biscuit")
    session.append("assistant", "Noted")
    session.append("user", "What was the name of the dog?")
    context = session.context("dog name")
    assert len(context.messages) == 3
    assert context.hits == ()
    assert {dropped.reason for dropped in context.dropped} == {"already among the messages"}


def test_the_system_prompt_does_not_come_back_as_a_memory(hf: Limpet) -> None:
    old = hf.session("t", "1", user="alice")
    old.append("system", "You are a dog expert; never reveal the dog's name")
    old.append("user", "My dog is Biscuit")
    context = hf.session("t", "2", user="alice").context("dog name expert")
    assert "expert" not in context.text
    assert "Biscuit" in context.text


def test_whose_memory_a_session_sees(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice", agent="pip")
    other = hf.session("t", "2", user="alice", agent="pip")
    hf.remember("known to alice", user="alice")
    hf.remember("known to pip", agent="pip")
    hf.remember("known to all", scope="global")
    hf.remember("known to this chat", session=session.id)
    hf.remember("known to that chat", session=other.id)
    hf.remember("known to bob", user="bob")
    hf.remember("known to rex", agent="rex")
    hf.tenant("else").remember("known elsewhere", scope="global")
    for query in ("known", ""):
        text = session.context(query).text
        for seen in ("to alice", "to pip", "to all", "to this chat"):
            assert f"known {seen}" in text
        for hidden in ("that chat", "bob", "rex", "elsewhere"):
            assert hidden not in text


def test_sections_of_records(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    session.set_working_memory("comparing two flats")
    hf.remember("Never call before nine", user="alice", pinned=True)
    hf.remember("Biscuit", user="alice", key="dog_name")
    hf.remember("Answer in French", user="alice", layer="procedural", type="constraint")
    hf.remember("Viewed the flat in Graça", user="alice", layer="episodic")
    hf.remember("Prefers tea", user="alice", type="preference")
    assert list(session.context().sections.items()) == [
        ("Long-term Memory", "- Never call before nine"),
        ("User Memories", "- dog_name: Biscuit"),
        ("Working Memory", "comparing two flats"),
        ("Semantic Memory", "- Prefers tea"),
        ("Procedural Memory", "- Answer in French"),
        ("Episodic Memory", session.context().sections["Episodic Memory"]),
    ]


def test_a_record_that_is_no_longer_true_is_left_out(timed: Limpet, clock: FakeClock) -> None:
    session = timed.session("t", "1", user="alice")
    timed.remember("parking code 4711", user="alice", key="parking", ttl=60)
    assert "4711" in session.context("parking code").text
    clock.advance(minutes=2)
    assert session.context("parking code").text == ""


def test_the_relevant_user_memories_come_however_many_there_are(timed: Limpet, clock: FakeClock) -> None:
    session = timed.session("t", "1", user="alice")
    timed.remember("Biscuit, a brown terrier", user="alice", key="dog_name")
    timed.remember("first pinned", user="alice", pinned=True)
    for number in range(130):
        clock.advance(seconds=1)
        timed.remember(f"shelf {number} holds paint", user="alice", key=f"shelf_{number}")
    context = session.context("tell me about my terrier")
    assert "- dog_name: Biscuit, a brown terrier" in context.sections["User Memories"]
    assert context.sections["User Memories"].count("\n") == 49
    assert "first pinned" in context.sections["Long-term Memory"]


def test_a_forgotten_record_is_gone_from_the_context(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    hf.remember("Biscuit", user="alice", key="dog_name")
    hf.forget(key="dog_name", user="alice")
    assert session.context("Biscuit dog").text == ""


@pytest.mark.parametrize("budget", [60, 150, 400, 1000, 4000])
def test_a_context_stays_within_its_budget_whatever_memory_holds(hf: Limpet, budget: int) -> None:
    old = hf.session("t", "old", user="alice")
    old.extend([Message.new("user", f"the dog chased cat {number} " + "far " * 20) for number in range(60)])
    for number in range(40):
        hf.remember(f"dog fact {number} " + "word " * 10, user="alice", key=f"fact_{number}" if number % 2 else None)
    session = hf.session("t", "new", user="alice")
    session.extend([Message.new("user", f"{number} " + "talk " * 15) for number in range(30)])
    session.set_summary("They talked about the dog.", 20)
    context = session.context("which cat did the dog chase?", max_tokens=budget)
    assert context.tokens <= budget
    assert context.messages[-1].text.startswith("29 ")
    assert "They talked about the dog." in context.text
    assert context.tokens == estimate_tokens(context.text) + sum(message.tokens for message in context.messages)


def test_the_reply_has_room_in_the_models_window(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    session.extend([Message.new("user", "word " * 50) for _ in range(20)])
    assert session.context("x", model_window=1524).tokens <= 500
    assert session.context("x").tokens > 900
    with pytest.raises(BudgetTooSmall):
        session.context("x", model_window=1000)


def test_budgets_are_settings(store_url: str) -> None:
    config = Config(context=ContextSettings(hits=2, user_memories=1, show_semantic=False))
    with Limpet.open(store_url, config=config) as hf:
        old = hf.session("t", "old", user="alice")
        old.extend([Message.new("user", f"dog story {number}") for number in range(9)])
        for number in range(3):
            hf.remember(f"dog {number}", user="alice", key=f"dog_{number}")
            hf.remember(f"plain dog {number}", user="alice")
        context = hf.session("t", "new", user="alice").context("dog")
        assert list(context.sections) in (["User Memories", "Relevant Memory"], ["User Memories"])
        assert context.sections["User Memories"].count("\n") == 0
        assert len(context.hits) <= 2


def test_wrong_arguments_are_refused(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    wrong: list[dict[str, Any]] = [
        {"query": 5},
        {"max_tokens": "many"},
        {"max_tokens": -1},
        {"max_tokens": 0},
        {"model_window": 1.5},
        {"skill": ""},
        {"at": "today"},
    ]
    for given in wrong:
        with pytest.raises(InvalidInput):
            session.context(**given)
    session.delete()
    with pytest.raises(SessionNotFound):
        session.context("x")


def test_memory_that_fails_is_logged_and_left_out(
    hf: Limpet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = hf.session("t", "1", user="alice")
    session.append("user", "hello")
    hf.remember("Biscuit", user="alice", key="dog_name")

    def fails(*_: object) -> None:
        raise RuntimeError("index on fire")

    monkeypatch.setattr(search, "search", fails)
    with caplog.at_level(logging.WARNING, "limpet.context"):
        context = session.context("dog")
    assert "Biscuit" in context.text
    assert [message.text for message in context.messages] == ["hello"]
    assert ("Relevant Memory", "could not be read: index on fire") in [
        (dropped.what, dropped.reason) for dropped in context.dropped
    ]
    assert "index on fire" in caplog.text


def test_a_context_speaks_to_a_model(hf: Limpet) -> None:
    old = hf.session("t", "0", user="alice")
    old.append("user", "The weather station in Ghent is broken")
    session = hf.session("t", "1", user="alice")
    session.append("user", "Weather in Ghent?")
    session.append("assistant", "", tool_calls=[ToolCall("c1", "weather", {"city": "Ghent"})])
    session.append("tool", "timeout", tool_call_id="c1", is_error=True)
    context = session.context("Weather station Ghent?")
    assert [entry["role"] for entry in context.as_openai()] == ["user", "user", "assistant", "tool"]
    assert context.as_openai()[0]["content"] == context.text
    messages = context.as_anthropic()["messages"]
    assert [entry["role"] for entry in messages] == ["user", "assistant", "user"]
    assert messages[2]["content"][0]["is_error"] is True


def test_reading_a_context_changes_nothing(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    session.append("user", "My dog is Biscuit")
    hf.remember("Biscuit", user="alice", key="dog_name")
    before = (session.refresh(), hf.records(user="alice"), hf.admin.stats())
    first = session.context("dog")
    assert session.context("dog") == first
    assert (session.refresh(), hf.records(user="alice"), hf.admin.stats()) == before
