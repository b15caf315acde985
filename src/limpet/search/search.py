"""Finding chunks for a question, by words and by meaning."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from limpet.config import SearchSettings
from limpet.model.chunk import ChunkQuery, Hit, Signal, SourceKind, Vector
from limpet.model.message import Message
from limpet.model.record import Record
from limpet.model.scope import Partition, Scope
from limpet.model.text import check_text
from limpet.model.times import from_seconds
from limpet.search.analysis import analyse
from limpet.search.chunk_repository import Chunks, StoredChunk
from limpet.search.graph_walk import GraphScores, score_graph
from limpet.search.question import Question
from limpet.search.recipes import Recipe, RecordRecipe, is_in_lookback, score_components
from limpet.store.tx import Tx

if TYPE_CHECKING:
    from limpet.search.catalogue import Catalogue
    from limpet.search.rank import RankResult, Signals
    from limpet.store.db import Array

_PAGE = 64
_DEPTH = 3
_MIN_QUESTION_SHARE = 0.5  # share of the question's words that the later one must hold
_MIN_OLDER_SHARE = 0.7  # share of the question's words in the older one that the later one must hold too

T = TypeVar("T")


class SearchSources(NamedTuple):
    """What is read beside the chunks. The features that own it hand it over: search knows neither of them."""

    read_records: Callable[[Tx, Partition, Sequence[str]], Sequence[Record]]
    read_around: Callable[[Tx, Scope, int, int], tuple[Message, ...]]  # messages before and after a sequence


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A question, checked, and everything that decides its answer but the store."""

    question: Question
    query: ChunkQuery
    recipe: Recipe
    k: int
    config: SearchSettings
    now: datetime
    meaning: Vector | None = None
    neighbours: int = 0
    skill: str | None = None
    sources: SearchSources | None = None  # recipes that score records, and neighbours, need it


@dataclass(frozen=True, slots=True)
class PartitionSignals:
    """What a space has for a question, whichever of its chunks are then asked for, inside one transaction."""

    catalogue: Catalogue
    signals: Signals


SignalCache = dict[Partition, PartitionSignals | None]


def search(tx: Tx, space: Partition, wanted: SearchRequest, known: SignalCache | None = None) -> list[Hit]:
    """The best chunks for the question, or nothing when nothing stored is about it.

    What is ``known`` of the spaces spares whoever asks the same question again in the same transaction a second look.
    """
    known = {} if known is None else known
    if space not in known:
        known[space] = _load_signals(tx, space, wanted)
    return _find_hits(tx, space, known[space], wanted)


def _load_signals(tx: Tx, space: Partition, wanted: SearchRequest) -> PartitionSignals | None:
    """None for a space without anything to find, which costs next to nothing."""
    catalogue = Chunks(tx).load_catalogue(space)
    if catalogue is None or not catalogue.chunks or not (wanted.question.terms or wanted.meaning):
        return None
    return PartitionSignals(catalogue, _compute_signals(tx, space, catalogue, wanted))


def _find_hits(tx: Tx, space: Partition, looked: PartitionSignals | None, wanted: SearchRequest) -> list[Hit]:
    """The best of the chunks the query leaves."""
    if looked is None:
        return []
    from limpet.search.rank import rank  # late: it brings numpy

    catalogue, signals = looked.catalogue, looked.signals
    first, last = from_seconds(float(catalogue.time.min())), from_seconds(float(catalogue.time.max()))
    named = wanted.question.find_spans(first, last) if wanted.recipe.date else []
    ranked = rank(
        catalogue,
        wanted.question,
        signals,
        replace(wanted.recipe, candidates=max(wanted.recipe.candidates, wanted.k)),
        named,
        _build_mask(tx, space, catalogue, wanted.query, wanted.now),
    )
    found = _read_current(tx, space, catalogue, ranked, wanted)
    if wanted.recipe.worth is None:
        hits = _build_hits(list(islice(found, wanted.k)), ranked)
        hits = hits if named else _prefer_newer(hits, wanted)
    else:
        hits = _sort_by_record_score(tx, space, _build_hits(list(found), ranked), wanted.recipe.worth, wanted)
    return [_attach_neighbours(tx, space, hit, wanted) for hit in hits] if wanted.neighbours else hits


def _prefer_newer(hits: list[Hit], wanted: SearchRequest) -> list[Hit]:
    """A question that names no time and asks neither when nor what was means how things are now."""
    question, alike = wanted.question, wanted.recipe.newer
    if not alike or question.asks_when or question.asks_back or question.about_assistant:
        return hits
    return move_newer_first(hits, question.terms, alike)


