"""Purging in rows: everything of a space, some messages of a session, and the receipts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from limpet.model.job import PURGE
from limpet.model.receipt import Bytes, Receipt, What
from limpet.model.scope import STORE, Level, Scope, Space
from limpet.model.times import to_micros
from limpet.search.chunk_repository import Chunks, space_params
from limpet.search.word_index import SpaceRow
from limpet.store import jobs
from limpet.store.db import Row
from limpet.store.encrypted_columns import CHUNKS, RECORD_VERSIONS
from limpet.store.encryption import Shape
from limpet.store.rows import micros, moment, to_json
from limpet.store.tx import Tx

_TEXT = Shape(CHUNKS, "id text")
_BODY = Shape(RECORD_VERSIONS, "record_id version body")
_PAGE = 500


class Rows(NamedTuple):
    """The rows of a table that belong to a user's space."""

    table: str
    key: str
    where: str
    by_name: bool = False  # found without the space, which may never have been, or have lost its name


_SPACE = "space_id = :space_id"
_CHUNKS = "{0} >= :low AND {0} < :high"
_SESSIONS = "session_id IN (SELECT s.id FROM sessions s WHERE s.space_id = :space_id)"
_OF_USER = "tenant = :tenant AND user_id = :user"
_RECORDS = "record_id IN (SELECT r.id FROM records r WHERE r.space_id = :space_id)"

# Children before their parents. A new table that says whose it is has to be here: a test compares this with the schema.
OF_A_USER = (
    Rows("vectors", "chunk_id, model_id", _CHUNKS.format("chunk_id")),
    Rows("late_vectors", "space_id, number", _SPACE),
    Rows("relations", "id", _SPACE),
    Rows("mentions", "id", _SPACE),
    Rows("entities", "id", _SPACE),
    Rows("chunks", "id", _CHUNKS.format("id")),
    Rows("postings", "space_id, term, first_ordinal", _SPACE),
    Rows("documents", "id", _SPACE),
    Rows("record_versions", "record_id, version", _RECORDS),
    Rows("record_tags", "record_id, tag", _RECORDS),
    Rows("record_metadata", "record_id, key", _RECORDS),
    Rows("record_inputs", "record_id, input_id", _RECORDS),
    Rows("records", "id", _SPACE),
    Rows("messages", "session_id, sequence", _SESSIONS),
    Rows("summaries", "session_id", _SESSIONS),
    Rows("kv", "session_id, key", _SESSIONS),
    Rows("usage", "session_id, model", _SESSIONS),
    Rows("cursors", "session_id, name", _SESSIONS),
    Rows("sessions", "id", _SPACE),
    Rows("schedule_runs", "id", f"schedule_id IN (SELECT s.id FROM schedules s WHERE {_OF_USER})"),
    Rows("schedules", "id", _OF_USER),
    # Also of a whole tenant's import: it tells of this user's lines, and that they are here.
    Rows("moves", "tenant, digest", "tenant = :tenant AND user_id IN (:user, '')"),
    # Whoever is purged has no key any more.
    Rows("api_keys", "id", _OF_USER, by_name=True),
    Rows("once", "tenant, owner, kind, key_hash", "tenant = :tenant AND owner = :owner", by_name=True),
    # The purge's own job is what finishes it.
    Rows("jobs", "id", f"tenant = :tenant AND owner = :owner AND kind <> '{PURGE}'"),
)
# What is nobody's: names of models, facts about the store, files that were imported, receipts without a name, which
# tenants are sealed. A space's
# own row loses its name when all of these are gone.
OF_NOBODY = ("spaces", "models", "properties", "imports", "receipts", "seals")
# Whose names are taken out of them, or who are taken out of them, by their own verbs.
UNNAMED = ("grants", "audit")
# What a receipt counts; the other rows are how these are kept.
_COUNTED = {"record_versions": "versions"}
_UNCOUNTED = ("jobs", "late_vectors", "postings", "record_tags", "record_metadata", "record_inputs", "cursors", "once")


_BY_NAME = tuple(rows for rows in OF_A_USER if rows.by_name)


