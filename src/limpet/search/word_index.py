"""The word index as plain rows.

Each chunk stores its own terms. The newest chunks of a partition, its *tail*, are searched through those. A long tail
is merged into postings: for each term, blocks of (ordinal, count, length) by ordinal. A search reads the blocks of its
terms and the tail, so its cost depends on the partition and not on the rest of the database.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from limpet.model.chunk import Terms
from limpet.model.dataclass import dataclass
from limpet.store.encryption import Cipher
from limpet.store.tx import Array, Db, Params, Row, partition_key

if TYPE_CHECKING:
    import numpy as np

# Long enough that a merge writes several postings per row, short enough to scan quickly.
MAX_TAIL = 512
BLOCK_ENTRIES = 256
_MIN_CHUNK_COUNT = 500
_ENTRY_BYTES = 8
_MAX_COUNT = 255
_MAX_LENGTH = 0xFFFF


class WordScores(NamedTuple):
    """By ordinal: BM25 and the share of the question's weight that a chunk contains; and the share known at all."""

    scores: Array
    covered: Array
    known: float


@dataclass(slots=True)
class PartitionRow:
    """A partition's counters during a transaction. The counts cover merged chunks."""

    id: int
    next_ordinal: int
    merged_ordinal: int
    chunk_count: int
    word_count: int
    removals: int = 0
    next_graph_id: int = 1
    model: str | None = None  # the model of the stored vectors

    @property
    def key(self) -> dict[str, int]:
        return partition_key(self.id)

    def tail_params(self, ordinal: int) -> dict[str, int]:
        """Return the chunks from the ordinal on."""
        return {**self.key, "low": ordinal}

    def counter_params(self) -> dict[str, int]:
        return {
            **self.key,
            "next_ordinal": self.next_ordinal,
            "merged_ordinal": self.merged_ordinal,
            "chunk_count": self.chunk_count,
            "word_count": self.word_count,
            "removals": self.removals,
        }


def pack_terms(terms: Terms) -> bytes:
    counts = terms.counts.values()
    try:
        packed = bytes(counts)
    except ValueError:  # a word that occurs more often than a byte can count
        packed = bytes(min(count, _MAX_COUNT) for count in counts)
    return struct.pack(f"<{len(terms.counts)}q", *terms.counts) + packed


def unpack_terms(data: bytes) -> tuple[tuple[int, ...], bytes]:
    size = len(data) // 9
    return struct.unpack_from(f"<{size}q", data), data[size * 8 :]


def merge_tail(db: Db, partition: PartitionRow) -> None:
    """Move the tail into the postings. The caller writes the partition's counters."""
    rows = db.all("chunks.tail", partition.tail_params(partition.merged_ordinal))
    added = build_postings(rows)
    last_blocks = db.all("postings.last_blocks", {**partition.key, "terms": db.to_array(list(added))})
    open_blocks = {
        term: (first, bytes(data)) for term, first, data in last_blocks if len(data) < BLOCK_ENTRIES * _ENTRY_BYTES
    }
    puts: list[Params] = []
    for term, entries in added.items():
        first, old = open_blocks.get(term, (_first_ordinal(entries), b""))
        puts += _split_blocks(partition, term, first, old + entries)
    db.run_many("postings.put", puts)
    partition.merged_ordinal = partition.next_ordinal
    partition.chunk_count += len(rows)
    partition.word_count += sum(length for _, length, _ in rows)


def build_postings(rows: Iterable[Row]) -> dict[int, bytes]:
    """Invert (ordinal, word count, packed terms) rows: return each term's packed entries."""
    entries: defaultdict[int, bytearray] = defaultdict(bytearray)
    for ordinal, length, packed in rows:
        terms, counts = unpack_terms(bytes(packed))
        for term, count in zip(terms, counts, strict=True):
            entries[term] += struct.pack("<II", ordinal, count << 16 | min(length, _MAX_LENGTH))
    return {term: bytes(entries[term]) for term in sorted(entries)}


def _split_blocks(partition: PartitionRow, term: int, first: int, data: bytes) -> Iterator[Params]:
    for start in range(0, len(data), BLOCK_ENTRIES * _ENTRY_BYTES):
        block = data[start : start + BLOCK_ENTRIES * _ENTRY_BYTES]
        yield {
            **partition.key,
            "term": term,
            "first_ordinal": first if start == 0 else _first_ordinal(block),
            "data": block,
        }


def _first_ordinal(data: bytes) -> int:
    return int.from_bytes(data[:4], "little")


