from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.search.analysis import MAX_QUESTION, Question, extract_terms, parse_spans
from tests.cpu_time import assert_linear

NOW = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)  # a Sunday


def day(year: int, month: int, number: int) -> datetime:
    return datetime(year, month, number, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("what happened on 8 May 2023?", day(2023, 5, 8), day(2023, 5, 9)),
        ("what happened on May 8th, 2023?", day(2023, 5, 8), day(2023, 5, 9)),
        ("in March 2024", day(2024, 3, 1), day(2024, 4, 1)),
        ("in December 2024", day(2024, 12, 1), day(2025, 1, 1)),
        ("what did we do in 2022?", day(2022, 1, 1), day(2023, 1, 1)),
        ("in march", day(2026, 3, 1), day(2026, 4, 1)),
        ("yesterday", day(2026, 11, 14), day(2026, 11, 15)),
        ("last Tuesday", day(2026, 11, 10), day(2026, 11, 11)),
        ("last Sunday", day(2026, 11, 8), day(2026, 11, 9)),
        ("last weekend", day(2026, 11, 7), day(2026, 11, 9)),
        ("3 days ago", day(2026, 11, 12), day(2026, 11, 13)),
        ("two weeks ago", day(2026, 10, 30), day(2026, 11, 4)),
    ],
)
def test_parse_spans_recognizes_time_expressions(question: str, start: datetime, end: datetime) -> None:
    assert parse_spans(question, NOW, [2026]) == [(start, end)]


def test_parse_spans_date_without_year_matches_every_year() -> None:
    assert [span.start.year for span in parse_spans("on 3 June", NOW, [2024, 2025])] == [2024, 2025]


@pytest.mark.parametrize(
    "question", ["may I march in?", "I may go", "31 February 2024", "the first of all", "99 June", ""]
)
def test_parse_spans_ignores_text_without_time(question: str) -> None:
    assert parse_spans(question, None, [2026]) == []


def test_parse_spans_relative_expression_requires_now() -> None:
    assert parse_spans("two weeks ago", None, [2026]) == []


@given(st.text(), st.datetimes(timezones=st.just(UTC)))
def test_parse_spans_accepts_any_text(text: str, now: datetime) -> None:
    for span in parse_spans(f"{text} 9999 years ago last year in 9999 december 9999", now, [1, 9999]):
        assert span.end - span.start > timedelta(0)


@pytest.mark.parametrize("piece", ["on May 5th, 2020, ", "last Tuesday in March ", "in 2020 of May "])
def test_parse_spans_of_many_dates_takes_time_in_proportion(piece: str) -> None:
    """Eight times the text takes about eight times as long; comparing each date with each took 64 times."""
    assert_linear(lambda text: parse_spans(text, NOW, [2026]), piece * 2_000, piece * 16_000)


def test_question_names_a_limited_number_of_times() -> None:
    text = " ".join(f"on May {day} {year}" for year in range(2000, 2020) for day in range(1, 29))
    assert len(parse_spans(text, NOW, [2026])) == 50


def test_long_question_is_read_at_its_beginning_and_its_end() -> None:
    text = "Where is the walrus? " + "filler " * 100_000 + "And where is the ferry?"
    question = Question.parse(text, NOW)
    assert len(question.text) <= MAX_QUESTION + 1
    assert set(extract_terms("walrus ferry")) <= set(question.terms)
    assert Question.parse("Where is the walrus?", NOW).text == "Where is the walrus?"
