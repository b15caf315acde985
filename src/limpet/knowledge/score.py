"""What a record is worth to a question, as a recipe of named constants. Contexts and recall ask the same function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from limpet.model.record import Layer, Record, RecordType

SKILL_KEY = "skill"  # the metadata key of the skill that was active


@dataclass(frozen=True, slots=True)
class RecordRecipe:
    relevance: float = 0.40
    recency: float = 0.20
    salience: float = 0.20
    confidence: float = 0.20
    skill: float = 0.10  # learned with the skill that is active now
    half_life: timedelta = timedelta(days=7)  # a record not touched for so long is half as recent
    lookback: timedelta = timedelta(days=21)  # of episodic records
    boosts: Mapping[RecordType, float] = field(default_factory=dict)
    other_boost: float = 0.05


RECORD_RECIPE = RecordRecipe(
    boosts=dict.fromkeys((RecordType.FAILURE, RecordType.FIX, RecordType.CONSTRAINT), 0.12)
    | dict.fromkeys((RecordType.DECISION, RecordType.FACT, RecordType.PREFERENCE), 0.08)
)


def score_components(
    record: Record, relevance: float, now: datetime, skill: str | None = None, recipe: RecordRecipe = RECORD_RECIPE
) -> dict[str, float]:
    """What each consideration adds; the score is their sum."""
    return {
        "relevance": recipe.relevance * relevance,
        "recency": recipe.recency * recency(record, now, recipe.half_life),
        "salience": recipe.salience * record.salience,
        "confidence": recipe.confidence * record.confidence,
        "type": recipe.boosts.get(record.type, recipe.other_boost),
        "skill": recipe.skill * (skill is not None and record.metadata.get(SKILL_KEY) == skill),
    }


def score(
    record: Record, relevance: float, now: datetime, skill: str | None = None, recipe: RecordRecipe = RECORD_RECIPE
) -> float:
    return sum(score_components(record, relevance, now, skill, recipe).values())


def recency(record: Record, now: datetime, half_life: timedelta) -> float:
    """1 for a record changed or used now, half of it after each half-life."""
    touched = max((at for at in (record.updated_at, record.last_used_at) if at is not None), default=None)
    if touched is None or touched >= now:
        return float(touched is not None)
    return float(0.5 ** ((now - touched) / half_life))


def is_in_lookback(record: Record, now: datetime, recipe: RecordRecipe = RECORD_RECIPE) -> bool:
    """Episodes are looked for among those that happened, or were used, not long ago."""
    since = now - recipe.lookback
    touched = (record.updated_at, record.last_used_at)
    return record.layer is not Layer.EPISODIC or any(at is not None and at >= since for at in touched)
