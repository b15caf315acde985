"""Records: remembered, read, changed and forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from limpet.api.base import BaseOperations
from limpet.errors import InvalidInput, RecordNotFound
from limpet.knowledge import forget
from limpet.knowledge import remember as memory
from limpet.knowledge.maintenance import enqueue_maintenance
from limpet.knowledge.repository import Records
from limpet.model.idempotency import IdempotencyKey, ResourceKind
from limpet.model.ids import check_id
from limpet.model.paging import check_cursor
from limpet.model.record import Forgotten, Layer, Record, RecordQuery, RecordType
from limpet.model.scope import Owner, Scope
from limpet.model.text import check_text
from limpet.model.times import check_time, check_ttl
from limpet.model.values import check_flag, check_label, check_number, check_page
from limpet.search import search
from limpet.security.operation import operation
from limpet.store import once
from limpet.store.tx import Tx


class RecordOperations(BaseOperations):
    """The verbs on long-term memories."""

    @operation("remember")
    def remember(
        self,
        content: str,
        user: str | None = None,
        key: str | None = None,
        type: str = "fact",
        layer: str = "semantic",
        tags: Iterable[str] = (),
        metadata: Mapping[str, str] | None = None,
        confidence: float | None = None,
        salience: float | None = None,
        pinned: bool = False,
        valid_from: datetime | None = None,
        ttl: timedelta | float | None = None,
        *,
        id: str | None = None,
        title: str | None = None,
        references: Iterable[str] = (),
        session: str | None = None,
        agent: str | None = None,
        scope: Literal["global"] | None = None,
        idempotency_key: str | None = None,
    ) -> Record:
        """Keep a memory. The same key (or id) again replaces its text and keeps what it said before.

        Asked again with the same ``idempotency_key`` within two days, it answers with what was made the first time, as
        it is by then; with another request under that key it raises IdempotencyConflict.
        """
        now = self._now()
        home = self._resolve_owner(user, agent, session, scope)
        values = {
            "content": content,
            "key": key,
            "title": title,
            "type": type,
            "layer": layer,
            # Saying a key again changes its text: labels that were left out stay as they are.
            "tags": tags or None,
            "metadata": metadata,
            "confidence": confidence,
            "salience": salience,
            "references": references or None,
            "pinned": pinned or None,
            "valid_from": valid_from,
            "ttl": ttl,
        }
        changes = memory.validate_changes(values, now)
        own = None if id is None else check_id(id, "record id")
        asked = _build_request(idempotency_key, home, own, changes, ttl)
        known = None if asked is None else self._read(lambda tx: _find_previous(tx, home, asked, now))
        if known is not None:
            return known
        draft = Record(
            id=own or self._runtime.new_id(),
            home=home,
            layer=Layer.SEMANTIC,
            type=RecordType.FACT,
            content="",
            created_at=now,
            updated_at=now,
            valid_from=now,
        )
        cut = self._cut.with_vectors(self._runtime.store, self._runtime.embedding, changes.apply_to(draft))

        def save(tx: Tx) -> Record:
            before = _find_previous(tx, home, asked, now)
            if before is not None:
                return before
            saved = memory.save(tx, draft, changes, cut, now)
            once.save_key(tx, home.space, asked, saved.id, now)
            if saved.layer is Layer.EPISODIC:  # it may be worth promoting
                enqueue_maintenance(tx, home.space, self.config.learn, now)
            return saved

        saved = self._write(save)
        self._request_embedding(saved, cut)
        return saved

    @operation("record")
    def record(self, id: str, *, user: str | None = None, agent: str | None = None) -> Record:
        """The record with this id."""
        return self._get_record(self._scope(user=user, agent=agent), check_id(id, "record id"))

    def _get_record(self, scope: Scope, record_id: str) -> Record:
        found = self._read(lambda tx: Records(tx).get(scope, record_id))
        if found is None:
            raise RecordNotFound(f"no record {record_id} here")
        return found

    @operation("records")
    def records(
        self,
        user: str | None = None,
        session: str | None = None,
        layers: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        agent: str | None = None,
        history: bool = False,
        archived: bool = False,
        before: tuple[datetime | None, str] | None = None,
    ) -> list[Record]:
        """Records, the latest change first: those true now or at ``as_of``; with ``history`` also those that were.

        With ``archived`` those that have faded, and no others. ``before`` goes on where another page ended: its last
        record's ``updated_at`` and ``id``.
        """
        query = RecordQuery(
            search.build_record_filter(layers, types, tags, metadata),
            since=None if since is None else check_time(since, "since"),
            until=None if until is None else check_time(until, "until"),
            as_of=None if as_of is None else check_time(as_of, "as_of"),
            include_past=history,
            archived=check_flag(archived, "archived"),
            limit=check_page(limit),
            offset=check_number(offset, "offset"),
            before=check_cursor(before),
        )
        scope, now = self._scope(user=user, agent=agent, session=session), self._now()
        return self._read(lambda tx: Records(tx).find(scope, query, now))

    @operation("count_records")
    def count_records(self, user: str | None = None, *, agent: str | None = None, session: str | None = None) -> int:
        """How many records are true now."""
        scope, now = self._scope(user=user, agent=agent, session=session), self._now()
        return self._read(lambda tx: Records(tx).count(scope, RecordQuery(), now))

    @operation("search_metadata")
    def search_metadata(
        self, key: str, value: str, user: str | None = None, *, agent: str | None = None
    ) -> list[Record]:
        """Every current record whose metadata has exactly this value under this key."""
        wanted = {check_label(key, "the metadata key"): check_text(value, "the metadata value")}
        scope, now = self._scope(user=user, agent=agent), self._now()
        query = RecordQuery(search.build_record_filter(None, None, None, wanted), limit=None)
        return self._read(lambda tx: Records(tx).find(scope, query, now))

    @operation("update")
    def update(self, id: str, /, *, user: str | None = None, agent: str | None = None, **changes: Any) -> Record:
        """Change some fields of a record. Its id and creation time stay; what it said before goes to its history."""
        scope, now = self._scope(user=user, agent=agent), self._now()
        checked, cut = memory.validate_changes(changes, now), self._cut
        if self._runtime.embedding is not None and (checked.content or checked.title):
            expected = checked.apply_to(self._get_record(scope, check_id(id, "record id")))
            cut = cut.with_vectors(self._runtime.store, self._runtime.embedding, expected)
        changed = self._write(lambda tx: memory.update(tx, scope, id, checked, cut, now))
        self._request_embedding(changed, cut)
        return changed

    def _request_embedding(self, record: Record, cut: memory.RecordChunker) -> None:
        if self._runtime.embedding is not None:
            self._runtime.request_embedding(cut.build_drafts(record))

    @operation("history")
    def history(self, id: str, *, user: str | None = None, agent: str | None = None) -> list[Record]:
        """Everything the record has said, the oldest first, the current version last."""
        scope, record_id = self._scope(user=user, agent=agent), check_id(id, "record id")
        versions = self._read(lambda tx: Records(tx).history(scope, record_id))
        if not versions:
            raise RecordNotFound(f"no record {record_id} here")
        return versions

    @operation("forget")
    def forget(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        query: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        scope: Literal["global"] | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Remove a record by id, by its owner's key, or all records of an owner that hold every word of a query.

        Every copy goes with it: promoted ones, their origins, twins, the turn's record, texts that were made of it, the
        line in the daily notes, and the sentence it was learned from in its message. The answer says what was removed,
        and where a search still finds it. With ``dry_run`` nothing is removed; the answer names what would be.
        """
        if [id, key, query].count(None) != 2:
            raise InvalidInput("forget takes exactly one of id, key and query")
        if id is not None:
            owner = self._scope(user=user, agent=agent, session=session)
            choose = memory.select_by_id(owner, id)
        else:
            home = self._resolve_owner(user, agent, session, scope)
            owner = home.scope
            choose = (
                memory.select_by_words(home, query, self._now())
                if query is not None
                else memory.select_by_key(home, key or "")
            )

        if dry_run:
            would_go = self._read(lambda tx: forget.plan_forget(self._runtime, tx, owner, choose))
            return Forgotten({}, tuple(record.id for record in would_go.records))
        return forget.forget(self._runtime, self._tenant, owner, choose, self._cut, query)


def _build_request(
    key: str | None, home: Owner, record_id: str | None, changes: memory.RecordChanges, ttl: timedelta | float | None
) -> IdempotencyKey | None:
    """The request as it is when it is asked again: without the time that it is asked at."""
    if key is None:
        return None
    said = {name: getattr(changes, name) for name in changes.__slots__ if name != "expires_at"}
    lasting = None if ttl is None else check_ttl(ttl) // timedelta(microseconds=1)
    return IdempotencyKey.from_request(
        ResourceKind.RECORD, key, {**said, "ttl": lasting, "id": record_id, "home": [home.level.value, home.owner]}
    )


def _find_previous(tx: Tx, home: Owner, asked: IdempotencyKey | None, now: datetime) -> Record | None:
    def find(tx: Tx, record_id: str) -> Record:
        found = Records(tx).get(home.scope, record_id)
        if found is None:
            raise RecordNotFound(f"record {record_id} was made under this idempotency_key, and is gone since")
        return found

    return once.find_existing(tx, home.space, asked, find, now)
