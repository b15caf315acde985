"""Recipes: how signals become a ranking and how records are scored, as named constants.

Tuned on public conversations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Literal

from limpet.model.dataclass import dataclass, replace
from limpet.model.record import Layer, Record, RecordType

SKILL_KEY = "skill"  # the metadata key of the active skill


@dataclass(frozen=True, slots=True)
class RecordRecipe:
    relevance: float = 0.40
    recency: float = 0.20
    salience: float = 0.20
    confidence: float = 0.20
    skill: float = 0.10  # learned with the active skill
    half_life: timedelta = timedelta(days=7)  # a record not used for this long has half the recency
    lookback: timedelta = timedelta(days=21)  # of episodic records
    boosts: Mapping[RecordType, float] = field(default_factory=dict)
    other_boost: float = 0.05


RECORD_RECIPE = RecordRecipe(
    boosts=dict.fromkeys((RecordType.FAILURE, RecordType.FIX, RecordType.CONSTRAINT), 0.12)
    | dict.fromkeys((RecordType.DECISION, RecordType.FACT, RecordType.PREFERENCE), 0.08)
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Weights apply to z-scores over the candidates (for "shares", to values from 0 to 1); bonuses are added."""

    name: str
    fuse: Literal["words", "vectors", "shares", "signals"]
    candidates: int = 200
    asking_words: float = 1.0  # weight of filler words, such as "tell" or "remind"
    words: float = 1.0
    dense: float = 0.0
    covered: float = 0.0  # among named speakers: the share of the question in one text, below which words count less
    # Share of the previous and the next message's score: among people, and with an assistant unless words alone rank.
    words_beside: tuple[float, float] = (0.0, 0.0)
    dense_beside: tuple[float, float] = (0.0, 0.0)
    exact: float = 0.0  # bonus if more than ``exact_from`` of the question's words match
    exact_from: float = 0.9
    speaker: float = 0.0  # the question names this speaker
    user: float = 0.0  # user and assistant: the user's message, unless the question asks for the assistant's
    date: float = 0.0  # from the time the question names
    session: float = 0.0  # share of the best score of its session
    asking: float = 0.0  # subtracted from a message that only asks
    length: float = 0.0  # longer chunks, among named speakers
    when: float = 0.0  # a time word, for a question that asks when
    wish: float = 0.0  # a standing wish, for a question that requests
    newer: float = 0.0  # the newer of two top hits goes first from this share of common words on
    entity: float = 0.0  # mentions a name in the question, under any of its names; less for related names
    hop: float = 0.0  # how much less
    community: float = 0.0  # belongs to a community of the question
    linked: int = 0  # candidates from the community alone
    floor: bool = False
    one_hit_a_message: bool = False
    record_recipe: RecordRecipe | None = None  # records are ordered by record score, of which relevance is a part


WORDS = Recipe("words", "words")
VECTORS = Recipe("vectors", "vectors", candidates=1000, words=0.0, dense=1.0, floor=True)
WEIGHTED = Recipe("weighted", "shares", words=0.3, dense=0.7, floor=True)
DEFAULT = Recipe(
    "default",
    "signals",
    asking_words=0.3,
    words=0.4,
    dense=0.65,
    covered=0.6,
    words_beside=(0.5, 0.35),
    dense_beside=(0.25, 0.14),
    exact=4.0,
    speaker=3.0,
    user=2.5,
    date=1.0,
    session=0.3,
    asking=0.6,
    length=0.15,
    when=0.6,
    wish=0.5,
    newer=0.3,
    floor=True,
    one_hit_a_message=True,
)
RECORDS = replace(DEFAULT, name="records", record_recipe=RECORD_RECIPE)
# Walks from the names in the question to passages with them and with related names.
GRAPH = replace(DEFAULT, name="graph", entity=0.3, hop=0.3, linked=20)
# And from the question to its communities.
GRAPH_GLOBAL = replace(GRAPH, name="graph_global", community=0.3)
RECIPES = {recipe.name: recipe for recipe in (DEFAULT, WORDS, VECTORS, WEIGHTED, RECORDS, GRAPH, GRAPH_GLOBAL)}


def score_components(
    record: Record, relevance: float, now: datetime, skill: str | None = None, recipe: RecordRecipe = RECORD_RECIPE
) -> dict[str, float]:
    """Return what each factor adds; the score is their sum."""
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
    """Return 1 for a record changed or used now, halved with each half-life."""
    touched = max((at for at in (record.updated_at, record.last_used_at) if at is not None), default=None)
    if touched is None or touched >= now:
        return float(touched is not None)
    return float(0.5 ** ((now - touched) / half_life))


def is_in_lookback(record: Record, now: datetime, recipe: RecordRecipe = RECORD_RECIPE) -> bool:
    """Return whether an episode happened or was used recently enough."""
    since = now - recipe.lookback
    touched = (record.updated_at, record.last_used_at)
    return record.layer is not Layer.EPISODIC or any(at is not None and at >= since for at in touched)
