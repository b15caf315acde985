"""The word index as plain rows.

Each chunk stores its own terms. The newest chunks of a partition, its *tail*, are searched through those. A long tail
is merged into postings: for each term, blocks of (ordinal, count, length) by ordinal. A search reads the blocks of its
terms and the tail, so its cost depends on the partition and not on the rest of the database.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from limpet.model.dataclass import dataclass
from limpet.search.analysis import unpack_terms
from limpet.store.tx import Array, CacheKind, Db, Params, Query, Row, Tx

if TYPE_CHECKING:
    from limpet.search.chunk_repository import PartitionRow

# Long enough that a merge writes several postings per row, short enough to scan quickly.
MAX_TAIL = 384
# Entries of postings that one transaction merges, or writes and removes for a large text: others wait that long.
MAX_MERGED = 6000
MAX_ENTRIES = 2000
# Chunks further apart than this are removed separately, so that blocks between them are not read.
_MAX_GAP = 1024
BLOCK_ENTRIES = 256
_ENTRY_BYTES = 8
MAX_LENGTH = 0xFFFF


@dataclass(frozen=True, slots=True)
class WordTail:
    """The tail of a partition as a search reads it: its terms, and beside each the entry that a posting would have."""

    removals: int
    first_ordinal: int
    next_ordinal: int
    chunk_count: int
    word_count: int
    terms: Array  # sorted
    entries: Array  # ordinals, and below them count and length

    @property
    def nbytes(self) -> int:
        return int(self.terms.nbytes + self.entries.nbytes)

    def is_part_of(self, partition: PartitionRow) -> bool:
        """Whether the partition has this tail, or a longer one."""
        same = self.removals == partition.removals and self.first_ordinal == partition.merged_ordinal
        return same and self.next_ordinal <= partition.next_ordinal

    def extend(self, rows: Sequence[Row], next_ordinal: int) -> WordTail:
        """The tail with more rows of (ordinal, word count, packed terms)."""
        import numpy as np

        sizes = [count_entries(len(packed)) for _, _, packed in rows]
        terms = b"".join([packed[: size * 8] for (_, _, packed), size in zip(rows, sizes, strict=True)])
        counts = b"".join([packed[size * 8 :] for (_, _, packed), size in zip(rows, sizes, strict=True)])
        ordinals = np.repeat(np.asarray([ordinal for ordinal, _, _ in rows], dtype="<u4"), sizes)
        lengths = np.repeat(np.asarray([min(length, MAX_LENGTH) for _, length, _ in rows], dtype="<u4"), sizes)
        entries = np.stack([ordinals, np.frombuffer(counts, "u1").astype("<u4") << 16 | lengths])
        merged = np.concatenate([self.terms, np.frombuffer(terms, "<i8")])
        order = merged.argsort(kind="stable")  # quick where most are in order, and so is take where rows are long
        return WordTail(
            self.removals,
            self.first_ordinal,
            next_ordinal,
            self.chunk_count + len(rows),
            self.word_count + sum(length for _, length, _ in rows),
            merged.take(order),
            np.concatenate([self.entries, entries], axis=1).take(order, axis=1),
        )

    def find_entries(self, terms: Sequence[int]) -> list[Array]:
        import numpy as np

        asked = np.asarray(terms, "<i8")
        starts, ends = (np.searchsorted(self.terms, asked, side=side).tolist() for side in ("left", "right"))
        return [self.entries[:, start:end] for start, end in zip(starts, ends, strict=True)]


TAILS: CacheKind[WordTail] = CacheKind("tails", 1 / 16)  # by partition


def find_tail(tx: Tx, partition: PartitionRow) -> WordTail | None:
    """The cached tail, or the beginning of it; None where nothing of it is cached, or the transaction writes."""
    known = None if tx.seen is None else tx.caches.get(TAILS).get(partition.id)
    return known if known is not None and known.is_part_of(partition) else None


def load_tail(tx: Tx, partition: PartitionRow, *, is_cached: bool) -> WordTail:
    """The tail, read as far as it is not cached.

    It is only cached where the transaction reads: what another one writes may be rolled back. And not where terms are
    encrypted: a change of the key changes them.
    """
    import numpy as np

    cache = tx.caches.get(TAILS) if is_cached and tx.seen is not None else None
    known = None if cache is None else find_tail(tx, partition)
    if known is None:
        first, nothing = partition.merged_ordinal, (np.zeros(0, "<i8"), np.zeros((2, 0), "<u4"))
        known = WordTail(partition.removals, first, first, 0, 0, *nothing)
    if known.next_ordinal < partition.next_ordinal:
        rows = tx.db.all("chunks.tail", partition.tail_params(known.next_ordinal))
        known = known.extend(rows, partition.next_ordinal)
        if cache is not None:
            cache.put(partition.id, known)
    return known


@dataclass(frozen=True, slots=True)
class Postings:
    """The merged entries of a term, as of a version of the partition."""

    removals: int
    merged_ordinal: int
    entries: Array  # ordinals, and below them count and length

    @property
    def nbytes(self) -> int:
        return 500 + int(self.entries.nbytes)

    def is_of(self, partition: PartitionRow) -> bool:
        return self.removals == partition.removals and self.merged_ordinal == partition.merged_ordinal


POSTINGS: CacheKind[Postings] = CacheKind("postings", 1 / 4)  # by partition and term


def find_postings(tx: Tx, partition: PartitionRow, terms: Iterable[int], *, is_cached: bool) -> dict[int, Array]:
    """The cached entries of these terms. They are cached where a tail is."""
    if not is_cached or tx.seen is None:
        return {}
    cache = tx.caches.get(POSTINGS)
    found = ((term, cache.get((partition.id, term))) for term in terms)
    return {term: known.entries for term, known in found if known is not None and known.is_of(partition)}


def find_unread(tx: Tx, partition: PartitionRow, terms: Sequence[int], known: Container[int]) -> list[Query]:
    missing = [term for term in terms if term not in known] if partition.merged_ordinal else []
    return [Query("postings.find", {**partition.key, "terms": tx.db.to_array(missing)})] if missing else []


def load_postings(tx: Tx, partition: PartitionRow, terms: Sequence[int], *, is_cached: bool) -> Mapping[int, Array]:
    """The merged entries of each term, read as far as they are not cached."""
    import numpy as np

    known = find_postings(tx, partition, terms, is_cached=is_cached)
    for blocks in tx.db.all_together(find_unread(tx, partition, terms, known)):
        pieces: dict[int, list[bytes]] = {term: [] for term in terms if term not in known}
        for term, data in blocks:
            pieces[term].append(data)
        for term, data in pieces.items():
            known[term] = np.frombuffer(b"".join(data), dtype="<u4").reshape(-1, 2).T.copy()
            if is_cached and tx.seen is not None:
                cached = Postings(partition.removals, partition.merged_ordinal, known[term])
                tx.caches.get(POSTINGS).put((partition.id, term), cached)
    return known


def count_entries(size: int) -> int:
    """Return how many terms so many bytes hold."""
    return size // 9


def take_entries(rows: Sequence[Row], most: int) -> Sequence[Row]:
    """Return the first (ordinal, word count, packed terms) rows with so many terms in all, at least one row."""
    total = 0
    for at, (_, _, packed) in enumerate(rows):
        total += count_entries(len(packed))
        if total > most and at:
            return rows[:at]
    return rows


def merge_tail(db: Db, partition: PartitionRow, most: int | None = None) -> None:
    """Move the tail into the postings, or the oldest of it with so many entries. The caller writes the counters."""
    rows: Sequence[Row] = db.all("chunks.tail", partition.tail_params(partition.merged_ordinal))
    partition.merged_ordinal = partition.next_ordinal
    if most is not None and len(rows) > len(oldest := take_entries(rows, most)):
        partition.merged_ordinal = rows[len(oldest)][0]
        rows = oldest
    added = build_postings(rows)
    last_blocks = db.all("postings.last_blocks", {**partition.key, "terms": db.to_array(list(added))})
    open_blocks = {
        term: (first, bytes(data)) for term, first, data in last_blocks if len(data) < BLOCK_ENTRIES * _ENTRY_BYTES
    }
    key = partition.key
    puts: list[Params] = []
    for term, entries in added.items():
        first, old = open_blocks.get(term) or (_first_ordinal(entries), b"")
        _split_blocks({**key, "term": term}, first, old + entries, puts)
    db.run_many("postings.put", puts)
    partition.chunk_count += len(rows)
    partition.word_count += sum(length for _, length, _ in rows)


def build_postings(rows: Iterable[Row]) -> dict[int, bytes]:
    """Invert (ordinal, word count, packed terms) rows: return each term's packed entries."""
    entries: defaultdict[int, bytearray] = defaultdict(bytearray)
    pack = struct.Struct("<II").pack
    for ordinal, length, packed in rows:
        terms, counts = unpack_terms(bytes(packed))
        size = min(length, MAX_LENGTH)
        once = pack(ordinal, 1 << 16 | size)  # as often as nearly every word of a message
        for term, count in zip(terms, counts, strict=True):
            entries[term] += once if count == 1 else pack(ordinal, count << 16 | size)
    return {term: bytes(entries[term]) for term in sorted(entries)}


