"""Chunks with their words and vectors: written, found and removed together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.errors import StorageError
from limpet.model.chunk import ChunkDraft, ChunkQuery, ChunkSource, Source, SourceKind, Vector
from limpet.model.job import EMBED
from limpet.model.scope import Level, Partition, Scope
from limpet.model.times import from_micros, to_micros
from limpet.search import word_index
from limpet.search.catalogue import CATALOGUES, Catalogue, CatalogueRow, make_empty_catalogue
from limpet.search.filters import build_record_clauses
from limpet.search.vector_repository import SqlVectors, Unembedded
from limpet.search.word_index import PartitionRow, WordScores
from limpet.store import jobs
from limpet.store.db import Row
from limpet.store.encrypted_columns import CHUNKS, DOCUMENTS, RECORDS
from limpet.store.encryption import Cipher, RowLayout
from limpet.store.partitions import partition_params
from limpet.store.tx import Tx

if TYPE_CHECKING:
    from limpet.search.vector_cache import VectorScores
    from limpet.store.db import Array


_MESSAGE = SourceKind.MESSAGE.value
_CUT = RowLayout(CHUNKS, "hash first_sequence last_sequence text ordinal")
_CATALOGUE_ROW = RowLayout(CHUNKS, "ordinal session_id first_sequence role name created_at word_count flags kind")
_FETCHED = RowLayout(CHUNKS, "ordinal text kind - record_id document_id first_sequence last_sequence role name")
_DROPPED = RowLayout(CHUNKS, "ordinal word_count terms hash first_sequence last_sequence")
_OF_RECORD = RowLayout(RECORDS, f"{'- ' * 11} metadata - - - - - - key")
_OF_DOCUMENT = RowLayout(DOCUMENTS, f"{'- ' * 19} uri title metadata")


class StoredChunk(NamedTuple):
    """A chunk as it is shown: its text, its source, and what its record or document says about itself."""

    text: str
    source: Source
    metadata: Mapping[str, Any]


class ChunkText(NamedTuple):
    """A stored chunk's text and range, to be compared with cutting its source again."""

    hash: bytes
    first_sequence: int | None
    last_sequence: int | None
    text: str


