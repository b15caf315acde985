"""The word index as plain rows.

Each chunk stores its own terms. The newest chunks of a partition, its *tail*, are searched through those. A long tail
is merged into postings: for each term, blocks of (ordinal, count, length) by ordinal. A search reads the blocks of its
terms and the tail, so its cost depends on the partition and not on the rest of the database.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from limpet.search.analysis import unpack_terms
from limpet.store.tx import Db, Params, Row

if TYPE_CHECKING:
    from limpet.search.chunk_repository import PartitionRow

# Long enough that a merge writes several postings per row, short enough to scan quickly.
MAX_TAIL = 512
BLOCK_ENTRIES = 256
_ENTRY_BYTES = 8
MAX_LENGTH = 0xFFFF


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
            entries[term] += struct.pack("<II", ordinal, count << 16 | min(length, MAX_LENGTH))
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
