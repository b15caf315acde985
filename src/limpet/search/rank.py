"""From signals to a ranking: pure functions on arrays over a partition's catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from limpet.model.dataclass import dataclass
from limpet.search.analysis import Question, Span
from limpet.search.index import NO_MESSAGE, RECORD_SPEAKER, Catalogue
from limpet.search.recipes import Recipe

if TYPE_CHECKING:
    from limpet.search.vectors import VectorScores
    from limpet.store.tx import Array

# Below these sums of what the question shares with the nearest text, nothing stored is relevant.
FLOOR_DENSE, FLOOR_DENSE_COVER, FLOOR_DENSE_KNOWN, FLOOR_DENSE_NAMED = 0.35, 0.1, 0.1, 0.3
FLOOR_COVERED = 0.6  # share of the question in one text, from which it is relevant however far its meaning
FLOOR_WORDS, FLOOR_KNOWN, FLOOR_WORDS_NAMED = 0.35, 0.25, 0.10
# A chunk without a shared word needs at least this similarity to be a hit.
NEAR_ENOUGH = 0.10
_DAY = 86_400.0
_FEW = 8
_REFINE_FACTOR = 5  # times the number of candidates that are scored exactly after a rough first score


@dataclass(frozen=True, slots=True)
class Signals:
    """What each chunk of the catalogue shares with the question. ``vectors`` is None without vectors.

    ``compute_exact`` returns exact cosines for some positions, from the stored vectors.
    """

    words: Array
    covered: Array
    known: float
    vectors: VectorScores | None = None
    compute_exact: Callable[[Array], Array] | None = None
    entity: Array | None = None
    community: Array | None = None


@dataclass(frozen=True, slots=True)
class RankResult:
    """Positions in the catalogue, best first, with the final score and each signal's score."""

    positions: Array
    scores: Array
    parts: dict[str, Array]


NO_RESULTS = RankResult(np.zeros(0, dtype=np.int64), np.zeros(0), {})


