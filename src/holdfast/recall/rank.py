"""Signals to a ranking: pure functions on arrays over a space's catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holdfast.recall.question import Question
from holdfast.recall.recipes import Recipe
from holdfast.recall.times import Span
from holdfast.storage.catalogue import KEPT, Catalogue

if TYPE_CHECKING:
    from holdfast.storage.catalogue import Array

# Below these sums of what is shared with the question, nothing stored is about it.
FLOOR_DENSE, FLOOR_COVER, FLOOR_DENSE_NAMED = 0.50, 0.5, 0.10
FLOOR_WORDS, FLOOR_KNOWN, FLOOR_WORDS_NAMED = 0.35, 0.25, 0.10
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Signals:
    """What each chunk of the catalogue shares with the question. ``cosine`` is None without an embedder."""

    words: Array
    coverage: float
    known: float
    cosine: Array | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """Positions in the catalogue, best first, with the final score and each signal's own."""

    positions: Array
    scores: Array
    parts: dict[str, Array]


NOTHING = Ranked(np.zeros(0, dtype=np.int64), np.zeros(0), {})


def rank(
    catalogue: Catalogue,
    question: Question,
    signals: Signals,
    recipe: Recipe,
    spans: Sequence[Span],
    allowed: Array | None,
) -> Ranked:
    if recipe.fuse == "scores":
        return _by_words(catalogue, signals, allowed)
    if recipe.floor and _nothing_stored(catalogue, question, signals):
        return NOTHING
    words = smooth(catalogue, signals.words, *recipe.words_beside)
    dense = None if signals.cosine is None else smooth(catalogue, signals.cosine, *recipe.dense_beside)
    chosen = best_of(_within(words, allowed), recipe.candidates) & (signals.words > 0)
    if dense is not None:
        chosen |= best_of(_within(dense, allowed), recipe.candidates)
    if allowed is not None:
        chosen &= allowed
    at = np.flatnonzero(chosen)
    if not len(at):
        return NOTHING
    parts = {"words": signals.words[at]}
    fused = z(words[at])
    if dense is not None and signals.cosine is not None:
        parts["vectors"] = signals.cosine[at]
        fused = recipe.words * fused + recipe.dense * z(dense[at])
    fused = fused + _who_and_when(catalogue, question, recipe, spans, at, parts)
    final = _with_priors(catalogue, question, recipe, at, fused, parts)
    return _ordered(catalogue, recipe, at, final, parts)


def _by_words(catalogue: Catalogue, signals: Signals, allowed: Array | None) -> Ranked:
    chosen = signals.words > 0
    at = np.flatnonzero(chosen if allowed is None else chosen & allowed)
    order = np.lexsort((-catalogue.ordinals[at], -signals.words[at]))
    at = at[order]
    return Ranked(at, signals.words[at], {"words": signals.words[at]})


def _nothing_stored(catalogue: Catalogue, question: Question, signals: Signals) -> bool:
    """A question that shares too little with anything here. One that names somebody here shares that already."""
    about = bool(question.named(catalogue.names))
    if signals.cosine is None:
        return signals.coverage + FLOOR_KNOWN * signals.known + FLOOR_WORDS_NAMED * about < FLOOR_WORDS
    nearest = float(signals.cosine.max()) if len(signals.cosine) else 0.0
    return nearest + FLOOR_COVER * signals.coverage + FLOOR_DENSE_NAMED * about < FLOOR_DENSE


def smooth(catalogue: Catalogue, scores: Array, before: float, after: float) -> Array:
    """A chunk's own score, and a part of the best of the messages before and after its own."""
    if not before and not after:
        return scores
    best = np.zeros(catalogue.messages + 1)
    np.maximum.at(best, catalogue.message, scores)
    beside = before * best[catalogue.previous] + after * best[catalogue.following]
    return scores + beside[catalogue.message]


def best_of(scores: Array, count: int) -> Array:
    if len(scores) <= count:
        return np.ones(len(scores), dtype=bool)
    enough: Array = scores >= np.partition(scores, -count)[-count]
    return enough


def _within(scores: Array, allowed: Array | None) -> Array:
    return scores if allowed is None else np.where(allowed, scores, -np.inf)


def z(values: Array) -> Array:
    spread = values.std()
    standard: Array = (values - values.mean()) / (spread if spread > 1e-9 else 1.0)
    return standard


def _who_and_when(
    catalogue: Catalogue, question: Question, recipe: Recipe, spans: Sequence[Span], at: Array, parts: dict[str, Array]
) -> Array:
    message = catalogue.message[at]
    bonus = np.zeros(len(at))
    if catalogue.names:
        named = question.named(catalogue.names)
        if len(named) == 1:
            speaker = catalogue.speaker[message]
            parts["speaker"] = ((speaker == named[0]) | (speaker == KEPT)).astype(float)
            bonus += recipe.speaker * parts["speaker"]
    elif not question.about_assistant:
        parts["speaker"] = catalogue.is_user[message].astype(float)
        bonus += recipe.user * parts["speaker"]
    if spans:
        parts["time"] = date_fit(catalogue.time[message], spans)
        bonus += recipe.date * parts["time"]
    return bonus


def date_fit(times: Array, spans: Sequence[Span]) -> Array:
    """1 inside a span, fading outside with half its length, three days at least."""
    fit = np.zeros(len(times))
    for start, end in ((span.start.timestamp(), span.end.timestamp()) for span in spans):
        away = np.maximum(np.maximum(start - times, times - end), 0.0)
        fit = np.maximum(fit, np.exp(-away / max(3 * _DAY, (end - start) / 2)))
    return fit


def _with_priors(
    catalogue: Catalogue, question: Question, recipe: Recipe, at: Array, fused: Array, parts: dict[str, Array]
) -> Array:
    message = catalogue.message[at]
    session = catalogue.session[message]
    best = np.full(int(catalogue.session.max()) + 1, -np.inf)
    np.maximum.at(best, session, fused)
    parts["session"] = z(best[session])
    final = z(fused) + recipe.session * parts["session"]
    asking = catalogue.ends_asking if catalogue.names else catalogue.only_asks
    final = final - recipe.asking * asking[message]
    if catalogue.names:
        final = final + recipe.length * (np.log1p(catalogue.words[at]) - 3)
    elif question.requests:
        final = final + recipe.wish * catalogue.standing_wish[at]
    if question.asks_when:
        final = final + recipe.when * catalogue.time_word[at]
    return final


def _ordered(catalogue: Catalogue, recipe: Recipe, at: Array, final: Array, parts: dict[str, Array]) -> Ranked:
    order = np.lexsort((-catalogue.ordinals[at], -final))  # the newer first among equals
    if recipe.one_hit_a_message:
        first = np.unique(catalogue.message[at[order]], return_index=True)[1]
        order = order[np.sort(first)]
    # Between 0 and 1, and 0.5 for a candidate like the average one; the order is the same.
    scores = 1 / (1 + np.exp(-final[order]))
    return Ranked(at[order], scores, {name: values[order] for name, values in parts.items()})
