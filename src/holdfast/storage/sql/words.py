"""The word index as plain rows.

Each chunk carries its own terms. The newest chunks of a space, its *tail*, are searched by those. When the tail is long enough
it is merged into postings: for each term, blocks of (ordinal, count, length) in the order of the ordinals. A search reads the
blocks of its terms and the tail, so its cost follows the space it asks in and never the rest of the database.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.domain.chunk import Terms
from holdfast.storage.sql.db import Db, Params, Row

if TYPE_CHECKING:
    import numpy as np

# Long enough that a merge writes several postings to a row, short enough that scanning it costs less than a millisecond.
TAIL = 512
BLOCK = 256
_ENTRY = 8
_MAX_COUNT = 255
_MAX_LENGTH = 0xFFFF


@dataclass(slots=True)
class SpaceRow:
    """A space's counters while a transaction works on it."""

    id: int
    next_ordinal: int
    merged_ordinal: int
    chunk_count: int
    word_count: int


def pack_terms(terms: Terms) -> bytes:
    size = len(terms.counts)
    return struct.pack(f"<{size}q{size}B", *terms.counts, *(min(count, _MAX_COUNT) for count in terms.counts.values()))


def unpack_terms(data: bytes) -> tuple[tuple[int, ...], bytes]:
    size = len(data) // 9
    return struct.unpack_from(f"<{size}q", data), data[size * 8 :]


def merge_tail(db: Db, space: SpaceRow) -> None:
    """Move the tail into the postings. The caller writes the space's counters back."""
    rows = db.all("chunks.tail", {"space_id": space.id, "ordinal": space.merged_ordinal})
    added = postings_of(rows)
    last_blocks = db.all("words.last_blocks", {"space_id": space.id, "terms": db.numbers(list(added))})
    open_blocks = {term: (first, bytes(data)) for term, first, data in last_blocks if len(data) < BLOCK * _ENTRY}
    puts: list[Params] = []
    for term, entries in added.items():
        first, old = open_blocks.get(term, (_first_ordinal(entries), b""))
        puts += _blocks(space.id, term, first, old + entries)
    db.many("words.put", puts)
    space.merged_ordinal = space.next_ordinal


def postings_of(rows: Iterable[Row]) -> dict[int, bytes]:
    """(ordinal, word count, packed terms) rows turned around: each term's packed entries."""
    entries: defaultdict[int, bytearray] = defaultdict(bytearray)
    for ordinal, length, packed in rows:
        terms, counts = unpack_terms(bytes(packed))
        for term, count in zip(terms, counts, strict=True):
            entries[term] += struct.pack("<II", ordinal, count << 16 | min(length, _MAX_LENGTH))
    return {term: bytes(entries[term]) for term in sorted(entries)}


def _blocks(space_id: int, term: int, first: int, data: bytes) -> Iterator[Params]:
    for start in range(0, len(data), BLOCK * _ENTRY):
        block = data[start : start + BLOCK * _ENTRY]
        yield {
            "space_id": space_id,
            "term": term,
            "first_ordinal": first if start == 0 else _first_ordinal(block),
            "data": block,
        }


def _first_ordinal(data: bytes) -> int:
    return int.from_bytes(data[:4], "little")


def remove(db: Db, space: SpaceRow, rows: Sequence[Row]) -> None:
    """Take chunks, as (ordinal, word count, packed terms), out of the postings. Those in the tail are in none."""
    gone: defaultdict[int, set[int]] = defaultdict(set)
    for ordinal, _, packed in rows:
        if ordinal < space.merged_ordinal:
            for term in unpack_terms(bytes(packed))[0]:
                gone[term].add(ordinal)
    for term, ordinals in gone.items():
        at = {"space_id": space.id, "term": term}
        before = db.one("words.block_before", {**at, "ordinal": min(ordinals)})
        low = before[0] if before and before[0] is not None else 0
        for first, data in db.all("words.blocks", {**at, "low": low, "high": max(ordinals)}):
            kept = _without(bytes(data), ordinals)
            if not kept:
                db.run("words.drop", {**at, "first_ordinal": first})
            elif len(kept) < len(data):
                db.run("words.put", {**at, "first_ordinal": first, "data": kept})


def _without(data: bytes, ordinals: set[int]) -> bytes:
    entries = (data[at : at + _ENTRY] for at in range(0, len(data), _ENTRY))
    return b"".join(entry for entry in entries if int.from_bytes(entry[:4], "little") not in ordinals)


def rank(
    db: Db, space: SpaceRow, terms: Sequence[int], allowed: Sequence[int] | None, k1: float, b: float
) -> list[tuple[int, float]]:
    """Every matching ordinal with its BM25 score, best first, the newer first among equals."""
    import numpy as np  # late: most commands never search

    found = _entries(db, space, terms)
    if not found or not space.chunk_count:
        return []
    average = max(1.0, space.word_count / space.chunk_count)
    ordinals, weights = [], []
    for term in sorted(found):
        entries = found[term]
        frequency = (entries[:, 1] >> 16).astype(np.float64)
        length = (entries[:, 1] & _MAX_LENGTH).astype(np.float64)
        rarity = np.log1p((space.chunk_count - len(entries) + 0.5) / (len(entries) + 0.5))
        weights.append(rarity * frequency * (k1 + 1) / (frequency + k1 * (1 - b + b * length / average)))
        ordinals.append(entries[:, 0])
    everywhere = np.concatenate(ordinals)
    scores = np.bincount(everywhere, weights=np.concatenate(weights))
    candidates = np.unique(everywhere) if allowed is None else np.intersect1d(everywhere, np.asarray(allowed, dtype="<u4"))
    order = np.lexsort((-candidates.astype(np.int64), -scores[candidates]))
    best = candidates[order]
    return list(zip(best.tolist(), scores[best].tolist(), strict=True))


def _entries(db: Db, space: SpaceRow, terms: Sequence[int]) -> Mapping[int, np.ndarray]:
    """For each term that occurs: an array of (ordinal, count and length)."""
    import numpy as np

    pieces: defaultdict[int, list[bytes]] = defaultdict(list)
    for term, data in db.all("words.postings", {"space_id": space.id, "terms": db.numbers(terms)}):
        pieces[term].append(bytes(data))
    wanted = frozenset(terms)
    for ordinal, length, packed in db.all("chunks.tail", {"space_id": space.id, "ordinal": space.merged_ordinal}):
        chunk_terms, counts = unpack_terms(bytes(packed))
        for term in wanted.intersection(chunk_terms):
            count = counts[chunk_terms.index(term)]
            pieces[term].append(struct.pack("<II", ordinal, count << 16 | min(length, _MAX_LENGTH)))
    return {term: np.frombuffer(b"".join(parts), dtype="<u4").reshape(-1, 2) for term, parts in pieces.items()}
