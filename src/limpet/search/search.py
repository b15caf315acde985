"""Search chunks by words and by meaning."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from limpet.config import SearchSettings
from limpet.errors import InvalidInput
from limpet.model.chunk import ChunkQuery, Hit, Signal, SourceKind, Vector
from limpet.model.dataclass import dataclass
from limpet.model.message import Message
from limpet.model.record import Record
from limpet.model.scope import Partition, Scope
from limpet.model.values import check_text, from_seconds, short_repr
from limpet.search.analysis import Question, analyse, cut_question, strip_names
from limpet.search.chunk_repository import Chunks, StoredChunk
from limpet.search.graph_walk import GraphScores, score_graph
from limpet.search.recipes import RECIPES, Recipe, RecordRecipe, is_in_lookback, score_components
from limpet.store.tx import Tx

if TYPE_CHECKING:
    from limpet.search.catalogue import Catalogue
    from limpet.search.embed import ChunkEmbedder
    from limpet.search.rank import RankResult, Signals
    from limpet.store.tx import Array

_PAGE = 64
_DEPTH = 3
_MIN_QUESTION_SHARE = 0.5  # share of the question's words that the newer one must contain
_MIN_OLDER_SHARE = 0.7  # share of the older one's question words that the newer one must contain too

T = TypeVar("T")


class SearchSources(NamedTuple):
    """Reads of other features that search needs, passed in so that search does not depend on them."""

    read_records: Callable[[Tx, Partition, Sequence[str]], Sequence[Record]]
    read_around: Callable[[Tx, Scope, int, int], tuple[Message, ...]]  # messages before and after a sequence


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A validated question and everything else that decides its answer, except the store."""

    question: Question
    query: ChunkQuery
    recipe: Recipe
    k: int
    config: SearchSettings
    now: datetime
    meaning: Vector | None = None
    neighbours: int = 0
    skill: str | None = None
    sources: SearchSources | None = None  # needed by recipes that score records, and for neighbours


@dataclass(frozen=True, slots=True)
class PartitionSignals:
    """The signals of a partition for a question, independent of filters, within one transaction."""

    catalogue: Catalogue
    signals: Signals


SignalCache = dict[Partition, PartitionSignals | None]


def validate_question(value: object) -> str:
    return check_text(value, "the question")


def find_recipe(name: object) -> Recipe:
    if not isinstance(name, str) or name not in RECIPES:
        raise InvalidInput(f"{short_repr(name)} is not a recipe; use one of {', '.join(RECIPES)}")
    return RECIPES[name]


def embed_question(embedder: ChunkEmbedder, partitions: Sequence[Partition], question: str) -> dict[Partition, Vector]:
    """Return the question's vector for each partition that is not empty. Call it before the search transaction.

    The names of a partition's speakers are removed from the question. Equal texts are embedded once.
    """
    model = embedder.model
    question = cut_question(question)
    if model is None or not question.strip():
        return {}
    catalogues = embedder.store.read(lambda tx: [Chunks(tx).load_catalogue(partition) for partition in partitions])
    texts = {
        partition: strip_names(question, catalogue.names)
        for partition, catalogue in zip(partitions, catalogues, strict=True)
        if catalogue is not None and catalogue.chunks
    }
    vectors = {text: model.embed_question(text) for text in dict.fromkeys(texts.values())}
    return {partition: vector for partition, text in texts.items() if (vector := vectors[text]) is not None}


def search(tx: Tx, partition: Partition, request: SearchRequest, known: SignalCache | None = None) -> list[Hit]:
    """Return the best chunks for the question, or nothing if nothing stored is relevant.

    Pass ``known`` to reuse signals when the same question is repeated in the same transaction.
    """
    known = {} if known is None else known
    if partition not in known:
        known[partition] = _load_signals(tx, partition, request)
    return _find_hits(tx, partition, known[partition], request)


def _load_signals(tx: Tx, partition: Partition, request: SearchRequest) -> PartitionSignals | None:
    """Return None for an empty partition, at almost no cost."""
    catalogue = Chunks(tx).load_catalogue(partition)
    if catalogue is None or not catalogue.chunks or not (request.question.terms or request.meaning):
        return None
    return PartitionSignals(catalogue, _compute_signals(tx, partition, catalogue, request))