def _split_blocks(key: Params, first: int, data: bytes, puts: list[Params]) -> None:
    size = BLOCK_ENTRIES * _ENTRY_BYTES
    puts.append({**key, "first_ordinal": first, "data": data[:size]})
    for start in range(size, len(data), size):
        block = data[start : start + size]
        puts.append({**key, "first_ordinal": _first_ordinal(block), "data": block})


def _first_ordinal(data: bytes) -> int:
    return int.from_bytes(data[:4], "little")


def remove_chunks(db: Db, partition: PartitionRow, rows: Sequence[Row]) -> None:
    """Remove chunks, given as (ordinal, word count, packed terms), from the postings. The tail has none."""
    merged = sorted(row for row in rows if row[0] < partition.merged_ordinal)
    partition.chunk_count -= len(merged)
    partition.word_count -= sum(length for _, length, _ in merged)
    start = 0
    for at in range(1, len(merged) + 1):
        if at == len(merged) or merged[at][0] - merged[at - 1][0] > _MAX_GAP:
            _remove_neighbours(db, partition, merged[start:at])
            start = at


def _remove_neighbours(db: Db, partition: PartitionRow, rows: Sequence[Row]) -> None:
    removed: defaultdict[int, list[int]] = defaultdict(list)
    for ordinal, _, packed in rows:
        for term in unpack_terms(bytes(packed))[0]:
            removed[term].append(ordinal)
    key, span = partition.key, {"low": rows[0][0], "high": rows[-1][0]}
    puts: list[Params] = []
    deletes: list[Params] = []
    for term, first, data in db.all("postings.blocks", {**key, **span, "terms": db.to_array(list(removed))}):
        at = {**key, "term": term, "first_ordinal": first}
        remaining = _drop_entries(bytes(data), removed[term])
        if not remaining:
            deletes.append(at)
        elif len(remaining) < len(data):
            puts.append({**at, "data": remaining})
    db.run_many("postings.delete", deletes)
    db.run_many("postings.put", puts)


def _drop_entries(data: bytes, ordinals: list[int]) -> bytes:
    """Return a block without these ordinals, which ascend as its entries do."""
    numbers = struct.unpack(f"<{len(data) // 4}I", data)[::2]
    start, end = bisect_left(numbers, ordinals[0]), bisect_right(numbers, ordinals[-1])
    gone = set(ordinals)
    kept = (at * _ENTRY_BYTES for at in range(start, end) if numbers[at] not in gone)
    middle = b"".join(data[at : at + _ENTRY_BYTES] for at in kept)
    return data[: start * _ENTRY_BYTES] + middle + data[end * _ENTRY_BYTES :]
