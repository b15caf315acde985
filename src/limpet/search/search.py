"""Finding chunks for a question, by words and by meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from limpet.config import SearchSettings
from limpet.errors import InvalidInput
from limpet.knowledge.repository import Records
from limpet.knowledge.score import RecordRecipe, in_sight, parts
from limpet.model.chunk import ChunkQuery, Hit, Signal, SourceKind, Vector
from limpet.model.record import RecordFilter, checked_layer, checked_type
from limpet.model.scope import Scope, Space
from limpet.model.text import checked_choice, checked_text, shown
from limpet.model.times import checked_time, from_seconds
from limpet.model.values import at_most, checked_label, checked_strings
from limpet.search.chunk_repository import Chunks
from limpet.search.graph_walk import walk
from limpet.search.newer import newer_first
from limpet.search.question import Question
from limpet.search.recipes import Recipe
from limpet.sessions.repository import Messages
from limpet.store.base import Stored
from limpet.store.tx import Tx

if TYPE_CHECKING:
    from limpet.search.catalogue import Array, Catalogue
    from limpet.search.rank import Ranked, Signals

MAX_HITS = 1000
MAX_CONDITIONS = 100
MAX_NEIGHBOURS = 100
MAX_LISTED = 10_000
_PAGE = 64

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Search:
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


@dataclass(frozen=True, slots=True)
class Looked:
    """What a space has for a question, whichever of its chunks are then asked for, inside one transaction."""

    catalogue: Catalogue
    signals: Signals


Known = dict[Space, Looked | None]


def search(tx: Tx, space: Space, wanted: Search, known: Known | None = None) -> list[Hit]:
    """The best chunks for the question, or nothing when nothing stored is about it.

    What is ``known`` of the spaces spares whoever asks the same question again in the same transaction a second look.
    """
    known = {} if known is None else known
    if space not in known:
        known[space] = _look(tx, space, wanted)
    return _chosen(tx, space, known[space], wanted)


def _look(tx: Tx, space: Space, wanted: Search) -> Looked | None:
    """None for a space without anything to find, which costs next to nothing."""
    catalogue = Chunks(tx).catalogue(space)
    if catalogue is None or not catalogue.chunks or not (wanted.question.terms or wanted.meaning):
        return None
    return Looked(catalogue, _signals(tx, space, catalogue, wanted))


def _chosen(tx: Tx, space: Space, looked: Looked | None, wanted: Search) -> list[Hit]:
    """The best of the chunks the query leaves."""
    if looked is None:
        return []
    from limpet.search.rank import rank  # late: it brings numpy

    catalogue, signals = looked.catalogue, looked.signals
    first, last = from_seconds(float(catalogue.time.min())), from_seconds(float(catalogue.time.max()))
    named = wanted.question.spans(first, last) if wanted.recipe.date else []
    ranked = rank(
        catalogue,
        wanted.question,
        signals,
        replace(wanted.recipe, candidates=max(wanted.recipe.candidates, wanted.k)),
        named,
        _allowed(tx, space, catalogue, wanted.query, wanted.now),
    )
    found = _current(tx, space, catalogue, ranked, wanted)
    if wanted.recipe.worth is None:
        hits = _hits(list(islice(found, wanted.k)), ranked)
        hits = hits if named else _as_of_now(hits, wanted)
    else:
        hits = _by_worth(tx, space, _hits(list(found), ranked), wanted.recipe.worth, wanted)
    return [_beside(tx, space, hit, wanted.neighbours) for hit in hits] if wanted.neighbours else hits


def _as_of_now(hits: list[Hit], wanted: Search) -> list[Hit]:
    """A question that names no time and asks neither when nor what was means how things are now."""
    question, alike = wanted.question, wanted.recipe.newer
    if not alike or question.asks_when or question.asks_back or question.about_assistant:
        return hits
    return newer_first(hits, question.terms, alike)


def _beside(tx: Tx, space: Space, hit: Hit, count: int) -> Hit:
    """The hit with the messages around it. A text that was said again is found where it was said first."""
    source = hit.source
    if source.kind is not SourceKind.MESSAGE or source.first_sequence is None:
        return hit
    scope, at = Scope(space.tenant, session=source.session_id), source.first_sequence
    # By their order, not by their numbers: these may have gaps.
    found = (*Messages(tx).recent(scope, count, at), *Messages(tx).range(scope, at, None, count))
    return replace(hit, neighbours=found)


def _signals(tx: Tx, space: Space, catalogue: Catalogue, wanted: Search) -> Signals:
    import numpy as np

    from limpet.search.rank import Signals

    beside = wanted.question.beside_the_point(catalogue.names)
    weights = wanted.question.weights(wanted.recipe.asking_words)
    config = wanted.config
    found = Chunks(tx).score_words(space, weights, beside, config.bm25_k1, config.bm25_b)
    nothing = np.zeros(0)
    words = _placed(catalogue, nothing if found is None else found.scores)
    covered = _placed(catalogue, nothing if found is None else found.covered)
    known = 0.0 if found is None else found.known
    meaning = wanted.meaning
    linked = walk(tx, space, catalogue, wanted.question, wanted.recipe)
    if meaning is None:
        return Signals(words, covered, known, entity=linked.entity, community=linked.community)

    def exactly(places: Array) -> Array:
        ordinals = catalogue.ordinals[places].tolist()
        cosines = Chunks(tx).cosines(space, meaning, ordinals)
        return np.array([cosines.get(ordinal, np.nan) for ordinal in ordinals])

    nearness = Chunks(tx).nearness(space, meaning)
    return Signals(words, covered, known, nearness, exactly, linked.entity, linked.community)


def _placed(catalogue: Catalogue, by_ordinal: Array) -> Array:
    """Values by their place in the catalogue; they reach as far as the last ordinal that has one."""
    import numpy as np

    values = np.zeros(catalogue.chunks)
    reached = np.searchsorted(catalogue.ordinals, len(by_ordinal))
    values[:reached] = by_ordinal[catalogue.ordinals[:reached]]
    return values


def _allowed(tx: Tx, space: Space, catalogue: Catalogue, query: ChunkQuery, now: datetime) -> Array | None:
    import numpy as np

    if query.kinds and query == ChunkQuery(kinds=query.kinds):
        # The catalogue knows: no need to look at every row of the space.
        of_kind = catalogue.of_kinds(query.kinds)
        true = _allowed(tx, space, catalogue, ChunkQuery(), now)
        return of_kind if true is None else of_kind & true
    ordinals = Chunks(tx).allowed(space, query)
    if query.as_of is not None:
        return None if ordinals is None else np.isin(catalogue.ordinals, np.asarray(ordinals, dtype=np.int64))
    # What is not true must not take the place of what is.
    untrue = Chunks(tx).untrue(space, now)
    if ordinals is None and not untrue:
        return None
    true = np.isin(catalogue.ordinals, np.asarray(untrue, dtype=np.int64), invert=True)
    return true if ordinals is None else true & np.isin(catalogue.ordinals, np.asarray(ordinals, dtype=np.int64))


def _current(
    tx: Tx, space: Space, catalogue: Catalogue, ranked: Ranked, wanted: Search
) -> Iterator[tuple[int, Stored]]:
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


def _hits(found: Sequence[tuple[int, Stored]], ranked: Ranked) -> list[Hit]:
    """With every signal that had a say: its score, and where it alone would have put the chunk."""
    places = [at for at, _ in found]
    scores = ranked.scores[places].tolist()
    signals: list[dict[str, Signal]] = [{} for _ in found]
    for name, values in ranked.parts.items():
        for mine, rank, value in zip(signals, *_ranks(values, places), strict=True):
            if value == value:  # noqa: PLR0124 - NaN: it had no say
                mine[name] = Signal(rank, value)
    return [
        Hit(stored.text, score, mine, stored.source, stored.metadata)
        for (_, stored), score, mine in zip(found, scores, signals, strict=True)
    ]


def _ranks(values: Array, places: Sequence[int]) -> tuple[list[int], list[float]]:
    """One more than there are better ones, and the values themselves."""
    import numpy as np

    known, asked = np.sort(values[~np.isnan(values)]), values[places].astype(float)
    return (len(known) - np.searchsorted(known, asked, side="right") + 1).tolist(), asked.tolist()


def _by_worth(tx: Tx, space: Space, hits: Sequence[Hit], recipe: RecordRecipe, wanted: Search) -> list[Hit]:
    """Records by their worth, others by what relevance alone is worth. The parts of a score are among the signals."""
    moment = wanted.query.as_of or wanted.now
    ids = dict.fromkeys(hit.source.id for hit in hits if hit.source.kind is SourceKind.RECORD)
    records = {record.id: record for record in Records(tx).some(space, list(ids))}
    weighed = []
    for hit in hits:
        record = records.get(hit.source.id) if hit.source.kind is SourceKind.RECORD else None
        if record is None:
            weighed.append((hit, {"relevance": recipe.relevance * hit.score}))
        elif in_sight(record, moment, recipe):
            weighed.append((hit, parts(record, hit.score, moment, wanted.skill, recipe)))
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


def checked_question(value: object) -> str:
    return checked_text(value, "the question")


def checked_count(k: object) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_HITS:
        raise InvalidInput(f"k must be a whole number from 1 to {MAX_HITS}, not {shown(k)}")
    return k


def checked_neighbours(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_NEIGHBOURS:
        raise InvalidInput(f"neighbours must be a whole number from 0 to {MAX_NEIGHBOURS}, not {shown(count)}")
    return count


def record_filter(
    layers: Iterable[str] | None,
    types: Iterable[str] | None,
    tags: Iterable[str] | None,
    metadata: Mapping[str, str] | None,
) -> RecordFilter:
    wanted = RecordFilter(
        _once(checked_layer(layer) for layer in _listed(layers, "layers")),
        _once(checked_type(type_) for type_ in _listed(types, "types")),
        _once(checked_label(tag, "a tag") for tag in _listed(tags, "tags")),
        checked_strings(metadata),
    )
    # Each is a condition of its own to the database, which takes longer to plan them than to answer.
    for what, number in (("tags", len(wanted.tags)), ("metadata", len(wanted.metadata))):
        if number > MAX_CONDITIONS:
            raise InvalidInput(f"a search takes at most {MAX_CONDITIONS} {what}, not {number:,}")
    return wanted


def chunk_query(
    *,
    session: str | None,
    kinds: Iterable[str] | None,
    records: RecordFilter,
    since: datetime | None,
    until: datetime | None,
    as_of: datetime | None,
) -> ChunkQuery:
    return ChunkQuery(
        kinds=_once(checked_choice(SourceKind, kind, "a kind") for kind in _listed(kinds, "kinds")),
        session=session,
        since=None if since is None else checked_time(since, "since"),
        until=None if until is None else checked_time(until, "until"),
        as_of=None if as_of is None else checked_time(as_of, "as_of"),
        records=records or None,
    )


def _once(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def _listed(values: Iterable[Any] | None, what: str) -> Sequence[Any]:
    """One text where a list is meant is a list of one, not of its letters."""
    if values is None:
        return ()
    if isinstance(values, str):
        return (values,)
    if not isinstance(values, Iterable):
        raise InvalidInput(f"{what} must be a list, not {type(values).__name__}")
    return at_most(MAX_LISTED, values, f"{what} has too many entries")
