from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.search.analysis import Question
from limpet.search.catalogue import Catalogue, CatalogueRow, make_empty_catalogue
from limpet.search.rank import Ranker, Signals, Smoother, find_highest, include_neighbours, rank_values, select_best
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
    vectors = VectorScores(0.6 + real / 10, rough=True, rescore=lambda at: real[at])
    signals = Signals(np.zeros(count), np.zeros(count), 0.0, vectors)
    for recipe in (replace(VECTORS, candidates=50), replace(DEFAULT, candidates=50)):
        cosines = Ranker(catalogue, QUESTION, signals, recipe).refine_cosines(np.zeros(0, dtype=int))
        assert cosines is not None
        best = np.argsort(-np.where(cosines.known, cosines.values, -1))[:40]
        assert best.tolist() == list(range(count - 1, count - 41, -1))
        assert cosines.values[best].tolist() == real[best].tolist()


def test_refine_cosines_includes_word_matches_and_neighbours() -> None:
    count = 1000
    catalogue = make_empty_catalogue(0).append_rows(
        [CatalogueRow(at, "s", at + 1, "user", None, 0, 1, 0) for at in range(count)]
    )
    real = np.linspace(0.5, 0.1, count)
    vectors = VectorScores(real, rough=True, rescore=lambda at: real[at])
    chosen = np.array([900])
    signals = Signals(np.zeros(count), np.zeros(count), 0.0, vectors)
    cosines = Ranker(catalogue, QUESTION, signals, replace(DEFAULT, candidates=10)).refine_cosines(chosen)
    assert cosines is not None
    assert cosines.known[899:902].all()  # and its neighbours, which lend it a part of their own
    assert not cosines.known[500]


@pytest.mark.parametrize(
    ("names", "covered", "first"),
    [(("Ann", "Bob"), 0.6, 0), (("Ann", "Bob"), 0.15, 1), ((None, None), 0.15, 0)],
    ids=["most", "little", "user"],
)
def test_rank_trusts_words_less_among_people_if_no_text_has_much_of_the_question(
    names: tuple[str | None, str | None], covered: float, first: int
) -> None:
    """The first text has the question's words, the second its meaning."""
    catalogue = make_empty_catalogue(0).append_rows(
        [CatalogueRow(at, f"s{at}", 1, "user", names[at % 2], 0, 1, 0) for at in range(4)]
    )
    cosines = np.array([0.41, 0.5, 0.2, 0.2])
    vectors = VectorScores(cosines, rough=False, rescore=lambda at: cosines[at])
    signals = Signals(np.array([2.0, 1.0, 0.5, 0.5]), np.array([covered, 0.1, 0.1, 0.1]), 1.0, vectors)
    assert Ranker(catalogue, QUESTION, signals, DEFAULT).rank().positions[0] == first


@pytest.mark.parametrize("size", [5, 300, 9000, 40_000])
@pytest.mark.parametrize("levels", [3, 1000])
def test_select_best_takes_the_highest_and_the_newest_of_equals(size: int, levels: int) -> None:
    random = np.random.default_rng(size + levels)
    positions, values = np.arange(size) * 2, random.integers(0, levels, size).astype("f4")
    values[: size // 3] += levels  # the best are together, where a sample may miss them
    for count in (1, 200):
        expected = np.lexsort((positions, values))[::-1][:count]
        assert select_best(positions, values, count).tolist() == sorted(positions[expected].tolist())
        allowed = np.zeros(2 * size, dtype=bool)
        allowed[positions] = True
        assert find_highest(np.repeat(values, 2), allowed, count).tolist() == sorted(positions[expected].tolist())


@given(st.lists(st.sampled_from((0.0, 0.5, 0.5, 1.0, -1.0, math.nan, math.inf)), min_size=1, max_size=30), st.data())
def test_rank_values_counts_better_values(given_values: list[float], data: st.DataObject) -> None:
    values = np.array(given_values, dtype=data.draw(st.sampled_from(("f4", "f8"))))
    places = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=8))
    ranks, scores = rank_values(values, places)
    for at, rank, score in zip(places, ranks, scores, strict=True):
        assert score == values[at] or (math.isnan(score) and math.isnan(values[at]))
        assert math.isnan(score) or rank == int((values > values[at]).sum()) + 1


def make_rows(count: int) -> list[CatalogueRow]:
    """Messages of three sessions, some in several chunks and some said again, and records between them."""
    random, last, rows = Random(count), dict.fromkeys("abc", 0), []
    for ordinal in range(count):
        session = random.choice("abc")
        if random.random() < 0.1:
            rows.append(CatalogueRow(ordinal, None, None, None, None, ordinal, 1, 0, "record"))
            continue
        last[session] += random.choice((0, 1, 1, 2))
        sequence = max(1, last[session] - random.choice((0, 0, 0, 2)))
        name, flags = random.choice(("Ann", "Bob", None)), random.randrange(16)
        rows.append(CatalogueRow(ordinal, session, sequence, "user", name, ordinal, 1, flags))
    return rows


def smooth_slowly(catalogue: Catalogue, scores: np.ndarray[Any, Any], average: float) -> list[float]:
    best: dict[int, float] = {}
    for message, score in zip(catalogue.message.tolist(), scores.tolist(), strict=True):
        best[message] = max(best.get(message, 0.0), score)
    beside = ((catalogue.previous[at], catalogue.following[at]) for at in catalogue.message)
    return [
        score + 0.5 * (best.get(int(before), average) + best.get(int(after), average))
        for score, (before, after) in zip(scores.tolist(), beside, strict=True)
    ]


