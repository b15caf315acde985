"""Any question is answered, and none takes far longer than the rest; ``python -m tests.fuzz_queries`` asks more."""

from __future__ import annotations

import random

import pytest

from limpet import Limpet
from limpet.providers.hashed import HashEmbedder
from tests import fuzz_queries
from tests.contract.embedders import open_with

pytestmark = pytest.mark.every_backend


@pytest.mark.slow
def test_recall_answers_any_query_within_time_limit(store_url: str) -> None:
    with open_with(store_url, HashEmbedder()) as memory:
        fuzz_queries.fill(memory, seed=1, chunks=600)
        outcome = fuzz_queries.ask(memory, seed=2, count=300)
        assert 50 < outcome.found < outcome.asked  # neither a store that finds nothing nor one without a floor
        assert max(outcome.seconds) < 3, str(outcome)
        # A question of 20,000 signs among them; a busy machine takes its time too.
        assert outcome.at(0.99) < 40 * outcome.at(0.5) + 0.1, str(outcome)


def test_fuzz_queries_cover_every_kind_of_text() -> None:
    stream = fuzz_queries.texts(random.Random(1))
    asked = [next(stream) for _ in range(3000)]
    everything = "".join(asked)
    for sign in "'\"-*:%\\\x01\u200d👍":
        assert sign in everything
    for low, high in fuzz_queries.SCRIPTS:
        assert any(low <= ord(sign) <= high for sign in everything)
    assert max(map(len, asked)) > 10_000
    assert "" in asked


@pytest.mark.slow
def test_recall_is_deterministic(store_url: str) -> None:
    with open_with(store_url, HashEmbedder()) as memory:
        fuzz_queries.fill(memory, seed=1, chunks=200)
        stream = fuzz_queries.texts(random.Random(3))
        questions = [next(stream) for _ in range(100)]
        assert _answers(memory, questions) == _answers(memory, questions)


def _answers(memory: Limpet, questions: list[str]) -> list[list[tuple[str, float]]]:
    return [[(hit.text, hit.score) for hit in memory.recall(question, user="alice")] for question in questions]