def _find_hits(tx: Tx, partition: Partition, found: PartitionSignals | None, request: SearchRequest) -> list[Hit]:
    """Return the best of the chunks that match the query."""
    if found is None:
        return []
    from limpet.search.rank import rank  # late: it brings numpy

    catalogue, signals = found.catalogue, found.signals
    first, last = from_seconds(float(catalogue.time.min())), from_seconds(float(catalogue.time.max()))
    named = request.question.find_spans(first, last) if request.recipe.date else []
    ranked = rank(
        catalogue,
        request.question,
        signals,
        replace(request.recipe, candidates=max(request.recipe.candidates, request.k)),
        named,
        _build_mask(tx, partition, catalogue, request.query, request.now),
    )
    chunks = _read_current(tx, partition, catalogue, ranked, request)
    if request.recipe.record_recipe is None:
        hits = _build_hits(list(islice(chunks, request.k)), ranked)
        hits = hits if named else _prefer_newer(hits, request)
    else:
        hits = _sort_by_record_score(
            tx, partition, _build_hits(list(chunks), ranked), request.recipe.record_recipe, request
        )
    return [_attach_neighbours(tx, partition, hit, request) for hit in hits] if request.neighbours else hits


def _prefer_newer(hits: list[Hit], request: SearchRequest) -> list[Hit]:
    """A question that names no time and asks neither when nor about the past means the present."""
    question, alike = request.question, request.recipe.newer
    if not alike or question.asks_when or question.asks_back or question.about_assistant:
        return hits
    return move_newer_first(hits, question.terms, alike)


def _attach_neighbours(tx: Tx, partition: Partition, hit: Hit, request: SearchRequest) -> Hit:
    """Return the hit with the messages around it. A repeated text has the position of its first occurrence."""
    source = hit.source
    if source.kind is not SourceKind.MESSAGE or source.first_sequence is None:
        return hit
    assert request.sources is not None
    scope = Scope(partition.tenant, session=source.session_id)
    found = request.sources.read_around(tx, scope, source.first_sequence, request.neighbours)
    return replace(hit, neighbours=found)


def _compute_signals(tx: Tx, partition: Partition, catalogue: Catalogue, request: SearchRequest) -> Signals:
    import numpy as np

    from limpet.search.rank import Signals

    chunks, config, recipe, meaning = Chunks(tx), request.config, request.recipe, request.meaning
    optional = request.question.find_optional_terms(catalogue.names)
    weights = request.question.weigh_terms(recipe.asking_words)
    found = chunks.score_words(partition, weights, optional, config.bm25_k1, config.bm25_b)
    nothing = np.zeros(0)
    words = _align_scores(catalogue, nothing if found is None else found.scores)
    covered = _align_scores(catalogue, nothing if found is None else found.covered)
    known = 0.0 if found is None else found.known
    linked = GraphScores()
    if recipe.entity or recipe.community:
        linked = score_graph(tx, partition, catalogue, request.question, recipe)
    if meaning is None:
        return Signals(words, covered, known, entity=linked.entity, community=linked.community)

    def compute_exact(places: Array) -> Array:
        ordinals = catalogue.ordinals[places].tolist()
        cosines = chunks.compute_cosines(partition, meaning, ordinals)
        return np.array([cosines.get(ordinal, np.nan) for ordinal in ordinals])

    vectors = chunks.score_vectors(partition, meaning)
    return Signals(words, covered, known, vectors, compute_exact, linked.entity, linked.community)


def _align_scores(catalogue: Catalogue, by_ordinal: Array) -> Array:
    """Return values by position in the catalogue, up to the last ordinal that has one."""
    import numpy as np

    values = np.zeros(catalogue.chunks)
    reached = np.searchsorted(catalogue.ordinals, len(by_ordinal))
    values[:reached] = by_ordinal[catalogue.ordinals[:reached]]
    return values


def _build_mask(tx: Tx, partition: Partition, catalogue: Catalogue, query: ChunkQuery, now: datetime) -> Array | None:
    """Return which chunks of the catalogue match the query; None if all do."""
    import numpy as np

    def mark(ordinals: Sequence[int]) -> Array:
        return np.isin(catalogue.ordinals, np.asarray(ordinals, dtype=np.int64))

    mask: Array | None = None
    if query.kinds and query == ChunkQuery(kinds=query.kinds):
        mask = catalogue.mark_kinds(query.kinds)  # no need to read every row of the partition
    elif (ordinals := Chunks(tx).match_query(partition, query)) is not None:
        mask = mark(ordinals)
    if query.as_of is None and (invalid := Chunks(tx).find_invalid(partition, now)):
        # Invalid records must not displace valid ones.
        mask = ~mark(invalid) if mask is None else mask & ~mark(invalid)
    return mask


def _read_current(
    tx: Tx, partition: Partition, catalogue: Catalogue, ranked: RankResult, request: SearchRequest
) -> Iterator[tuple[int, StoredChunk]]:
    """Return the ranked chunks that exist and are valid, with their rank."""
    ordinals = catalogue.ordinals[ranked.positions].tolist()
    # Nearly all exist and are valid: the first page has as many as requested.
    starts = [0, *range(request.k, len(ordinals), _PAGE)] if ordinals else []
    for start, end in pairwise([*starts, len(ordinals)]):
        page = ordinals[start:end]
        stored = Chunks(tx).read(partition, page, request.query.as_of, request.now)
        for at, ordinal in enumerate(page, start):
            if ordinal in stored:
                yield at, stored[ordinal]