@pytest.mark.parametrize("twice", [False, True])
def test_smoother_adds_best_of_neighbouring_messages(twice: bool) -> None:
    """Whether or not the chunks of a message are in one place."""
    rows = make_rows(300)
    rows = rows if twice else sorted(rows, key=lambda row: (row.session or "", row.sequence or 0))
    rows = [row._replace(ordinal=at) for at, row in enumerate(rows)]
    catalogue = make_empty_catalogue(0).append_rows(rows)
    assert catalogue.facts.in_order is not twice
    scores = np.random.default_rng(3).normal(size=len(rows))
    smoother, everything = Smoother(catalogue, scores, 0.5, 0.3), np.arange(len(rows))
    assert smoother.at(everything).tolist() == pytest.approx(smooth_slowly(catalogue, scores, 0.3))
    some = everything[::7]
    assert smoother.at(some).tolist() == pytest.approx(smoother.at(everything)[some].tolist())


@pytest.mark.parametrize("twice", [False, True])
def test_include_neighbours_adds_all_chunks_of_messages_around(twice: bool) -> None:
    rows = make_rows(200)
    rows = rows if twice else sorted(rows, key=lambda row: (row.session or "", row.sequence or 0))
    catalogue = make_empty_catalogue(0).append_rows([row._replace(ordinal=at) for at, row in enumerate(rows)])
    for at in (0, 57, 120, 199):
        message = int(catalogue.message[at])
        around = {message, int(catalogue.previous[message]), int(catalogue.following[message])} - {-1}
        expected = [place for place, each in enumerate(catalogue.message.tolist()) if each in around]
        assert include_neighbours(catalogue, np.array([at])).tolist() == expected


def test_select_best_of_many_finds_one_between_high_neighbours() -> None:
    count = 20_000
    catalogue = make_empty_catalogue(0).append_rows(
        [CatalogueRow(at, "s", at + 1, "user", None, 0, 1, 0) for at in range(count)]
    )
    scores = np.random.default_rng(1).uniform(0.0, 0.5, count).astype("f4")
    scores[[4999, 5001]] = 2.0
    scores[5000] = 0.1
    allowed = np.ones(count, dtype=bool)
    allowed[4999] = False
    assert Smoother(catalogue, scores, 0.5, 0.25).select_best(allowed, 2).tolist() == [5000, 5001]


@pytest.mark.parametrize("speakers", [("Ann", "Bob"), (None, None)])
@pytest.mark.parametrize("with_vectors", [True, False])
def test_neighbours_count_less_in_talk_with_assistant(
    speakers: tuple[str | None, str | None], with_vectors: bool
) -> None:
    """An assistant repeats what the user has said, so that its reply says less of the message beside it."""
    scores = {10: 1.4, 29: 0.8, 30: 0.7, 31: 0.8}  # one alone, and one between two others
    rows = [CatalogueRow(at, f"s{at // 20}", at + 1, "user", speakers[at % 2], 0, 1, 0) for at in range(1000)]
    words = np.zeros(len(rows), dtype="f4")
    words[list(scores)] = list(scores.values())
    vectors = (
        VectorScores(np.zeros(len(rows), dtype="f4"), rough=False, rescore=lambda at: at) if with_vectors else None
    )
    signals = Signals(words, np.full(len(rows), 0.6), 1.0, vectors)
    recipe = replace(DEFAULT, session=0.0, floor=False)
    best = Ranker(make_empty_catalogue(0).append_rows(rows), QUESTION, signals, recipe).rank().positions[0]
    assert best == (10 if with_vectors and not speakers[0] else 30)


def test_truncated_catalogue_has_no_message_after_its_end() -> None:
    """A reader of an older snapshot must rank as if the later messages were not there yet."""
    rows = [CatalogueRow(at, "s", at + 1, "user", None, 0, 1, 0) for at in range(5)]
    longer, shorter = (make_empty_catalogue(0).append_rows(rows[:count]) for count in (5, 3))
    scores, everything = np.array([1.0, 2.0, 3.0]), np.arange(3)
    cut, fresh = (Smoother(each, scores, 0.5, 0.25) for each in (longer.truncate(3), shorter))
    assert cut.at(everything).tolist() == fresh.at(everything).tolist()


@pytest.mark.parametrize("first", [1, 30, 119])
def test_catalogue_is_the_same_however_its_rows_are_appended(first: int) -> None:
    rows, empty = make_rows(120), make_empty_catalogue(0)
    whole, parts = empty.append_rows(rows), empty.append_rows(rows[:first]).append_rows(rows[first:])
    for row in rows:
        empty = empty.append_rows([row])
    for other in (parts, empty):
        assert (other.names, other.sessions) == (whole.names, whole.sessions)
        for name in ("message", "session", "sequence", "speaker", "previous", "following", "time_word", "only_asks"):
            assert getattr(other, name).tolist() == getattr(whole, name).tolist(), name
    numbers = {(row.session, row.sequence): int(at) for row, at in zip(rows, whole.message, strict=True) if row.session}
    for (session, sequence), at in numbers.items():
        assert whole.previous[at] == numbers.get((session, (sequence or 0) - 1), -1)
        assert whole.following[at] == numbers.get((session, (sequence or 0) + 1), -1)
