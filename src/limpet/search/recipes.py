"""Recipes: how signals become a ranking, and what a record is worth to a question, as named constants.

They were tuned on public conversations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from limpet.errors import InvalidInput
from limpet.model.record import Layer, Record, RecordType
from limpet.model.text import short_repr

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


@dataclass(frozen=True, slots=True)
class Recipe:
    """Weights are on z-scores over the candidates (for "shares" on values from 0 to 1), bonuses are added to them."""

    name: str
    fuse: Literal["words", "vectors", "shares", "signals"]
    candidates: int = 200
    asking_words: float = 1.0  # weight of words that only ask, such as "tell" or "remind"
    words: float = 1.0
    dense: float = 0.0
    words_beside: tuple[float, float] = (0.0, 0.0)  # share of the previous and the next message's score
    dense_beside: tuple[float, float] = (0.0, 0.0)
    exact: float = 0.0  # as good as all of the question's words are there, from this share of them on
    all_said: float = 0.9
    speaker: float = 0.0  # the question names just this speaker
    user: float = 0.0  # among user and assistant: what the user said, unless the question asks for the other
    date: float = 0.0  # said in the time the question names
    session: float = 0.0  # share of the best score of its session
    asking: float = 0.0  # taken off a message that only asks
    length: float = 0.0  # longer chunks, among named speakers
    when: float = 0.0  # a time word, for a question that asks when
    wish: float = 0.0  # a standing wish, for a question that requests
    newer: float = 0.0  # the later of two among the best goes first from this share of common words on
    entity: float = 0.0  # names what the question names, under any of its names; less for what is related to it
    hop: float = 0.0  # how much less
    community: float = 0.0  # is about what usually comes up together with it
    linked: int = 0  # candidates for that reason alone
    floor: bool = False
    one_hit_a_message: bool = False
    worth: RecordRecipe | None = None  # records are ordered by what they are worth, relevance being a part of it


WORDS = Recipe("words", "words")
VECTORS = Recipe("vectors", "vectors", candidates=1000, words=0.0, dense=1.0, floor=True)
WEIGHTED = Recipe("weighted", "shares", words=0.3, dense=0.7, floor=True)
DEFAULT = Recipe(
    "default",
    "signals",
    asking_words=0.3,
    words=0.35,
    dense=0.65,
    words_beside=(0.5, 0.5),
    dense_beside=(0.2, 0.2),
    exact=4.0,
    speaker=3.0,
    user=2.5,
    date=1.0,
    session=0.3,
    asking=0.4,
    length=0.15,
    when=0.6,
    wish=0.5,
    newer=0.3,
    floor=True,
    one_hit_a_message=True,
)
RECORDS = replace(DEFAULT, name="records", worth=RECORD_RECIPE)
# Walks from the names in the question to the passages they stand in, and to those of what is related to them.
GRAPH = replace(DEFAULT, name="graph", entity=0.3, hop=0.3, linked=20)
# And from the question to the group of names it belongs to.
GRAPH_GLOBAL = replace(GRAPH, name="graph_global", community=0.3)
RECIPES = {recipe.name: recipe for recipe in (DEFAULT, WORDS, VECTORS, WEIGHTED, RECORDS, GRAPH, GRAPH_GLOBAL)}


def find_recipe(name: object) -> Recipe:
    if not isinstance(name, str) or name not in RECIPES:
        raise InvalidInput(f"no recipe {short_repr(name)}; there are {', '.join(RECIPES)}")
    return RECIPES[name]


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
