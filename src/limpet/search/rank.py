"""From signals to a ranking: pure functions on arrays over a partition's catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from limpet.model.dataclass import dataclass
from limpet.search.analysis import Question, Span
from limpet.search.catalogue import NO_MESSAGE, RECORD_SPEAKER, Catalogue
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
_MANY, _SAMPLE_STEP = 8192, 32
_CONTENDERS = 3  # times the number of candidates whose smoothed scores are compared, and their neighbours
_REFINE_FACTOR = 5  # times the number of candidates that are scored exactly after a rough first score
_BESIDE_FACTOR = 2  # and of those, times the number whose neighbours are


@dataclass(frozen=True, slots=True)
class Signals:
    """What each chunk of the catalogue shares with the question. ``vectors`` is None without vectors."""

    words: Array
    covered: Array
    known: float
    vectors: VectorScores | None = None
    entity: Array | None = None
    community: Array | None = None


class Cosines(NamedTuple):
    """By position, 0 where there is none; and where there is one."""

    values: Array
    known: Array

    @classmethod
    def of(cls, cosines: Array) -> Cosines:
        known = ~np.isnan(cosines)
        return cls(cosines if known.all() else np.where(known, cosines, cosines.dtype.type(0)), known)


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
        matching = self._keep_allowed(signals.words > 0)
        if recipe.fuse == "words":
            return self._rank_by_signal("words", signals.words, np.flatnonzero(matching))
        words = self._smooth(signals.words, recipe.words_beside, float(signals.words.mean()))
        chosen = words.select_best(matching, recipe.candidates)
        cosines = self.refine_cosines(chosen)
        if recipe.floor and self._is_off_topic(cosines):
            return NO_RESULTS
        if recipe.fuse == "vectors":
            if cosines is None:
                return NO_RESULTS
            known = np.flatnonzero(self._keep_allowed(cosines.known))
            return self._rank_by_signal("vectors", cosines.values, known, recipe.candidates)
        at, dense = chosen, None
        if cosines is not None:
            assert signals.vectors is not None
            dense = self._smooth(cosines.values, recipe.dense_beside, signals.vectors.average)
            at = self._unite(at, dense.select_best(self._keep_allowed(cosines.known), recipe.candidates))
            at = at[(signals.words[at] > 0) | (cosines.values[at] >= NEAR_ENOUGH)]
        if signals.entity is not None and recipe.linked:
            linked = np.flatnonzero(self._keep_allowed(signals.entity > 0))
            at = self._unite(at, select_best(linked, signals.entity[linked], recipe.linked))
        if not len(at):
            return NO_RESULTS
        parts = {"words": signals.words[at]}
        if cosines is not None:
            parts["vectors"] = np.where(cosines.known[at], cosines.values[at], np.nan)
        if recipe.fuse == "shares":
            near_shares = scale_min_max(np.nan_to_num(parts.get("vectors", np.zeros(len(at)))))
            shares = recipe.words * scale_min_max(parts["words"]) + recipe.dense * near_shares
            return self._build_result(at, shares, shares, parts)
        fused = standardize(words.at(at))
        if dense is not None:
            near = _standardize_masked(dense.at(at), ~np.isnan(parts["vectors"]))
            fused = self._weigh_words(at) * fused + recipe.dense * near
        for add in (self._score_exact_match, self._score_speaker_and_time, self._score_graph):
            fused = fused + add(at, parts)
        final = self._apply_priors(at, fused, parts)
        # Between 0 and 1, with 0.5 for an average candidate; the order is unchanged.
        return self._build_result(at, final, 1 / (1 + np.exp(-final)), parts)

    def _weigh_words(self, at: Array) -> float:
        """Among people, words count less if no text has much of the question: it was asked in other words."""
        full = self.recipe.covered
        if not full or not self.catalogue.is_among_people:
            return self.recipe.words
        return self.recipe.words * min(1.0, float(self.signals.covered[at].max()) / full)

    def refine_cosines(self, chosen: Array) -> Cosines | None:
        """Return the cosines; of many only those of the best, of those chosen by words, and of their neighbours."""
        vectors, recipe = self.signals.vectors, self.recipe
        if vectors is None or not recipe.dense:
            return None
        cosines = Cosines.of(vectors.cosines)
        if not vectors.rough:
            return cosines
        # Nothing of the others: an estimate must not compete with an exact score, it may be far too high.
        refined = Cosines(np.zeros_like(cosines.values), np.zeros_like(cosines.known))
        best = find_highest(cosines.values, self._keep_allowed(cosines.known), _REFINE_FACTOR * recipe.candidates)
        self._refine(refined, self._unite(chosen, best), cosines.known)
        best = find_highest(refined.values, self._keep_allowed(refined.known), _BESIDE_FACTOR * recipe.candidates)
        around = include_neighbours(self.catalogue, self._unite(chosen, best))
        self._refine(refined, around, cosines.known & ~refined.known)
        return refined

    def _refine(self, refined: Cosines, at: Array, wanted: Array) -> None:
        assert self.signals.vectors is not None
        at = at[wanted[at]]
        refined.values[at], refined.known[at] = self.signals.vectors.rescore(at), True

    def _smooth(self, scores: Array, beside: tuple[float, float], average: float) -> Smoother:
        with_assistant = self.signals.vectors is not None and not self.catalogue.is_among_people
        return Smoother(self.catalogue, scores, beside[with_assistant], average)

    def _keep_allowed(self, mask: Array) -> Array:
        return mask if self.allowed is None else mask & self.allowed

    def _unite(self, *positions: Array) -> Array:
        marked = np.zeros(self.catalogue.chunks, dtype=bool)
        for at in positions:
            marked[at] = True
        return np.flatnonzero(marked)

    def _rank_by_signal(self, name: str, scores: Array, at: Array, count: int | None = None) -> RankResult:
        at = at[np.lexsort((-self.catalogue.ordinals[at], -scores[at]))[:count]]
        return RankResult(at, scores[at], {name: scores[at]})

    def _is_off_topic(self, cosines: Cosines | None) -> bool:
        """Return whether the question shares too little with everything here. Naming a speaker here is enough."""
        about = bool(self.question.find_names(self.catalogue.names))
        coverage = float(self.signals.covered.max()) if len(self.signals.covered) else 0.0
        if cosines is None or not cosines.known.any():
            return coverage + FLOOR_KNOWN * self.signals.known + FLOOR_WORDS_NAMED * about < FLOOR_WORDS
        shared = FLOOR_DENSE_COVER * coverage + FLOOR_DENSE_KNOWN * self.signals.known + FLOOR_DENSE_NAMED * about
        nearest = float(cosines.values.max(where=cosines.known, initial=-1.0))
        return coverage < FLOOR_COVERED and nearest + shared < FLOOR_DENSE

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
        best = np.full(catalogue.session_count, -np.inf)
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


@dataclass(frozen=True, slots=True)
class Smoother:
    """Adds to a chunk's score a share of the best scores of the messages before and after."""

    catalogue: Catalogue
    scores: Array
    beside: float
    average: float  # stands in for the missing message at the start or end of a session

    def at(self, positions: Array) -> Array:
        catalogue, scores = self.catalogue, self.scores[positions]
        if not self.beside:
            return scores
        message = catalogue.message[positions]
        near = np.concatenate([catalogue.previous[message], catalogue.following[message]])
        previous, following = self._find_peaks(near).reshape(2, -1)
        smoothed: Array = scores + self.beside * (previous + following)
        return smoothed

    def _find_peaks(self, messages: Array) -> Array:
        """Return the best score of each message, never below 0."""
        scores, facts = self.scores, self.catalogue.facts
        if facts.in_order:
            first, size = facts.firsts[messages], facts.sizes[messages]
            peaks = scores[first]
            if len(longer := np.flatnonzero(size > 1)):
                chunks, starts = _expand(first[longer], size[longer])
                peaks[longer] = np.maximum.reduceat(scores[chunks], starts)
            return np.where(size > 0, np.maximum(peaks, 0), scores.dtype.type(self.average))
        # Some messages are in two places.
        best = np.zeros(self.catalogue.messages + 1, dtype=scores.dtype)
        np.maximum.at(best, self.catalogue.message, scores)
        best[NO_MESSAGE] = self.average
        return best[messages]

    def select_best(self, mask: Array, count: int) -> Array:
        """Return the positions of the best smoothed scores among those of a mask; ties go to the newer.

        Of many, only those are compared that are high themselves, or beside one that is.
        """
        if np.count_nonzero(mask) > _MANY:
            positions = include_neighbours(self.catalogue, find_highest(self.scores, mask, _CONTENDERS * count))
            positions = positions[mask[positions]]
        else:
            positions = np.flatnonzero(mask)
        return select_best(positions, self.at(positions), count)


