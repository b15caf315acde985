"""Chunks with their words and vectors, always written, read and removed together."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from limpet.errors import StorageError
from limpet.model.chunk import ChunkDraft, ChunkSource, SourceKind, Vector
from limpet.model.dataclass import dataclass
from limpet.model.job import EMBED
from limpet.model.scope import Partition, Scope
from limpet.model.values import from_micros, to_micros
from limpet.search import word_index
from limpet.search.analysis import pack_terms
from limpet.search.catalogue import NAME
from limpet.search.index import SearchIndex
from limpet.search.vectors import pack_vector
from limpet.store.encryption import RowLayout
from limpet.store.jobs import Jobs
from limpet.store.tables import CHUNKS, VECTORS
from limpet.store.tx import (
    CacheKind,
    Cipher,
    Params,
    Partitions,
    Query,
    Repository,
    Row,
    partition_key,
    partition_params,
)

log = logging.getLogger("limpet.store")

_MESSAGE = SourceKind.MESSAGE.value
_MAX_DROPPED = 100  # chunks that one slice removes
_CUT = RowLayout(CHUNKS, "hash first_sequence last_sequence text ordinal")
_UNEMBEDDED = RowLayout(CHUNKS, "ordinal text")
_DROPPED = RowLayout(CHUNKS, "ordinal word_count terms hash first_sequence last_sequence")


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


class Unembedded(NamedTuple):
    """A chunk that has no vector of a model."""

    ordinal: int
    text: str


class ChunkText(NamedTuple):
    """The text and range of a stored chunk, to compare with a new split of its source."""

    hash: bytes
    first_sequence: int | None
    last_sequence: int | None
    text: str


class SpeakerNames(NamedTuple):
    """The names of a partition's speakers, in the order of their first message, as of an ordinal."""

    removals: int
    next_ordinal: int
    names: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        return 200 + 2 * sum(map(len, self.names))


NAMES: CacheKind[SpeakerNames] = CacheKind("names", 1 / 64)