def _attach_neighbours(tx: Tx, space: Partition, hit: Hit, wanted: SearchRequest) -> Hit:
    """The hit with the messages around it. A text that was said again is found where it was said first."""
    source = hit.source
    if source.kind is not SourceKind.MESSAGE or source.first_sequence is None:
        return hit
    assert wanted.sources is not None
    scope = Scope(space.tenant, session=source.session_id)
    found = wanted.sources.read_around(tx, scope, source.first_sequence, wanted.neighbours)
    return replace(hit, neighbours=found)


def _compute_signals(tx: Tx, space: Partition, catalogue: Catalogue, wanted: SearchRequest) -> Signals:
    import numpy as np

    from limpet.search.rank import Signals

    beside = wanted.question.find_optional_terms(catalogue.names)
    weights = wanted.question.weigh_terms(wanted.recipe.asking_words)
    config = wanted.config
    found = Chunks(tx).score_words(space, weights, beside, config.bm25_k1, config.bm25_b)
    nothing = np.zeros(0)
    words = _align_scores(catalogue, nothing if found is None else found.scores)
    covered = _align_scores(catalogue, nothing if found is None else found.covered)
    known = 0.0 if found is None else found.known
    meaning = wanted.meaning
    recipe, linked = wanted.recipe, GraphScores()
    if recipe.entity or recipe.community:
        linked = score_graph(tx, space, catalogue, wanted.question, recipe)
    if meaning is None:
        return Signals(words, covered, known, entity=linked.entity, community=linked.community)

    def compute_exact(places: Array) -> Array:
        ordinals = catalogue.ordinals[places].tolist()
        cosines = Chunks(tx).compute_cosines(space, meaning, ordinals)
        return np.array([cosines.get(ordinal, np.nan) for ordinal in ordinals])

    nearness = Chunks(tx).score_vectors(space, meaning)
    return Signals(words, covered, known, nearness, compute_exact, linked.entity, linked.community)


def _align_scores(catalogue: Catalogue, by_ordinal: Array) -> Array:
    """Values by their place in the catalogue; they reach as far as the last ordinal that has one."""
    import numpy as np

    values = np.zeros(catalogue.chunks)
    reached = np.searchsorted(catalogue.ordinals, len(by_ordinal))
    values[:reached] = by_ordinal[catalogue.ordinals[:reached]]
    return values


def _build_mask(tx: Tx, space: Partition, catalogue: Catalogue, query: ChunkQuery, now: datetime) -> Array | None:
    import numpy as np

    if query.kinds and query == ChunkQuery(kinds=query.kinds):
        # The catalogue knows: no need to look at every row of the space.
        of_kind = catalogue.mark_kinds(query.kinds)
        true = _build_mask(tx, space, catalogue, ChunkQuery(), now)
        return of_kind if true is None else of_kind & true
    ordinals = Chunks(tx).match_query(space, query)
    if query.as_of is not None:
        return None if ordinals is None else np.isin(catalogue.ordinals, np.asarray(ordinals, dtype=np.int64))
    # What is not true must not take the place of what is.
    untrue = Chunks(tx).find_invalid(space, now)
    if ordinals is None and not untrue:
        return None
    true = np.isin(catalogue.ordinals, np.asarray(untrue, dtype=np.int64), invert=True)
    return true if ordinals is None else true & np.isin(catalogue.ordinals, np.asarray(ordinals, dtype=np.int64))


def _read_current(
    tx: Tx, space: Partition, catalogue: Catalogue, ranked: RankResult, wanted: SearchRequest
) -> Iterator[tuple[int, StoredChunk]]:
    """The ranked chunks that are there and true, with their place in the ranking."""
    ordinals = catalogue.ordinals[ranked.positions].tolist()
    # Nearly all are there and true: the first page is as many as are wanted.
    starts = [0, *range(wanted.k, len(ordinals), _PAGE)] if ordinals else []
    for start, end in pairwise([*starts, len(ordinals)]):
        page = ordinals[start:end]
        stored = Chunks(tx).read(space, page, wanted.query.as_of, wanted.now)
        for at, ordinal in enumerate(page, start):
            if ordinal in stored:
                yield at, stored[ordinal]


