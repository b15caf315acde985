"""What the doctor checks in features: chunks against their texts, removals that were begun, labels and the graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from limpet.config import ChunkSettings
from limpet.errors import KeyMissing, SessionNotFound, StorageError
from limpet.knowledge import remember
from limpet.knowledge.repository import Records
from limpet.model.dataclass import dataclass
from limpet.model.job import Finding
from limpet.model.record import Record, RecordQuery
from limpet.model.scope import Level, Partition, Scope
from limpet.model.session import SessionInfo, SessionQuery
from limpet.model.values import Clock, iter_pages
from limpet.search.chunk_repository import Chunks, ChunkText
from limpet.sessions.messages import index_message, prepare_entries
from limpet.sessions.repository import Messages, Sessions
from limpet.store.encryption import RowLayout
from limpet.store.store import Store
from limpet.store.tables import RECORD_METADATA, RECORD_TAGS, RECORDS
from limpet.store.tx import Db, Row, Tx

_PAGE = 200

Check = Callable[[Tx], bool]


@dataclass(frozen=True, slots=True)
class ChunkChecker:
    """Cuts every text again and compares."""

    store: Store
    settings: ChunkSettings
    clock: Clock

    def check(self, *, repair: bool) -> Finding:
        """Whether the chunks are what the texts would be cut into now; with ``repair``, the others are cut again."""
        run = self.store.write if repair else self.store.read
        try:
            right = [run(check) for check in self._iter_checks(repair=repair)]
        except StorageError as error:
            return Finding("chunks", ok=False, detail=str(error))
        wrong = right.count(False)
        if not wrong:
            return Finding("chunks", ok=True, detail=f"{len(right)} sessions and records are cut as their text is")
        detail = f"{wrong} of {len(right)} sessions and records are cut otherwise than their text"
        return Finding("chunks", ok=False, detail=detail, repaired=repair)

    def _iter_checks(self, *, repair: bool) -> Iterator[Check]:
        for tenant in self.store.list_tenants():
            scope = Scope(tenant)
            if not self._is_readable(scope):
                continue  # its key is elsewhere, or gone on purpose; other checks say so
            for session in self._iter_sessions(scope):
                yield partial(self._check_session, session=session, repair=repair)
            for record in self._iter_records(scope):
                yield partial(self._check_record, record=record, repair=repair)

    def _is_readable(self, scope: Scope) -> bool:
        try:
            next(self._iter_sessions(scope, 1), None)
            next(self._iter_records(scope, 1), None)
        except KeyMissing:
            return False
        return True

    def _iter_sessions(self, scope: Scope, size: int = _PAGE) -> Iterator[SessionInfo]:
        def find(start: int) -> list[SessionInfo]:
            return self.store.read(lambda tx: Sessions(tx).find(scope, SessionQuery(limit=size, offset=start)))

        return iter_pages(size, find)

    def _iter_records(self, scope: Scope, size: int = _PAGE) -> Iterator[Record]:
        now = self.clock()

        def find(start: int) -> list[Record]:
            query = RecordQuery(include_past=True, limit=size, offset=start)
            return self.store.read(lambda tx: Records(tx).find(scope, query, now))

        return iter_pages(size, find)

    def _check_session(self, tx: Tx, *, session: SessionInfo, repair: bool) -> bool:
        if repair:
            try:
                Sessions(tx).lock(session.scope)  # no append between the two reads below
            except SessionNotFound:
                return True
        messages = Messages(tx).range(session.scope, None, None, None)
        entries = prepare_entries(messages, self.settings, self.clock())
        expected: dict[bytes, ChunkText] = {}
        for entry in entries:
            for draft in entry.chunks:
                first = expected.get(draft.hash)
                since = first.first_sequence if first else entry.message.sequence
                expected[draft.hash] = ChunkText(draft.hash, since, entry.message.sequence, draft.text)
        if {cut.hash: cut for cut in Chunks(tx).load_session_chunks(session.scope)} == expected:
            return True
        if repair:
            Chunks(tx).drop_session(session.scope)
            for entry in entries:
                index_message(tx, session.scope, entry.message, entry.chunks)
        return False

    def _check_record(self, tx: Tx, *, record: Record, repair: bool) -> bool:
        cut = remember.RecordChunker(self.settings)
        find = Records(tx).lock if repair else Records(tx).get
        current = find(record.home.scope, record.id)
        if current is None:
            return True
        stored = [(each.hash, each.text) for each in Chunks(tx).load_record_chunks(record.home.space, record.id)]
        if stored == [(draft.hash, draft.text) for draft in cut.build_drafts(current)]:
            return True
        if repair:
            Chunks(tx).drop_record(record.home.space, record.id)
            remember.index(tx, current, cut)
        return False


# Removals


class Remainder(NamedTuple):
    """A document or a session that is not removed yet, and whether a job is to remove it."""

    partition: Partition
    id: str
    has_job: bool


Remove = Callable[[Partition, str], object]


def check_removals(store: Store, remove_versions: Remove, remove_session: Remove, *, repair: bool) -> Finding:
    """Whether a job is to remove everything that nobody sees: what is half written, replaced, or deleted.

    With ``repair``, it is removed now.
    """
    removers = {"documents.find_unsettled": remove_versions, "sessions.find_deleted": remove_session}
    found = [(each, remove) for query, remove in removers.items() for each in _find_remainders(store, query)]
    lost = sum(not each.has_job for each, _ in found)
    try:
        for each, remove in found if repair else ():
            remove(each.partition, each.id)
    except (KeyMissing, StorageError) as error:
        return Finding("removals", ok=False, detail=str(error))
    detail = f"{len(found)} documents and sessions are written or removed" if found else "nothing is left over"
    detail += f"; no job finishes {lost} of them" if lost else ""
    return Finding("removals", ok=not lost, detail=detail, repaired=repair and bool(found))


def _find_remainders(store: Store, query: str) -> list[Remainder]:
    rows = store.read(lambda tx: tx.db.all(query, {}))
    return [
        Remainder(Partition(tenant, Level(level), owner), id_, bool(job)) for tenant, level, owner, id_, job in rows
    ]


# Knowledge: labels agree with their records, and the graph has its sources

_LABELLED = RowLayout(RECORDS, "id tags metadata inputs")
_KEY = ("bucket", "partition_id", "id")


def check_knowledge(store: Store, *, repair: bool) -> Iterator[Finding]:
    yield store.run_check("labels", lambda tx: _check_labels(tx, repair=repair), repair=repair)
    yield store.run_check("graph", lambda tx: _check_graph(tx.db, repair=repair), repair=repair)


class _LabelQueries(NamedTuple):
    """The queries on the rows of one kind of label, and what a row holds."""

    read: str
    delete: str
    add: str
    columns: tuple[str, ...]


_LABELS = {
    "tags": _LabelQueries("records.all_tags", "records.delete_tags", "records.add_tag", (*_KEY, "tag")),
    "metadata": _LabelQueries(
        "records.all_metadata", "records.delete_metadata", "records.add_metadata", (*_KEY, "key", "value")
    ),
    "inputs": _LabelQueries("records.all_inputs", "records.delete_inputs", "records.add_input", (*_KEY, "input")),
}


def _check_labels(tx: Tx, *, repair: bool) -> Finding:
    """Tags, metadata and inputs stand twice: in the record, and as rows to search by."""
    db = tx.db
    expected: dict[str, set[Row]] = {kind: set() for kind in _LABELS}
    unread: set[Row] = set()
    for tenant, bucket, partition_id, *rest in db.all("records.labels", {}):
        cipher, key = tx.encryption.find_cipher(tenant), (bucket, partition_id, rest[0])
        if cipher is None:
            unread.add(key)
            continue
        _, tags, metadata, inputs = cipher.decrypt_row(_LABELLED, rest[0], tuple(rest))
        expected["tags"] |= {(*key, cipher.encrypt_deterministic(RECORD_TAGS["tag"], tag)) for tag in json.loads(tags)}
        expected["metadata"] |= {
            (
                *key,
                cipher.encrypt_deterministic(RECORD_METADATA["key"], name),
                cipher.encrypt_deterministic(RECORD_METADATA["value"], value),
            )
            for name, value in json.loads(metadata).items()
        }
        expected["inputs"] |= {(*key, input_) for input_ in json.loads(inputs or "[]")}
    found = {
        row[:3] for kind, rows in expected.items() for row in rows ^ set(map(tuple, db.all(_LABELS[kind].read, {})))
    }
    wrong = found - unread
    if repair:
        keys = _to_keys(sorted(wrong))
        for kind, label in _LABELS.items():
            db.run_many(label.delete, keys)
            rows = [dict(zip(label.columns, row, strict=True)) for row in expected[kind] if row[:3] in wrong]
            db.run_many(label.add, rows)
    detail = (
        f"{len(wrong)} records are labelled otherwise than they say" if wrong else "labels agree with their records"
    )
    return Finding("labels", not wrong, detail, repaired=repair and bool(wrong))


def _check_graph(db: Db, *, repair: bool) -> Finding:
    """Whatever the graph says came from a message or a record that is there, and no name is left over."""
    mentions, relations = db.all("mentions.find_lost", {}), db.all("relations.find_lost", {})
    if repair:
        db.run_many("relations.delete", _to_keys(relations))
        db.run_many("mentions.delete", _to_keys(mentions))
    idle = db.all("entities.find_unmentioned", {})
    if repair:
        db.run_many("relations.delete_of_entity", _to_keys(idle))
        db.run_many("entities.delete", _to_keys(idle))
    faults = {
        "mentions of what is not there": len(mentions),
        "relations that nothing states": len(relations),
        "names that nothing mentions": len(idle),
    }
    found = "; ".join(f"{count} {what}" for what, count in faults.items() if count)
    detail = found or "every name, mention and relation has its source"
    return Finding("graph", not found, detail, repaired=repair and bool(found))


def _to_keys(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [dict(zip(_KEY, row, strict=True)) for row in rows]
