"""Repositories of sessions, messages, summaries, key-value entries and usage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple

from limpet.errors import SessionNotFound
from limpet.model.columns import RowCodec, to_text
from limpet.model.dataclass import replace
from limpet.model.job import COMPACT, EXTRACT, GRAPH
from limpet.model.message import Message
from limpet.model.scope import Level, Partition, Scope, hash_bucket
from limpet.model.session import KvEntry, ModelUsage, SessionInfo, SessionQuery, SessionStatus, Summary
from limpet.model.values import bucket_of_id, from_micros, micros, moment, to_micros
from limpet.search.chunk_repository import Chunks
from limpet.search.graph_repository import GraphTables
from limpet.store.encryption import RowLayout
from limpet.store.jobs import Jobs
from limpet.store.tables import KV, MESSAGE_ROWS, MESSAGES, SESSION_ROWS, SESSIONS, SUMMARIES, build_keyset_clause
from limpet.store.tx import Params, Partitions, Query, Repository, Row, Tx, partition_key

WORKING_MEMORY = "working_memory"  # the key of the working memory
_NANO = 1_000_000_000
_USER = Level.USER.value
_OF_PARTITION = (
    "s.partition_id = (SELECT p.id FROM partitions p WHERE p.bucket = :bucket AND p.tenant = :tenant"
    " AND p.level = 'user' AND p.owner = :user)"
)
_BY_EXTERNAL_ID = "s.external_id = :session AND s.tenant = :tenant"
_SESSION = RowLayout(SESSIONS, SESSION_ROWS)
_MESSAGE = RowLayout(MESSAGES, MESSAGE_ROWS)
_SUMMARY_ROWS = RowCodec(Summary)
_SUMMARY = RowLayout(SUMMARIES, _SUMMARY_ROWS)
_KV = RowLayout(KV, "key value updated_at")


def build_scope_filter(scope: Scope) -> tuple[str, dict[str, Any]]:
    """Return the clause that limits a query on sessions ``s`` to the scope, and its parameters."""
    params: dict[str, Any] = {
        "bucket": _find_bucket(scope),
        "tenant": scope.tenant,
        "session": scope.session,
        "user": scope.user,
        "agent": scope.agent,
    }
    clause = _scope_clause(scope.session is not None, scope.user is not None, scope.agent is not None)
    return clause, {name: value for name, value in params.items() if value is not None}


def _find_bucket(scope: Scope) -> int | None:
    """A user name determines it, and so does a session id. A whole tenant has many."""
    if scope.user is not None:
        return hash_bucket(scope.tenant, _USER, scope.user)
    return None if scope.session is None else bucket_of_id(scope.session)


@cache
def _scope_clause(session: bool, user: bool, agent: bool) -> str:
    clauses = ["s.bucket = :bucket"] if user or session else []
    if session:
        clauses.append("s.id = :session")
    elif user:
        clauses.append(_OF_PARTITION)
    clauses.append("s.tenant = :tenant")
    clauses += ["s.user_id = :user"] if user else []
    clauses += ["s.agent = :agent"] if agent else []
    return " AND ".join(clauses)


class Head(NamedTuple):
    """The end of a session's history."""

    last_sequence: int
    message_count: int
    last_active_at: datetime
    state: SessionStatus
    expires_at: datetime | None
    oldest_at: datetime | None


class _SessionRows(Repository):
    """Rows that belong to a session."""

    def _key(self, scope: Scope) -> dict[str, Any]:
        return session_key(self._tx, scope)


def summary_queries(scope: Scope) -> list[Query]:
    where, params = build_scope_filter(scope)
    return [Query("sessions.select", params, where), Query("summaries.get", params, where)]


def unsummarised_query(scope: Scope) -> Query:
    where, params = build_scope_filter(scope)
    return Query("messages.unsummarised", params, where)