class Purges:
    """Removing without a trace, and the receipts of it. A space here is a user's: nothing removes everybody's."""

    def __init__(self, tx: Tx) -> None:
        self._db = tx.db
        self._chunks = Chunks(tx)
        self._seals = tx.seals

    def drop_space(self, space: Space, limit: int) -> tuple[Mapping[str, int], bool]:
        """So many rows of a user, the space's name last: how many of each kind, and whether all are gone."""
        at = self._at(space)
        counts: dict[str, int] = {}
        for rows in OF_A_USER if at is not None else _BY_NAME:
            gone = self._delete(rows, at or _named(space), limit)
            if gone and rows.table not in _UNCOUNTED:
                counts[_COUNTED.get(rows.table, rows.table)] = gone
            limit -= gone
            if limit <= 0:
                return counts, False
        if at is None:
            return counts, True
        self._db.run("purge.hide_space", {"id": at["space_id"]})
        self._db.run("purge.count", {})
        self._chunks.forget(at["space_id"])
        return counts, True

    def _delete(self, rows: Rows, at: Mapping[str, Any], limit: int) -> int:
        chosen = f"SELECT {rows.key} FROM {rows.table} WHERE {rows.where} LIMIT :limit"
        done = self._db.composed(
            f"DELETE FROM {rows.table} WHERE ({rows.key}) IN ({chosen}) RETURNING 1", {**at, "limit": limit}
        )
        return len(done)

    def count_space(self, space: Space) -> Mapping[str, int]:
        """The rows there are, by table; none for a user who was purged."""
        at = self._at(space)
        params = at or _named(space)
        found = {
            rows.table: self._db.composed(f"SELECT count(*) FROM {rows.table} WHERE {rows.where}", params)[0][0]
            for rows in (OF_A_USER if at is not None else _BY_NAME)
        }
        return {table: number for table, number in found.items() if number}

    def _at(self, space: Space) -> dict[str, Any] | None:
        assert space.level is Level.USER  # whoever names nobody must never get everybody
        assert space.owner
        found = self._db.one("spaces.number", space_params(space))
        if found is None:
            return None
        row = SpaceRow(found[0], 0, 0, 0, 0)
        return {"space_id": row.id, **row.ids_from(0), **_named(space)}

    def learned_elsewhere(self, space: Space) -> list[str]:
        """Records of other spaces that were made from this one's."""
        return self._ids("purge.learned_elsewhere", space)

    def sessions(self, space: Space) -> list[str]:
        return self._ids("purge.sessions", space)

    def sessions_before(self, space: Space, moment: datetime) -> list[str]:
        """Those that were not active since, or have messages from before."""
        return self._ids("purge.sessions_before", space, moment=to_micros(moment))

    def learned_from(self, space: Space, session: str) -> list[str]:
        """The records of a session, and those that were learned from it."""
        return self._ids("purge.learned_from", space, session=session, source=f'["{session}",%')

    def records_before(self, space: Space, moment: datetime, limit: int) -> list[str]:
        """Those that were not changed since, whatever they are."""
        return self._ids("purge.records_before", space, moment=to_micros(moment), limit=limit)

    def _ids(self, query: str, space: Space, **params: Any) -> list[str]:
        at = self._at(space)
        return [] if at is None else [id_ for (id_,) in self._db.all(query, {"space_id": at["space_id"], **params})]

    def sample(self, space: Space, limit: int, session: str | None, before: datetime | None) -> list[str]:
        """Some of the texts."""
        at = self._at(space)
        if at is None:
            return []
        where = ["created_at < :before"] if before is not None else []
        where += ["session_id = :session"] if session is not None else []
        params = {**at, "limit": limit, "session": session, "before": micros(before)}
        box = self._seals.of(space.tenant)
        rows = self._db.all("purge.sample", params, where=" AND ".join(where))
        return [box.opened(_TEXT, row[0], row)[1] for row in rows]

    # Messages

    def older_messages(self, scope: Scope, moment: datetime, limit: int) -> list[int]:
        params = {"session": scope.session, "moment": to_micros(moment), "limit": limit}
        return [number for (number,) in self._db.all("purge.older_messages", params, order="LIMIT :limit")]

    def drop_messages(
        self, scope: Scope, sequences: Sequence[int]
    ) -> tuple[Mapping[str, int], Mapping[bytes, tuple[int, int]]]:
        """With what is made of them. Chunks that other messages may have said too are named by their hash, with the
        first and the last sequence: messages there that stay are the caller's to index again."""
        assert scope.user is not None
        at = self._at(Space(scope.tenant, Level.USER, scope.user))
        if at is None:
            return {}, {}
        dropped, ranges = self._chunks.drop_messages(scope, sequences)
        params = {**at, "session": scope.session, "sequences": self._db.numbers(sequences)}
        named = self._db.all("purge.mentioned", params)
        self._db.run("purge.relations", params)
        mentions = self._db.run("purge.mentions", params)
        self._db.many("entities.prune", [{"id": number, "space_id": at["space_id"]} for (number,) in named])
        messages = self._db.run("purge.messages", params)
        self._db.run("purge.recount", {"session": scope.session, "tenant": scope.tenant})
        counts = {"messages": messages, "chunks": dropped, "mentions": mentions}
        return {kind: number for kind, number in counts.items() if number}, ranges

    def drop_summary(self, scope: Scope) -> int:
        return self._db.run("sessions.delete_summary", {"session": scope.session})

    def drop_versions(self, scope: Scope, record_id: str) -> int:
        return self._db.run("purge.versions", {"id": record_id, "tenant": scope.tenant})

    def drop_versions_of(self, space: Space, session: str) -> int:
        """What records said before, where it came from this session."""
        at = self._at(space)
        if at is None:
            return 0
        if not self._seals.of(space.tenant).is_sealed:
            return self._db.run("purge.versions_of", {"space_id": at["space_id"], "named": f"%{session}%"})
        return self._drop_sealed_versions(space, at["space_id"], session)

    def _drop_sealed_versions(self, space: Space, space_id: int, session: str) -> int:
        """The database cannot look into them: each is opened, a page at a time."""
        box, after, gone = self._seals.of(space.tenant), ("", 0), 0
        while True:
            params = {"space_id": space_id, "record": after[0], "version": after[1], "limit": _PAGE}
            rows = self._db.all("purge.bodies", params)
            bodies = ((row[0], row[1], box.opened(_BODY, (row[0], row[1]), row)[2]) for row in rows)
            named = [{"record": record, "version": version} for record, version, body in bodies if session in body]
            self._db.many("purge.version", named)
            gone += len(named)
            if len(rows) < _PAGE:
                return gone
            after = (rows[-1][0], rows[-1][1])

    def drop_small(self, space: Space, moment: datetime) -> Mapping[str, int]:
        """Key-value entries and earlier versions of records from before a moment."""
        at = self._at(space)
        if at is None:
            return {}
        params = {"space_id": at["space_id"], "moment": to_micros(moment)}
        self._db.run("once.before", {**_named(space), "before": to_micros(moment)})
        counts = {
            "kv": self._db.run("purge.kv_before", params),
            "versions": self._db.run("purge.versions_before", params),
        }
        return {kind: number for kind, number in counts.items() if number}

    def documents_before(self, space: Space, moment: datetime, limit: int) -> list[str]:
        params = {**space_params(space), "moment": to_micros(moment), "limit": limit}
        return [id_ for (id_,) in self._db.all("purge.documents_before", params, order="LIMIT :limit")]

    # Receipts

    def open_receipt(self, scope: Scope, receipt: Receipt) -> None:
        self._seals.of(scope.tenant)  # without the key nothing is begun: what is to go has to be read
        params = {
            "id": receipt.id,
            "tenant": scope.tenant,
            "what": receipt.what.value,
            "digest": receipt.digest,
            "before_at": micros(receipt.before),
            "asked_by": receipt.asked_by,
            "asked_at": to_micros(receipt.asked_at),
            **_outcome(receipt),
        }
        self._db.run("receipts.add", params)

    def write_receipt(self, scope: Scope, receipt: Receipt) -> None:
        params = {
            "id": receipt.id,
            "tenant": scope.tenant,
            "done_at": micros(receipt.done_at),
            "verified": int(receipt.verified),
            **_outcome(receipt),
        }
        self._db.run("receipts.update", params)

    def receipt(self, scope: Scope, receipt_id: str) -> Receipt | None:
        row = self._db.one("receipts.select", {"tenant": scope.tenant, "id": receipt_id}, where="id = :id")
        return None if row is None else _receipt(scope.tenant, row)

    def unfinished(self, scope: Scope, what: What, digest: str) -> Receipt | None:
        row = self._db.one(
            "receipts.select",
            {"tenant": scope.tenant, "what": what.value, "digest": digest},
            where="what = :what AND digest = :digest AND done_at IS NULL",
            order="ORDER BY asked_at LIMIT 1",
        )
        return None if row is None else _receipt(scope.tenant, row)

    def receipts(self, scope: Scope, limit: int, offset: int) -> list[Receipt]:
        params = {"tenant": scope.tenant, "limit": limit, "offset": offset}
        order = "ORDER BY asked_at DESC, id DESC LIMIT :limit OFFSET :offset"
        return [_receipt(scope.tenant, row) for row in self._db.all("receipts.select", params, order=order)]

    def erased(self, store: Space, moment: datetime) -> int:
        """The bytes of everything that was purged until then, of whomever, are gone."""
        assert store == STORE
        return self._db.run("receipts.erased", {"moment": to_micros(moment)})

    def withdraw(self, space: Space, kind: str, detail: str) -> None:
        jobs.withdraw(self._db, space, kind, detail)


def _named(space: Space) -> dict[str, Any]:
    return {"tenant": space.tenant, "owner": jobs.owner_of(space), "user": space.owner}


def _outcome(receipt: Receipt) -> dict[str, str]:
    return {
        "counts": to_json(dict(receipt.counts)),
        "remaining": to_json(list(receipt.left)),
        "bytes": receipt.bytes.value,
    }


def _receipt(tenant: str, row: Row) -> Receipt:
    id_, what, digest, before, asked_by, asked_at, done_at, counts, verified, left, bytes_ = row
    asked = moment(asked_at)
    assert asked is not None
    return Receipt(
        id=id_,
        what=What(what),
        digest=digest,
        asked_at=asked,
        tenant=tenant,
        before=moment(before),
        asked_by=asked_by,
        done_at=moment(done_at),
        counts=json.loads(counts),
        verified=bool(verified),
        left=tuple(json.loads(left)),
        bytes=Bytes(bytes_),
    )