class Chunks:
    """Chunks, their words and their vectors: always written together."""

    def __init__(self, tx: Tx) -> None:
        self._db = tx.db
        self._caches = tx.caches
        self._catalogues = tx.caches.get(CATALOGUES)
        self._encryption = tx.encryption
        self._vectors = SqlVectors(tx.db, tx.caches)
        self._tx = tx

    def ensure_partition(self, space: Partition) -> PartitionRow:
        found = self._find_partition(space, self._db.for_update)
        if found is None:
            self._db.run("partitions.add", partition_params(space))
            found = self._find_partition(space, self._db.for_update)
        if found is None:
            raise StorageError(f"the partition of {space.level} {space.owner!r} could not be created; repeat the call")
        return found

    def _find_partition(self, space: Partition, order: str = "") -> PartitionRow | None:
        seen = self._tx.seen
        if seen is None:
            found, purges = self._load_partition(space, order)
        elif space in seen:
            found, purges = seen[space]
        else:
            found, purges = seen[space] = self._load_partition(space, order)
        if found is not None and purges != self._caches.purges:
            self._evict_purged(purges)
        return found

    def _load_partition(self, space: Partition, order: str) -> tuple[PartitionRow | None, str | None]:
        """And the store's count of purges."""
        row = self._db.one("partitions.get", partition_params(space), order=order)
        if row is None:
            return None, None
        *counters, newest, model, purges = row
        found = PartitionRow(*counters)
        found.model = model
        if newest is not None:  # past those that are gone, too: an ordinal is never given out twice
            found.next_ordinal = max(found.next_ordinal, newest + 1)
        self._tx.partition_ids[space] = found.id
        return found, purges

    def _evict_purged(self, purges: str | None) -> None:
        """Somebody was purged, maybe by another process: nothing of theirs stays remembered here."""
        known = self._caches.list_partitions()
        params = {"ids": self._db.to_int_array(known)}
        for (partition_id,) in self._db.all("partitions.find_purged", params) if known else ():
            self._caches.drop_partition(partition_id)
        self._caches.purges = purges

    def evict_partition(self, space: Partition) -> None:
        """Drop what is cached of a partition that is purged."""
        partition_id = self._tx.partition_ids.pop(space, None)
        if partition_id is not None:
            self._caches.drop_partition(partition_id)

    def lock(self, space: Partition) -> None:
        """Nobody else writes records or chunks into the space until the transaction ends."""
        self.ensure_partition(space)

    def find_partition_id(self, space: Partition) -> int | None:
        known = self._tx.partition_ids.get(space)
        if known is not None:
            return known
        row = self._find_partition(space)
        return None if row is None else row.id

    def add(self, space: Partition, source: ChunkSource, drafts: Sequence[ChunkDraft]) -> int:
        """Asks for the vectors that are wanted and not there."""
        if not drafts:
            return 0
        row = self.ensure_partition(space)
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
        before, once = row.next_ordinal, source.kind is SourceKind.MESSAGE
        cipher = self._encryption.cipher_for(space.tenant)
        complete = [self._insert(row, cipher, shared, draft, once=once) for draft in drafts]
        if row.model is not None and not all(complete):
            # Also after another process has changed the model. Due since ever, whatever clock looks.
            jobs.enqueue(self._db, space, EMBED, row.model, from_micros(0))
        if row.next_ordinal - row.merged_ordinal >= word_index.MAX_TAIL:
            word_index.merge_tail(self._db, row)
            self._save_counters(row)
        return row.next_ordinal - before

    def _insert(
        self, row: PartitionRow, cipher: Cipher, shared: dict[str, Any], draft: ChunkDraft, *, once: bool
    ) -> bool:
        """Whether the chunk has a vector of the store's model now, or was there before."""
        ordinal = row.next_ordinal
        plain = {
            **shared,
            "ordinal": ordinal,
            "hash": draft.hash,
            "word_count": draft.terms.length,
            "flags": draft.traits,
            "terms": word_index.pack_terms(cipher.hash_terms(draft.terms)),
            "text": draft.text,
        }
        params = cipher.encrypt_params(CHUNKS, (row.id, ordinal), plain)
        if once:
            stored = self._db.one("chunks.insert_once", params)
            if stored is not None and stored[0] != ordinal:
                return True  # the session has this chunk already; its range now reaches here
        else:
            start = draft.offset
            end = None if start is None else start + len(draft.text)
            self._db.run("chunks.insert", {**params, "offset": start, "end_offset": end})
        row.next_ordinal += 1
        if draft.vector is None or not self._vectors.put(cipher, row, ordinal, draft.vector):
            return False
        return draft.vector.model == row.model

    def load_session_chunks(self, scope: Scope) -> list[ChunkText]:
        assert scope.user is not None
        space = Partition(scope.tenant, Level.USER, scope.user)
        return self._load_chunks(space, "chunks.texts_of_session", {"session": scope.session})

    def load_record_chunks(self, space: Partition, record_id: str) -> list[ChunkText]:
        return self._load_chunks(space, "chunks.texts_of_record", {"record": record_id})

    def _load_chunks(self, space: Partition, query: str, params: dict[str, Any]) -> list[ChunkText]:
        row = self._find_partition(space)
        if row is None:
            return []
        cipher = self._encryption.cipher_for(space.tenant)
        stored = self._db.all(query, {**row.key, **params})
        found = [cipher.decrypt_row(_CUT, (row.id, each[4]), each) for each in stored]
        return [ChunkText(bytes(hash_), first, last, text) for hash_, first, last, text, _ in found]

    def drop_session(self, scope: Scope) -> int:
        """Remove the chunks of a session's messages."""
        assert scope.user is not None
        return self._drop(
            Partition(scope.tenant, Level.USER, scope.user), "chunks.of_session", {"session": scope.session}
        )

    def drop_record(self, space: Partition, record_id: str) -> int:
        return self._drop(space, "chunks.of_record", {"record": record_id})

    def drop_document(self, space: Partition, document_id: str) -> int:
        return self._drop(space, "chunks.of_document", {"document": document_id})

    def _drop(self, space: Partition, query: str, params: dict[str, Any]) -> int:
        row = self._find_partition(space, self._db.for_update)
        gone = [] if row is None else self._db.all(query, {**row.key, **params})
        return 0 if row is None else self._drop_rows(row, gone)

    def _drop_rows(self, row: PartitionRow, gone: Sequence[Row]) -> int:
        """Chunks as (ordinal, word count, packed terms), with their words and vectors."""
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
        """Chunks that these messages said first or last. With the hashes of those that others may have said too, and
        between which sequences: those that stay are the caller's to index again."""
        assert scope.user is not None
        row = self._find_partition(Partition(scope.tenant, Level.USER, scope.user), self._db.for_update)
        if row is None:
            return 0, {}
        gone, found = set(sequences), self._db.all("purge.chunks", {**row.key, "session": scope.session})
        dropped = [each for each in found if each[4] in gone or each[5] in gone]
        cipher = self._encryption.cipher_for(scope.tenant)
        wide = (cipher.decrypt_row(_DROPPED, (row.id, each[0]), each) for each in dropped if each[5] > each[4])
        ranges = {bytes(hash_): (one, two) for _, _, _, hash_, one, two in wide}
        return self._drop_rows(row, [each[:3] for each in dropped]), ranges

    def _save_counters(self, row: PartitionRow) -> None:
        self._db.run("partitions.advance", row.counter_params())

    def load_catalogue(self, space: Partition) -> Catalogue | None:
        row = self._find_partition(space)
        return None if row is None else self._load_catalogue(space, row)

    def _load_catalogue(self, space: Partition, row: PartitionRow) -> Catalogue:
        cipher = self._encryption.cipher_for(
            space.tenant
        )  # also where all is remembered: nobody searches without the key
        remembered = self._catalogues.get(row.id)
        # A view from before something was removed has to read for itself, and is not what to remember.
        outdated = remembered is not None and remembered.removals > row.removals
        known = make_empty_catalogue(row.removals) if remembered is None or outdated else remembered
        if known.removals < row.removals:
            known = known.filter_ordinals(self._load_ordinals(row), row.removals)
        if known.last_ordinal + 1 < row.next_ordinal:
            stored = self._db.all("chunks.catalogue", row.tail_params(known.last_ordinal + 1))
            found = (cipher.decrypt_row(_CATALOGUE_ROW, (row.id, each[0]), each) for each in stored)
            known = known.append_rows([CatalogueRow(*each) for each in found])
        if known is not remembered and not outdated:
            self._catalogues.put(row.id, known)
        # Somebody with a later view may have added what this one does not see.
        return known if known.last_ordinal < row.next_ordinal else known.truncate(row.next_ordinal)

    def _load_ordinals(self, row: PartitionRow) -> Array:
        import numpy as np  # late: most commands never search

        return np.array([ordinal for (ordinal,) in self._db.all("chunks.ordinals", row.key)], dtype="i8")

    def names(self, space: Partition) -> tuple[str, ...]:
        """Everybody who spoke under a name."""
        catalogue = self.load_catalogue(space)
        return () if catalogue is None else catalogue.names

    def score_words(
        self, space: Partition, weights: Mapping[int, float], beside: frozenset[int], k1: float, b: float
    ) -> WordScores | None:
        """Terms ``beside`` the point count for the scores, but not for how much of the question is covered."""
        row = self._find_partition(space)
        return (
            None
            if row is None
            else word_index.score_bm25(self._db, row, weights, beside, k1, b, self._encryption.cipher_for(space.tenant))
        )

    def match_query(self, space: Partition, query: ChunkQuery) -> list[int] | None:
        """The ordinals the filters leave, or None when they leave all."""
        row = self._find_partition(space)
        where, params = _build_filters(query, self._encryption.cipher_for(space.tenant))
        if row is None or not where:
            return None
        return [ordinal for (ordinal,) in self._db.all("chunks.allowed", {**row.key, **params}, where=where)]

    def find_invalid(self, space: Partition, now: datetime) -> list[int]:
        """The ordinals of records that have ended or not begun."""
        row = self._find_partition(space)
        if row is None:
            return []
        return [ordinal for (ordinal,) in self._db.all("chunks.invalid", {**row.key, "now": to_micros(now)})]

    def read(
        self, space: Partition, ordinals: Sequence[int], as_of: datetime | None, now: datetime
    ) -> dict[int, StoredChunk]:
        """The chunks with these ordinals, without records that are not true at the moment."""
        row = self._find_partition(space)
        if row is None:
            return {}
        params, moment = {**row.key, "ordinals": self._db.to_int_array(ordinals)}, to_micros(now)
        cipher = self._encryption.cipher_for(space.tenant)
        return {
            chunk[0]: _parse_chunk(_decrypt_chunk(cipher, row.id, chunk))
            for chunk in self._db.all("chunks.fetch", params)
            if as_of is not None or _is_current(chunk, moment)
        }

    # Vectors

    def score_vectors(self, space: Partition, question: Vector) -> VectorScores | None:
        """Cosines with every chunk of the catalogue, quickly; None when none has a vector of the question's model."""
        row = self._find_partition(space)
        return (
            None
            if row is None
            else self._vectors.score_vectors(
                self._encryption.cipher_for(space.tenant), row, self._load_catalogue(space, row), question
            )
        )

    def compute_cosines(self, space: Partition, question: Vector, ordinals: Sequence[int]) -> dict[int, float]:
        """Cosines with some chunks, exactly."""
        row = self._find_partition(space)
        return (
            {}
            if row is None
            else self._vectors.compute_cosines(self._encryption.cipher_for(space.tenant), row, question, ordinals)
        )

    def find_without_vector(self, space: Partition, model: str, after: int, limit: int) -> list[Unembedded]:
        """Chunks after an ordinal that have no vector of this model."""
        row = self._find_partition(space)
        return (
            []
            if row is None
            else self._vectors.find_without_vector(self._encryption.cipher_for(space.tenant), row, model, after, limit)
        )

    def put_vectors(self, space: Partition, vectors: Mapping[int, Vector]) -> bool:
        """Vectors that come later than their chunks, by ordinal. False when the model has another dimension."""
        row = self._find_partition(space, self._db.for_update)
        return row is None or self._vectors.put_late(self._encryption.cipher_for(space.tenant), row, vectors)


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
    valid_from, valid_to, superseded_by, expires_at = chunk[12:16]
    if valid_from is None:
        return True  # no record's
    begun = valid_from <= now
    ended = any(end is not None and end <= now for end in (valid_to, expires_at))
    return begun and not ended and superseded_by is None


def _decrypt_chunk(cipher: Cipher, partition_id: int, chunk: Row) -> Row:
    """A row of ``chunks.fetch``: of a chunk, and of the record or document it is from."""
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
        name=name,
        uri=uri,
        offset=first if of_document else None,
        end_offset=last if of_document else None,
    )
    if of_document:
        about = {**json.loads(about_document), "uri": uri} | ({"title": title} if title else {})
    else:
        about = {**json.loads(about_record), "layer": layer, "type": type_} | ({"key": key} if key else {})
    return StoredChunk(text, source, about)