class Sessions(_SessionRows):
    def add(self, scope: Scope, info: SessionInfo, *, external_id: str | None = None, cleared_through: int = 0) -> bool:
        """Return False if another session has the id or the key.

        An id that does not contain the bucket is stored as external id and found by it.
        """
        partition = Partition(scope.tenant, Level.USER, info.user)
        row = Chunks(self._tx).lock_partition(partition)
        bucket = bucket_of_id(info.id)
        if bucket != partition.bucket:
            if self._db.one("sessions.is_taken", {"bucket": bucket, "id": info.id}) is not None:
                return False
            external_id = info.id
        params = {
            **SESSION_ROWS.params(info),
            **row.key,
            "external_id": external_id,
            "cleared_through": cleared_through,
            "key": str(info.key),
            # It is counted when its messages come.
            "last_sequence": 0,
            "message_count": 0,
        }
        return self._db.run("sessions.add", self._cipher(scope).encrypt_params(SESSIONS, info.id, params)) == 1

    def get(self, scope: Scope) -> SessionInfo | None:
        """Find by id or by external id."""
        row = self._select_one(scope)
        return None if row is None else self._decrypt(scope, row)

    def get_with_summary(self, scope: Scope) -> tuple[SessionInfo | None, Summary | None]:
        seen = self._tx.seen
        if seen is not None and scope in seen:
            found: tuple[SessionInfo | None, Summary | None] = seen[scope]
            return found
        sessions, summaries = self._db.all_together(summary_queries(scope))
        if sessions:
            found = self._decrypt(scope, sessions[0]), Summaries(self._tx).decrypt(scope, summaries)
        else:  # deleted, or asked for by its external id
            found = self.get(scope), Summaries(self._tx).get(scope)
        if seen is not None:
            seen[scope] = found
        return found

    def _select_one(self, scope: Scope, order: str = "") -> Row | None:
        where, params = build_scope_filter(scope)
        row = self._db.one("sessions.select", params, where=where, order=order)
        if row is None and scope.session is not None:
            of_user = "s.bucket = :bucket AND s.user_id = :user"
            narrower = {of_user: scope.user, "s.agent = :agent": scope.agent}
            where = " AND ".join(
                [_BY_EXTERNAL_ID, *(clause for clause, value in narrower.items() if value is not None)]
            )
            row = self._db.one("sessions.select", params, where=where, order=order)
        return row

    def _decrypt(self, scope: Scope, row: Row) -> SessionInfo:
        *values, partition_id = self._cipher(scope).decrypt_row(_SESSION, row[0], row)
        self._tx.partition_ids[row[1], row[0]] = partition_id
        return SESSION_ROWS.read(values)

    def lock(self, scope: Scope, *more: Query) -> SessionInfo:
        """Return the session, locked until the transaction ends. Raises SessionNotFound.

        ``more``: reads of its rows that follow, sent along with the lock.
        """
        if scope.user is not None and self._db.is_remote:
            where, params = build_scope_filter(scope)
            self._db.prefetch_locked([Query("sessions.select", params, where, self._db.for_update), *more])
        row = self._select_one(self._lock_partition(scope), self._db.for_update)
        if row is None:
            raise _not_found_error(scope)
        return self._decrypt(scope, row)

    def _lock_partition(self, scope: Scope) -> Scope:
        """Before the session, always: a transaction that has the one never waits for who has the other.

        Return the scope with the session's user: what is to be locked must be in one known bucket.
        """
        if scope.user is None and self._db.for_update and (info := self.get(scope)) is not None:
            scope = replace(scope, user=info.user)
        if scope.user is not None:
            Partitions(self._tx).lock(scope.partition)
        return scope

    def lock_head(self, scope: Scope) -> Head:
        """Return the end of the session's history, locked until the transaction ends. Raises SessionNotFound."""
        if scope.user is None:
            where, params = build_scope_filter(self._lock_partition(scope))
            [found] = self._db.all_together([Query("sessions.head", params, where, self._db.for_update)])
        else:
            where, params = build_scope_filter(scope)
            head = Query("sessions.head", params, where, self._db.for_update)
            [found] = Chunks(self._tx).lock_and_read(scope.partition, head)
        if not found:
            raise _not_found_error(scope)
        last, count, active_at, partition_id, state, expires_at, oldest_at = found[0]
        self._tx.partition_ids[scope.tenant, scope.session] = partition_id
        return Head(last, count, from_micros(active_at), SessionStatus(state), moment(expires_at), moment(oldest_at))

    def find_live(self, scope: Scope, key: str, now: datetime) -> SessionInfo | None:
        """The session of the key that takes messages now. One whose time is over does not."""
        info = self.find_open(scope, key)
        return info if info is not None and not info.is_expired(now) else None

    def find_open(self, scope: Scope, key: str) -> SessionInfo | None:
        """The one session that holds the key: not terminated, though its time may be over."""
        where, params = build_scope_filter(scope)
        where += " AND s.key = :key AND s.state <> 'TERMINATED'"
        row = self._db.one("sessions.select", {**params, "key": key}, where=where)
        return None if row is None else self._decrypt(scope, row)

    def find(self, scope: Scope, query: SessionQuery) -> list[SessionInfo]:
        where, params = build_scope_filter(scope)
        for name, value in (("channel", query.channel), ("state", query.state)):
            if value is not None:
                where += f" AND s.{name} = :{name}"
                params[name] = str(value)
        more, place = build_keyset_clause(query.before, "s.last_active_at", "s.id")
        where, params = where + more, params | place
        order = "ORDER BY s.last_active_at DESC, s.id DESC LIMIT :limit OFFSET :offset"
        params |= {"limit": query.limit, "offset": query.offset}
        return [self._decrypt(scope, row) for row in self._db.all("sessions.select", params, where=where, order=order)]

    def list_with(self, scope: Scope, rows: Literal["summaries.sessions", "kv.sessions"]) -> list[str]:
        """The ids of the sessions that have such rows."""
        where, params = build_scope_filter(scope)
        return [id_ for (id_,) in self._db.all(rows, params, where=where)]

    def set_state(self, scope: Scope, state: SessionStatus) -> None:
        self._db.run("sessions.set_state", {**self._key(scope), "state": state.value})

    def set_metadata(self, scope: Scope, metadata: Mapping[str, Any]) -> None:
        params = {**self._key(scope), "metadata": to_text(dict(metadata))}
        self._db.run("sessions.set_metadata", self._cipher(scope).encrypt_params(SESSIONS, scope.session, params))

    def set_expiry(self, scope: Scope, expires_at: datetime | None) -> None:
        self._db.run("sessions.set_expiry", {**self._key(scope), "expires_at": micros(expires_at)})

    def advance(
        self, scope: Scope, head: Head, last_sequence: int, added: int, active_at: datetime, oldest_at: datetime
    ) -> None:
        """Update the locked session after messages were added; the oldest of them was created at ``oldest_at``."""
        key = self._key(scope)
        params = {
            "last_sequence": last_sequence,
            "message_count": head.message_count + added,
            "active_at": to_micros(active_at),
        }
        self._db.run_later("sessions.advance", {**key, **params})
        if head.oldest_at is None or oldest_at < head.oldest_at:
            self._db.run_later("sessions.set_oldest", {**key, "oldest_at": to_micros(oldest_at)})

    def clear(self, scope: Scope) -> dict[str, int]:
        key = self._key(scope)
        counts = {
            "chunks": Chunks(self._tx).drop_session(scope),
            "messages": self._db.run("sessions.delete_messages", key),
            "summaries": self._db.run("sessions.delete_summary", key),
        }
        if mentions := GraphTables(self._tx).drop_session(scope):
            counts["mentions"] = mentions
        self._db.run("sessions.clear", key)
        return counts

    def hide(self, scope: Scope) -> None:
        """Let nobody find the session any more. Its rows are to be removed as those of a deleted session."""
        self._db.run("sessions.hide", self._key(scope))
        del self._tx.partition_ids[scope.tenant, scope.session]