class Chunks(Repository):
    """Chunks, their words and their vectors, always written together."""

    def lock_partition(self, partition: Partition) -> PartitionRow:
        """Return the partition's row, created where it is missing, locked until the transaction ends."""
        found = self._find_partition(partition, lock=True)
        if found is None:
            self._tx.locked.discard(partition)
            self._db.run("partitions.add", partition_params(partition))
            found = self._find_partition(partition, lock=True)
        if found is None:
            raise StorageError(
                f"the partition of {partition.level} {partition.owner!r} could not be created; retry the call"
            )
        return found

    def _find_partition(self, partition: Partition, *, lock: bool = False) -> PartitionRow | None:
        seen = self._tx.seen
        if seen is None:
            locked: PartitionRow | None = self._tx.locked_rows.get(partition)
            if locked is not None:
                return locked
            if lock:
                self.lock_and_read(partition)
                return self._tx.locked_rows.get(partition)
            found, purges = self._load_partition(partition)
        elif partition in seen:
            found, purges = seen[partition]
        else:
            found, purges = seen[partition] = self._load_partition(partition)
        if found is not None and purges != self._tx.caches.purges:
            self._evict_purged(purges)
        return found

    def lock_and_read(self, partition: Partition, *queries: Query) -> list[list[Row]]:
        """Lock the partition, read its row and these, in one message to the server. Return the rows of these."""
        if partition in self._tx.locked_rows:
            return self._db.all_together(queries)
        # Locked first: the newest ordinal is of another table, which this row's lock does not read again.
        own = Query("partitions.get", partition_params(partition))
        rows, *found = Partitions(self._tx).lock_and_read(partition, [own, *queries])
        if rows and Partitions(self._tx).needs_lock(partition):  # another writer has just created it
            return self.lock_and_read(partition, *queries)
        row, purges = self._parse_partition(partition, rows[0] if rows else None)
        if row is not None:
            self._tx.locked_rows[partition] = row
            if purges != self._tx.caches.purges:
                self._evict_purged(purges)
        return found

    def _load_partition(self, partition: Partition) -> tuple[PartitionRow | None, str | None]:
        """Return the partition and the store's purge counter."""
        return self._parse_partition(partition, self._db.one("partitions.get", partition_params(partition)))

    def load_partitions(self, partitions: Sequence[Partition]) -> None:
        """Read these at once, for what follows in a transaction that reads."""
        seen = self._tx.seen
        missing = [] if seen is None else [each for each in dict.fromkeys(partitions) if each not in seen]
        found = self._db.all_together([Query("partitions.get", partition_params(each)) for each in missing])
        for partition, rows in zip(missing, found, strict=True):
            assert seen is not None
            seen[partition] = self._parse_partition(partition, rows[0] if rows else None)

    def _parse_partition(self, partition: Partition, row: Row | None) -> tuple[PartitionRow | None, str | None]:
        if row is None:
            return None, None
        *counters, newest, model, purges = row
        found = PartitionRow(*counters)
        found.model = model
        if newest is not None:  # includes removed ones: an ordinal is never reused
            found.next_ordinal = max(found.next_ordinal, newest + 1)
        self._tx.partition_ids[partition] = found.id
        return found, purges

    def _evict_purged(self, purges: str | None) -> None:
        """After a purge, maybe by another process, evict the purged partitions from the caches, and all texts soon."""
        self._tx.caches.has_purged_texts = True
        known = self._tx.caches.list_partitions()
        params = {"ids": self._db.to_array(known)}
        for (partition_id,) in self._db.all("partitions.find_purged", params) if known else ():
            self._tx.caches.drop_partition(partition_id)
        self._tx.caches.purges = purges

    def evict_partition(self, partition: Partition) -> None:
        self._tx.locked.discard(partition)
        self._tx.locked_rows.pop(partition, None)
        partition_id = self._tx.partition_ids.pop(partition, None)
        if partition_id is not None:
            self._tx.caches.drop_partition(partition_id)

    def lock(self, partition: Partition) -> None:
        """Lock the partition: no other transaction writes records or chunks into it until this one ends."""
        self.lock_partition(partition)

    def find_partition_id(self, partition: Partition) -> int | None:
        known = self._tx.partition_ids.get(partition)
        if known is not None:
            return known
        row = self._find_partition(partition)
        return None if row is None else row.id

    def count_removals(self, partition: Partition) -> int:
        """How often chunks were removed: more than before means that something was forgotten or cleared since."""
        row = self._find_partition(partition)
        return 0 if row is None else row.removals

    def add(self, partition: Partition, source: ChunkSource, drafts: Sequence[ChunkDraft]) -> None:
        """Add chunks, and enqueue a job for missing vectors."""
        if not drafts:
            return
        row, created_at = self.lock_partition(partition), to_micros(source.created_at)
        shared = {
            **row.key,
            "kind": source.kind.value,
            "session": source.session_id if source.kind is SourceKind.MESSAGE else None,
            "record": source.id if source.kind is SourceKind.RECORD else None,
            "document": source.id if source.kind is SourceKind.DOCUMENT else None,
            "version": source.version,
            "sequence": source.sequence,
            "role": source.role,
            "name": source.name,
            "created_at": created_at,
            "worded_at": created_at if source.worded_at is None else to_micros(source.worded_at),
        }
        cipher = self._cipher(partition)
        complete = [self._insert(row, cipher, shared, draft) for draft in drafts]
        if row.model is not None and not all(complete):
            # Also after another process changed the model. Always due, whatever the clock says.
            Jobs(self._tx).enqueue(partition, EMBED, row.model, source.created_at, from_micros(0))
        if row.next_ordinal - row.merged_ordinal >= word_index.MAX_TAIL:
            # As much as this adds, or the tail would grow; and no more than others can wait for.
            added = sum(len(draft.terms.counts) for draft in drafts)
            word_index.merge_tail(self._db, row, max(added, word_index.MAX_MERGED))
            self._save_counters(row)

    def merge_tail(self, partition: Partition) -> bool:
        """Merge some of a tail that a search would scan for long. Return whether it is short now."""
        row = self.lock_partition(partition)
        if row.next_ordinal - row.merged_ordinal < word_index.MAX_TAIL // 4:
            return True
        word_index.merge_tail(self._db, row, word_index.MAX_MERGED)
        self._save_counters(row)
        return False

    def _insert(self, row: PartitionRow, cipher: Cipher, shared: dict[str, Any], draft: ChunkDraft) -> bool:
        """Return whether the chunk comes with a vector of the store's model."""
        ordinal = row.next_ordinal
        plain = {
            **shared,
            "ordinal": ordinal,
            "hash": draft.hash,
            "word_count": draft.terms.length,
            "flags": draft.flags,
            "terms": pack_terms(cipher.hash_terms(draft.terms)),
            "text": draft.text,
        }
        params = cipher.encrypt_params(CHUNKS, (row.id, ordinal), plain)
        if shared["kind"] == _MESSAGE:
            self._db.run_later("chunks.insert_once", params)  # where the session has the text, the ordinal stays free
        else:
            start = draft.offset
            end = None if start is None else start + len(draft.text)
            self._db.run_later("chunks.insert", {**params, "offset": start, "end_offset": end})
        row.next_ordinal += 1
        if draft.vector is None or not self._put_vector(row, cipher, ordinal, draft.vector):
            return False
        return draft.vector.model == row.model

    def load_session_chunks(self, scope: Scope) -> list[ChunkText]:
        return self._load_chunks(scope.partition, "session_id = :id", scope.session)

    def load_record_chunks(self, partition: Partition, record_id: str) -> list[ChunkText]:
        return self._load_chunks(partition, "record_id = :id", record_id)

    def _load_chunks(self, partition: Partition, where: str, id_: str | None) -> list[ChunkText]:
        row = self._find_partition(partition)
        if row is None:
            return []
        cipher = self._cipher(partition)
        stored = self._db.all("chunks.texts", {**row.key, "id": id_}, where=where)
        found = [cipher.decrypt_row(_CUT, (row.id, each[4]), each) for each in stored]
        return [ChunkText(bytes(hash_), first, last, text) for hash_, first, last, text, _ in found]

    def drop_session(self, scope: Scope) -> int:
        return self._drop(scope.partition, "session_id = :id", id=scope.session)

    def drop_record(self, partition: Partition, record_id: str) -> int:
        return self._drop(partition, "record_id = :id", id=record_id)

    def drop_records(self, partition: Partition, record_ids: Sequence[str]) -> int:
        """Of many at once: every removal writes the rows of its words again."""
        return self._drop(partition, "record_id IN :ids[]", ids=self._db.to_array(record_ids))

    def drop_versions(self, partition: Partition, document_id: str, below: int) -> tuple[int, bool]:
        """Remove chunks of a document: some of those of versions below a number that are not to be seen.

        Return how many, and whether none is left.
        """
        where = (
            "document_id = :id AND version < :below AND version NOT IN (SELECT d.version FROM documents d"
            " WHERE d.bucket = :bucket AND d.partition_id = :partition_id AND d.id = :id AND d.version IS NOT NULL)"
        )
        order = "ORDER BY version, ordinal LIMIT :limit"
        return self._drop_some(partition, where, order, id=document_id, below=below)

    def drop_session_slice(self, partition: Partition, session: str) -> tuple[int, bool]:
        """Remove some chunks of a session's messages. Return how many, and whether none is left."""
        # The plus: not by the index of ordinals, which holds all of the partition.
        return self._drop_some(partition, "session_id = :id", "ORDER BY +ordinal LIMIT :limit", id=session)

    def _drop_some(self, partition: Partition, where: str, order: str, **params: Any) -> tuple[int, bool]:
        row = self._find_partition(partition, lock=True)
        if row is None:
            return 0, True
        page = {**row.key, **params, "limit": _MAX_DROPPED + 1}
        found = self._db.all("chunks.terms", page, where=where, order=order)
        gone = word_index.take_entries(found[:_MAX_DROPPED], word_index.MAX_ENTRIES)
        return self._drop_rows(row, gone), len(gone) == len(found)

    def count_version(self, partition: Partition, document_id: str, version: int) -> int:
        row = self._find_partition(partition)
        params = {"id": document_id, "version": version}
        found = None if row is None else self._db.one("chunks.count_version", {**row.key, **params})
        return 0 if found is None else int(found[0])

    def _drop(self, partition: Partition, where: str, **params: Any) -> int:
        row = self._find_partition(partition, lock=True)
        if row is None:
            return 0
        return self._drop_rows(row, self._db.all("chunks.terms", {**row.key, **params}, where=where))

    def _drop_rows(self, row: PartitionRow, gone: Sequence[Row]) -> int:
        """Remove chunks, given as (ordinal, word count, packed terms), with their words and vectors."""
        if not gone:
            return 0
        word_index.remove_chunks(self._db, row, gone)
        row.removals += 1
        keys = [{**row.key, "ordinal": ordinal} for ordinal, _, _ in gone]
        self._db.run_many("vectors.delete", keys)
        self._db.run_many("chunks.delete", keys)
        self._save_counters(row)
        return len(gone)

    def drop_messages(self, scope: Scope, sequences: Sequence[int]) -> tuple[int, dict[bytes, tuple[int, int]]]:
        """Remove chunks that start or end at these messages.

        Return the hashes and ranges of those that other messages may share: the caller must index them again.
        """
        row = self._find_partition(scope.partition, lock=True)
        if row is None or not sequences:
            return 0, {}
        gone, found = set(sequences), self._db.all("purge.chunks", _range_params(row, scope, sequences))
        dropped = [each for each in found if each[4] in gone or each[5] in gone]
        cipher = self._cipher(scope)
        wide = (cipher.decrypt_row(_DROPPED, (row.id, each[0]), each) for each in dropped if each[5] > each[4])
        ranges = {bytes(hash_): (one, two) for _, _, _, hash_, one, two in wide}
        return self._drop_rows(row, [each[:3] for each in dropped]), ranges

    def take_messages(self, scope: Scope, sequences: Sequence[int]) -> Sequence[int]:
        """Return the first of these messages whose chunks one transaction may drop, at least one of them."""
        row = self._find_partition(scope.partition)
        if row is None or not sequences:
            return sequences
        sizes: Counter[int] = Counter()
        for first, last, size in self._db.all("purge.chunk_sizes", _range_params(row, scope, sequences)):
            sizes.update({sequence: word_index.count_entries(size) for sequence in (first, last)})
        total = 0
        for at, sequence in enumerate(sequences):
            total += sizes[sequence]
            if total > word_index.MAX_ENTRIES and at:
                return sequences[:at]
        return sequences

    def _save_counters(self, row: PartitionRow) -> None:
        self._db.run_later("partitions.advance", row.counter_params())

    def open_index(
        self, partition: Partition, expect: Callable[[PartitionRow, Cipher], Sequence[Query]] | None = None
    ) -> SearchIndex | None:
        """Return what a search reads of the partition; None if nothing was ever stored there.

        ``expect`` returns what will be read of it: over a network that is sent along.
        """
        row = self._find_partition(partition)
        if row is None:
            return None
        cipher = self._cipher(partition)
        if expect is not None and self._db.is_remote:
            self._db.prefetch(expect(row, cipher))
        return SearchIndex(self._tx, partition, row, cipher)

    def open_indexes(self, partitions: Sequence[Partition]) -> list[SearchIndex | None]:
        """The same of several, whose rows are read at once."""
        self.load_partitions(partitions)
        return [self.open_index(partition) for partition in partitions]

    def names(self, partition: Partition) -> tuple[str, ...]:
        """Return the names of all named speakers.

        A message to embed needs no more, and to grow a catalogue copies it: that waits for a search.
        """
        row = self._find_partition(partition)
        if row is None:
            return ()
        cache, cipher = self._tx.caches.get(NAMES), self._cipher(partition)
        known = cache.get(row.id)
        if known is None or known.removals != row.removals:
            names = SearchIndex(self._tx, partition, row, cipher).catalogue.names
        else:
            said = self._db.all("chunks.names", row.tail_params(known.next_ordinal))
            new = (cipher.decrypt_row(NAME, (row.id, ordinal), (name,))[0] for ordinal, name in said)
            names = tuple(dict.fromkeys([*known.names, *new]))
        cache.put(row.id, SpeakerNames(row.removals, row.next_ordinal, names))
        return names

    # Vectors

    def _put_vector(self, row: PartitionRow, cipher: Cipher, ordinal: int, vector: Vector) -> bool:
        """Store a new chunk's vector in the chunk's transaction. Return False if its dimension does not match."""
        model_id = self._ensure_model(vector)
        if model_id is None:
            return False
        self._db.run_later("vectors.put", self._vector_params(row, cipher, ordinal, model_id, vector))
        return True

    def _vector_params(self, row: PartitionRow, cipher: Cipher, ordinal: int, model_id: int, vector: Vector) -> Params:
        params = {**row.key, "ordinal": ordinal, "model_id": model_id, "vector": pack_vector(vector.values)}
        return cipher.encrypt_params(VECTORS, (row.id, ordinal, model_id), params)

    def _ensure_model(self, vector: Vector) -> int | None:
        """Return the model's number; None if the dimension differs, and the text is stored without a vector."""
        row = self._tx.caches.models.get(vector.model) or self._find_model(vector)
        if row is None or row[1] != len(vector.values):
            log.warning(
                "the model %r returned %d dimensions instead of %s: use another name for a changed model",
                vector.model,
                len(vector.values),
                row and row[1],
            )
            return None
        return int(row[0])

    def _find_model(self, vector: Vector) -> Row | None:
        """The model's number and dimension. It is cached where it was there before this transaction, which may fail."""
        row = self._db.one("models.get", {"name": vector.model})
        if row is None:
            self._tx.new_models.add(vector.model)
            self._db.run("models.add", {"name": vector.model, "dimension": len(vector.values)})
            return self._db.one("models.get", {"name": vector.model})
        if vector.model not in self._tx.new_models:
            self._tx.caches.models[vector.model] = row
        return row

    def put_vectors(self, partition: Partition, vectors: Mapping[int, Vector]) -> bool:
        """Store vectors for existing chunks, by ordinal. Return False if the model has another dimension."""
        row, cipher = self._find_partition(partition, lock=True), self._cipher(partition)
        if row is None:
            return True
        puts = [
            self._vector_params(row, cipher, ordinal, model_id, vector)
            for ordinal, vector in sorted(vectors.items())
            if (model_id := self._ensure_model(vector)) is not None
        ]
        if puts:
            self._db.run_many("vectors.put", puts)
            low, high = puts[0]["ordinal"], puts[-1]["ordinal"] + 1
            self._db.run("vectors.add_late", {**row.key, "low": low, "high": high})
        return len(puts) == len(vectors)

    def find_without_vector(self, partition: Partition, model: str, after: int, limit: int) -> list[Unembedded]:
        """Return chunks after an ordinal that have no vector of this model."""
        row, cipher = self._find_partition(partition), self._cipher(partition)
        if row is None:
            return []
        stored = self._db.one("models.get", {"name": model})
        model_id = -1 if stored is None else stored[0]
        params = {**row.tail_params(after + 1), "model_id": model_id, "limit": limit}
        rows = self._db.all("chunks.unembedded", params)
        return [Unembedded(*cipher.decrypt_row(_UNEMBEDDED, (row.id, each[0]), each)) for each in rows]


def _range_params(row: PartitionRow, scope: Scope, sequences: Sequence[int]) -> dict[str, Any]:
    return {**row.key, "session": scope.session, "low": min(sequences), "high": max(sequences)}
