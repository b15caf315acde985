"""What a record is worth to a question, as a recipe of named constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from holdfast.domain.record import Record, RecordType
from holdfast.storage.analysis import shared_terms


@dataclass(frozen=True, slots=True)
class RecordRecipe:
    relevance: float = 0.40
    recency: float = 0.20
    salience: float = 0.20
    confidence: float = 0.20
    skill: float = 0.10  # learned with the skill that is active now
    half_life: timedelta = timedelta(days=7)  # a record not touched for so long is half as recent
    boosts: Mapping[RecordType, float] = field(default_factory=dict)
    other_boost: float = 0.05


RECORDS = RecordRecipe(
    boosts=dict.fromkeys((RecordType.FAILURE, RecordType.FIX, RecordType.CONSTRAINT), 0.12)
    | dict.fromkeys((RecordType.DECISION, RecordType.FACT, RecordType.PREFERENCE), 0.08)
)
SKILL = "skill"  # the metadata key of the skill that was active


def score(
    record: Record, relevance: float, now: datetime, skill: str | None = None, recipe: RecordRecipe = RECORDS
) -> float:
    total = (
        recipe.relevance * relevance
        + recipe.recency * recency(record, now, recipe.half_life)
        + recipe.salience * record.salience
        + recipe.confidence * record.confidence
        + recipe.boosts.get(record.type, recipe.other_boost)
    )
    return total + recipe.skill * (skill is not None and record.metadata.get(SKILL) == skill)


def recency(record: Record, now: datetime, half_life: timedelta) -> float:
    """1 for a record changed or used now, half of it after each half-life."""
    touched = max((at for at in (record.updated_at, record.last_used_at) if at is not None), default=None)
    if touched is None or touched >= now:
        return float(touched is not None)
    return float(0.5 ** ((now - touched) / half_life))


def coverage(question: frozenset[int], record: Record) -> float:
    """The share of the question's words that the record holds."""
    if not question:
        return 0.0
    text = record.content
    if record.key or record.title:
        text = f"{(record.key or '').replace('_', ' ')} {record.title or ''} {text}"
    return shared_terms(question, text) / len(question)
