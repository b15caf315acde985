from __future__ import annotations

import logging
from typing import Any

import pytest

from limpet import AsyncLimpet, Limpet
from limpet.errors import InvalidInput
from limpet.model.tokens import check_counter, estimate_tokens


def by_letters(text: str) -> int:
    return len(text)


def test_counter_defaults_to_token_estimate() -> None:
    assert check_counter(None) is estimate_tokens


def test_counter_is_called_for_text() -> None:
    count = check_counter(by_letters)
    assert count("four") == 4
    assert count("") == 0


def broken(text: str) -> int:
    raise RuntimeError("no vocabulary")


@pytest.mark.parametrize("wrong", [5, "gpt", broken, lambda _: None, lambda _: -1, lambda _: 1.5, lambda _: True])
def test_counter_that_is_invalid_is_rejected_on_open(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="counter"):
        Limpet.open(":memory:", counter=wrong)


@pytest.mark.parametrize("later", [None, -1, ValueError("gone")])
def test_counter_that_fails_later_falls_back_to_estimate(later: Any, caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Any] = [3, later]

    def tired(text: str) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    count = check_counter(tired)
    with caplog.at_level(logging.WARNING, "limpet.providers"):
        assert count("hello there") == estimate_tokens("hello there")
    assert "counter" in caplog.text


def test_counter_is_used_for_context_and_restore() -> None:
    with Limpet.open(":memory:", counter=by_letters) as memory:
        session = memory.session("t", "1", user="alice")
        for _ in range(10):
            session.append("user", "0123456789")
        memory.remember("Biscuit", user="alice", key="dog_name")
        assert len(session.restore(max_tokens=35)) == 3
        context = session.context("what?", max_tokens=240)
        assert context.tokens == len(context.text) + sum(len(message.text) for message in context.messages)
        assert context.tokens <= 240
        assert "Biscuit" in context.text


async def _tokens() -> int:
    async with await AsyncLimpet.open(":memory:", counter=by_letters) as memory:
        session = await memory.session("t", "1")
        await session.append("user", "hello")
        return (await session.context()).tokens


def test_counter_works_with_async_limpet() -> None:
    import asyncio

    assert asyncio.run(_tokens()) == 5
