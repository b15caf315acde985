"""Finding chunks for a question, by words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.config import Search as SearchConfig
from holdfast.domain.chunk import ChunkQuery, Hit, Signal, SourceKind
from holdfast.domain.record import RecordFilter, checked_layer, checked_type
from holdfast.domain.scope import Space
from holdfast.domain.text import checked_choice, checked_text, shown
from holdfast.domain.times import checked_time, from_seconds
from holdfast.domain.values import at_most, checked_label, checked_strings
from holdfast.errors import InvalidInput
from holdfast.recall.question import Question
from holdfast.recall.recipes import Recipe
from holdfast.storage.base import Stored, Tx

if TYPE_CHECKING:
    from holdfast.recall.rank import Ranked, Signals
    from holdfast.storage.catalogue import Array, Catalogue

MAX_HITS = 1000
MAX_CONDITIONS = 100
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
    config: SearchConfig
    now: datetime


def search(tx: Tx, space: Space, wanted: Search) -> list[Hit]:
    """The best chunks for the question, or nothing when nothing stored is about it."""
    catalogue = tx.chunks.catalogue(space)
    if catalogue is None or not catalogue.chunks or not wanted.question.terms:
        return []
    from holdfast.recall.rank import rank  # late: it brings numpy

    signals = _signals(tx, space, catalogue, wanted)
    first, last = from_seconds(float(catalogue.time.min())), from_seconds(float(catalogue.time.max()))
    ranked = rank(
        catalogue,
        wanted.question,
        signals,
        wanted.recipe,
        wanted.question.spans(first, last) if wanted.recipe.date else [],
        _allowed(tx, space, catalogue, wanted.query),
    )
    found = _current(tx, space, catalogue, ranked, wanted)
    return [_hit(stored, at, ranked) for at, stored in islice(found, wanted.k)]


def _signals(tx: Tx, space: Space, catalogue: Catalogue, wanted: Search) -> Signals:
    import numpy as np

    from holdfast.recall.rank import Signals

    beside = wanted.question.beside_the_point(catalogue.names)
    weights = wanted.question.weights(wanted.recipe.asking_words)
    config = wanted.config
    found = tx.chunks.score_words(space, weights, beside, config.bm25_k1, config.bm25_b)
    if found is None:
        return Signals(np.zeros(catalogue.chunks), 0.0, 0.0)
    # The scores reach as far as the last ordinal that matched.
    scores = np.zeros(int(catalogue.ordinals[-1]) + 1)
    reach = min(len(scores), len(found.scores))
    scores[:reach] = found.scores[:reach]
    return Signals(scores[catalogue.ordinals], found.coverage, found.known)


def _allowed(tx: Tx, space: Space, catalogue: Catalogue, query: ChunkQuery) -> Array | None:
    import numpy as np

    ordinals = tx.chunks.allowed(space, query)
    return None if ordinals is None else np.isin(catalogue.ordinals, np.asarray(ordinals, dtype=np.int64))


def _current(
    tx: Tx, space: Space, catalogue: Catalogue, ranked: Ranked, wanted: Search
) -> Iterator[tuple[int, Stored]]:
    """The ranked chunks that are there and true, with their place in the ranking."""
    ordinals = catalogue.ordinals[ranked.positions].tolist()
    for start in range(0, len(ordinals), _PAGE):
        page = ordinals[start : start + _PAGE]
        stored = tx.chunks.read(space, page, wanted.query.as_of, wanted.now)
        for at, ordinal in enumerate(page, start):
            if ordinal in stored:
                yield at, stored[ordinal]


def _hit(stored: Stored, at: int, ranked: Ranked) -> Hit:
    """With every signal that had a say: its score, and where it alone would have put the chunk."""
    signals = {
        name: Signal(int((values > values[at]).sum()) + 1, float(values[at])) for name, values in ranked.parts.items()
    }
    return Hit(stored.text, float(ranked.scores[at]), signals, stored.source, stored.metadata)


def checked_question(value: object) -> str:
    return checked_text(value, "the question")


def checked_count(k: object) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_HITS:
        raise InvalidInput(f"k must be a whole number from 1 to {MAX_HITS}, not {shown(k)}")
    return k


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