def _build_hits(found: Sequence[tuple[int, StoredChunk]], ranked: RankResult) -> list[Hit]:
    """With every signal that had a say: its score, and where it alone would have put the chunk."""
    places = [at for at, _ in found]
    scores = ranked.scores[places].tolist()
    signals: list[dict[str, Signal]] = [{} for _ in found]
    for name, values in ranked.parts.items():
        for mine, rank, value in zip(signals, *_rank_values(values, places), strict=True):
            if value == value:  # noqa: PLR0124 - NaN: it had no say
                mine[name] = Signal(rank, value)
    return [
        Hit(stored.text, score, mine, stored.source, stored.metadata)
        for (_, stored), score, mine in zip(found, scores, signals, strict=True)
    ]


def _rank_values(values: Array, places: Sequence[int]) -> tuple[list[int], list[float]]:
    """One more than there are better ones, and the values themselves."""
    import numpy as np

    known, asked = np.sort(values[~np.isnan(values)]), values[places].astype(float)
    return (len(known) - np.searchsorted(known, asked, side="right") + 1).tolist(), asked.tolist()


def _sort_by_record_score(
    tx: Tx, space: Partition, hits: Sequence[Hit], recipe: RecordRecipe, wanted: SearchRequest
) -> list[Hit]:
    """Records by their worth, others by what relevance alone is worth. The parts of a score are among the signals."""
    moment = wanted.query.as_of or wanted.now
    ids = dict.fromkeys(hit.source.id for hit in hits if hit.source.kind is SourceKind.RECORD)
    assert wanted.sources is not None
    records = {record.id: record for record in wanted.sources.read_records(tx, space, list(ids))}
    weighed = []
    for hit in hits:
        record = records.get(hit.source.id) if hit.source.kind is SourceKind.RECORD else None
        if record is None:
            weighed.append((hit, {"relevance": recipe.relevance * hit.score}))
        elif is_in_lookback(record, moment, recipe):
            weighed.append((hit, score_components(record, hit.score, moment, wanted.skill, recipe)))
    ranks = {
        name: sorted((found[name] for _, found in weighed if name in found), reverse=True)
        for name in {name for _, found in weighed for name in found}
    }
    scored = [
        replace(
            hit,
            score=sum(found.values()),
            signals={
                **hit.signals,
                **{name: Signal(ranks[name].index(value) + 1, value) for name, value in found.items()},
            },
        )
        for hit, found in weighed
    ]
    return sorted(scored, key=lambda hit: -hit.score)[: wanted.k]


# Of the very best hits that say the like of what is asked, the later first: what has changed is found as it is now.
# Only what a user said to an assistant: there one person speaks of how things are. It moves nothing into the best
# three or out of them.


@dataclass(frozen=True, slots=True)
class _UserStatement:
    hit: Hit
    terms: frozenset[int]
    asked: frozenset[int]

    @property
    def when(self) -> tuple[float, int]:
        """Within one conversation whose messages have one time, their order."""
        return self.hit.source.created_at.timestamp(), self.hit.source.first_sequence or 0


def move_newer_first(hits: Sequence[Hit], question: Collection[int], alike: float) -> list[Hit]:
    """The same hits. One that overtakes an older one of its kind says so, and scores stay in their order."""
    told = [_analyse_hit(hit, question) for hit in hits[:_DEPTH]]
    order: list[int] = []
    for at, later in enumerate(told):
        older = (place for place, other in enumerate(order) if _can_replace(later, told[other], len(question), alike))
        order.insert(next(older, len(order)), at)
    if order == sorted(order):
        return list(hits)
    moved = [_move_hit(hits[at], hits[place].score, overtakes=place < at) for place, at in enumerate(order)]
    return [*moved, *hits[_DEPTH:]]


def _analyse_hit(hit: Hit, question: Collection[int]) -> _UserStatement:
    terms = frozenset(analyse(hit.text).counts)
    return _UserStatement(hit, terms, terms & frozenset(question))


def _can_replace(later: _UserStatement, older: _UserStatement, asked: int, alike: float) -> bool:
    both_told = all(
        told.hit.source.kind is SourceKind.MESSAGE and told.hit.source.role == "user" and told.hit.source.name is None
        for told in (later, older)
    )
    return (
        both_told
        and later.when > older.when
        and len(later.asked) >= _MIN_QUESTION_SHARE * asked
        and len(later.asked & older.asked) >= _MIN_OLDER_SHARE * len(older.asked)
        and len(later.terms & older.terms) >= alike * max(1, min(len(later.terms), len(older.terms)))
    )


def _move_hit(hit: Hit, score: float, *, overtakes: bool) -> Hit:
    signals = {**hit.signals, "newer": Signal(1, 1.0)} if overtakes else hit.signals
    return replace(hit, score=score, signals=signals)


def validate_question(value: object) -> str:
    return check_text(value, "the question")