class DeletedSessions(Repository):
    """Sessions that nobody finds any more, while they are being removed."""

    def _key(self, partition: Partition, session: str) -> dict[str, Any]:
        return {**Partitions(self._tx).find_key(partition), "session": session}

    def exists(self, partition: Partition, session: str) -> bool:
        return self._db.one("sessions.is_deleted", self._key(partition, session)) is not None

    def find_messages(self, partition: Partition, session: str, limit: int) -> list[int]:
        """Return the first sequence numbers."""
        rows = self._db.all("messages.first", {**self._key(partition, session), "limit": limit})
        return [sequence for (sequence,) in rows]

    def delete_messages(self, partition: Partition, session: str, sequences: Sequence[int]) -> int:
        params = {**self._key(partition, session), "sequences": self._db.to_array(sequences)}
        return self._db.run("messages.delete", params)

    def delete(self, partition: Partition, session: str) -> dict[str, int]:
        """Delete the session itself. It has no messages, chunks and records any more."""
        key = self._key(partition, session)
        counts = {
            "summaries": self._db.run("sessions.delete_summary", key),
            "kv": self._db.run("sessions.delete_kv", key),
            "usage": self._db.run("sessions.delete_usage", key),
        }
        for kind in (COMPACT, EXTRACT, GRAPH):
            Jobs(self._tx).cancel(partition, kind, session)
        self._db.run("sessions.delete_cursors", key)
        counts["sessions"] = self._db.run("sessions.delete", key)
        return counts