@dataclass(frozen=True, slots=True)
class Ranker:
    """Ranks the chunks of a catalogue for a question."""

    catalogue: Catalogue
    question: Question
    signals: Signals
    recipe: Recipe
    spans: Sequence[Span] = ()  # times that the question names
    allowed: Array | None = None  # a mask; None: all

    def rank(self) -> RankResult:
        signals, recipe = self.signals, self.recipe
        if recipe.fuse == "words":
            return self._rank_by_signal("words", _mask_scores(signals.words, signals.words > 0))
        words = smooth(self.catalogue, signals.words, *recipe.words_beside)
        chosen = self._mark_best(_mask_scores(words, signals.words > 0), recipe.candidates)
        cosines = self.refine_cosines(chosen)
        if recipe.floor and self._is_off_topic(cosines):
            return NO_RESULTS
        if recipe.fuse == "vectors":
            scores = np.full(self.catalogue.chunks, np.nan) if cosines is None else cosines
            return self._rank_by_signal("vectors", _mask_scores(scores, ~np.isnan(scores)), recipe.candidates)
        dense = None if cosines is None else self._smooth_cosines(cosines)
        if dense is not None and cosines is not None:
            near = (signals.words > 0) | (np.nan_to_num(cosines) >= NEAR_ENOUGH)
            chosen = (chosen | self._mark_best(_mask_scores(dense, ~np.isnan(cosines)), recipe.candidates)) & near
        if signals.entity is not None and recipe.linked:
            chosen = chosen | self._mark_best(_mask_scores(signals.entity, signals.entity > 0), recipe.linked)
        at = np.flatnonzero(chosen)
        if not len(at):
            return NO_RESULTS
        parts = {"words": signals.words[at]}
        if cosines is not None:
            parts["vectors"] = cosines[at]
        if recipe.fuse == "shares":
            near_shares = scale_min_max(np.nan_to_num(parts.get("vectors", np.zeros(len(at)))))
            shares = recipe.words * scale_min_max(parts["words"]) + recipe.dense * near_shares
            return self._build_result(at, shares, shares, parts)
        fused = standardize(words[at])
        if dense is not None and cosines is not None:
            fused = recipe.words * fused + recipe.dense * _standardize_masked(dense[at], ~np.isnan(cosines[at]))
        for add in (self._score_exact_match, self._score_speaker_and_time, self._score_graph):
            fused = fused + add(at, parts)
        final = self._apply_priors(at, fused, parts)
        # Between 0 and 1, with 0.5 for an average candidate; the order is unchanged.
        return self._build_result(at, final, 1 / (1 + np.exp(-final)), parts)

    def refine_cosines(self, chosen: Array) -> Array | None:
        """Return the cosines, exact for the best and for those chosen by words."""
        signals, recipe = self.signals, self.recipe
        if signals.vectors is None or not recipe.dense:
            return None
        cosines = signals.vectors.cosines.copy()

        def select_best(count: int) -> Array:
            smoothed = self._smooth_cosines(cosines)
            return self._mark_best(_mask_scores(smoothed, ~np.isnan(cosines)), count) | chosen

        if signals.vectors.rough:
            closer = np.flatnonzero(self._include_neighbours(select_best(_REFINE_FACTOR * recipe.candidates)))
            cosines[:] = np.nan  # an estimate must not compete with an exact score: it may be far too high
            cosines[closer] = signals.vectors.rescore(closer)
        if signals.compute_exact is not None:
            at = np.flatnonzero(select_best(recipe.candidates) & ~np.isnan(cosines))
            cosines[at] = signals.compute_exact(at)
        return cosines

    def _smooth_cosines(self, cosines: Array) -> Array:
        """Blend cosines with those of neighbours. The average is over the whole partition."""
        catalogue, vectors, (before, after) = self.catalogue, self.signals.vectors, self.recipe.dense_beside
        assert vectors is not None
        known = np.flatnonzero(~np.isnan(cosines))
        if len(known) * _FEW > len(cosines):
            return smooth(catalogue, np.nan_to_num(cosines), before, after, vectors.average)
        # Only a few have cosines: leave the others out of the sums.
        message = catalogue.message[known]
        best = np.zeros(catalogue.messages + 1, dtype=cosines.dtype)
        np.maximum.at(best, message, cosines[known])
        best[NO_MESSAGE] = vectors.average
        smoothed = np.zeros(len(cosines), dtype=cosines.dtype)
        beside = before * best[catalogue.previous[message]] + after * best[catalogue.following[message]]
        smoothed[known] = cosines[known] + beside
        return smoothed

    def _include_neighbours(self, chosen: Array) -> Array:
        """Return these chunks and all chunks of the messages before and after."""
        catalogue = self.catalogue
        marked = np.zeros(catalogue.messages + 1, dtype=bool)
        message = catalogue.message[chosen]
        for near in (message, catalogue.previous[message], catalogue.following[message]):
            marked[near] = True
        marked[NO_MESSAGE] = False
        beside: Array = marked[catalogue.message]
        return beside

    def _rank_by_signal(self, name: str, scores: Array, count: int | None = None) -> RankResult:
        """Return positions in the order of one signal; positions without it are left out."""
        scores = _mask_scores(scores, self.allowed)
        at = np.flatnonzero(scores > -np.inf)
        at = at[np.lexsort((-self.catalogue.ordinals[at], -scores[at]))[:count]]
        return RankResult(at, scores[at], {name: scores[at]})

    def _is_off_topic(self, cosines: Array | None) -> bool:
        """Return whether the question shares too little with everything here. Naming a speaker here is enough."""
        about = bool(self.question.find_names(self.catalogue.names))
        coverage = float(self.signals.covered.max()) if len(self.signals.covered) else 0.0
        if cosines is None or np.isnan(cosines).all():
            return coverage + FLOOR_KNOWN * self.signals.known + FLOOR_WORDS_NAMED * about < FLOOR_WORDS
        shared = FLOOR_DENSE_COVER * coverage + FLOOR_DENSE_KNOWN * self.signals.known + FLOOR_DENSE_NAMED * about
        return coverage < FLOOR_COVERED and float(np.nanmax(cosines)) + shared < FLOOR_DENSE

    def _mark_best(self, scores: Array, count: int) -> Array:
        """Return a mask of the best ``count`` allowed; ties go to the newer."""
        scores = _mask_scores(scores, self.allowed)
        chosen: Array = scores > -np.inf
        values = scores[chosen]
        if len(values) > count:
            last = np.partition(values, -count)[-count]
            chosen = scores > last
            equals = np.flatnonzero(scores == last)
            chosen[equals[np.count_nonzero(chosen) - count :]] = True
        return chosen

    # Each returns what it adds to the scores of the candidates ``at``, and notes its signals in ``parts``.

    def _score_exact_match(self, at: Array, parts: dict[str, Array]) -> Array:
        """A question for a number or a name needs a text that contains it, however similar others are."""
        least = self.recipe.exact_from
        beyond: Array = np.maximum(0.0, self.signals.covered[at] - least) / (1 - least)
        if beyond.any():
            parts["exact"] = beyond
        return self.recipe.exact * beyond

    def _score_speaker_and_time(self, at: Array, parts: dict[str, Array]) -> Array:
        catalogue, recipe = self.catalogue, self.recipe
        message = catalogue.message[at]
        bonus = np.zeros(len(at))
        if catalogue.is_among_people:
            named = self.question.find_names(catalogue.names)
            if len(named) == 1:
                speaker = catalogue.speaker[message]
                parts["speaker"] = ((speaker == named[0]) | (speaker == RECORD_SPEAKER)).astype(float)
                bonus += recipe.speaker * parts["speaker"]
        elif not self.question.about_assistant:
            parts["speaker"] = catalogue.is_user[message].astype(float)
            bonus += recipe.user * parts["speaker"]
        if self.spans:
            parts["time"] = score_dates(catalogue.time[message], self.spans)
            bonus += recipe.date * parts["time"]
        return bonus

    def _score_graph(self, at: Array, parts: dict[str, Array]) -> Array:
        bonus = np.zeros(len(at))
        for name in ("entity", "community"):
            values, weight = getattr(self.signals, name), getattr(self.recipe, name)
            if values is not None and weight and values[at].any():
                parts[name] = values[at]
                bonus += weight * parts[name]
        return bonus

    def _apply_priors(self, at: Array, fused: Array, parts: dict[str, Array]) -> Array:
        catalogue, recipe = self.catalogue, self.recipe
        message = catalogue.message[at]
        session = catalogue.session[message]
        best = np.full(int(catalogue.session.max()) + 1, -np.inf)
        np.maximum.at(best, session, fused)
        parts["session"] = standardize(best[session])
        final = standardize(fused) + recipe.session * parts["session"]
        asking = catalogue.ends_asking if catalogue.is_among_people else catalogue.only_asks
        final = final - recipe.asking * asking[message]
        if catalogue.is_among_people:
            final = final + recipe.length * (np.log1p(catalogue.words[at]) - 3)
        elif self.question.requests:
            final = final + recipe.wish * catalogue.standing_wish[at]
        if self.question.asks_when:
            final = final + recipe.when * catalogue.time_word[at]
        return final

    def _build_result(self, at: Array, final: Array, scores: Array, parts: dict[str, Array]) -> RankResult:
        order = np.lexsort((-self.catalogue.ordinals[at], -final))  # the newer first among equals
        if self.recipe.one_hit_a_message:
            first = np.unique(self.catalogue.message[at[order]], return_index=True)[1]
            order = order[np.sort(first)]
        return RankResult(at[order], scores[order], {name: values[order] for name, values in parts.items()})


