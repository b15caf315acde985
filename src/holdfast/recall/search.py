"""Finding chunks for a question, by words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from holdfast.config import Search as SearchConfig
from holdfast.domain.chunk import ChunkQuery, Hit, SourceKind
from holdfast.domain.record import RecordFilter, checked_layer, checked_type
from holdfast.domain.scope import Space
from holdfast.domain.text import checked_choice, checked_text, shown
from holdfast.domain.times import checked_time
from holdfast.domain.values import at_most, checked_label, checked_strings
from holdfast.errors import InvalidInput
from holdfast.storage.analysis import query_terms
from holdfast.storage.base import Tx

WORDS = "words"
RECIPES = (WORDS,)
MAX_HITS = 1000
MAX_CONDITIONS = 100
MAX_LISTED = 10_000

T = TypeVar("T")


def search(
    tx: Tx, space: Space, question: str, query: ChunkQuery, k: int, config: SearchConfig, now: datetime
) -> list[Hit]:
    """The ``k`` best chunks by BM25. A question that shares no word with what is stored finds nothing."""
    terms = query_terms(question)
    return tx.chunks.search_words(space, terms, query, k, config.bm25_k1, config.bm25_b, now)


def checked_question(value: object) -> str:
    return checked_text(value, "the question")


def checked_count(k: object) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_HITS:
        raise InvalidInput(f"k must be a whole number from 1 to {MAX_HITS}, not {shown(k)}")
    return k


def checked_recipe(recipe: str | None) -> str:
    if recipe is None:
        return WORDS
    if recipe not in RECIPES:
        raise InvalidInput(f"no recipe {shown(recipe)}; there is {', '.join(RECIPES)}")
    return recipe


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
