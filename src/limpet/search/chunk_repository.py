"""Chunks with their words and vectors, always written, read and removed together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from limpet.errors import StorageError
from limpet.model.chunk import ChunkDraft, ChunkQuery, ChunkSource, Source, SourceKind, Vector
from limpet.model.job import EMBED
from limpet.model.scope import Level, Partition, Scope
from limpet.model.values import from_micros, to_micros
from limpet.search import word_index
from limpet.search.catalogue import CATALOGUES, Catalogue, CatalogueRow, make_empty_catalogue
from limpet.search.filters import build_record_clauses
from limpet.search.vectors import Unembedded, Vectors, VectorScores
from limpet.search.word_index import PartitionRow, WordScores
from limpet.store.encryption import Cipher, RowLayout
from limpet.store.jobs import Jobs
from limpet.store.tables import CHUNKS, DOCUMENTS, RECORDS
from limpet.store.tx import Array, Row, Tx, partition_params

_MESSAGE = SourceKind.MESSAGE.value
_CUT = RowLayout(CHUNKS, "hash first_sequence last_sequence text ordinal")
_CATALOGUE_ROW = RowLayout(CHUNKS, "ordinal session_id first_sequence role name created_at word_count flags kind")
_FETCHED = RowLayout(CHUNKS, "ordinal text kind - record_id document_id first_sequence last_sequence role name")
_DROPPED = RowLayout(CHUNKS, "ordinal word_count terms hash first_sequence last_sequence")
_OF_RECORD = RowLayout(RECORDS, f"{'- ' * 11} metadata - - - - - - key")
_OF_DOCUMENT = RowLayout(DOCUMENTS, f"{'- ' * 19} uri title metadata")


class StoredChunk(NamedTuple):
    """A chunk for display: its text, its source, and the fields of its record or document."""

    text: str
    source: Source
    metadata: Mapping[str, Any]


class ChunkText(NamedTuple):
    """The text and range of a stored chunk, to compare with a new split of its source."""

    hash: bytes
    first_sequence: int | None
    last_sequence: int | None
    text: str


class Chunks:
    """Chunks, their words and their vectors, always written together."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._db = tx.db

    def _cipher(self, partition: Partition) -> Cipher:
        return self._tx.encryption.cipher_for(partition.tenant)

    def _vectors(self, partition: Partition, row: PartitionRow) -> Vectors:
        return Vectors(self._tx, row, self._cipher(partition))

    def ensure_partition(self, partition: Partition) -> PartitionRow:
        found = self._find_partition(partition, self._db.for_update)
        if found is None:
            self._db.run("partitions.add", partition_params(partition))
            found = self._find_partition(partition, self._db.for_update)
        if found is None:
            raise StorageError(
                f"the partition of {partition.level} {partition.owner!r} could not be created; retry the call"
            )
        return found

    def _find_partition(self, partition: Partition, order: str = "") -> PartitionRow | None:
        seen = self._tx.seen
        if seen is None:
            found, purges = self._load_partition(partition, order)
        elif partition in seen:
            found, purges = seen[partition]
        else:
            found, purges = seen[partition] = self._load_partition(partition, order)
        if found is not None and purges != self._tx.caches.purges:
            self._evict_purged(purges)
        return found

    def _load_partition(self, partition: Partition, order: str) -> tuple[PartitionRow | None, str | None]:
        """Return the partition and the store's purge counter."""
        row = self._db.one("partitions.get", partition_params(partition), order=order)
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
        """After a purge, maybe by another process, evict the purged partitions from the caches."""
        known = self._tx.caches.list_partitions()
        params = {"ids": self._db.to_array(known)}
        for (partition_id,) in self._db.all("partitions.find_purged", params) if known else ():
            self._tx.caches.drop_partition(partition_id)
        self._tx.caches.purges = purges

    def evict_partition(self, partition: Partition) -> None:
        """Evict a purged partition from the caches."""
        partition_id = self._tx.partition_ids.pop(partition, None)
        if partition_id is not None:
            self._tx.caches.drop_partition(partition_id)

    def lock(self, partition: Partition) -> None:
        """Lock the partition: no other transaction writes records or chunks into it until this one ends."""
        self.ensure_partition(partition)

    def find_partition_id(self, partition: Partition) -> int | None:
        known = self._tx.partition_ids.get(partition)
        if known is not None:
            return known
        row = self._find_partition(partition)
        return None if row is None else row.id

    def add(self, partition: Partition, source: ChunkSource, drafts: Sequence[ChunkDraft]) -> int:
        """Add chunks, and enqueue a job for missing vectors."""
        if not drafts:
            return 0
        row = self.ensure_partition(partition)
        shared = {
            **row.key,
            "kind": source.kind.value,
            "session": source.session_id if source.kind is SourceKind.MESSAGE else None,
            "record": source.id if source.kind is SourceKind.RECORD else None,
            "document": source.id if source.kind is SourceKind.DOCUMENT else None,
            "sequence": source.sequence,
            "role": source.role,
            "name": source.name,
            "created_at": to_micros(source.created_at),
            "worded_at": to_micros(source.worded_at or source.created_at),
        }
        before, cipher = row.next_ordinal, self._cipher(partition)
        vectors = Vectors(self._tx, row, cipher)
        complete = [self._insert(row, cipher, vectors, shared, draft) for draft in drafts]
        if row.model is not None and not all(complete):
            # Also after another process changed the model. Always due, whatever the clock says.
            Jobs(self._tx).enqueue(partition, EMBED, row.model, source.created_at, from_micros(0))
        if row.next_ordinal - row.merged_ordinal >= word_index.MAX_TAIL:
            word_index.merge_tail(self._db, row)
            self._save_counters(row)
        return row.next_ordinal - before

    def _insert(
        self, row: PartitionRow, cipher: Cipher, vectors: Vectors, shared: dict[str, Any], draft: ChunkDraft
    ) -> bool:
        """Return whether the chunk now has a vector of the store's model, or already existed."""
        ordinal = row.next_ordinal
        plain = {
            **shared,
            "ordinal": ordinal,
            "hash": draft.hash,
            "word_count": draft.terms.length,
            "flags": draft.flags,
            "terms": word_index.pack_terms(cipher.hash_terms(draft.terms)),
            "text": draft.text,
        }
        params = cipher.encrypt_params(CHUNKS, (row.id, ordinal), plain)
        if shared["kind"] == _MESSAGE:
            stored = self._db.one("chunks.insert_once", params)
            if stored is not None and stored[0] != ordinal:
                return True  # the session already has this chunk; its range is extended
        else:
            start = draft.offset
            end = None if start is None else start + len(draft.text)
            self._db.run("chunks.insert", {**params, "offset": start, "end_offset": end})
        row.next_ordinal += 1
        if draft.vector is None or not vectors.put(ordinal, draft.vector):
            return False
        return draft.vector.model == row.model

    def load_session_chunks(self, scope: Scope) -> list[ChunkText]:
        assert scope.user is not None
        partition = Partition(scope.tenant, Level.USER, scope.user)
        return self._load_chunks(partition, "session_id = :id", scope.session)

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
        """Remove the chunks of a session's messages."""
        assert scope.user is not None
        partition = Partition(scope.tenant, Level.USER, scope.user)
        return self._drop(partition, "session_id = :id", scope.session)

    def drop_record(self, partition: Partition, record_id: str) -> int:
        return self._drop(partition, "record_id = :id", record_id)

    def drop_records(self, partition: Partition, record_ids: Sequence[str]) -> int:
        """Of many at once: every removal writes the rows of its words again."""
        row = self._find_partition(partition, self._db.for_update)
        if row is None:
            return 0
        params = {**row.key, "ids": self._db.to_array(record_ids)}
        return self._drop_rows(row, self._db.all("chunks.terms", params, where="record_id IN :ids[]"))

    def drop_document(self, partition: Partition, document_id: str) -> int:
        return self._drop(partition, "document_id = :id", document_id)

    def _drop(self, partition: Partition, where: str, id_: str | None) -> int:
        row = self._find_partition(partition, self._db.for_update)
        if row is None:
            return 0
        return self._drop_rows(row, self._db.all("chunks.terms", {**row.key, "id": id_}, where=where))

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
        assert scope.user is not None
        row = self._find_partition(Partition(scope.tenant, Level.USER, scope.user), self._db.for_update)
        if row is None:
            return 0, {}
        gone, found = set(sequences), self._db.all("purge.chunks", {**row.key, "session": scope.session})
        dropped = [each for each in found if each[4] in gone or each[5] in gone]
        cipher = self._tx.encryption.cipher_for(scope.tenant)
        wide = (cipher.decrypt_row(_DROPPED, (row.id, each[0]), each) for each in dropped if each[5] > each[4])
        ranges = {bytes(hash_): (one, two) for _, _, _, hash_, one, two in wide}
        return self._drop_rows(row, [each[:3] for each in dropped]), ranges

    def _save_counters(self, row: PartitionRow) -> None:
        self._db.run("partitions.advance", row.counter_params())

    def load_catalogue(self, partition: Partition) -> Catalogue | None:
        row = self._find_partition(partition)
        return None if row is None else self._load_catalogue(partition, row)

    def _load_catalogue(self, partition: Partition, row: PartitionRow) -> Catalogue:
        cipher = self._cipher(partition)  # also if all is cached: a search needs the key
        cache = self._tx.caches.get(CATALOGUES)
        cached = cache.get(row.id)
        # A snapshot from before a removal must load its own catalogue, which is not cached.
        outdated = cached is not None and cached.removals > row.removals
        known = make_empty_catalogue(row.removals) if cached is None or outdated else cached
        if known.removals < row.removals:
            known = known.filter_ordinals(self._load_ordinals(row), row.removals)
        if known.last_ordinal + 1 < row.next_ordinal:
            stored = self._db.all("chunks.catalogue", row.tail_params(known.last_ordinal + 1))
            found = (cipher.decrypt_row(_CATALOGUE_ROW, (row.id, each[0]), each) for each in stored)
            known = known.append_rows([CatalogueRow(*each) for each in found])
        if known is not cached and not outdated:
            cache.put(row.id, known)
        # A later snapshot may have added what this one does not see.
        return known if known.last_ordinal < row.next_ordinal else known.truncate(row.next_ordinal)

    def _load_ordinals(self, row: PartitionRow) -> Array:
        import numpy as np  # late: most commands never search

        return np.array([ordinal for (ordinal,) in self._db.all("chunks.ordinals", row.key)], dtype="i8")

    def names(self, partition: Partition) -> tuple[str, ...]:
        """Return the names of all named speakers."""
        catalogue = self.load_catalogue(partition)
        return () if catalogue is None else catalogue.names

    def score_words(
        self, partition: Partition, weights: Mapping[int, float], optional: frozenset[int], k1: float, b: float
    ) -> WordScores | None:
        """``optional`` terms count for scores, but not for how much of the question is covered."""
        row = self._find_partition(partition)
        if row is None:
            return None
        return word_index.score_bm25(self._db, row, weights, optional, k1, b, self._cipher(partition))

    def match_query(self, partition: Partition, query: ChunkQuery) -> list[int] | None:
        """Return the ordinals that match the filters, or None if all match."""
        row = self._find_partition(partition)
        where, params = _build_filters(query, self._cipher(partition))
        if row is None or not where:
            return None
        return [ordinal for (ordinal,) in self._db.all("chunks.allowed", {**row.key, **params}, where=where)]

    def find_invalid(self, partition: Partition, now: datetime) -> list[int]:
        """Return the ordinals of records that have ended or not started."""
        row = self._find_partition(partition)
        if row is None:
            return []
        return [ordinal for (ordinal,) in self._db.all("chunks.invalid", {**row.key, "now": to_micros(now)})]

    def read(
        self, partition: Partition, ordinals: Sequence[int], as_of: datetime | None, now: datetime
    ) -> dict[int, StoredChunk]:
        """Return the chunks with these ordinals, without records that are not valid at the time."""
        row = self._find_partition(partition)
        if row is None:
            return {}
        params, moment = {**row.key, "ordinals": self._db.to_array(ordinals)}, to_micros(now)
        cipher = self._cipher(partition)
        return {
            chunk[0]: _parse_chunk(_decrypt_chunk(cipher, row.id, chunk))
            for chunk in self._db.all("chunks.fetch", params)
            if as_of is not None or _is_current(chunk, moment)
        }

    # Vectors

    def score_vectors(self, partition: Partition, question: Vector) -> VectorScores | None:
        """Return fast cosines for every chunk of the catalogue; None if none has a vector of the question's model."""
        row = self._find_partition(partition)
        if row is None:
            return None
        return self._vectors(partition, row).score(self._load_catalogue(partition, row).ordinals, question)

    def compute_cosines(self, partition: Partition, question: Vector, ordinals: Sequence[int]) -> dict[int, float]:
        """Return exact cosines for some chunks."""
        row = self._find_partition(partition)
        return {} if row is None else self._vectors(partition, row).compute_cosines(question, ordinals)

    def find_without_vector(self, partition: Partition, model: str, after: int, limit: int) -> list[Unembedded]:
        """Return chunks after an ordinal that have no vector of this model."""
        row = self._find_partition(partition)
        return [] if row is None else self._vectors(partition, row).find_missing(model, after, limit)

    def put_vectors(self, partition: Partition, vectors: Mapping[int, Vector]) -> bool:
        """Store vectors for existing chunks, by ordinal. Return False if the model has another dimension."""
        row = self._find_partition(partition, self._db.for_update)
        return row is None or self._vectors(partition, row).put_late(vectors)


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
