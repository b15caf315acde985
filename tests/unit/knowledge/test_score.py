"""The worth of a record, against sums done by hand."""

from __future__ import annotations

from datetime import timedelta

import pytest

from limpet.context.select import compute_coverage
from limpet.model.record import RecordType
from limpet.search.analysis import extract_terms
from limpet.search.recipes import score
from tests.unit.context.builders import NOW, record


@pytest.mark.parametrize(
    ("type", "boost"),
    [
        ("failure", 0.12),
        ("fix", 0.12),
        ("constraint", 0.12),
        ("decision", 0.08),
        ("fact", 0.08),
        ("preference", 0.08),
        ("note", 0.05),
        ("command_result", 0.05),
        ("task_state", 0.05),
    ],
)
def test_score_adds_boost_by_record_type(type: str, boost: float) -> None:
    found = record("r", "x", type=RecordType(type), confidence=0.0, salience=0.0)
    assert score(found, 0.0, NOW) == pytest.approx(0.20 + boost)


def test_score_is_weighted_sum_of_parts() -> None:
    found = record("r", "x", confidence=0.5, salience=0.25, updated_at=NOW - timedelta(days=7))
    assert score(found, 0.75, NOW) == pytest.approx(0.40 * 0.75 + 0.20 * 0.5 + 0.20 * 0.25 + 0.20 * 0.5 + 0.08)


def test_score_treats_used_record_as_recent() -> None:
    old = NOW - timedelta(days=700)
    unused, used = record("a", "x", updated_at=old), record("b", "x", updated_at=old, last_used_at=NOW)
    assert score(used, 0, NOW) - score(unused, 0, NOW) == pytest.approx(0.20, abs=1e-6)


def test_score_adds_bonus_for_active_skill() -> None:
    learned = record("a", "x", metadata={"skill": "sailing"})
    assert score(learned, 0, NOW, "sailing") == pytest.approx(score(learned, 0, NOW) + 0.10)
    assert score(learned, 0, NOW, "rowing") == score(learned, 0, NOW)


def test_score_caps_recency_when_clock_goes_back() -> None:
    ahead = record("a", "x", updated_at=NOW + timedelta(days=1))
    assert score(ahead, 0, NOW) == score(record("b", "x"), 0, NOW)


def test_coverage_is_share_of_query_terms_in_record() -> None:
    terms = frozenset(extract_terms("What is my dog called?"))
    assert compute_coverage(terms, record("a", "The dog is called Biscuit")) == 1.0
    assert compute_coverage(terms, record("b", "Biscuit", key="dog_name")) == 0.5
    assert compute_coverage(terms, record("c", "It rains")) == 0.0
    assert compute_coverage(frozenset(), record("d", "dog")) == 0.0
