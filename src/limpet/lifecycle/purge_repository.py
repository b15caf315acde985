"""Purging in rows: everything of a space, some messages of a session, and the receipts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from limpet.model.dataclass import dataclass
from limpet.model.job import PURGE
from limpet.model.privacy import PurgeTarget, Receipt, purge_digest
from limpet.model.scope import STORE_PARTITION, Level, Partition, Scope
from limpet.model.values import from_micros, micros, to_micros
from limpet.search.chunk_repository import Chunks
from limpet.search.graph_repository import GraphTables
from limpet.sessions.repository import DeletedSessions, Sessions, session_key
from limpet.store.encryption import RowLayout
from limpet.store.tables import CHUNKS, RECEIPT_ROWS, RECORD_VERSIONS, TABLES
from limpet.store.tx import Partitions, Repository, partition_key, partition_params

_TEXT = RowLayout(CHUNKS, "ordinal text")
_BODY = RowLayout(RECORD_VERSIONS, "record_id version body")
_PAGE = 500


@dataclass(frozen=True, slots=True)
class PurgeRequest:
    """What is to be purged. A job keeps it until it is done, but for who asked: the receipt says that."""

    what: PurgeTarget
    space: Partition  # a user's
    session: str | None = None
    before: datetime | None = None
    asked_by: str | None = None
    receipt: str = ""  # its id, once there is one

    @property
    def takes_explicit(self) -> bool:
        """Whether explicit and pinned memories, documents and MEMORY.md go too."""
        return self.what is not PurgeTarget.OLDER

    @property
    def hidden_owner(self) -> str:
        """What the space of a user is called while its rows are removed."""
        return f" {self.receipt}"

    @property
    def digest(self) -> str:
        """What the receipt knows the session or the user by."""
        return purge_digest(self.space.tenant, self.session or self.space.owner)

    @property
    def user_scope(self) -> Scope:
        return Scope(self.space.tenant, user=self.space.owner)

    def session_scope(self, session: str) -> Scope:
        return Scope(self.space.tenant, user=self.space.owner, session=session)

    def to_receipt(self, now: datetime) -> Receipt:
        """The receipt of a purge that was asked for now, and is not done."""
        return Receipt(self.receipt, self.what, self.digest, now, self.space.tenant, self.before, self.asked_by)

    def to_detail(self) -> str:
        before = None if self.before is None else to_micros(self.before)
        return json.dumps([self.receipt, self.what.value, self.session, before])

    @classmethod
    def from_detail(cls, space: Partition, detail: str) -> PurgeRequest:
        receipt, what, session, before = json.loads(detail)
        moment = None if before is None else from_micros(before)
        return cls(PurgeTarget(what), space, session, moment, receipt=receipt)


class PurgeTable(NamedTuple):
    """The rows of a table that belong to a user."""

    table: str
    where: str
    by_name: bool = False  # found without the partition, which may never have been, or have lost its name


_IN_PARTITION = "bucket = :bucket AND partition_id = :partition_id"
_OF_USER = "tenant = :tenant AND user_id = :owner"
_OF_OWNER = "bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner"

# Of tables that have no partition: by what a user's rows are found.
_OTHERS = (
    # Also of a whole tenant's import: it counts this user's lines, and says that they are here.
    PurgeTable("transfers", "tenant = :tenant AND user_id IN (:owner, '')"),
    # A user who is purged has no key any more.
    PurgeTable("api_keys", _OF_USER, by_name=True),
    PurgeTable("idempotency_keys", _OF_OWNER, by_name=True),
    # The purge's own job is what finishes it.
    PurgeTable("jobs", f"{_OF_OWNER} AND kind <> '{PURGE}'"),
)
# What is nobody's: names of models, facts about the store, files that were imported, receipts without a name, which
# tenants are encrypted. A partition's own row loses its name when all of these are gone.
UNOWNED_TABLES = ("partitions", "models", "properties", "imports", "receipts", "tenant_encryption")
# Out of these, names or rows of a user are taken by methods of their own.
ANONYMIZED_TABLES = ("grants", "audit")
# What a receipt counts; the other rows are how these are kept.
_RECEIPT_NAMES = {"record_versions": "versions"}
_NOT_IN_RECEIPT = frozenset(
    "jobs late_vectors postings record_tags record_metadata record_inputs cursors idempotency_keys".split()
)


@cache
def find_user_tables(*, by_name: bool = False) -> tuple[PurgeTable, ...]:
    """All tables that say whose their rows are, children before their parents; or those found by the name alone."""
    in_partition = [table.name for table in reversed(TABLES) if "partition_id" in table.columns]
    found = (*(PurgeTable(name, _IN_PARTITION) for name in in_partition), *_OTHERS)
    return tuple(rows for rows in found if rows.by_name or not by_name)


class Purges(Repository):
    """Removing without a trace, and the receipts of it. A space here is a user's: nothing removes everybody's."""

    def hide_partition(self, space: Partition, order: PurgeRequest, limit: int) -> bool:
        """Let nobody find anything of a user. Whether so many sessions were enough.

        A user who comes back while the rows are removed gets a new space.
        """
        Partitions(self._tx).lock(space)
        at = self._find_key(space, order)
        if at is None:
            return True
        if Partitions(self._tx).find_id(space) == at["partition_id"]:
            self._db.run("purge.hide_partition", {**at, "hidden": order.hidden_owner})
            self._db.run("purge.count", {})
            Chunks(self._tx).evict_partition(space)
        return self._db.run("purge.hide_sessions", {**at, "limit": limit}) < limit

    def delete_partition(self, space: Partition, order: PurgeRequest, limit: int) -> tuple[Mapping[str, int], bool]:
        """So many rows of a user: how many of each kind, and whether all are gone."""
        at = self._find_key(space, order)
        counts: dict[str, int] = {}
        Partitions(self._tx).lock(space)
        for rows in find_user_tables(by_name=at is None):
            gone = self._delete(rows, {**partition_params(space), **(at or {})}, limit)
            if gone and rows.table not in _NOT_IN_RECEIPT:
                counts[_RECEIPT_NAMES.get(rows.table, rows.table)] = gone
            limit -= gone
            if limit <= 0:
                return counts, False
        if at is None:
            return counts, True
        self._db.run("purge.empty_partition", at)
        return counts, True

    def _delete(self, rows: PurgeTable, at: Mapping[str, Any], limit: int) -> int:
        key = next(", ".join(table.key) for table in TABLES if table.name == rows.table)
        chosen = f"SELECT {key} FROM {rows.table} WHERE {rows.where} LIMIT :limit"
        done = self._db.execute_sql(
            f"DELETE FROM {rows.table} WHERE {rows.where} AND ({key}) IN ({chosen}) RETURNING 1", {**at, "limit": limit}
        )
        return len(done)

    def count_partition(self, space: Partition, order: PurgeRequest) -> Mapping[str, int]:
        """The rows there are, by table; none for a user who was purged."""
        at = self._find_key(space, order)
        params = {**partition_params(space), **(at or {})}
        found = {
            rows.table: self._db.execute_sql(f"SELECT count(*) FROM {rows.table} WHERE {rows.where}", params)[0][0]
            for rows in find_user_tables(by_name=at is None)
        }
        return {table: number for table, number in found.items() if number}

    def _find_key(self, space: Partition, order: PurgeRequest | None = None) -> dict[str, int] | None:
        """With ``order``: also of the space that this purge has hidden."""
        assert space.level is Level.USER  # who names nobody must never get everybody
        assert space.owner
        if order is not None and order.receipt:
            hidden = {**partition_params(space), "hidden": order.hidden_owner}
            if (row := self._db.one("purge.find_hidden_partition", hidden)) is not None:
                return partition_key(row[0])
        found = Partitions(self._tx).find_id(space)
        return None if found is None else partition_key(found)

    def find_derived_elsewhere(self, space: Partition, order: PurgeRequest, limit: int) -> list[str]:
        """Some records of other spaces that were made from this one's."""
        at = self._find_key(space, order)
        found = [] if at is None else self._db.all("purge.derived_elsewhere", {**at, "limit": limit})
        return [id_ for (id_,) in found]

    def find_sessions(self, space: Partition, order: PurgeRequest) -> list[str]:
        at = self._find_key(space, order)
        return [] if at is None else [id_ for (id_,) in self._db.all("purge.sessions", at)]

    def find_deleted_sessions(self, space: Partition) -> list[str]:
        """Those that nobody finds any more, and of which something is left."""
        return self._find_ids("purge.deleted_sessions", space)

    def find_sessions_before(self, space: Partition, moment: datetime) -> list[str]:
        """Those that were not active since, or have messages from before."""
        return self._find_ids("purge.sessions_before", space, moment=to_micros(moment))

    def find_records_from_session(self, space: Partition, session: str) -> list[str]:
        """The records of a session, and those that were learned from it."""
        return self._find_ids("purge.records_from_session", space, session=session, source=f'["{session}",%')

    def is_over(self, scope: Scope, order: PurgeRequest) -> bool:
        """Whether a session was not active since, and holds nothing that stays."""
        assert order.before is not None
        info = Sessions(self._tx).get(scope)
        if info is None or info.last_active_at >= order.before:
            return False
        return order.takes_explicit or not self._find_ids("purge.explicit_in_session", order.space, session=info.id)

    def find_records_before(self, space: Partition, moment: datetime, limit: int, *, explicit: bool) -> list[str]:
        """Those that were not changed since; with ``explicit`` whatever they are."""
        query = "purge.records_before" if explicit else "purge.learned_before"
        return self._find_ids(query, space, moment=to_micros(moment), limit=limit)

    def _find_ids(self, query: str, space: Partition, **params: Any) -> list[str]:
        at = self._find_key(space)
        return [] if at is None else [id_ for (id_,) in self._db.all(query, {**at, **params})]

    def sample_texts(self, space: Partition, order: PurgeRequest, limit: int) -> list[str]:
        session, before = order.session, order.before
        at = self._find_key(space, order)
        if at is None:
            return []
        where = ["created_at < :before"] if before is not None else []
        where += ["session_id = :session"] if session is not None else []
        where += [] if order.takes_explicit else ["kind = 'message'"]
        params = {**at, "limit": limit, "session": session, "before": micros(before)}
        cipher = self._cipher(space)
        rows = self._db.all("purge.sample", params, where=" AND ".join(where))
        return [cipher.decrypt_row(_TEXT, (at["partition_id"], row[0]), row)[1] for row in rows]

    # Messages

    def find_messages_before(self, scope: Scope, moment: datetime, limit: int) -> list[int]:
        params = {**session_key(self._tx, scope), "moment": to_micros(moment), "limit": limit}
        return [number for (number,) in self._db.all("purge.older_messages", params, order="LIMIT :limit")]

    def drop_messages(
        self, scope: Scope, sequences: Sequence[int]
    ) -> tuple[Mapping[str, int], Mapping[bytes, tuple[int, int]]]:
        """With what is made of them. Chunks that other messages may have said too are named by their hash, with the
        first and the last sequence: messages there that stay are the caller's to index again."""
        space, at = scope.partition, self._find_key(scope.partition)
        if at is None:
            return {}, {}
        dropped, ranges = Chunks(self._tx).drop_messages(scope, sequences)
        assert scope.session is not None
        mentions = GraphTables(self._tx).drop_messages(space, scope.session, sequences)
        messages = DeletedSessions(self._tx).delete_messages(space, scope.session, sequences)
        self._db.run("purge.recount", {**at, "session": scope.session})
        return +Counter(messages=messages, chunks=dropped, mentions=mentions), ranges

    def drop_summary(self, scope: Scope) -> int:
        return self._db.run("sessions.delete_summary", session_key(self._tx, scope))

    def drop_versions_naming(self, space: Partition, session: str) -> int:
        """What records said before, where it came from this session."""
        at = self._find_key(space)
        if at is None:
            return 0
        if not self._cipher(space).is_encrypted:
            return self._db.run("purge.versions_naming", {**at, "named": f"%{session}%"})
        return self._drop_encrypted_versions(space, at, session)

    def _drop_encrypted_versions(self, space: Partition, at: dict[str, int], session: str) -> int:
        """The database cannot look into them: each is opened, a page at a time."""
        cipher, after, gone = self._cipher(space), ("", 0), 0
        while True:
            params = {**at, "record": after[0], "version": after[1], "limit": _PAGE}
            rows = self._db.all("purge.bodies", params)
            bodies = ((row[0], row[1], cipher.decrypt_row(_BODY, (row[0], row[1]), row)[2]) for row in rows)
            named = [
                {**at, "record": record, "version": version} for record, version, body in bodies if session in body
            ]
            self._db.run_many("purge.version", named)
            gone += len(named)
            if len(rows) < _PAGE:
                return gone
            after = (rows[-1][0], rows[-1][1])

    def drop_entries_before(
        self, space: Partition, moment: datetime, limit: int, *, explicit: bool
    ) -> tuple[Mapping[str, int], bool]:
        """Key-value entries from before a moment, and earlier versions of records; with ``explicit`` of all of them.

        So many of each kind: how many went, and whether all are gone.
        """
        at = self._find_key(space)
        if at is None:
            return {}, True
        params = {**at, "moment": to_micros(moment), "limit": limit}
        self._db.run("idempotency_keys.delete_before", {**partition_params(space), "before": to_micros(moment)})
        versions = "purge.versions_before" if explicit else "purge.learned_versions_before"
        counts = Counter(kv=self._db.run("purge.kv_before", params), versions=self._db.run(versions, params))
        return +counts, max(counts.values()) < limit

    def find_documents_before(self, space: Partition, moment: datetime, limit: int) -> list[str]:
        params = {**Partitions(self._tx).find_key(space), "moment": to_micros(moment), "limit": limit}
        return [id_ for (id_,) in self._db.all("purge.documents_before", params, order="LIMIT :limit")]

    def is_document_before(self, space: Partition, document_id: str, moment: datetime) -> bool:
        params = {**Partitions(self._tx).find_key(space), "moment": to_micros(moment), "id": document_id}
        return bool(self._db.all("purge.documents_before", params, where="id = :id"))

    # Receipts

    def insert_receipt(self, scope: Scope, receipt: Receipt) -> None:
        self._cipher(scope)  # without the key nothing is begun: what is to go has to be read
        self._db.run("receipts.add", {**RECEIPT_ROWS.params(receipt), "tenant": scope.tenant})

    def update_receipt(self, scope: Scope, receipt: Receipt) -> None:
        self._db.run("receipts.update", {**RECEIPT_ROWS.params(receipt), "tenant": scope.tenant})

    def get_receipt(self, scope: Scope, receipt_id: str) -> Receipt | None:
        row = self._db.one("receipts.select", {"tenant": scope.tenant, "id": receipt_id}, where="id = :id")
        return None if row is None else RECEIPT_ROWS.read(row)

    def find_unfinished(self, scope: Scope, what: PurgeTarget, digest: str) -> Receipt | None:
        row = self._db.one(
            "receipts.select",
            {"tenant": scope.tenant, "what": what.value, "digest": digest},
            where="what = :what AND digest = :digest AND done_at IS NULL",
            order="ORDER BY asked_at LIMIT 1",
        )
        return None if row is None else RECEIPT_ROWS.read(row)

    def find_receipts(self, scope: Scope, limit: int, offset: int) -> list[Receipt]:
        params = {"tenant": scope.tenant, "limit": limit, "offset": offset}
        order = "ORDER BY asked_at DESC, id DESC LIMIT :limit OFFSET :offset"
        return [RECEIPT_ROWS.read(row) for row in self._db.all("receipts.select", params, order=order)]

    def mark_erased(self, store: Partition, moment: datetime) -> int:
        """The bytes of everything that was purged until then, of whomever, are gone."""
        assert store == STORE_PARTITION
        return self._db.run("receipts.mark_erased", {"moment": to_micros(moment)})