class Messages(_SessionRows):
    def insert(self, scope: Scope, message: Message) -> None:
        self._db.run_later("messages.insert", self._params(scope, message))

    def replace(self, scope: Scope, message: Message) -> None:
        """Replace the text of a message. The caller must rebuild its chunks."""
        self._db.run("messages.replace", self._params(scope, message))

    def _params(self, scope: Scope, message: Message) -> Params:
        assert scope.session is not None
        params = {**self._key(scope), **MESSAGE_ROWS.params(message)}
        return self._cipher(scope).encrypt_params(MESSAGES, (scope.session, message.sequence), params)

    def _decrypt_rows(self, scope: Scope, rows: Iterable[Row]) -> list[Message]:
        cipher = self._cipher(scope)
        at = MESSAGE_ROWS.names.index("sequence")
        return [MESSAGE_ROWS.read(cipher.decrypt_row(_MESSAGE, (scope.session, row[at]), row)) for row in rows]

    def find_by_idempotency_key(self, scope: Scope, key: str) -> Message | None:
        where, params = build_scope_filter(scope)
        where += " AND m.idempotency_key = :key"
        stored = self._cipher(scope).encrypt_deterministic(MESSAGES["idempotency_key"], key)
        row = self._db.one("messages.select", {**params, "key": stored}, where=where)
        return None if row is None else self._decrypt_rows(scope, [row])[0]

    def range(self, scope: Scope, after: int | None, before: int | None, limit: int | None) -> list[Message]:
        where, params = self._range_filter(scope, after, before)
        order = "ORDER BY m.sequence"
        if limit is not None:
            order += " LIMIT :limit"
            params["limit"] = limit
        return self._decrypt_rows(scope, self._db.all("messages.select", params, where=where, order=order))

    def list_unsummarised(self, scope: Scope) -> list[Message]:
        return self._decrypt_rows(scope, self._db.all_together([unsummarised_query(scope)])[0])

    def recent(self, scope: Scope, count: int, before: int | None = None) -> list[Message]:
        [rows] = self._db.all_together([self.recent_query(scope, count, before)])
        return self._decrypt_rows(scope, reversed(rows))

    @classmethod
    def recent_query(cls, scope: Scope, count: int, before: int | None = None) -> Query:
        where, params = cls._range_filter(scope, None, before)
        return Query("messages.select", {**params, "limit": count}, where, "ORDER BY m.sequence DESC LIMIT :limit")

    def count_through(self, scope: Scope, upper_sequence: int) -> int:
        [rows] = self._db.all_together([self.count_query(scope, upper_sequence)])
        return int(rows[0][0])

    @classmethod
    def count_query(cls, scope: Scope, upper_sequence: int) -> Query:
        where, params = cls._range_filter(scope, None, upper_sequence + 1)
        return Query("messages.count", params, where)

    @staticmethod
    def _range_filter(scope: Scope, after: int | None, before: int | None) -> tuple[str, dict[str, Any]]:
        where, params = build_scope_filter(scope)
        if after is not None:
            where += " AND m.sequence > :after"
            params["after"] = after
        if before is not None:
            where += " AND m.sequence < :before"
            params["before"] = before
        return where, params


class Summaries(_SessionRows):
    def get(self, scope: Scope) -> Summary | None:
        where, params = build_scope_filter(scope)
        return self.decrypt(scope, self._db.all("summaries.get", params, where=where))

    def decrypt(self, scope: Scope, rows: Sequence[Row]) -> Summary | None:
        """The summary, of the rows of ``summaries.get``: one or none."""
        return next(
            (_SUMMARY_ROWS.read(self._cipher(scope).decrypt_row(_SUMMARY, scope.session, row)) for row in rows), None
        )

    def put(self, scope: Scope, summary: Summary) -> None:
        key = self._key(scope)
        params = {**key, **_SUMMARY_ROWS.params(summary)}
        self._db.run_later("summaries.put", self._cipher(scope).encrypt_params(SUMMARIES, scope.session, params))
        self._db.run_later("summaries.set_epoch", {**key, "epoch": summary.epoch})

    def get_watermarks(self, scope: Scope) -> tuple[int, int]:
        """Return the last cleared sequence and the last epoch used."""
        [rows] = self._db.all_together([self.watermarks_query(scope)])
        return rows[0] if rows else (0, 0)

    @staticmethod
    def watermarks_query(scope: Scope) -> Query:
        where, params = build_scope_filter(scope)
        return Query("summaries.watermarks", params, where)


