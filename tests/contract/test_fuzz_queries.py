"""Any question is answered, and none takes far longer than the rest; ``python -m tests.fuzz_queries`` asks more."""

from __future__ import annotations

import random

import pytest

from limpet import Limpet
from limpet.providers.hashed import HashEmbedder
from tests import fuzz_queries
from tests.contract.meaning import open_with

pytestmark = pytest.mark.every_backend


@pytest.mark.slow
def test_any_question_is_answered_and_none_takes_far_longer_than_the_rest(store_url: str) -> None:
    with open_with(store_url, HashEmbedder()) as hf:
        fuzz_queries.fill(hf, seed=1, chunks=600)
        outcome = fuzz_queries.ask(hf, seed=2, count=600)
        assert 100 < outcome.found < outcome.asked  # neither a store that finds nothing nor one without a floor
        assert max(outcome.seconds) < 3, str(outcome)
        # A question of 20,000 signs among them; a busy machine takes its time too.
        assert outcome.at(0.99) < 40 * outcome.at(0.5) + 0.1, str(outcome)


def test_the_questions_are_of_every_kind() -> None:
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
def test_the_same_question_gives_the_same_answer(store_url: str) -> None:
    with open_with(store_url, HashEmbedder()) as hf:
        fuzz_queries.fill(hf, seed=1, chunks=200)
        stream = fuzz_queries.texts(random.Random(3))
        questions = [next(stream) for _ in range(100)]
        assert _answers(hf, questions) == _answers(hf, questions)


def _answers(hf: Limpet, questions: list[str]) -> list[list[tuple[str, float]]]:
    return [[(hit.text, hit.score) for hit in hf.recall(question, user="alice")] for question in questions]