def smooth(catalogue: Catalogue, scores: Array, before: float, after: float, average: float | None = None) -> Array:
    """Add to a chunk's score a share of the best scores of the messages before and after.

    At the start or end of a session, the average stands in for the missing message.
    """
    if not before and not after:
        return scores
    best = _max_by_message(catalogue, scores)
    best[NO_MESSAGE] = (scores.mean() if len(scores) else 0.0) if average is None else average
    beside = before * best[catalogue.previous] + after * best[catalogue.following]
    smoothed: Array = scores + beside[catalogue.message]
    return smoothed


def _max_by_message(catalogue: Catalogue, scores: Array) -> Array:
    """Return the best score per message, never below 0. A message's chunks are nearly always adjacent."""
    best = np.zeros(catalogue.messages + 1, dtype=scores.dtype)
    if not len(scores):
        return best
    starts, message = catalogue.message_runs
    peaks = np.maximum.reduceat(scores, starts)
    np.maximum(peaks, 0, out=peaks)
    best[message] = peaks
    lower = best[message] < peaks  # a message in two places, where the last was not the best
    if lower.any():
        np.maximum.at(best, message[lower], peaks[lower])
    return best


def _mask_scores(scores: Array, allowed: Array | None) -> Array:
    return scores if allowed is None else np.where(allowed, scores, -np.inf)


def scale_min_max(values: Array) -> Array:
    """Scale from 0 for the lowest to 1 for the best."""
    low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    shares: Array = (values - low) / (high - low) if high > low else np.ones(len(values)) * (high > 0)
    return shares


def standardize(values: Array) -> Array:
    # As numpy's mean and std compute it, without what they check first.
    centred = values - np.add.reduce(values) / len(values)
    spread = np.sqrt(np.add.reduce(centred * centred) / len(values))
    standard: Array = centred / (spread if spread > 1e-9 else 1.0)
    return standard


def _standardize_masked(values: Array, known: Array) -> Array:
    """Positions without a value get the average: nothing is known about them."""
    standard = np.zeros(len(values))
    if known.any():
        standard[known] = standardize(values[known])
    return standard


def score_dates(times: Array, spans: Sequence[Span]) -> Array:
    """Return 1 inside a span, fading outside with half its length, at least three days."""
    fit = np.zeros(len(times))
    for start, end in ((span.start.timestamp(), span.end.timestamp()) for span in spans):
        away = np.maximum(np.maximum(start - times, times - end), 0.0)
        fit = np.maximum(fit, np.exp(-away / max(3 * _DAY, (end - start) / 2)))
    return fit


def align_scores(catalogue: Catalogue, by_ordinal: Array) -> Array:
    """Return values by position in the catalogue, up to the last ordinal that has one."""
    values = np.zeros(catalogue.chunks)
    reached = np.searchsorted(catalogue.ordinals, len(by_ordinal))
    values[:reached] = by_ordinal[catalogue.ordinals[:reached]]
    return values


def look_up(values: Mapping[int, float], ordinals: Sequence[int]) -> Array:
    """Return the values of these ordinals, NaN where there is none."""
    return np.array([values.get(ordinal, np.nan) for ordinal in ordinals])


def rank_values(values: Array, places: Sequence[int]) -> tuple[list[int], list[float]]:
    """Return one plus the number of better values, and the values."""
    asked = values[places].astype(float)
    return ((values > asked[:, None]).sum(axis=1) + 1).tolist(), asked.tolist()
