from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from limpet.search.analysis import Question
from limpet.search.index import CatalogueRow, make_empty_catalogue
from limpet.search.rank import Ranker, Signals, rank_values
from limpet.search.recipes import DEFAULT, VECTORS
from limpet.search.vectors import VectorScores

QUESTION = Question.parse("", None)


def test_refine_cosines_ranks_only_exact_scores() -> None:
    """However far off all estimates are together, their order decides who is looked at, and nothing more."""
    count = 2000
    real = np.linspace(-0.2, 0.4, count)
    catalogue = make_empty_catalogue(0).append_rows(
        [CatalogueRow(at, None, None, None, None, 0, 1, 0) for at in range(count)]
    )
    vectors = VectorScores(0.6 + real / 10, rough=True, rescore=lambda at: real[at] + 0.001)
    signals = Signals(np.zeros(count), np.zeros(count), 0.0, vectors, lambda at: real[at])
    for recipe in (replace(VECTORS, candidates=50), replace(DEFAULT, candidates=50)):
        cosines = Ranker(catalogue, QUESTION, signals, recipe).refine_cosines(np.zeros(count, dtype=bool))
        assert cosines is not None
        best = np.argsort(-np.nan_to_num(cosines, nan=-1))[:40]
        assert best.tolist() == list(range(count - 1, count - 41, -1))
        assert cosines[best].tolist() == real[best].tolist()


def test_refine_cosines_includes_word_matches_and_neighbours() -> None:
    count = 1000
    catalogue = make_empty_catalogue(0).append_rows(
        [CatalogueRow(at, "s", at + 1, "user", None, 0, 1, 0) for at in range(count)]
    )
    real = np.linspace(0.5, 0.1, count)
    vectors = VectorScores(real, rough=True, rescore=lambda at: real[at])
    chosen = np.zeros(count, dtype=bool)
    chosen[900] = True
    signals = Signals(np.zeros(count), np.zeros(count), 0.0, vectors)
    cosines = Ranker(catalogue, QUESTION, signals, replace(DEFAULT, candidates=10)).refine_cosines(chosen)
    assert cosines is not None
    assert not np.isnan(cosines[899:902]).any()  # and its neighbours, which lend it a part of their own
    assert np.isnan(cosines[500])


@given(st.lists(st.sampled_from((0.0, 0.5, 0.5, 1.0, -1.0, math.nan, math.inf)), min_size=1, max_size=30), st.data())
def test_rank_values_counts_better_values(given_values: list[float], data: st.DataObject) -> None:
    values = np.array(given_values, dtype=data.draw(st.sampled_from(("f4", "f8"))))
    places = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=8))
    ranks, scores = rank_values(values, places)
    for at, rank, score in zip(places, ranks, scores, strict=True):
        assert score == values[at] or (math.isnan(score) and math.isnan(values[at]))
        assert math.isnan(score) or rank == int((values > values[at]).sum()) + 1
