"""Records that say the same, found and brought together.

Only records of one owner, layer, type and polarity are compared, and of those that name a subject and an attribute only
such as are about the same thing. The newest words stay, unless somebody stated theirs outright: those stay always, as
they are. The other record is superseded by the one that stays, and can be read as history.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from limpet.errors import ProviderError
from limpet.knowledge.decay import is_protected
from limpet.knowledge.remember import full_text, merge_labels
from limpet.knowledge.similarity import DUPLICATE_COSINE, TextSignature, compute_signature, is_duplicate, is_same_value
from limpet.model.chunk import SourceKind, Vector
from limpet.model.dataclass import replace
from limpet.model.record import Origin, Record
from limpet.model.scope import Partition
from limpet.search.analysis import strip_names
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import ChunkEmbedder
from limpet.search.search import read_chunks
from limpet.store.tx import Tx

log = logging.getLogger("limpet.knowledge")

Pair = frozenset[str]
_MOST_COMPARED = 200  # with one record: a word found in thousands says nothing
_SURER = 0.99
_MOST_EMBEDDED = 256  # records looked at in one run
_ROUGHLY = 0.03  # what an estimate may be too low
_FEW = 50


class DuplicateMerge(NamedTuple):
    """``stays`` as it is to be written, and those that give way to it."""

    stays: Record
    gone: tuple[Record, ...]


def is_mergeable(record: Record, now: datetime) -> bool:
    """A turn or a day is not said twice, and what has ended is history."""
    made = record.origin in (Origin.TURN, Origin.CONDENSED)
    return not made and record.is_current_at(now)


def find_merges(
    records: Iterable[Record], now: datetime, cosines: Mapping[Pair, float] | None = None
) -> list[DuplicateMerge]:
    """``cosines``: of pairs whose vectors are near, where there are vectors."""
    groups: dict[object, list[Record]] = defaultdict(list)
    for record in records:
        if is_mergeable(record, now):
            groups[record.home, record.layer, record.type, record.polarity].append(record)
    return [merge for group in groups.values() for merge in _find_in_group(group, cosines or {})]


def _find_in_group(group: Sequence[Record], cosines: Mapping[Pair, float]) -> list[DuplicateMerge]:
    """Whoever stays takes in all that are like it; what is only like one of those stays apart."""
    order = sorted(group, key=_precedence, reverse=True)
    neighbours = _find_neighbours(order, cosines)
    gone: set[str] = set()
    found = []
    for stays in order:
        if stays.id in gone:
            continue
        twins = [
            other
            for other in neighbours[stays.id]
            if other.id not in gone and not is_protected(other) and _is_duplicate(stays, other, cosines)
        ]
        if twins:
            gone |= {stays.id, *(twin.id for twin in twins)}
            found.append(DuplicateMerge(_merge_records(stays, twins), tuple(twins)))
    return found


def _precedence(record: Record) -> tuple[bool, float, str]:
    newest = record.valid_from or record.created_at
    return is_protected(record), 0.0 if newest is None else newest.timestamp(), record.id


def _find_neighbours(records: Sequence[Record], near: Iterable[Pair]) -> dict[str, list[Record]]:
    """Those that may say the same: with the same numbers, the same denial and a rare word in common, or near.

    Texts of which one holds the other share every word of the shorter, its rarest too.
    """
    gists = {record.id: compute_signature(record.content) for record in records}
    buckets: dict[object, list[Record]] = defaultdict(list)
    for record in records:
        for key in _bucket_keys(gists[record.id]):
            buckets[key].append(record)
    found: dict[str, dict[str, Record]] = defaultdict(dict)
    for record in records:
        mine = gists[record.id]
        rarest = min((buckets[key] for key in _bucket_keys(mine)), key=len)
        for other in rarest[:_MOST_COMPARED]:
            theirs = gists[other.id]
            if other.id != record.id and (mine.stems <= theirs.stems or theirs.stems <= mine.stems):
                found[record.id][other.id] = other
                found[other.id][record.id] = record
    by_id = {record.id: record for record in records}
    for one, other_id in (pair for pair in map(sorted, near) if len(pair) == 2 and by_id.keys() >= set(pair)):
        found[one][other_id] = by_id[other_id]
        found[other_id][one] = by_id[one]
    return {record.id: list(found[record.id].values()) for record in records}


def _bucket_keys(said: TextSignature) -> list[object]:
    return [(said.numbers, said.negated, stem) for stem in sorted(said.stems) or [""]]


def _is_duplicate(one: Record, other: Record, cosines: Mapping[Pair, float]) -> bool:
    if not _has_same_topic(one, other):
        return False
    if one.fingerprint == other.fingerprint:
        return True
    return is_duplicate(one.content, other.content, cosines.get(frozenset((one.id, other.id))))


def _has_same_topic(one: Record, other: Record) -> bool:
    if None not in (one.subject, other.subject) and one.subject != other.subject:
        return False
    if one.attribute is None or other.attribute is None:
        return True
    return one.attribute == other.attribute and is_same_value(one.value, other.value)


def _merge_records(stays: Record, twins: Sequence[Record]) -> Record:
    """With what the others add. An explicit record only counts how often it was said."""
    said = stays.said + sum(twin.said for twin in twins)
    inputs = tuple(dict.fromkeys((*stays.inputs, *(twin.id for twin in twins))))
    if is_protected(stays):
        return replace(stays, said=said, inputs=inputs)
    used = [record.last_used_at for record in (stays, *twins) if record.last_used_at is not None]
    sure = max(record.confidence for record in (stays, *twins))
    return replace(
        stays,
        said=said,
        inputs=inputs,
        uses=stays.uses + sum(twin.uses for twin in twins),
        last_used_at=max(used, default=None),
        tags=merge_labels(record.tags for record in (stays, *twins)),
        references=merge_labels(record.references for record in (stays, *twins)),
        confidence=max(stays.confidence, min(_SURER, sure)),
        salience=max(record.salience for record in (stays, *twins)),
    )


def find_near_pairs(
    embedder: ChunkEmbedder, space: Partition, records: Sequence[Record], now: datetime
) -> dict[Pair, float]:
    """Of each of these with every other of the space; nothing where there are no vectors."""
    if embedder.model is None or not records:
        return {}
    asked = records[:_MOST_EMBEDDED]
    names = embedder.store.read(lambda tx: Chunks(tx).names(space))
    try:
        vectors = embedder.model.embed_texts([strip_names(full_text(record), names) for record in asked])
    except ProviderError as error:
        log.warning("duplicates are looked for by words alone: %s", error)
        return {}
    found: dict[Pair, float] = {}
    for record, vector in zip(asked, vectors, strict=True):
        near = embedder.store.read(partial(_find_near, space=space, vector=vector, now=now))
        for other, cosine in near.items():
            if other != record.id:
                found[frozenset((record.id, other))] = cosine
    return found


def _find_near(tx: Tx, space: Partition, vector: Vector, now: datetime) -> dict[str, float]:
    """By the id of the record."""
    import numpy as np

    index = Chunks(tx).open_index(space)
    nearness = None if index is None else index.score_vectors(vector)
    if index is None or nearness is None:
        return {}
    rough = np.nan_to_num(nearness.cosines, nan=-1.0)
    best = np.argsort(-rough)[:_FEW]
    best = best[rough[best] >= DUPLICATE_COSINE - _ROUGHLY]
    ordinals = index.catalogue.ordinals[best].tolist()
    cosines = dict(zip(ordinals, nearness.rescore(best).tolist(), strict=True))
    near = [each for each in ordinals if cosines.get(each, 0.0) >= DUPLICATE_COSINE]
    stored = read_chunks(index, near, None, now)
    return {
        chunk.source.id: cosines[ordinal] for ordinal, chunk in stored.items() if chunk.source.kind is SourceKind.RECORD
    }
