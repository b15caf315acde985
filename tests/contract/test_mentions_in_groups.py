"""In a group, a mention says to whom something is said."""

from __future__ import annotations

import pytest

from limpet import Limpet

pytestmark = pytest.mark.every_backend


def say(memory: Limpet, *said: tuple[str, str]) -> list[tuple[str, bool]]:
    """What is known after it was said, and whether it holds."""
    session = memory.session("telegram", "-100")
    for name, text in said:
        session.append("user", text, name=name)
        session.learn()
    return [(record.content, record.valid_to is None) for record in memory.records(user=session.user, history=True)]


@pytest.mark.parametrize("address", ["@ana", "@ana,", "@ana: ", "@ana @bo"])
def test_mention_does_not_end_the_mentioned_persons_fact(memory: Limpet, address: str) -> None:
    known = say(memory, ("ana", "I live in Split"), ("cy", f"{address} I moved to Split too last month!"))
    assert any("Split" in content and "ana" in content.lower() and holds for content, holds in known), known
    assert not any("@" in content for content, _ in known)


@pytest.mark.parametrize("text", ["I moved to Split too last month @ana", "I moved to Split too, @ana @bo!"])
def test_mention_at_the_end_does_not_end_the_mentioned_persons_fact(memory: Limpet, text: str) -> None:
    known = say(memory, ("ana", "I live in Split"), ("cy", text))
    assert any("Split" in content and "ana" in content.lower() and holds for content, holds in known), known
    assert not any("@" in content for content, _ in known)


def test_mention_at_the_end_that_is_spoken_of_stays_in_the_sentence() -> None:
    from limpet.knowledge.candidate import _blank_address

    for text in ("I live with @ana", "I met @ana.", "I live in Split with @ana", "I like @ana!", "Call @ana"):
        assert _blank_address(text) == text
    for text in (
        "I moved too @ana",
        "I moved to Split @ana",
        "I moved, @ana",
        "I moved! @ana @bo",
        "I quit today @ana.",
    ):
        blanked = _blank_address(text)
        assert "@" not in blanked
        assert len(blanked) == len(text)


def test_mention_that_is_the_subject_stays_in_the_sentence() -> None:
    from limpet.knowledge.candidate import _blank_address

    for text in ("@ana is moving to Split", "@ana and I moved", "@ana moved to Split", "I live with @ana", "@ana"):
        assert _blank_address(text) == text
    assert _blank_address("@ana I moved") == "     I moved"
