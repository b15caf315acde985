"""What time does to a record, against days counted by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet import Record
from limpet.knowledge.decay import FADE_THRESHOLD, DecayOutcome, DecayRules, decide_outcome, half_life, strength
from limpet.model.record import Layer, Origin
from tests.extracted_records import NOW, record

RULES = DecayRules()
DAY = timedelta(days=1)
MIDDLING = record(confidence=0.5, salience=0.5)


def test_half_life_of_average_record_equals_setting() -> None:
    assert half_life(MIDDLING, 30) == 30 * DAY
    assert strength(MIDDLING, NOW, 30) == 1.0
    assert strength(MIDDLING, NOW + 30 * DAY, 30) == FADE_THRESHOLD
    assert decide_outcome(MIDDLING, NOW + 30 * DAY, RULES) is DecayOutcome.STAYS
    assert decide_outcome(MIDDLING, NOW + 31 * DAY, RULES) is DecayOutcome.ARCHIVED


@pytest.mark.parametrize(
    ("fields", "days"),
    [
        ({"confidence": 1.0, "salience": 1.0}, 45),
        ({"confidence": 0.0, "salience": 0.0}, 15),
        ({"confidence": 0.5, "salience": 0.5, "said": 2}, 60),
        ({"confidence": 0.5, "salience": 0.5, "uses": 3}, 90),
    ],
)
def test_half_life_grows_with_confidence_salience_and_use(fields: dict[str, Any], days: int) -> None:
    assert half_life(record(**fields), 30) == days * DAY


def test_decay_restarts_on_use() -> None:
    used = replace(MIDDLING, last_used_at=NOW + 29 * DAY)
    assert decide_outcome(used, NOW + 58 * DAY, RULES) is DecayOutcome.STAYS


@pytest.mark.parametrize("fields", [{"origin": "explicit"}, {"pinned": True}, {"key": "internal_profile"}])
def test_explicit_or_pinned_record_never_decays(fields: dict[str, Any]) -> None:
    stated = record(confidence=0.0, salience=0.0, **fields)
    assert strength(stated, NOW + 36_500 * DAY, 30) == 1.0
    for archived in (None, NOW):
        assert decide_outcome(replace(stated, archived_at=archived), NOW + 36_500 * DAY, RULES) is DecayOutcome.STAYS


def test_promoted_copy_of_explicit_record_never_decays() -> None:
    origin = record(layer="episodic", origin="explicit")
    copy = record(origin="promoted", inputs=(origin.id,))
    late = NOW + 400 * DAY
    assert decide_outcome(copy, late, RULES, [origin]) is DecayOutcome.STAYS
    assert decide_outcome(copy, late, RULES, [replace(origin, origin=Origin.EXTRACTED)]) is DecayOutcome.ARCHIVED


def test_archived_record_is_deleted_after_retention_period() -> None:
    faded = replace(MIDDLING, archived_at=NOW)
    assert decide_outcome(faded, NOW + 179 * DAY, RULES) is DecayOutcome.STAYS
    assert decide_outcome(faded, NOW + 180 * DAY, RULES) is DecayOutcome.DELETED
    assert decide_outcome(faded, NOW + 18_000 * DAY, DecayRules(delete_archived=0)) is DecayOutcome.STAYS


def test_superseded_record_is_deleted_only_by_delete_past() -> None:
    for past in (
        replace(MIDDLING, valid_to=NOW),
        replace(MIDDLING, superseded_by="x"),
        replace(MIDDLING, expires_at=NOW),
    ):
        assert decide_outcome(past, NOW + 5000 * DAY, RULES) is DecayOutcome.STAYS
        assert decide_outcome(past, NOW + 99 * DAY, DecayRules(delete_past=100)) is DecayOutcome.STAYS
        assert decide_outcome(past, NOW + 100 * DAY, DecayRules(delete_past=100)) is DecayOutcome.DELETED


def test_decay_disabled_archives_nothing() -> None:
    assert decide_outcome(MIDDLING, NOW + 5000 * DAY, DecayRules(fade=0)) is DecayOutcome.STAYS


shares = st.floats(0, 1)
records = st.builds(
    lambda confidence, salience, said, uses, layer: record(
        confidence=confidence, salience=salience, said=said, uses=uses, layer=layer
    ),
    shares,
    shares,
    st.integers(1, 1000),
    st.integers(0, 10_000),
    st.sampled_from(list(Layer)),
)


@given(records, st.floats(0, 4000), st.floats(0, 4000))
def test_strength_decreases_with_time_and_increases_with_use(found: Record, one: float, other: float) -> None:
    early, late = sorted((NOW + one * DAY, NOW + other * DAY))
    assert 0.0 <= strength(found, late, 30) <= strength(found, early, 30) <= 1.0
    used = replace(found, uses=found.uses + 1, last_used_at=early)
    assert strength(used, late, 30) >= strength(found, late, 30)
    assert strength(used, early, 30) == 1.0
    said = replace(found, said=found.said + 1)
    assert strength(said, late, 30) >= strength(found, late, 30)


@given(records, st.floats(0, 4000))
def test_decay_deletes_only_archived_records(found: Record, days: float) -> None:
    assert decide_outcome(found, NOW + days * DAY, RULES) is not DecayOutcome.DELETED
    assert days >= 15 or decide_outcome(found, NOW + days * DAY, RULES) is DecayOutcome.STAYS