class KeyValueEntries(_SessionRows):
    """Entries beyond the cap are not visible to reads; the next write deletes them."""

    def get(self, scope: Scope, key: str, cap: int) -> Any:
        """Return the value; None if there is no such key."""
        return next((json.loads(value) for name, value, _ in self._rows(scope, cap) if name == key), None)

    def get_text(self, scope: Scope, key: str, cap: int) -> str:
        """Return the value as text: None is empty, other types are JSON."""
        value = self.get(scope, key, cap)
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    def set(self, scope: Scope, key: str, value: str, now: datetime, cap: int) -> None:
        """Set a value, given as JSON. Raises SessionNotFound."""
        Sessions(self._tx).lock(scope)
        cipher, at = self._cipher(scope), self._key(scope)
        params = {**at, "key": key, "value": value, "updated_at": to_micros(now)}
        stored_key = cipher.encrypt_deterministic(KV["key"], key)
        self._db.run_later("kv.set", cipher.encrypt_params(KV, (scope.session, stored_key), params))
        self._db.run_later("kv.trim", {**at, "cap": cap})

    def delete(self, scope: Scope, key: str, cap: int) -> bool:
        """Return False if there was no such key. Raises SessionNotFound."""
        Sessions(self._tx).lock(scope)
        at = self._key(scope)
        self._db.run("kv.trim", {**at, "cap": cap})  # otherwise hidden entries would reappear
        stored_key = self._cipher(scope).encrypt_deterministic(KV["key"], key)
        return self._db.run("kv.delete", {**at, "key": stored_key}) > 0

    def items(self, scope: Scope, cap: int) -> list[KvEntry]:
        """Return the newest ``cap`` entries, the oldest first."""
        rows = reversed(self._rows(scope, cap))
        return [KvEntry(key, json.loads(value), from_micros(at)) for key, value, at in rows]

    @staticmethod
    def query(scope: Scope, cap: int) -> Query:
        where, params = build_scope_filter(scope)
        return Query("kv.select", {**params, "cap": cap}, where)

    def _rows(self, scope: Scope, cap: int) -> list[Row]:
        cipher = self._cipher(scope)
        [rows] = self._db.all_together([self.query(scope, cap)])
        return [cipher.decrypt_row(_KV, (scope.session, row[0]), row) for row in rows]


class Cursors(_SessionRows):
    """The progress of a kind of work through a session's messages: the last sequence done, 0 at first."""

    def get(self, scope: Scope, name: str) -> int:
        row = self._db.one("cursors.get", {**self._key(scope), "name": name})
        return 0 if row is None else int(row[0])

    def set(self, scope: Scope, name: str, sequence: int) -> None:
        self._db.run_later("cursors.set", {**self._key(scope), "name": name, "sequence": sequence})


class UsageEntries(_SessionRows):
    def add(self, scope: Scope, entry: ModelUsage) -> None:
        params = {
            **self._key(scope),
            "model": entry.model,
            "calls": entry.calls,
            "input_tokens": entry.input_tokens,
            "output_tokens": entry.output_tokens,
            "cached_tokens": entry.cached_tokens,
            "cost_nanos": round(entry.cost * _NANO),
        }
        self._db.run_later("usage.add", params)

    def find(self, scope: Scope) -> list[ModelUsage]:
        where, params = build_scope_filter(scope)
        rows = self._db.all("usage.select", params, where=where)
        return [ModelUsage(row[0], row[1], row[2], row[3], row[4], cost=row[5] / _NANO) for row in rows]


def _not_found_error(scope: Scope) -> SessionNotFound:
    return SessionNotFound(f"session {scope.session} not found; it may have been deleted")


def session_key(tx: Tx, scope: Scope) -> dict[str, Any]:
    """Return the key of a session's rows, cached per transaction. For a missing session, return a key without rows."""
    cached = tx.partition_ids.get((scope.tenant, scope.session))
    if cached is None:
        where, params = build_scope_filter(scope)
        row = tx.db.one("sessions.locate", params, where=where)
        cached = -1 if row is None else int(row[0])
        if row is not None:
            tx.partition_ids[scope.tenant, scope.session] = cached
    return {**partition_key(cached), "session": scope.session}