def remove_chunks(db: Db, partition: PartitionRow, rows: Sequence[Row]) -> None:
    """Remove chunks, given as (ordinal, word count, packed terms), from the postings. The tail has none."""
    removed: defaultdict[int, set[int]] = defaultdict(set)
    for ordinal, length, packed in rows:
        if ordinal < partition.merged_ordinal:
            partition.chunk_count -= 1
            partition.word_count -= length
            for term in unpack_terms(bytes(packed))[0]:
                removed[term].add(ordinal)
    for term, ordinals in removed.items():
        at = {**partition.key, "term": term}
        before = db.one("postings.block_before", {**at, "ordinal": min(ordinals)})
        low = before[0] if before and before[0] is not None else 0
        for first, data in db.all("postings.blocks", {**at, "low": low, "high": max(ordinals)}):
            remaining = _drop_entries(bytes(data), ordinals)
            if not remaining:
                db.run("postings.delete", {**at, "first_ordinal": first})
            elif len(remaining) < len(data):
                db.run("postings.put", {**at, "first_ordinal": first, "data": remaining})


def _drop_entries(data: bytes, ordinals: set[int]) -> bytes:
    entries = (data[at : at + _ENTRY_BYTES] for at in range(0, len(data), _ENTRY_BYTES))
    return b"".join(entry for entry in entries if int.from_bytes(entry[:4], "little") not in ordinals)


def score_bm25(
    db: Db,
    partition: PartitionRow,
    weights: Mapping[int, float],
    optional: frozenset[int],
    k1: float,
    b: float,
    cipher: Cipher,
) -> WordScores:
    """Return BM25 of every chunk by ordinal, and how much of the question is known here."""
    import numpy as np  # late: most commands never search

    tail = db.all("chunks.tail", partition.tail_params(partition.merged_ordinal))
    # Summed in the order of the plain term numbers, encrypted or not, so that sums are equal to the last digit.
    stored = {term: cipher.hash_term(term) for term in weights}
    found = _load_entries(db, partition, list(stored.values()), tail)
    chunk_count = partition.chunk_count + len(tail)
    average = max(1.0, (partition.word_count + sum(length for _, length, _ in tail)) / max(1, chunk_count))
    ordinals, scores, masses = [np.zeros(0, dtype=np.int64)], [np.zeros(0)], [np.zeros(0)]
    total = known = 0.0
    for term in sorted(weights):
        entries = found.get(stored[term])
        matching = 0 if entries is None else len(entries)
        # A young store knows few words: a missing word says less than in an old one.
        share = 0.0 if term in optional else weights[term]
        mass = share * math.log1p((max(chunk_count, _MIN_CHUNK_COUNT) - matching + 0.5) / (matching + 0.5))
        total += mass
        if entries is None:
            continue
        known += mass
        frequency = (entries[:, 1] >> 16).astype(np.float64)
        length = (entries[:, 1] & _MAX_LENGTH).astype(np.float64)
        rarity = weights[term] * math.log1p((chunk_count - matching + 0.5) / (matching + 0.5))
        scores.append(rarity * frequency * (k1 + 1) / (frequency + k1 * (1 - b + b * length / average)))
        ordinals.append(entries[:, 0].astype(np.int64))
        masses.append(np.full(matching, mass))
    where = np.concatenate(ordinals)
    if not len(where) or not total:
        return WordScores(np.bincount(where, weights=np.concatenate(scores)), np.zeros(0), 0.0)
    covered = np.bincount(where, weights=np.concatenate(masses)) / total
    return WordScores(np.bincount(where, weights=np.concatenate(scores)), covered, known / total)


def _load_entries(
    db: Db, partition: PartitionRow, terms: Sequence[int], tail: Sequence[Row]
) -> Mapping[int, np.ndarray]:
    """Return an array of (ordinal, count and length) for each term that occurs."""
    import numpy as np

    pieces: defaultdict[int, list[bytes]] = defaultdict(list)
    for term, data in db.all("postings.find", {**partition.key, "terms": db.to_array(terms)}):
        pieces[term].append(bytes(data))
    for term, data in _tail_entries(tail, terms):
        pieces[term].append(data)
    return {term: np.frombuffer(b"".join(parts), dtype="<u4").reshape(-1, 2) for term, parts in pieces.items()}


def _tail_entries(rows: Sequence[Row], terms_wanted: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Return the packed entries of the wanted terms in the tail, in one scan over all chunks."""
    import numpy as np

    if not rows:
        return
    sizes = [len(packed) // 9 for _, _, packed in rows]
    terms = np.frombuffer(b"".join(packed[: size * 8] for (_, _, packed), size in zip(rows, sizes, strict=True)), "<i8")
    at = np.flatnonzero(np.isin(terms, np.asarray(terms_wanted, dtype="<i8")))
    counts = np.frombuffer(b"".join(packed[size * 8 :] for (_, _, packed), size in zip(rows, sizes, strict=True)), "u1")
    chunk = np.repeat(np.arange(len(rows)), sizes)[at]
    ordinals = np.asarray([ordinal for ordinal, _, _ in rows], dtype="<u4")[chunk]
    lengths = np.asarray([min(length, _MAX_LENGTH) for _, length, _ in rows], dtype="<u4")[chunk]
    entries = np.stack([ordinals, counts[at].astype("<u4") << 16 | lengths], axis=1)
    found = terms[at]
    for term in terms_wanted:
        mine = entries[found == term]
        if len(mine):
            yield term, mine.tobytes()
