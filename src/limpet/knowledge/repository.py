"""Records with their history, tags and metadata, in named queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from limpet.errors import ConstraintFailed
from limpet.model.job import GRAPH_RECORD
from limpet.model.record import Layer, Origin, Record, RecordQuery
from limpet.model.scope import Level, Owner, Partition, Scope, hash_bucket
from limpet.model.values import bucket_of_id, is_id, micros, to_micros
from limpet.search.chunk_repository import Chunks
from limpet.search.graph_repository import GraphTables
from limpet.store.encryption import RowLayout
from limpet.store.jobs import Jobs
from limpet.store.tables import (
    RECORD_METADATA,
    RECORD_ROWS,
    RECORD_TAGS,
    RECORD_VERSIONS,
    RECORDS,
    build_keyset_clause,
    build_record_clauses,
)
from limpet.store.tx import Cipher, Params, Partitions, Query, Repository, Row, Tx, partition_key, partition_params

_RECORD = RowLayout(RECORDS, RECORD_ROWS)
_VERSION = RowLayout(RECORD_VERSIONS, "version body")

_IN_PARTITION = "r.bucket = :bucket AND r.partition_id = :partition_id"
_TAUGHT = "r.source_session = :session"  # by a message of the session
_OF_PARTITION = (
    "r.bucket = :bucket AND r.partition_id = (SELECT p.id FROM partitions p WHERE p.bucket = :bucket"
    " AND p.tenant = :tenant AND p.level = :level AND p.owner = :owner)"
)
_OF_USER = (
    "r.partition_id = (SELECT p.id FROM partitions p WHERE p.bucket = :bucket"
    " AND p.tenant = :tenant AND p.level = 'user' AND p.owner = :user)"
)
# The plus: in the order of its index SQLite would read all records of the partition.
_NEWEST_OF_FEW = "ORDER BY +r.updated_at DESC, r.id DESC"
# What the engine keeps for itself under a key of its own, such as a profile, is no memory that anybody saved.
_LISTED = "(r.key IS NULL OR substr(r.key, 1, 9) <> 'internal_')"


def build_scope_clauses(scope: Scope, record_id: str | None = None) -> tuple[list[str], dict[str, Any]]:
    """Clauses that keep a query on records ``r`` inside the scope: a user's own and those of the user's sessions.

    For one record, its id tells the bucket where the scope names no user.
    """
    clauses = ["r.tenant = :tenant"]
    params: dict[str, Any] = {"tenant": scope.tenant}
    if scope.user is not None:
        clauses += ["r.bucket = :bucket"] if record_id else ["r.bucket = :bucket", _OF_USER]
        params["bucket"] = hash_bucket(scope.tenant, Level.USER.value, scope.user)
    elif record_id is not None and is_id(record_id):
        clauses.append("r.bucket = :bucket")
        params["bucket"] = bucket_of_id(record_id)
    for column, name, value in (
        ("r.user_id", "user", scope.user),
        ("r.agent", "agent", scope.agent),
        ("r.session_id", "session", scope.session),
    ):
        if value is not None:
            clauses.append(f"{column} = :{name}")
            params[name] = value
    return clauses, params


def build_current_clauses(now: datetime) -> tuple[list[str], dict[str, Any]]:
    """Clauses that keep a query on records ``r`` to those that are true at the moment."""
    clauses = [
        # One that was true when it was written is true: the clock that wrote it may be ahead of this one.
        "(r.valid_from <= :moment OR r.valid_from <= r.created_at OR r.valid_from <= r.updated_at)",
        "(r.valid_to IS NULL OR r.valid_to > :moment)",
        "(r.expires_at IS NULL OR r.expires_at > :moment)",
        "r.superseded_by IS NULL",
        "r.archived_at IS NULL",
        _LISTED,
    ]
    return clauses, {"moment": to_micros(now)}


def is_record_id_taken(tx: Tx, record_id: str) -> bool:
    """Return whether a record has the id, whosever it is."""
    return tx.db.one("records.is_taken", {"bucket": bucket_of_id(record_id), "id": record_id}) is not None


class Records(Repository):
    def __init__(self, tx: Tx) -> None:
        super().__init__(tx)
        self._chunks = Chunks(tx)
        self._graph = GraphTables(tx)

    def insert(self, home: Owner, record: Record, external_id: str | None = None) -> None:
        """An id that does not say the bucket is its own external id: it is found by that."""
        row = self._chunks.lock_partition(home.space)
        if bucket_of_id(record.id) != home.space.bucket:
            if is_record_id_taken(self._tx, record.id):
                raise ConstraintFailed(f"the id {record.id} belongs to another record; leave it out to get a new one")
            external_id = record.id
        cipher = self._cipher(home.scope)
        params = cipher.encrypt_params(RECORDS, record.id, RECORD_ROWS.params(record))
        own = {**row.key, **_source_params(record), "external_id": external_id, "owner": home.owner}
        self._db.run_later("records.insert", {**params, **own})
        self._put_labels(cipher, row.key, record)

    def decrypt_records(self, tenant: str, rows: Iterable[Row]) -> list[Record]:
        cipher = self._tx.encryption.cipher_for(tenant)
        return [RECORD_ROWS.read(cipher.decrypt_row(_RECORD, row[0], row)) for row in rows]

    def decrypt_version(self, tenant: str, record_id: str, row: Row) -> Record:
        return RECORD_ROWS.load(
            self._tx.encryption.cipher_for(tenant).decrypt_row(_VERSION, (record_id, row[0]), row)[1]
        )

    def replace(self, home: Owner, record: Record) -> None:
        """Write the record over its last version, which goes into the history."""
        key = self._key(home.space)
        old = self._lock_in(home.space, key, record.id)
        assert old is not None
        cipher = self._cipher(home.scope)
        body = {
            **key,
            "id": old.id,
            "version": old.version,
            "body": RECORD_ROWS.dump(old),
            "updated_at": micros(old.updated_at),
            "replaced_at": micros(record.updated_at),
        }
        self._db.run_later("records.add_version", cipher.encrypt_params(RECORD_VERSIONS, (old.id, old.version), body))
        self._db.run_later(
            "records.update", {**cipher.encrypt_params(RECORDS, record.id, RECORD_ROWS.params(record)), **key}
        )
        self._drop_labels(key, record.id)
        self._put_labels(cipher, key, record)

    def _key(self, space: Partition) -> dict[str, int]:
        """Of a partition that is not there, a key that nothing has."""
        return partition_key(self._chunks.find_partition_id(space) or -1)

    def _lock_in(self, space: Partition, key: dict[str, int], record_id: str) -> Record | None:
        where = f"{_IN_PARTITION} AND r.id = :id"
        return self._read_one(space.tenant, {**key, "id": record_id}, where, self._db.for_update)

    def _put_labels(self, cipher: Cipher, key: dict[str, int], record: Record) -> None:
        at = {**key, "id": record.id}
        tags = [{**at, "tag": tag} for tag in record.tags]
        self._db.run_many("records.add_tag", [cipher.encrypt_params(RECORD_TAGS, record.id, row) for row in tags])
        rows = [{**at, "key": name, "value": value} for name, value in record.metadata.items()]
        self._db.run_many(
            "records.add_metadata", [cipher.encrypt_params(RECORD_METADATA, record.id, row) for row in rows]
        )
        self._db.run_many("records.add_input", [{**at, "input": input_} for input_ in record.inputs])

    def _drop_labels(self, key: dict[str, int], record_id: str) -> None:
        at = {**key, "id": record_id}
        self._db.run("records.delete_tags", at)
        self._db.run("records.delete_metadata", at)
        self._db.run("records.delete_inputs", at)

    def get(self, scope: Scope, record_id: str) -> Record | None:
        """By its id, or by the one it came with."""
        return self._select_one(scope, record_id, "")

    def lock(self, scope: Scope, record_id: str) -> Record | None:
        """Return the record, locked until the transaction ends, and its partition before it."""
        if scope.user is not None:
            Partitions(self._tx).lock(scope.partition)
            return self._select_one(scope, record_id, self._db.for_update)
        found = self.get(scope, record_id)  # what is to be locked must be in one known bucket
        if found is None or not self._db.for_update:
            return found
        Partitions(self._tx).lock(found.home.space)
        return self._lock_in(found.home.space, self._key(found.home.space), found.id)

    def find_by_key(self, home: Owner, key: str, *, lock: bool = True) -> Record | None:
        if lock:
            Partitions(self._tx).lock(home.space)
        stored = self._cipher(home.scope).encrypt_deterministic(RECORDS["key"], key)
        params = {**partition_params(home.space), "of_level": home.level.value, "of_owner": home.owner, "key": stored}
        where = f"{_OF_PARTITION} AND r.level = :of_level AND r.owner = :of_owner AND r.key = :key"
        return self._read_one(home.scope.tenant, params, where, self._db.for_update if lock else "")

    def _select_one(self, scope: Scope, record_id: str, order: str) -> Record | None:
        clauses, params = build_scope_clauses(scope, record_id)
        params["id"] = record_id
        found = self._read_one(scope.tenant, params, " AND ".join([*clauses, "r.id = :id"]), order)
        if found is None:
            clauses = [clause for clause in clauses if scope.user is not None or clause != "r.bucket = :bucket"]
            found = self._read_one(scope.tenant, params, " AND ".join([*clauses, "r.external_id = :id"]), order)
        return found

    def _read_one(self, tenant: str, params: Params, where: str, order: str) -> Record | None:
        row = self._db.one("records.select", params, where=where, order=order)
        return None if row is None else self.decrypt_records(tenant, [row])[0]

    def find(self, scope: Scope, query: RecordQuery, now: datetime) -> list[Record]:
        if query.as_of is not None:
            past = self._find_as_of(scope, query, query.as_of)
            if query.before is not None:
                past = [record for record in past if (record.updated_at, record.id) < query.before]
            return past[query.offset :][: query.limit]
        where, params = self._build_where(scope, query, now)
        more, place = build_keyset_clause(query.before, "r.updated_at", "r.id")
        where, params = where + more, params | place
        order = "ORDER BY r.updated_at DESC, r.id DESC"
        if query.limit is not None:
            order += " LIMIT :limit OFFSET :offset"
            params |= {"limit": query.limit, "offset": query.offset}
        return self.decrypt_records(scope.tenant, self._db.all("records.select", params, where=where, order=order))

    def find_always_included(
        self, space: Partition, session: str, keyed: int, layers: Mapping[Layer, int], ids: Sequence[str], now: datetime
    ) -> list[Record]:
        """The newest of those with a key and so many of each layer, pinned ones apart, and those with these ids.

        None of other sessions.
        """
        number = self._chunks.find_partition_id(space)
        if number is None:
            return []
        clauses, params = build_current_clauses(now)
        where = " AND ".join([*clauses, "(r.session_id IS NULL OR r.session_id = :session)"])
        params |= {**partition_key(number), "session": session, "keyed": keyed}
        chosen = {*ids, *(self._find_newest_ids(where, params, layers) if keyed or any(layers.values()) else ())}
        rows = self._db.all(
            "records.select",
            {**params, "ids": self._db.to_array(sorted(chosen))},
            where=f"{where} AND {_IN_PARTITION} AND r.id IN :ids[]",
            order=_NEWEST_OF_FEW,
        )
        return self.decrypt_records(space.tenant, rows)

    def find_standing(self, space: Partition, query: Query | None) -> list[Record]:
        return [] if query is None else self.decrypt_records(space.tenant, self._db.all_together([query])[0])

    def build_standing_query(
        self, space: Partition, session: str, types: Sequence[str], attributes: Sequence[str], limit: int, now: datetime
    ) -> Query | None:
        """Those that hold now: pinned, explicit, of these types or attributes first, then the newest.

        None of other sessions.
        """
        number = self._chunks.find_partition_id(space)
        if number is None:
            return None
        clauses, params = build_current_clauses(now)
        cipher, labels = self._cipher(space), attributes
        if cipher.is_encrypted:
            labels = cipher.encrypt_all_deterministic(RECORDS["attribute"], attributes)
        clauses += ["(r.session_id IS NULL OR r.session_id = :session)", "r.origin NOT IN ('turn', 'condensed')"]
        return Query(
            "records.standing",
            {
                **partition_key(number),
                **params,
                "session": session,
                "types": self._db.to_array(list(types)),
                "labels": self._db.to_array(labels),
                "limit": limit,
            },
            where=" AND ".join(clauses),
            order=(
                "CASE WHEN r.pinned = 1 THEN 0 WHEN r.type IN :types[] THEN 1 WHEN r.origin = 'explicit'"
                " THEN 2 WHEN r.attribute IN :labels[] THEN 3 ELSE 4 END, r.updated_at DESC, r.id DESC"
            ),
        )

    def _find_newest_ids(self, where: str, params: dict[str, Any], layers: Mapping[Layer, int]) -> set[str]:
        """Their ids, each group read from the end of its index."""
        # The plus: an index of when records begin would find all of them, to be sorted.
        current = where.replace("r.valid_from", "+r.valid_from")
        most = {layer.value: layers.get(layer, 0) for layer in Layer}
        return {id_ for (id_,) in self._db.all("records.newest", params | most, where=current)}

    def _find_as_of(self, scope: Scope, query: RecordQuery, as_of: datetime) -> list[Record]:
        """Every record as it read at that moment, if it was true then; judged by the version of that time."""
        clauses, params = build_scope_clauses(scope)
        where = " AND ".join([*clauses, _LISTED, "r.created_at <= :as_of"])
        rows = self._db.all("records.select", {**params, "as_of": to_micros(as_of)}, where=where)
        then = (self._version_at(record, as_of) for record in self.decrypt_records(scope.tenant, rows))
        found = [record for record in then if query.matches(record) and query.matches_validity(record, as_of)]
        return sorted(found, key=lambda record: (record.updated_at, record.id), reverse=True)

    def find_current(self, space: Partition, now: datetime) -> list[Record]:
        """All that are true now, the latest change first."""
        clauses, params = build_current_clauses(now)
        return self._find_in_partition(space, " AND ".join(clauses), params)

    def get_many(self, space: Partition, ids: Sequence[str]) -> list[Record]:
        """Those with these ids, ended and archived ones too."""
        number = self._chunks.find_partition_id(space) if ids else None
        if number is None:
            return []
        params = {**partition_key(number), "ids": self._db.to_array(ids)}
        rows = self._db.all("records.select", params, where=f"{_IN_PARTITION} AND r.id IN :ids[]", order=_NEWEST_OF_FEW)
        return self.decrypt_records(space.tenant, rows)

    @staticmethod
    def chunks_query(key: Params, ordinals: Any) -> Query:
        return Query("records.of_chunks", {**key, "ordinals": ordinals})

    def find_of_chunks(self, space: Partition, queries: Sequence[Query]) -> list[Record]:
        """What the messages of some chunks taught, and the records that chunks are of; also what has ended since."""
        rows = {row[0]: row for found in self._db.all_together(queries) for row in found}
        records = self.decrypt_records(space.tenant, rows.values())
        return sorted(records, key=lambda record: (record.updated_at, record.id), reverse=True)

    def find_newest_claims(self, space: Partition, limit: int, now: datetime) -> list[Record]:
        clauses, params = build_current_clauses(now)
        rows = self._db.all(
            "records.select",
            {**partition_params(space), **params, "limit": limit},
            where=" AND ".join([_OF_PARTITION, *clauses, "r.origin = 'extracted'"]),
            order="ORDER BY r.updated_at DESC, r.id DESC LIMIT :limit",
        )
        return self.decrypt_records(space.tenant, rows)

    def find_by_fingerprint(self, space: Partition, fingerprint: str) -> list[Record]:
        """Those with this fingerprint, also ended and archived ones."""
        stored = self._cipher(space).encrypt_deterministic(RECORDS["fingerprint"], fingerprint)
        return self._find_in_partition(space, "r.fingerprint = :fingerprint", {"fingerprint": stored})

    def find_by_fingerprints(self, space: Partition, fingerprints: Sequence[str]) -> list[Record]:
        """Those with one of these fingerprints, also ended and archived ones."""
        if not fingerprints:
            return []
        cipher = self._cipher(space)
        stored = cipher.encrypt_all_deterministic(RECORDS["fingerprint"], fingerprints)
        params = {"fingerprints": self._db.to_array(stored)}
        return self._find_in_partition(space, "r.fingerprint IN :fingerprints[]", params)

    def find_by_attribute(self, space: Partition, subject: str, attribute: str) -> list[Record]:
        """Those about this attribute of this subject that nothing has superseded."""
        clause = "r.subject = :subject AND r.attribute = :attribute AND r.superseded_by IS NULL"
        cipher = self._cipher(space)
        params = {
            "subject": cipher.encrypt_deterministic(RECORDS["subject"], subject),
            "attribute": cipher.encrypt_deterministic(RECORDS["attribute"], attribute),
        }
        return self._find_in_partition(space, clause, params)

    def find_derived_from(self, space: Partition, ids: Sequence[str]) -> list[Record]:
        """Those that have one of these among their inputs."""
        clause = "r.id IN (SELECT i.record_id FROM record_inputs i WHERE i.bucket = :bucket AND i.input_id IN :ids[])"
        return self._find_in_partition(space, clause, {"ids": self._db.to_array(ids)}) if ids else []

    def find_unused_since(
        self, space: Partition, moment: datetime, limit: int, after: tuple[datetime, str] | None = None
    ) -> list[Record]:
        """Those that may fade, the longest unchanged first: neither explicit nor pinned nor archived.

        ``after`` is the last change and the id of the record the page before ended with.
        """
        clause = (
            "r.archived_at IS NULL AND r.pinned = 0 AND r.origin <> 'explicit' AND r.updated_at < :moment"
            f" AND (r.last_used_at IS NULL OR r.last_used_at < :moment) AND {_LISTED}"
        )
        params: dict[str, Any] = {"moment": to_micros(moment)}
        if after is not None:
            clause += " AND (r.updated_at > :last OR (r.updated_at = :last AND r.id > :last_id))"
            params |= {"last": to_micros(after[0]), "last_id": after[1]}
        return self._find_in_partition(space, clause, params, limit)

    def find_learned_from(self, space: Partition, session: str) -> list[Record]:
        """The records that were learned from a session's messages, not those of its turns."""
        return self._find_in_partition(space, _TAUGHT, {"session": session})

    def find_ended_sentences(self, space: Partition, session: str, now: datetime) -> tuple[str, ...]:
        """The words of a session's messages that stated what was taken back or replaced since."""
        [rows] = self._db.all_together([self.ended_query(space, session, now)])
        found = self.decrypt_records(space.tenant, rows)
        return tuple(record.source.sentence for record in found if record.source.sentence)

    @classmethod
    def ended_query(cls, space: Partition, session: str, now: datetime) -> Query:
        ended = f"{_TAUGHT} AND (r.superseded_by IS NOT NULL OR r.valid_to <= :now)"
        return cls._partition_query(space, ended, {"session": session, "now": to_micros(now)})

    def find_turns(self, space: Partition, session: str, limit: int | None = None) -> list[Record]:
        """The records of a session's finished turns, or the oldest of them."""
        # Of a turn's source the session comes first; an id has nothing in it that LIKE would take for more.
        clause, params = "r.origin = 'turn' AND r.source LIKE :source", {"source": f'["{session}",%'}
        return self._find_in_partition(space, clause, params, limit)

    def find_archived_before(self, space: Partition, moment: datetime, limit: int) -> list[Record]:
        return self._find_in_partition(space, "r.archived_at < :moment", {"moment": to_micros(moment)}, limit)

    def _find_in_partition(
        self, space: Partition, clause: str, params: dict[str, Any], limit: int | None = None
    ) -> list[Record]:
        [rows] = self._db.all_together([self._partition_query(space, clause, params, limit)])
        return self.decrypt_records(space.tenant, rows)

    @staticmethod
    def _partition_query(space: Partition, clause: str, params: dict[str, Any], limit: int | None = None) -> Query:
        where = f"{_OF_PARTITION} AND {clause}"
        # The plus: by an index of what is asked for, where there is one, and not by that of all changes.
        order = "ORDER BY +r.updated_at DESC, r.id DESC"
        if limit is not None:
            order = "ORDER BY r.updated_at, r.id LIMIT :limit"
            params = {**params, "limit": limit}
        return Query("records.select", {**partition_params(space), **params}, where, order)

    def mark_used(self, space: Partition, uses: Mapping[str, tuple[int, datetime]]) -> None:
        """Add uses, for each record their number and the last; not a change, so nothing goes into the history."""
        row = self._chunks.find_partition_id(space)
        if row is not None:
            key = partition_key(row)
            rows = [{**key, "id": id_, "count": count, "now": to_micros(at)} for id_, (count, at) in uses.items()]
            self._db.run_many("records.count_use", sorted(rows, key=lambda each: str(each["id"])))

    def update_confidence(self, space: Partition, record_id: str, confidence: float, said: int, now: datetime) -> None:
        """Said so many times more, which changes how sure it is; not what it says, so nothing goes into the history."""
        row = self._chunks.find_partition_id(space)
        if row is not None:
            params = {"id": record_id, "confidence": confidence, "said": said, "now": to_micros(now)}
            self._db.run("records.set_confidence", {**partition_key(row), **params})

    def count(self, scope: Scope, query: RecordQuery, now: datetime) -> int:
        if query.as_of is not None:
            return len(self._find_as_of(scope, query, query.as_of))
        where, params = self._build_where(scope, query, now)
        row = self._db.one("records.count", params, where=where)
        return int(row[0]) if row else 0

    def history(self, scope: Scope, record_id: str) -> list[Record]:
        current = self.get(scope, record_id)
        if current is None:
            return []
        found = self._db.all("records.versions", {**self._key(current.home.space), "id": current.id})
        return [*(self.decrypt_version(scope.tenant, current.id, row) for row in found), current]

    def drop_versions(self, space: Partition, record_id: str) -> int:
        """What the record said before. Returns how many versions went."""
        return self._db.run("records.delete_versions", {**self._key(space), "id": record_id})

    def delete(self, scope: Scope, record_id: str) -> dict[str, int]:
        record = self.lock(scope, record_id)
        if record is None:
            return {}
        space, record_id = record.home.space, record.id
        key = self._key(space)
        counts = {"chunks": self._chunks.drop_record(space, record_id)}
        if mentions := self._graph.drop_record(space, record_id):
            counts["mentions"] = mentions
        Jobs(self._tx).cancel(space, GRAPH_RECORD, record_id)
        self._drop_labels(key, record_id)
        counts["versions"] = self._db.run("records.delete_versions", {**key, "id": record_id})
        counts["records"] = self._db.run("records.delete", {**key, "id": record_id})
        return counts

    def _version_at(self, record: Record, as_of: datetime) -> Record:
        if record.updated_at is None or record.updated_at <= as_of:
            return record
        params = {**self._key(record.home.space), "id": record.id, "as_of": to_micros(as_of)}
        row = self._db.one("records.version_at", params)
        return record if row is None else self.decrypt_version(record.home.scope.tenant, record.id, row)

    def _build_where(self, scope: Scope, query: RecordQuery, now: datetime) -> tuple[str, dict[str, Any]]:
        clauses, params = build_scope_clauses(scope)
        more, values = build_record_clauses(query.filter, self._cipher(scope))
        clauses += more
        params |= values
        if query.since is not None:
            clauses.append("r.created_at >= :since")
            params["since"] = to_micros(query.since)
        if query.until is not None:
            clauses.append("r.created_at < :until")
            params["until"] = to_micros(query.until)
        if query.archived:
            clauses += ["r.archived_at IS NOT NULL", _LISTED]
        elif query.include_past:
            clauses.append(_LISTED)
        else:
            current, moment = build_current_clauses(now)
            clauses += current
            params |= moment
        return " AND ".join(clauses), params


def _source_params(record: Record) -> dict[str, Any]:
    """The message that taught a claim. A turn's record is made of messages, and teaches nothing of them."""
    source = record.source
    taught = record.origin not in (Origin.TURN, Origin.CONDENSED) and source.session_id and source.sequences
    return {
        "source_session": source.session_id if taught else None,
        "source_sequence": source.sequences[0] if taught else None,
    }
