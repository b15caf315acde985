"""Everything of an owner, read in the order of its ids and put back as it was; and how far an import has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from limpet.documents.repository import Documents
from limpet.errors import SessionNotFound
from limpet.knowledge.repository import Records
from limpet.knowledge.repository import build_scope_clauses as records_in_scope
from limpet.model.graph import EntityDraft, EntityKind, GraphDraft, GraphSource, RelationDraft, RelationKind
from limpet.model.job import EXTRACT, GRAPH, GRAPH_RECORD
from limpet.model.scope import Level, Owner, Partition, Scope, hash_bucket
from limpet.model.transfer import DocumentPiece, DocumentState, RecordState, RecordVersion, SessionState
from limpet.model.values import bucket_of_id, from_micros, micros, to_micros
from limpet.sessions.repository import Sessions, Summaries, UsageEntries, session_key
from limpet.sessions.repository import build_scope_filter as sessions_in_scope
from limpet.store.encryption import RowLayout
from limpet.store.jobs import Jobs
from limpet.store.tables import CHUNKS, ENTITIES, IMPORTS, RECORD_ROWS, RECORD_VERSIONS, RELATIONS, TRANSFERS
from limpet.store.tx import Partitions, Repository, Row

_OF_SESSIONS = (EXTRACT, GRAPH)
_PIECE = RowLayout(CHUNKS, "ordinal text")
_MENTION = RowLayout(ENTITIES, "- - - - normal name")
_NAMES = RowLayout(ENTITIES, "- normal - normal")
_STATE = RowLayout(TRANSFERS, "state")
_RELATION = RowLayout(RELATIONS, "- - predicate - value kind polarity sentence")
_WITH_BUCKET = ("sessions", "records")
_OWNER_QUERIES = {
    "sessions": "transfers.session_owners",
    "records": "transfers.record_owners",
    "documents": "transfers.document_owners",
    "schedules": "transfers.schedule_owners",
    "schedule_runs": "transfers.run_owners",
}


class Imports(Repository):
    """What was taken in whole, by its digest; and how far what is taken in step by step has come."""

    def has_digest(self, scope: Scope, digest: str) -> bool:
        stored = self._cipher(scope).encrypt_deterministic(IMPORTS["digest"], digest)
        return self._db.one("imports.find", {"tenant": scope.tenant, "digest": stored}) is not None

    def record_import(self, scope: Scope, digest: str, name: str, sessions: int, messages: int, now: datetime) -> None:
        params = {"tenant": scope.tenant, "digest": digest, "name": name, "sessions": sessions, "messages": messages}
        cipher = self._cipher(scope)
        bound = cipher.encrypt_deterministic(IMPORTS["digest"], digest)
        self._db.run("imports.add", cipher.encrypt_params(IMPORTS, bound, {**params, "imported_at": to_micros(now)}))

    def get_progress(self, scope: Scope, digest: str) -> str | None:
        """What was last marked; None for one that was not begun, or is finished."""
        cipher = self._cipher(scope)
        stored = cipher.encrypt_deterministic(TRANSFERS["digest"], digest)
        row = self._db.one("transfers.get", {"tenant": scope.tenant, "digest": stored})
        return None if row is None else str(cipher.decrypt_row(_STATE, stored, row)[0])

    def save_progress(self, scope: Scope, digest: str, name: str, state: str, now: datetime) -> None:
        params = {"tenant": scope.tenant, "digest": digest, "user": scope.user or "", "name": name, "state": state}
        cipher = self._cipher(scope)
        bound = cipher.encrypt_deterministic(TRANSFERS["digest"], digest)
        self._db.run("transfers.put", cipher.encrypt_params(TRANSFERS, bound, {**params, "now": to_micros(now)}))

    def finish(self, scope: Scope, digest: str) -> None:
        stored = self._cipher(scope).encrypt_deterministic(TRANSFERS["digest"], digest)
        self._db.run("transfers.delete", {"tenant": scope.tenant, "digest": stored})


class Transfers(Repository):
    """Everything there is in a scope, in the order of the ids; and the same put back as it was."""

    def totals(self, scope: Scope) -> dict[str, int]:
        where, params = sessions_in_scope(scope)
        clauses, of_records = records_in_scope(scope)
        chats = self._db.one("transfers.session_totals", params, where=where) or (0, 0)
        known = self._db.one("records.count", of_records, where=" AND ".join(clauses)) or (0,)
        return {"sessions": int(chats[0]), "messages": int(chats[1]), "records": int(known[0])}

    def find_partitions(self, scope: Scope) -> list[Partition]:
        rows = self._db.all("transfers.partitions", {"tenant": scope.tenant})
        found = [Partition(scope.tenant, Level(level), owner) for level, owner in rows]
        return sorted(space for space in found if scope.user is None or space[1:] == (Level.USER, scope.user))

    # Sessions

    def session_scopes(self, scope: Scope, after: str, limit: int) -> list[Scope]:
        where, params = sessions_in_scope(scope)
        rows = self._db.all("transfers.session_ids", {**params, "after": after, "limit": limit}, where=where)
        return [Scope(scope.tenant, user=user, session=id_) for id_, user in rows]

    def get_session(self, scope: Scope) -> SessionState:
        info = Sessions(self._tx).get(scope)
        if info is None:
            raise SessionNotFound(f"no session {scope.session} here; it may have been deleted")
        scope = info.scope
        cleared_through, epoch = Summaries(self._tx).get_watermarks(scope)
        external = self._db.one("transfers.session_external_id", session_key(self._tx, scope))
        return SessionState(
            info=info,
            cleared_through=cleared_through,
            summary_epoch=epoch,
            summary=Summaries(self._tx).get(scope),
            usage=tuple(sorted(UsageEntries(self._tx).find(scope), key=lambda entry: entry.model)),
            cursors=dict(sorted(self._db.all("transfers.cursors", session_key(self._tx, scope)))),
            waiting=self._find_pending_jobs(info.partition, info.id, _OF_SESSIONS),
            external_id=None if external is None else external[0],
        )

    def _find_pending_jobs(self, space: Partition, detail: str, kinds: Sequence[str]) -> tuple[str, ...]:
        return tuple(kind for kind in kinds if Jobs(self._tx).is_waiting(space, kind, detail))

    def restore_session_state(self, scope: Scope, state: SessionState) -> None:
        """What is said of the messages, now that they are there. What the session has of it already stays."""
        info, past = state.info, Summaries(self._tx).get_watermarks(scope)
        at = session_key(self._tx, scope)
        if state.summary is not None and not past[1]:
            Summaries(self._tx).put(scope, state.summary)
        self._db.run(
            "transfers.settle_session", {**at, "last_sequence": info.last_sequence, "epoch": state.summary_epoch}
        )
        cursors = sorted(state.cursors.items())
        rows = [{**at, "name": name, "sequence": sequence} for name, sequence in cursors]
        self._db.run_many("transfers.add_cursor", rows)
        for kind in state.waiting:
            if not Jobs(self._tx).is_waiting(info.partition, kind, info.id):
                Jobs(self._tx).enqueue(info.partition, kind, info.id, from_micros(0))

    def has_message(self, scope: Scope, sequence: int) -> bool:
        params = {**session_key(self._tx, scope), "sequence": sequence}
        return self._db.one("transfers.has_message", params) is not None

    # Records

    def record_ids(self, scope: Scope, after: str, limit: int) -> list[str]:
        clauses, params = records_in_scope(scope)
        rows = self._db.all(
            "transfers.record_ids", {**params, "after": after, "limit": limit}, where=" AND ".join(clauses)
        )
        return [id_ for (id_,) in rows]

    def records(self, scope: Scope, ids: Sequence[str]) -> list[RecordState]:
        rows: list[Row] = []
        versions: dict[str, list[RecordVersion]] = {}
        external: dict[str, str] = {}
        for where, params in self._group_ids(scope, ids):
            rows += self._db.all("records.select", params, where=where)
            external |= dict(self._db.all("transfers.record_external_ids", params, where=where))
            for id_, number, body, replaced_at in self._db.all("transfers.versions", params, where=where):
                past = Records(self._tx).decrypt_version(scope.tenant, id_, (number, body))
                versions.setdefault(id_, []).append(RecordVersion(past, from_micros(replaced_at)))
        found = sorted(Records(self._tx).decrypt_records(scope.tenant, rows), key=lambda record: record.id)
        return [
            RecordState(
                record,
                tuple(versions.get(record.id, ())),
                self._find_pending_jobs(record.home.space, record.id, (GRAPH_RECORD,)),
                external.get(record.id),
            )
            for record in found
        ]

    def _group_ids(self, scope: Scope, ids: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The clauses that find records with these ids, bucket by bucket; and those whose id does not say theirs."""
        clauses, params = records_in_scope(scope)
        if scope.user is not None:
            yield " AND ".join([*clauses, "r.id IN :ids[]"]), {**params, "ids": self._db.to_array(ids)}
            return
        by_bucket: dict[int, list[str]] = {}
        for id_ in ids:
            by_bucket.setdefault(bucket_of_id(id_), []).append(id_)
        where = " AND ".join([*clauses, "r.bucket = :bucket AND r.id IN :ids[]"])
        for bucket, some in by_bucket.items():
            yield where, {**params, "bucket": bucket, "ids": self._db.to_array(some)}
        where = " AND ".join([*clauses, "r.external_id IN :ids[] AND r.id = r.external_id"])
        yield where, {**params, "ids": self._db.to_array(ids)}

    def put_record(self, home: Owner, state: RecordState) -> None:
        record, cipher = state.record, self._cipher(home.scope)
        Records(self._tx).insert(home, record, state.external_id)
        key = Partitions(self._tx).find_key(home.space)
        rows = [
            {
                **key,
                "id": record.id,
                "version": version.record.version,
                "body": RECORD_ROWS.dump(version.record),
                "updated_at": micros(version.record.updated_at),
                "replaced_at": to_micros(version.replaced_at),
            }
            for version in state.versions
        ]
        encrypted = [cipher.encrypt_params(RECORD_VERSIONS, (record.id, row["version"]), row) for row in rows]
        self._db.run_many("records.add_version", encrypted)
        for kind in state.waiting:
            Jobs(self._tx).enqueue(home.space, kind, record.id, from_micros(0))

    # Documents

    def documents(self, scope: Scope, after: str, limit: int) -> list[DocumentState]:
        return self._documents(scope, "d.id > :id", {"id": after, "limit": limit})

    def document(self, scope: Scope, document_id: str) -> DocumentState | None:
        return next(iter(self._documents(scope, "d.id = :id", {"id": document_id, "limit": 1})), None)

    def _documents(self, scope: Scope, where: str, params: dict[str, Any]) -> list[DocumentState]:
        params["tenant"] = scope.tenant
        if scope.user is not None:
            where += " AND p.bucket = :bucket AND p.level = 'user' AND p.owner = :user"
            params |= {"user": scope.user, "bucket": hash_bucket(scope.tenant, Level.USER.value, scope.user)}
        rows = self._db.all("transfers.documents", params, where=where)
        found = [(Partition(scope.tenant, Level(level), owner), (*rest, 0)) for level, owner, *rest in rows]
        return [DocumentState(space, Documents(self._tx).decrypt(space, rest)) for space, rest in found]

    def pieces(self, space: Partition, document_id: str, after: int, limit: int) -> list[tuple[int, DocumentPiece]]:
        """A document's text by numbers, of which ``after`` is the last that was read."""
        key = Partitions(self._tx).find_key(space)
        cipher = self._cipher(space)
        found = self._db.all("transfers.pieces", {**key, "document": document_id, "after": after, "limit": limit})
        rows = (cipher.decrypt_row(_PIECE, (key["partition_id"], row[0]), row) for row in found)
        return [(ordinal, DocumentPiece(text, offset)) for ordinal, text, offset in rows]

    def last_piece(self, space: Partition, document_id: str) -> tuple[int, int]:
        """Where the last piece begins that is there, -1 where none is; and the version of the pieces."""
        row = self._db.one("transfers.last_piece", {**Partitions(self._tx).find_key(space), "document": document_id})
        assert row is not None
        return int(row[0]), int(row[1] or 0)

    # The graph

    def find_graph_by_session(self, scope: Scope, after: int, limit: int) -> list[GraphDraft]:
        """What its messages after a sequence number say for the graph: at most about so many names."""
        space = scope.partition
        at = {**Partitions(self._tx).find_key(space), "session": scope.session, "after": after}
        params = {**at, "limit": limit}
        rows = self._mentions(space, params, "m.session_id = :session AND m.sequence > :after")
        sources = [(sequence, list(found)) for sequence, found in groupby(rows, key=lambda row: row[1])]
        if len(rows) == limit and len(sources) > 1:
            sources.pop()  # there may be more of the last one: it begins the next page
        elif len(rows) == limit:
            return self.find_graph_by_session(scope, after, 2 * limit)
        if not sources:
            return []
        span = {**at, "last": sources[-1][0]}
        where = "x.session_id = :session AND x.sequence > :after AND x.sequence <= :last"
        stated: dict[int, list[Row]] = {}
        for sequence, *rest in self._relations(space, span, where):
            stated.setdefault(sequence, []).append(tuple(rest))
        return [_build_graph_entry(found, stated.get(sequence, ())) for sequence, found in sources]

    def get_graph_of_record(self, space: Partition, record_id: str) -> GraphDraft | None:
        params = {**Partitions(self._tx).find_key(space), "record": record_id}
        rows = self._mentions(space, {**params, "limit": 1 << 31}, "m.record_id = :record")
        if not rows:
            return None
        relations = self._relations(space, params, "x.record_id = :record")
        return _build_graph_entry(rows, [rest for _, *rest in relations])

    def _mentions(self, space: Partition, params: dict[str, Any], where: str) -> list[Row]:
        cipher, at = self._cipher(space), params["partition_id"]
        rows = self._db.all("transfers.mentions", params, where=where)
        return [cipher.decrypt_row(_MENTION, (at, row[4]), row) for row in rows]

    def _relations(self, space: Partition, params: dict[str, Any], where: str) -> list[Row]:
        """Without the number of the subject, which they are bound to."""
        cipher, at = self._cipher(space), params["partition_id"]
        rows = self._db.all("transfers.relations", params, where=where)
        return [
            cipher.decrypt_row(_RELATION, (at, row[-1]), cipher.decrypt_row(_NAMES, None, row))[:-1] for row in rows
        ]

    def has_graph_source(self, space: Partition, source: GraphSource) -> bool:
        params: dict[str, Any] = {**Partitions(self._tx).find_key(space), "limit": 1}
        if source.record_id is not None:
            where, params["record"] = "m.record_id = :record", source.record_id
        else:
            where = "m.session_id = :session AND m.sequence = :sequence"
            params |= {"session": source.session_id, "sequence": source.sequence}
        return bool(self._db.all("transfers.mentions", params, where=where))

    def find_conflicting_ids(self, scope: Scope, kind: str, owners: Mapping[str, str]) -> list[str]:
        """Of these ids of a kind, those that belong to other owners than these; a run's is its schedule."""
        by_bucket: dict[int, list[str]] = {}
        for id_ in owners:
            by_bucket.setdefault(bucket_of_id(id_) if kind in _WITH_BUCKET else 0, []).append(id_)
        return [
            id_
            for bucket, ids in by_bucket.items()
            for id_, tenant, owner in self._db.all(
                _OWNER_QUERIES[kind], {"bucket": bucket, "ids": self._db.to_array(ids)}
            )
            if tenant != scope.tenant or owner != owners[id_]
        ]


def _build_graph_entry(mentions: Sequence[Row], relations: Sequence[Sequence[Any]]) -> GraphDraft:
    session_id, sequence, record_id, at = mentions[0][:4]
    return GraphDraft(
        GraphSource(from_micros(at), session_id, sequence, record_id),
        tuple(EntityDraft(normal, name, EntityKind(kind)) for *_, normal, name, kind in mentions),
        tuple(
            RelationDraft(subject, predicate, object_, value, RelationKind(kind), bool(polarity), sentence)
            for subject, predicate, object_, value, kind, polarity, sentence in relations
        ),
    )