def _build_hits(chunks: Sequence[tuple[int, StoredChunk]], ranked: RankResult) -> list[Hit]:
    """Build hits with every signal that contributed: its score, and its rank by that signal alone."""
    places = [at for at, _ in chunks]
    scores = ranked.scores[places].tolist()
    signals: list[dict[str, Signal]] = [{} for _ in chunks]
    for name, values in ranked.parts.items():
        for mine, rank, value in zip(signals, *_rank_values(values, places), strict=True):
            if value == value:  # noqa: PLR0124 - NaN: it had no say
                mine[name] = Signal(rank, value)
    return [
        Hit(stored.text, score, mine, stored.source, stored.metadata)
        for (_, stored), score, mine in zip(chunks, scores, signals, strict=True)
    ]


def _rank_values(values: Array, places: Sequence[int]) -> tuple[list[int], list[float]]:
    """Return one plus the number of better values, and the values."""
    import numpy as np

    known, asked = np.sort(values[~np.isnan(values)]), values[places].astype(float)
    return (len(known) - np.searchsorted(known, asked, side="right") + 1).tolist(), asked.tolist()


def _sort_by_record_score(
    tx: Tx, partition: Partition, hits: Sequence[Hit], recipe: RecordRecipe, request: SearchRequest
) -> list[Hit]:
    """Order records by record score, other hits by the relevance part alone. The parts are added to the signals."""
    moment = request.query.as_of or request.now
    ids = dict.fromkeys(hit.source.id for hit in hits if hit.source.kind is SourceKind.RECORD)
    assert request.sources is not None
    records = {record.id: record for record in request.sources.read_records(tx, partition, list(ids))}
    weighed = []
    for hit in hits:
        record = records.get(hit.source.id) if hit.source.kind is SourceKind.RECORD else None
        if record is None:
            weighed.append((hit, {"relevance": recipe.relevance * hit.score}))
        elif is_in_lookback(record, moment, recipe):
            weighed.append((hit, score_components(record, hit.score, moment, request.skill, recipe)))
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
    return sorted(scored, key=lambda hit: -hit.score)[: request.k]


# Among the top hits with similar statements, the newer goes first, so that changed facts are found as they are now.
# Applies only to what a user said to an assistant, where one person describes the present. It moves nothing into or out
# of the top three.


@dataclass(frozen=True, slots=True)
class _UserStatement:
    hit: Hit
    terms: frozenset[int]
    asked: frozenset[int]

    @property
    def when(self) -> tuple[float, int]:
        """Within a conversation whose messages have the same time, use their order."""
        return self.hit.source.created_at.timestamp(), self.hit.source.first_sequence or 0


def move_newer_first(hits: Sequence[Hit], question: Collection[int], alike: float) -> list[Hit]:
    """Return the same hits. One that moves above an older one gets a signal, and scores stay sorted."""
    analysed = [_analyse_hit(hit, question) for hit in hits[:_DEPTH]]
    order: list[int] = []
    for at, later in enumerate(analysed):
        older = (
            place for place, other in enumerate(order) if _can_replace(later, analysed[other], len(question), alike)
        )
        order.insert(next(older, len(order)), at)
    if order == sorted(order):
        return list(hits)
    moved = [_move_hit(hits[at], hits[place].score, overtakes=place < at) for place, at in enumerate(order)]
    return [*moved, *hits[_DEPTH:]]


def _analyse_hit(hit: Hit, question: Collection[int]) -> _UserStatement:
    terms = frozenset(analyse(hit.text).counts)
    return _UserStatement(hit, terms, terms & frozenset(question))


def _can_replace(later: _UserStatement, older: _UserStatement, asked: int, alike: float) -> bool:
    return (
        _is_by_user(later.hit)
        and _is_by_user(older.hit)
        and later.when > older.when
        and len(later.asked) >= _MIN_QUESTION_SHARE * asked
        and len(later.asked & older.asked) >= _MIN_OLDER_SHARE * len(older.asked)
        and len(later.terms & older.terms) >= alike * max(1, min(len(later.terms), len(older.terms)))
    )


def _is_by_user(hit: Hit) -> bool:
    source = hit.source
    return source.kind is SourceKind.MESSAGE and source.role == "user" and source.name is None


def _move_hit(hit: Hit, score: float, *, overtakes: bool) -> Hit:
    signals = {**hit.signals, "newer": Signal(1, 1.0)} if overtakes else hit.signals
    return replace(hit, score=score, signals=signals)
