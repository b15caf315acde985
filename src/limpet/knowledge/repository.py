"""Records with their history, tags and metadata, in named queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from limpet.knowledge.filters import after_end, record_filters
from limpet.knowledge.graph.repository import GraphTables
from limpet.model.job import GRAPH_RECORD
from limpet.model.paging import PageEnd
from limpet.model.record import Layer, Record, RecordQuery
from limpet.model.scope import Home, Scope, Space
from limpet.model.times import to_micros
from limpet.search.chunk_repository import Chunks, space_params
from limpet.store import jobs
from limpet.store.db import Row
from limpet.store.encrypted_columns import RECORD_METADATA, RECORD_TAGS, RECORD_VERSIONS, RECORDS
from limpet.store.encryption import Box, Shape
from limpet.store.rows import RECORD_COLUMNS, micros, record_body, record_from, record_from_body, record_params
from limpet.store.tx import Tx

_RECORD = Shape(RECORDS, " ".join(RECORD_COLUMNS))
_VERSION = Shape(RECORD_VERSIONS, "version body")

_IN_SPACE = "+r.space_id = :space_id"  # the plus: by another index than the space's
# What the engine keeps for itself under a key of its own, such as a profile, is no memory that anybody saved.
_LISTED = "(r.key IS NULL OR substr(r.key, 1, 9) <> 'internal_')"


def in_scope(scope: Scope) -> tuple[list[str], dict[str, Any]]:
    """Clauses that keep a query on records ``r`` inside the scope: a user's own and those of the user's sessions."""
    clauses, params = ["r.tenant = :tenant"], {"tenant": scope.tenant}
    for column, name, value in (
        ("r.user_id", "user", scope.user),
        ("r.agent", "agent", scope.agent),
        ("r.session_id", "session", scope.session),
    ):
        if value is not None:
            clauses.append(f"{column} = :{name}")
            params[name] = value
    return clauses, params


def current_at(now: datetime) -> tuple[list[str], dict[str, Any]]:
    """Clauses that keep a query on records ``r`` to those that are true at the moment."""
    clauses = [
        "r.valid_from <= :moment AND (r.valid_to IS NULL OR r.valid_to > :moment)",
        "(r.expires_at IS NULL OR r.expires_at > :moment)",
        "r.superseded_by IS NULL",
        "r.archived_at IS NULL",
        _LISTED,
    ]
    return clauses, {"moment": to_micros(now)}


_OF_SPACE = (
    "r.space_id = (SELECT s.id FROM spaces s WHERE s.tenant = :tenant AND s.level = :level AND s.owner = :owner)"
)


class Records:
    def __init__(self, tx: Tx) -> None:
        self._db = tx.db
        self._chunks = Chunks(tx)
        self._graph = GraphTables(tx)
        self._seals = tx.seals

    def insert(self, home: Home, record: Record) -> None:
        space = self._chunks.ensure_space(home.space)
        box = self._seals.of(home.scope.tenant)
        self._db.run("records.insert", {**box.params(RECORDS, record.id, record_params(record)), "space_id": space.id})
        self._put_labels(box, record)

    def opened(self, tenant: str, rows: Iterable[Row]) -> Iterator[Record]:
        box = self._seals.of(tenant)
        return (record_from(box.opened(_RECORD, row[0], row)) for row in rows)

    def past(self, tenant: str, record_id: str, row: Row) -> Record:
        """Of a version and its body."""
        return record_from_body(self._seals.of(tenant).opened(_VERSION, (record_id, row[0]), row)[1])

    def replace(self, home: Home, record: Record) -> None:
        """Write the record over its last version, which goes into the history."""
        old = self.lock(Scope(home.scope.tenant), record.id)
        assert old is not None
        box = self._seals.of(home.scope.tenant)
        body = {
            "id": old.id,
            "version": old.version,
            "body": record_body(old),
            "updated_at": micros(old.updated_at),
            "replaced_at": micros(record.updated_at),
        }
        self._db.run("records.keep_version", box.params(RECORD_VERSIONS, (old.id, old.version), body))
        self._db.run("records.update", box.params(RECORDS, record.id, record_params(record)))
        self._drop_labels(record.id)
        self._put_labels(box, record)

    def _put_labels(self, box: Box, record: Record) -> None:
        tags = [{"id": record.id, "tag": tag} for tag in record.tags]
        self._db.many("records.add_tag", [box.params(RECORD_TAGS, record.id, row) for row in tags])
        rows = [{"id": record.id, "key": key, "value": value} for key, value in record.metadata.items()]
        self._db.many("records.add_metadata", [box.params(RECORD_METADATA, record.id, row) for row in rows])
        self._db.many("records.add_input", [{"id": record.id, "input": input_} for input_ in record.inputs])

    def _drop_labels(self, record_id: str) -> None:
        self._db.run("records.delete_tags", {"id": record_id})
        self._db.run("records.delete_metadata", {"id": record_id})
        self._db.run("records.delete_inputs", {"id": record_id})

    def get(self, scope: Scope, record_id: str) -> Record | None:
        return self._one(scope, "r.id = :id", {"id": record_id})

    def lock(self, scope: Scope, record_id: str) -> Record | None:
        return self._one(scope, "r.id = :id", {"id": record_id}, self._db.for_update)

    def by_key(self, home: Home, key: str, *, lock: bool = True) -> Record | None:
        stored = self._seals.of(home.scope.tenant).same(RECORDS["key"], key)
        params = {"level": home.level.value, "owner": home.owner, "key": stored}
        where = "r.level = :level AND r.owner = :owner AND r.key = :key"
        return self._one(Scope(home.scope.tenant), where, params, self._db.for_update if lock else "")

    def _one(self, scope: Scope, clause: str, params: dict[str, Any], order: str = "") -> Record | None:
        clauses, scoped = in_scope(scope)
        row = self._db.one("records.select", {**scoped, **params}, where=" AND ".join([*clauses, clause]), order=order)
        return None if row is None else next(self.opened(scope.tenant, [row]))

    def find(self, scope: Scope, query: RecordQuery, now: datetime) -> list[Record]:
        if query.as_of is not None:
            past = [record for record in self._as_of(scope, query, query.as_of) if _comes_after(record, query.before)]
            return past[query.offset :][: query.limit]
        where, params = self._where(scope, query, now)
        more, place = after_end(query.before, "r.updated_at", "r.id")
        where, params = where + more, params | place
        order = "ORDER BY r.updated_at DESC, r.id DESC"
        if query.limit is not None:
            order += " LIMIT :limit OFFSET :offset"
            params |= {"limit": query.limit, "offset": query.offset}
        return list(self.opened(scope.tenant, self._db.all("records.select", params, where=where, order=order)))

    def standing(
        self, space: Space, session: str, keyed: int, layers: Mapping[Layer, int], ids: Sequence[str], now: datetime
    ) -> list[Record]:
        """The newest of those with a key and so many of each layer, pinned ones apart, and those with these ids.

        None of other sessions.
        """
        number = self._chunks.space_id(space)
        if number is None:
            return []
        clauses, params = current_at(now)
        where = " AND ".join([*clauses, "(r.session_id IS NULL OR r.session_id = :session)"])
        params |= {"space_id": number, "session": session, "keyed": keyed}
        chosen = {*ids, *(self._newest(where, params, layers) if keyed or any(layers.values()) else ())}
        rows = self._db.all(
            "records.select",
            {**params, "ids": self._db.texts(sorted(chosen))},
            where=f"{where} AND {_IN_SPACE} AND r.id IN :ids[]",
            order="ORDER BY r.updated_at DESC, r.id DESC",
        )
        return list(self.opened(space.tenant, rows))

    def _newest(self, where: str, params: dict[str, Any], layers: Mapping[Layer, int]) -> set[str]:
        """Their ids, each group read from the end of its index."""
        # The plus: an index of when records begin would find all of them, to be sorted.
        current = where.replace("r.valid_from", "+r.valid_from")
        most = {layer.value: layers.get(layer, 0) for layer in Layer}
        return {id_ for (id_,) in self._db.all("records.newest", params | most, where=current)}

    def _as_of(self, scope: Scope, query: RecordQuery, as_of: datetime) -> list[Record]:
        """Every record as it read at that moment, if it was true then; judged by the version of that time."""
        clauses, params = in_scope(scope)
        where = " AND ".join([*clauses, _LISTED, "r.created_at <= :as_of"])
        rows = self._db.all("records.select", {**params, "as_of": to_micros(as_of)}, where=where)
        then = (self._at(record, as_of) for record in self.opened(scope.tenant, rows))
        found = [record for record in then if query.accepts(record) and query.admits(record, as_of)]
        return sorted(found, key=lambda record: (record.updated_at, record.id), reverse=True)

    def current(self, space: Space, now: datetime) -> list[Record]:
        """All that are true now, the latest change first."""
        clauses, params = current_at(now)
        return self._of_space(space, " AND ".join(clauses), params)

    def some(self, space: Space, ids: Sequence[str]) -> list[Record]:
        """Those with these ids, ended and archived ones too."""
        return self._of_space(space, "r.id IN :ids[]", {"ids": self._db.texts(ids)}) if ids else []

    def same(self, space: Space, fingerprint: str) -> list[Record]:
        """Those with this fingerprint, also ended and archived ones."""
        stored = self._seals.of(space.tenant).same(RECORDS["fingerprint"], fingerprint)
        return self._of_space(space, "r.fingerprint = :fingerprint", {"fingerprint": stored})

    def about(self, space: Space, subject: str, attribute: str) -> list[Record]:
        """Those about this attribute of this subject that nothing has superseded."""
        clause = "r.subject = :subject AND r.attribute = :attribute AND r.superseded_by IS NULL"
        box = self._seals.of(space.tenant)
        params = {
            "subject": box.same(RECORDS["subject"], subject),
            "attribute": box.same(RECORDS["attribute"], attribute),
        }
        return self._of_space(space, clause, params)

    def made_from(self, space: Space, ids: Sequence[str]) -> list[Record]:
        """Those that have one of these among their inputs."""
        clause = "r.id IN (SELECT i.record_id FROM record_inputs i WHERE i.input_id IN :ids[])"
        return self._of_space(space, clause, {"ids": self._db.texts(ids)}) if ids else []

    def unused_since(
        self, space: Space, moment: datetime, limit: int, after: tuple[datetime, str] | None = None
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
        return self._of_space(space, clause, params, limit)

    def turns_of(self, space: Space, session: str) -> list[Record]:
        # Of a turn's source the session comes first; an id has nothing in it that LIKE would take for more.
        """The records of a session's finished turns."""
        return self._of_space(space, "r.origin = 'turn' AND r.source LIKE :source", {"source": f'["{session}",%'})

    def archived_before(self, space: Space, moment: datetime, limit: int) -> list[Record]:
        return self._of_space(space, "r.archived_at < :moment", {"moment": to_micros(moment)}, limit)

    def _of_space(self, space: Space, clause: str, params: dict[str, Any], limit: int | None = None) -> list[Record]:
        where = f"{_OF_SPACE} AND {clause}"
        order = "ORDER BY r.updated_at DESC, r.id DESC"
        if limit is not None:
            order = "ORDER BY r.updated_at, r.id LIMIT :limit"
            params = {**params, "limit": limit}
        rows = self._db.all("records.select", {**space_params(space), **params}, where=where, order=order)
        return list(self.opened(space.tenant, rows))

    def used(self, space: Space, ids: Sequence[str], now: datetime) -> None:
        """Count one use each; not a change, so nothing goes into the history."""
        if (shared := self._counting(space, now)) is not None:
            self._db.many("records.used", [{**shared, "id": id_} for id_ in sorted(ids)])

    def weigh(self, space: Space, record_id: str, confidence: float, said: int, now: datetime) -> None:
        """Said so many times more, which changes how sure it is; not what it says, so nothing goes into the history."""
        if (shared := self._counting(space, now)) is not None:
            self._db.run("records.weigh", {**shared, "id": record_id, "confidence": confidence, "said": said})

    def _counting(self, space: Space, now: datetime) -> dict[str, Any] | None:
        row = self._chunks.space_id(space)
        return None if row is None else {"tenant": space.tenant, "space_id": row, "now": to_micros(now)}

    def count(self, scope: Scope, query: RecordQuery, now: datetime) -> int:
        if query.as_of is not None:
            return len(self._as_of(scope, query, query.as_of))
        where, params = self._where(scope, query, now)
        row = self._db.one("records.count", params, where=where)
        return int(row[0]) if row else 0

    def history(self, scope: Scope, record_id: str) -> list[Record]:
        current = self.get(scope, record_id)
        if current is None:
            return []
        found = self._db.all("records.versions", {"id": record_id})
        return [*(self.past(scope.tenant, record_id, row) for row in found), current]

    def delete(self, scope: Scope, record_id: str) -> dict[str, int]:
        record = self.lock(scope, record_id)
        if record is None:
            return {}
        space = record.home.space
        counts = {"chunks": self._chunks.drop_record(space, record_id)}
        if mentions := self._graph.drop_record(space, record_id):
            counts["mentions"] = mentions
        jobs.withdraw(self._db, space, GRAPH_RECORD, record_id)
        self._drop_labels(record_id)
        counts["versions"] = self._db.run("records.delete_versions", {"id": record_id})
        counts["records"] = self._db.run("records.delete", {"id": record_id, "tenant": scope.tenant})
        return counts

    def _at(self, record: Record, as_of: datetime) -> Record:
        """The record as it read at that moment."""
        if record.updated_at is None or record.updated_at <= as_of:
            return record
        row = self._db.one("records.version_at", {"id": record.id, "as_of": to_micros(as_of)})
        return record if row is None else self.past(record.home.scope.tenant, record.id, row)

    def _where(self, scope: Scope, query: RecordQuery, now: datetime) -> tuple[str, dict[str, Any]]:
        clauses, params = in_scope(scope)
        more, values = record_filters(query.filter, self._seals.of(scope.tenant))
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
            current, moment = current_at(now)
            clauses += current
            params |= moment
        return " AND ".join(clauses), params


def _comes_after(record: Record, place: PageEnd | None) -> bool:
    return place is None or (record.updated_at, record.id) < place
