"""Search chunks by words and by meaning."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.config import SearchSettings
from limpet.errors import InvalidInput
from limpet.model.chunk import ChunkQuery, Hit, Signal, Source, SourceKind, Vector
from limpet.model.dataclass import dataclass, replace
from limpet.model.message import Message
from limpet.model.record import Record
from limpet.model.scope import Partition, Scope
from limpet.model.values import from_micros, short_repr, to_micros
from limpet.search.analysis import Question, cut_question, find_terms, parse_spans, strip_names
from limpet.search.chunk_repository import Chunks, PartitionRow
from limpet.search.graph_walk import GraphScores, score_graph
from limpet.search.index import vector_queries, word_queries
from limpet.search.recipes import RECIPES, Recipe, RecordRecipe, is_in_lookback, score_components
from limpet.store.encryption import RowLayout
from limpet.store.tables import CHUNKS, DOCUMENTS, RECORDS, build_record_clauses
from limpet.store.tx import Cipher, Params, Query, Row, Tx

if TYPE_CHECKING:
    from limpet.search.embed import BatchEmbedder, ChunkEmbedder
    from limpet.search.index import SearchIndex
    from limpet.search.rank import RankResult, Signals
    from limpet.store.tx import Array

_MESSAGE = SourceKind.MESSAGE.value
_FETCHED = RowLayout(CHUNKS, "ordinal text kind - record_id document_id first_sequence last_sequence role name")
_OF_RECORD = RowLayout(RECORDS, f"{'- ' * 11} metadata - - - - - - key")
_OF_DOCUMENT = RowLayout(DOCUMENTS, f"{'- ' * 19} uri title metadata")
_PAGE = 64
_DEPTH = 3
MIN_EMBEDDED = 0.9  # share of the chunks that have a vector, from which vectors rank beside words
_MIN_QUESTION_SHARE = 0.5  # share of the question's words that the newer one must contain
_MIN_OLDER_SHARE = 0.7  # share of the older one's question words that the newer one must contain too


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
    spare: int = 0  # hits to return beyond ``k``; they change no score
    spare_for_records: int = 0  # and so many more where the partition holds records
    read_along: Callable[[Params, object], None] | None = None  # told which chunks are read: their key and ordinals


@dataclass(frozen=True, slots=True)
class PartitionSignals:
    """The signals of a partition for a question, independent of filters, within one transaction."""

    index: SearchIndex
    signals: Signals


SignalCache = dict[Partition, PartitionSignals | None]


def find_recipe(name: object) -> Recipe:
    if not isinstance(name, str) or name not in RECIPES:
        raise InvalidInput(f"{short_repr(name)} is not a recipe; use one of {', '.join(RECIPES)}")
    return RECIPES[name]


def embed_question(embedder: ChunkEmbedder, partitions: Sequence[Partition], question: str) -> dict[Partition, Vector]:
    """Return the question's vector for each partition that is not empty. Call it before the search transaction.

    The names of a partition's speakers are removed from the question. Equal texts are embedded once.
    """
    return embed_questions(embedder, partitions, [question])[0]


def embed_questions(
    embedder: ChunkEmbedder, partitions: Sequence[Partition], questions: Sequence[str]
) -> list[dict[Partition, Vector]]:
    model = embedder.model
    cut = [cut_question(question) for question in questions]
    if model is None or not any(map(str.strip, cut)):
        return [{} for _ in cut]
    indexes = embedder.store.read_recent(lambda tx: Chunks(tx).open_indexes(partitions), partitions)
    names = {
        partition: index.catalogue.names
        for partition, index in zip(partitions, indexes, strict=True)
        if index is not None and index.catalogue.chunks
    }
    return [_embed_for_each(model, names, question) if question.strip() else {} for question in cut]


def _embed_for_each(
    model: BatchEmbedder, names: Mapping[Partition, tuple[str, ...]], question: str
) -> dict[Partition, Vector]:
    texts = {partition: strip_names(question, known) for partition, known in names.items()}
    vectors = {text: model.embed_question(text) for text in dict.fromkeys(texts.values())}
    return {partition: vector for partition, text in texts.items() if (vector := vectors[text]) is not None}


def search(tx: Tx, partition: Partition, request: SearchRequest, known: SignalCache | None = None) -> list[Hit]:
    """Return the best chunks for the question, or nothing if nothing stored is relevant.

    Pass ``known`` to reuse signals when the same question is repeated in the same transaction.
    """
    known = {} if known is None else known
    if partition not in known:
        known[partition] = _load_signals(tx, partition, request)
    found = known[partition]
    return [] if found is None else _find_hits(found.index, found.signals, request)


def _load_signals(tx: Tx, partition: Partition, request: SearchRequest) -> PartitionSignals | None:
    """Return None for an empty partition, at almost no cost."""

    def expect(row: PartitionRow, cipher: Cipher) -> list[Query]:
        queries = [_hidden_query(row, None if request.query.as_of else request.now)]
        queries += word_queries(tx, row, cipher, request.question.terms)
        return queries + (vector_queries(tx, row, request.meaning) if request.meaning else [])

    index = Chunks(tx).open_index(partition, expect)
    if index is None or not index.catalogue.chunks or not (request.question.terms or request.meaning):
        return None
    return PartitionSignals(index, _compute_signals(index, request))


def _find_hits(index: SearchIndex, signals: Signals, request: SearchRequest) -> list[Hit]:
    """Return the best of the chunks that match the query."""
    from limpet.search.rank import Ranker  # late, and loaded with the catalogue: it brings numpy

    catalogue, recipe = index.catalogue, request.recipe
    named = parse_spans(request.question.text, request.question.at, catalogue.facts.years) if recipe.date else []
    if recipe.candidates < request.k:
        recipe = replace(recipe, candidates=request.k)
    mask = _build_mask(index, request.query, request.now)
    ranked = Ranker(catalogue, request.question, signals, recipe, named, mask).rank()
    count = request.k + request.spare + (request.spare_for_records if catalogue.facts.has_records else 0)
    chunks = _read_current(index, ranked, request, count)
    if request.recipe.record_recipe is None:
        hits = _build_hits(list(islice(chunks, count)), ranked)
        hits = hits if named else _prefer_newer(hits, request)
    else:
        hits = _sort_by_record_score(index, _build_hits(list(chunks), ranked), request.recipe.record_recipe, request)
    return [_attach_neighbours(index, hit, request) for hit in hits] if request.neighbours else hits


def _prefer_newer(hits: list[Hit], request: SearchRequest) -> list[Hit]:
    """A question that names no time and asks neither when nor about the past means the present."""
    question, alike = request.question, request.recipe.newer
    if not alike or question.asks_when or question.asks_back or question.about_assistant:
        return hits
    return move_newer_first(hits, question.terms, alike)


def _attach_neighbours(index: SearchIndex, hit: Hit, request: SearchRequest) -> Hit:
    """Return the hit with the messages around it. A repeated text has the position of its first occurrence."""
    source = hit.source
    if source.kind is not SourceKind.MESSAGE or source.first_sequence is None:
        return hit
    assert request.sources is not None
    scope = Scope(index.partition.tenant, session=source.session_id)
    found = request.sources.read_around(index.tx, scope, source.first_sequence, request.neighbours)
    return replace(hit, neighbours=found)


def _compute_signals(index: SearchIndex, request: SearchRequest) -> Signals:
    from limpet.search.rank import Signals, align_scores

    catalogue, config, recipe, meaning = index.catalogue, request.config, request.recipe, request.meaning
    optional = request.question.find_optional_terms(catalogue.names)
    weights = request.question.weigh_terms(recipe.asking_words)
    found = index.score_words(weights, optional, config.bm25_k1, config.bm25_b)
    words, covered, known = align_scores(catalogue, found.scores), align_scores(catalogue, found.covered), found.known
    linked = GraphScores()
    if recipe.entity or recipe.community:
        linked = score_graph(index, request.question, recipe)
    if meaning is None:
        return Signals(words, covered, known, entity=linked.entity, community=linked.community)

    vectors = index.score_vectors(meaning)
    if vectors is not None and recipe.words and vectors.share < MIN_EMBEDDED:
        vectors = None  # the few would rank above better ones that wait for theirs
    return Signals(words, covered, known, vectors, linked.entity, linked.community)


def _build_mask(index: SearchIndex, query: ChunkQuery, now: datetime) -> Array | None:
    """Return which chunks of the catalogue match the query; None if all do."""
    catalogue = index.catalogue
    mask: Array | None = None
    if query.kinds and query == ChunkQuery(kinds=query.kinds):
        mask = catalogue.mark_kinds(query.kinds)  # no need to read every row of the partition
    elif (ordinals := _match_query(index, query)) is not None:
        mask = catalogue.mark_ordinals(ordinals)
    # Invalid records must not displace valid ones.
    hidden = _find_hidden(index, now if query.as_of is None else None)
    if hidden:
        shown = ~catalogue.mark_ordinals(hidden)
        mask = shown if mask is None else mask & shown
    return mask


def _read_current(
    index: SearchIndex, ranked: RankResult, request: SearchRequest, count: int
) -> Iterator[tuple[int, StoredChunk]]:
    """Return the ranked chunks that exist and are valid, with their rank."""
    ordinals = index.catalogue.ordinals[ranked.positions].tolist()
    # Nearly all exist and are valid: the first page has as many as requested.
    starts = [0, *range(count, len(ordinals), _PAGE)] if ordinals else []
    for start, end in pairwise([*starts, len(ordinals)]):
        page = ordinals[start:end]
        stored = read_chunks(index, page, request.query.as_of, request.now, request.read_along)
        for at, ordinal in enumerate(page, start):
            if ordinal in stored:
                yield at, stored[ordinal]


def _build_hits(chunks: Sequence[tuple[int, StoredChunk]], ranked: RankResult) -> list[Hit]:
    """Build hits with every signal that contributed: its score, and its rank by that signal alone."""
    from limpet.search.rank import rank_values

    places = [at for at, _ in chunks]
    signals: list[dict[str, Signal]] = [{} for _ in chunks]
    for name, values in ranked.parts.items():
        ranks, asked = rank_values(values, places)
        # Many have the same, such as all that are of one session. NaN: it had no say.
        made = {value: Signal(rank, value) for value, rank in dict(zip(asked, ranks, strict=True)).items()}
        for mine, value in zip(signals, asked, strict=True):
            if value == value:  # noqa: PLR0124 - NaN
                mine[name] = made[value]
    return [
        Hit(stored.text, score, mine, stored.source, stored.metadata)
        for (_, stored), score, mine in zip(chunks, ranked.scores[places].tolist(), signals, strict=True)
    ]


def _sort_by_record_score(
    index: SearchIndex, hits: Sequence[Hit], recipe: RecordRecipe, request: SearchRequest
) -> list[Hit]:
    """Order records by record score, other hits by the relevance part alone. The parts are added to the signals."""
    moment = request.query.as_of or request.now
    ids = dict.fromkeys(hit.source.id for hit in hits if hit.source.kind is SourceKind.RECORD)
    assert request.sources is not None
    records = {record.id: record for record in request.sources.read_records(index.tx, index.partition, list(ids))}
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
    return sorted(scored, key=lambda hit: -hit.score)[: request.k + request.spare]


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
    if sum(map(_is_by_user, hits[:_DEPTH])) < 2:
        return list(hits)
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
    terms = find_terms(hit.text)
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


# Chunks as rows


class StoredChunk(NamedTuple):
    """A chunk for display: its text, its source, and the fields of its record or document."""

    text: str
    source: Source
    metadata: Mapping[str, Any]


def _match_query(index: SearchIndex, query: ChunkQuery) -> list[int] | None:
    """Return the ordinals that match the filters, or None if all match."""
    where, params = _build_filters(query, index.cipher)
    if not where:
        return None
    return [ordinal for (ordinal,) in index.tx.db.all("chunks.allowed", {**index.row.key, **params}, where=where)]


def _find_hidden(index: SearchIndex, now: datetime | None) -> list[int]:
    """Return the ordinals of what is not to be seen yet, or not any more, and is being written or removed.

    With a time also those of records that are not valid then.
    """
    return [ordinal for (ordinal,) in index.tx.db.all_together([_hidden_query(index.row, now)])[0]]


def _hidden_query(row: PartitionRow, now: datetime | None) -> Query:
    key = row.key
    return Query("chunks.hidden", key) if now is None else Query("chunks.unseen", {**key, "now": to_micros(now)})


def read_chunks(
    index: SearchIndex,
    ordinals: Sequence[int],
    as_of: datetime | None,
    now: datetime,
    read_along: Callable[[Params, object], None] | None = None,
) -> dict[int, StoredChunk]:
    """Return the chunks with these ordinals, without records that are not valid at the time."""
    key, places, moment = index.row.key, index.tx.db.to_array(ordinals), to_micros(now)
    if read_along is not None:
        read_along(key, places)
    return {
        chunk[0]: _parse_chunk(_decrypt_chunk(index.cipher, index.row.id, chunk))
        for chunk in index.tx.db.all("chunks.fetch", {**key, "ordinals": places})
        if as_of is not None or _is_current(chunk, moment)
    }


def _build_filters(query: ChunkQuery, cipher: Cipher) -> tuple[str, dict[str, Any]]:
    clauses: list[str] = []
    params: dict[str, Any] = {}
    if query.kinds:
        names = ", ".join(f"'{kind.value}'" for kind in query.kinds)
        clauses.append(f"c.kind IN ({names})")
    if query.session is not None:
        clauses.append("(c.session_id = :session OR r.session_id = :session)")
        params["session"] = query.session
    if query.since is not None:
        clauses.append("c.worded_at >= :since")
        params["since"] = to_micros(query.since)
    if query.until is not None:
        clauses.append("c.created_at < :until")
        params["until"] = to_micros(query.until)
    if query.as_of is not None:
        clauses.append("CASE c.kind WHEN 'message' THEN c.created_at ELSE c.worded_at END <= :as_of")
        clauses.append(
            "(r.id IS NULL OR (r.valid_from <= :as_of AND (r.valid_to IS NULL OR r.valid_to > :as_of)"
            " AND (r.expires_at IS NULL OR r.expires_at > :as_of)))"
        )
        params["as_of"] = to_micros(query.as_of)
    if query.records is not None:
        record_clauses, record_params = build_record_clauses(query.records, cipher)
        clauses += ["c.kind = 'record'", *record_clauses]
        params |= record_params
    return " AND ".join(clauses), params


def _is_current(chunk: Row, now: int) -> bool:
    begins_at, valid_to, superseded_by, expires_at = chunk[12:16]
    if begins_at is None:
        return True  # not a record
    begun = begins_at == 0 or begins_at <= now
    ended = any(end is not None and end <= now for end in (valid_to, expires_at))
    return begun and not ended and superseded_by is None


def _decrypt_chunk(cipher: Cipher, partition_id: int, chunk: Row) -> Row:
    """Decrypt a row of ``chunks.fetch``: a chunk, and its record or document."""
    opened = cipher.decrypt_row(_FETCHED, (partition_id, chunk[0]), chunk)
    if chunk[4] is not None:
        return cipher.decrypt_row(_OF_RECORD, chunk[4], opened)
    return opened if chunk[5] is None else cipher.decrypt_row(_OF_DOCUMENT, chunk[5], opened)


def _parse_chunk(chunk: Row) -> StoredChunk:
    _, text, kind, session_id, record_id, document_id, first, last, role, name, created_at, about_record = chunk[:12]
    if kind == _MESSAGE:
        said = Source(SourceKind.MESSAGE, session_id, from_micros(created_at), session_id, first, last, role, name)
        return StoredChunk(text, said, {})
    *_, layer, type_, key, uri, title, about_document = chunk
    of_document = document_id is not None
    source = Source(
        kind=SourceKind.DOCUMENT if of_document else SourceKind.RECORD,
        id=document_id if of_document else record_id,
        created_at=from_micros(created_at),
        session_id=session_id,
        first_sequence=None if of_document else first,
        last_sequence=None if of_document else last,
        role=role,
        uri=uri,
        offset=first if of_document else None,
        end_offset=last if of_document else None,
    )
    if of_document:
        about = {**json.loads(about_document), "uri": uri} | ({"title": title} if title else {})
    else:
        about = {**json.loads(about_record), "layer": layer, "type": type_} | ({"key": key} if key else {})
    return StoredChunk(text, source, about)
