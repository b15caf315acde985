"""What every recipe promises of recall."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from limpet import Limpet, Message
from limpet.providers.hashed import HashEmbedder
from limpet.search.recipes import RECIPES
from limpet.testing import FakeClock
from tests.contract.embedders import open_with, texts

pytestmark = pytest.mark.every_backend

FILLER = [f"The weather of day {number} was unremarkable in the valley" for number in range(40)]


@pytest.fixture
def memory(store_url: str, clock: FakeClock) -> Iterator[Limpet]:
    with open_with(store_url, HashEmbedder(), clock) as opened:
        yield opened


def tell(memory: Limpet, *lines: str, chat: str = "1") -> None:
    memory.session("t", chat, user="alice").extend([Message.new("user", line) for line in lines])


@pytest.mark.parametrize("recipe", RECIPES)
def test_recall_finds_words_whatever_signs_stand_around_them(memory: Limpet, recipe: str) -> None:
    tell(memory, *FILLER, "the walrus won't sing")
    signs = ["'", '"', *"?-*^:()\\", "AND", "OR", "NOT", "NEAR(", ";--", "%s", ":x", "$1", "{}"]
    for sign in signs:
        for question in (f"walrus {sign} sing", f"{sign}walrus sing", f"walrus sing{sign}", f"{sign}walrus{sign} sing"):
            assert "the walrus won't sing" in texts(memory.recall(question, user="alice", recipe=recipe)), question
        assert isinstance(memory.recall(sign, user="alice", recipe=recipe), list)


def test_recall_finds_message_by_a_whole_question(memory: Limpet) -> None:
    tell(memory, *FILLER, "My sister keeps seven bees on the roof of the bakery")
    for recipe in RECIPES:
        found = memory.recall("So how many bees is it that my sister keeps up there?", user="alice", recipe=recipe)
        assert texts(found)[0].startswith("My sister keeps"), recipe


@pytest.mark.parametrize("recipe", ["default", "weighted", "vectors"])
def test_recall_of_what_was_never_said_returns_nothing(memory: Limpet, recipe: str) -> None:
    tell(memory, *FILLER, "My sister keeps bees on the roof")
    assert memory.recall("Which chromodynamics textbook did physicists annotate?", user="alice", recipe=recipe) == []
    assert memory.recall("xyzzy plugh", user="alice", recipe=recipe) == []
    assert texts(memory.recall("sister's bees on a roof", user="alice", recipe=recipe))[0].startswith("My sister")


def test_recall_returns_all_evidence_that_says_nearly_the_same(memory: Limpet) -> None:
    evidence = [f"On trip number {number} I paid for the ferry ticket in cash" for number in range(8)]
    tell(memory, *FILLER, chat="1")
    lines = [line for pair in zip(evidence, FILLER, strict=False) for line in pair]
    tell(memory, *lines, chat="2")
    for recipe in RECIPES:
        found = texts(
            memory.recall("How did I pay for the ferry ticket on each trip?", user="alice", k=8, recipe=recipe)
        )
        assert set(found) == set(evidence), recipe
