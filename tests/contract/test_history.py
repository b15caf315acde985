from __future__ import annotations

import random
from typing import Any

import pytest

from limpet import Config, Limpet, Message, Session, ToolCall
from limpet.config import ContextSettings
from limpet.errors import BudgetTooSmall, InvalidInput
from limpet.model.message import Role, fit_history
from limpet.model.tokens import estimate_tokens

pytestmark = pytest.mark.every_backend


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def numbered(memory: Limpet, count: int) -> Session:
    session = memory.session("t", "1", user="alice")
    session.extend([Message.new("user", str(number)) for number in range(1, count + 1)])
    return session


def test_recent_returns_newest_messages_in_order(memory: Limpet) -> None:
    session = numbered(memory, 30)
    assert texts(session.recent(3)) == ["28", "29", "30"]
    assert texts(session.recent()) == [str(number) for number in range(11, 31)]
    assert texts(session.recent(1000)) == [str(number) for number in range(1, 31)]
    assert session.recent(0) == []
    assert memory.session("t", "empty").recent(5) == []


def test_messages_returns_all_or_a_range_in_order(memory: Limpet) -> None:
    session = numbered(memory, 10)
    assert texts(session.messages()) == [str(number) for number in range(1, 11)]
    assert texts(session.messages(after=7)) == ["8", "9", "10"]
    assert texts(session.messages(before=3)) == ["1", "2"]
    assert texts(session.messages(after=3, before=6)) == ["4", "5"]
    assert texts(session.messages(after=3, limit=2)) == ["4", "5"]
    assert session.messages(after=5, before=6) == []
    assert session.messages(after=10) == []
    assert session.messages(after=6, before=3) == []
    assert session.messages(limit=0) == []
    wrong: list[Any] = [-1, "1", 1.0, True, 2**62]
    for bad in wrong:
        for call in (
            lambda bad=bad: session.messages(after=bad),
            lambda bad=bad: session.messages(before=bad),
            lambda bad=bad: session.messages(limit=bad),
            lambda bad=bad: session.recent(bad),
            lambda bad=bad: session.restore(bad),
        ):
            with pytest.raises(InvalidInput):
                call()


def test_messages_paging_visits_each_message_once(memory: Limpet) -> None:
    session = memory.session("t", "1")
    session.extend([Message.new("user", str(number), sequence=number * 7) for number in range(1, 101)])
    seen: list[str] = []
    last = 0
    while page := session.messages(after=last, limit=9):
        seen += texts(page)
        last = page[-1].sequence
    assert seen == [str(number) for number in range(1, 101)]


def test_messages_belong_to_one_session(memory: Limpet) -> None:
    one, two = memory.session("t", "1", user="alice"), memory.session("t", "2", user="alice")
    one.append("user", "one")
    two.append("user", "two")
    assert texts(one.messages()) == texts(one.recent()) == texts(one.restore()) == ["one"]
    assert texts(two.messages()) == ["two"]


# Restore


def conversation(seed: int, count: int) -> list[Message]:
    """Turns of every shape: tools or none, results late, lost or answering nothing, users speaking in between."""
    chance = random.Random(seed)
    found: list[Message] = []
    while len(found) < count:
        if chance.random() < 0.9:
            found.append(Message.new("user", "word " * chance.randint(0, 60)))
        for step in range(chance.choice([0, 1, 1, 2, 8])):
            names = [f"{len(found)}-{call}" for call in range(chance.choice([0, 0, 1, 3]))]
            calls = [ToolCall(name, "tool", {"x": "y" * chance.randint(0, 50)}) for name in names]
            found.append(Message.new("assistant", "reply " * chance.randint(0, 40), tool_calls=calls))
            if chance.random() < 0.1:
                found.append(Message.new("user", f"wait {step}"))
            results = [name for name in names if chance.random() < 0.9] + ["nobody"] * (chance.random() < 0.1)
            found += [Message.new("tool", "result " * chance.randint(0, 80), tool_call_id=name) for name in results]
    return found[:count]


@pytest.mark.slow
def test_restore_matches_fit_of_full_history(memory: Limpet) -> None:
    for seed in range(3):
        session = memory.session("t", str(seed), user="alice")
        session.extend(conversation(seed, 400))
        history = session.messages()
        for budget in (1, 10, 50, 200, 500, 1000, 2000, 4000, 8000, 20_000, 10**9):
            kept = session.restore(budget)
            assert [message.sequence for message in kept] == [
                message.sequence for message in fit_history(history, budget)
            ]


def test_restore_finds_user_message_far_back(memory: Limpet) -> None:
    session = memory.session("t", "1")
    session.append("user", "do it all")
    for number in range(150):
        session.append("assistant", "", tool_calls=[ToolCall(f"c{number}", "step", {})])
        session.append("tool", f"result {number}", tool_call_id=f"c{number}")
    kept = session.restore(100)
    assert kept[0].text == "do it all"
    assert kept[-1].text == "result 149"
    assert kept[1].role is Role.ASSISTANT
    assert sum(message.tokens for message in kept) <= 100


def test_restore_keeps_latest_user_message_over_budget(memory: Limpet) -> None:
    session = memory.session("t", "1")
    session.append("user", "old")
    session.append("assistant", "answer")
    session.append("user", "very long " * 5000)
    assert texts(session.restore(1)) == ["very long " * 5000]
    with pytest.raises(BudgetTooSmall):
        session.restore(0)
    assert memory.session("t", "none").restore(10) == []


# Context


def test_context_has_newest_messages_and_summary_of_the_rest(memory: Limpet) -> None:
    session = numbered(memory, 50)
    assert session.swap_summary("they counted to thirty", 30, 0)
    context = session.context("how far?")
    assert texts(list(context.messages)) == [str(number) for number in range(31, 51)]
    assert "they counted to thirty" in context.text
    assert [dropped.what for dropped in context.dropped] == ["30 older messages"]
    assert context.tokens == sum(message.tokens for message in context.messages) + estimate_tokens(context.text)


def test_context_of_empty_session_is_empty(memory: Limpet) -> None:
    context = memory.session("t", "1").context()
    assert (context.text, context.messages, context.tokens, context.dropped) == ("", (), 0, ())


def test_context_omits_summary_when_all_messages_fit(memory: Limpet) -> None:
    session = numbered(memory, 3)
    session.set_summary("one to three", 3)
    assert session.context().text == ""
    assert len(session.context().messages) == 3


def test_context_budget_includes_summary(memory: Limpet) -> None:
    session = memory.session("t", "1")
    for number in range(60):
        session.append("user" if number % 2 == 0 else "assistant", f"{number} " + "word " * 20)
    session.set_summary("summary " * 100, 40)
    for budget in (200, 300, 500, 900):
        context = session.context("x", max_tokens=budget)
        assert context.tokens <= budget
        assert context.messages[-1].text.startswith("59")
        assert "summary" in context.text


def test_context_message_count_comes_from_settings(store_url: str) -> None:
    config = Config(context=ContextSettings(max_tokens=50, recent_messages=7))
    with Limpet.open(store_url, config=config) as memory:
        session = numbered(memory, 40)
        assert len(session.context().messages) == 7
        assert len(session.context(max_tokens=4).messages) == 4