def include_neighbours(catalogue: Catalogue, at: Array) -> Array:
    """Return these chunks and all chunks of the messages before and after."""
    message, facts = catalogue.message[at], catalogue.facts
    marked = np.zeros(catalogue.messages + 1, dtype=bool)
    for near in (message, catalogue.previous[message], catalogue.following[message]):
        marked[near] = True
    marked[NO_MESSAGE] = False
    if not facts.in_order:
        return np.flatnonzero(marked[catalogue.message])
    messages = np.flatnonzero(marked)
    return _expand(facts.firsts[messages], facts.sizes[messages])[0]


def _expand(first: Array, count: Array) -> tuple[Array, Array]:
    """Return all numbers of these ranges, and where each range begins among them."""
    ends = np.cumsum(count)
    starts = ends - count
    return np.repeat(first - starts, count) + np.arange(ends[-1] if len(ends) else 0), starts


def find_highest(values: Array, mask: Array, count: int) -> Array:
    """Return the positions of the highest values of a mask; ties go to the newer, which come last."""
    if np.count_nonzero(mask) > _MANY:  # most are far below the best of a sample
        sample = values[::_SAMPLE_STEP][mask[::_SAMPLE_STEP]]
        place = min(len(sample), 3 * count // (2 * _SAMPLE_STEP) + 8)
        high = np.flatnonzero((values >= np.partition(sample, -place)[-place]) & mask) if place else sample
        if len(high) >= count:
            return select_best(high, values[high], count)
    high = np.flatnonzero(mask)
    return select_best(high, values[high], count)


def select_best(positions: Array, values: Array, count: int) -> Array:
    """Return the positions of the best values; ties go to the newer, which come last."""
    if len(values) <= count:
        return positions
    last = np.partition(values, -count)[-count]
    chosen = values > last
    equals = np.flatnonzero(values == last)
    chosen[equals[np.count_nonzero(chosen) - count :]] = True
    best: Array = positions[chosen]
    return best


def scale_min_max(values: Array) -> Array:
    """Scale from 0 for the lowest to 1 for the best."""
    low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    shares: Array = (values - low) / (high - low) if high > low else np.ones(len(values)) * (high > 0)
    return shares


def standardize(values: Array) -> Array:
    # As numpy's mean and std compute it, without what they check first.
    values = values.astype(np.float64)
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
    if catalogue.last_ordinal + 1 == catalogue.chunks:  # none was removed
        return by_ordinal[: catalogue.chunks]
    values: Array = by_ordinal[catalogue.ordinals]
    return values


def rank_values(values: Array, places: Sequence[int]) -> tuple[list[int], list[float]]:
    """Return one plus the number of better values, and the values."""
    asked = values[places].astype(float)
    return ((values > asked[:, None]).sum(axis=1) + 1).tolist(), asked.tolist()
