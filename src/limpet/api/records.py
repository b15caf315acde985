"""Records: remembered, read, changed and forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from limpet.api.base import Face
from limpet.errors import InvalidInput, RecordNotFound
from limpet.knowledge import forget
from limpet.knowledge import remember as memory
from limpet.knowledge.maintenance import ask
from limpet.knowledge.repository import Records
from limpet.model.idempotency import Asked, Thing
from limpet.model.ids import checked_id
from limpet.model.paging import checked_end
from limpet.model.record import Forgotten, Layer, Record, RecordQuery, RecordType
from limpet.model.scope import Home, Scope
from limpet.model.text import checked_text
from limpet.model.times import checked_time, checked_ttl
from limpet.model.values import checked_flag, checked_label, checked_number, checked_page
from limpet.search import search
from limpet.security.operation import verb
from limpet.store import once
from limpet.store.tx import Tx


class RecordOperations(Face):
    """The verbs on long-term memories."""

    @verb("remember")
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
        home = self._home(user, agent, session, scope)
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
        changes = memory.checked_changes(values, now)
        own = None if id is None else checked_id(id, "record id")
        asked = _once(idempotency_key, home, own, changes, ttl)
        known = None if asked is None else self._read(lambda tx: _again(tx, home, asked, now))
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
        cut = self._cut.with_vectors(self._runtime.store, self._runtime.embedding, changes.over(draft))

        def save(tx: Tx) -> Record:
            before = _again(tx, home, asked, now)
            if before is not None:
                return before
            saved = memory.save(tx, draft, changes, cut, now)
            once.note(tx, home.space, asked, saved.id, now)
            if saved.layer is Layer.EPISODIC:  # it may be worth promoting
                ask(tx, home.space, self.config.learn, now)
            return saved

        saved = self._write(save)
        self._look_after(saved, cut)
        return saved

    @verb("record")
    def record(self, id: str, *, user: str | None = None, agent: str | None = None) -> Record:
        """The record with this id."""
        return self._found(self._scope(user=user, agent=agent), checked_id(id, "record id"))

    def _found(self, scope: Scope, record_id: str) -> Record:
        found = self._read(lambda tx: Records(tx).get(scope, record_id))
        if found is None:
            raise RecordNotFound(f"no record {record_id} here")
        return found

    @verb("records")
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
            search.record_filter(layers, types, tags, metadata),
            since=None if since is None else checked_time(since, "since"),
            until=None if until is None else checked_time(until, "until"),
            as_of=None if as_of is None else checked_time(as_of, "as_of"),
            include_past=history,
            archived=checked_flag(archived, "archived"),
            limit=checked_page(limit),
            offset=checked_number(offset, "offset"),
            before=checked_end(before),
        )
        scope, now = self._scope(user=user, agent=agent, session=session), self._now()
        return self._read(lambda tx: Records(tx).find(scope, query, now))

    @verb("count_records")
    def count_records(self, user: str | None = None, *, agent: str | None = None, session: str | None = None) -> int:
        """How many records are true now."""
        scope, now = self._scope(user=user, agent=agent, session=session), self._now()
        return self._read(lambda tx: Records(tx).count(scope, RecordQuery(), now))

    @verb("search_metadata")
    def search_metadata(
        self, key: str, value: str, user: str | None = None, *, agent: str | None = None
    ) -> list[Record]:
        """Every current record whose metadata has exactly this value under this key."""
        wanted = {checked_label(key, "the metadata key"): checked_text(value, "the metadata value")}
        scope, now = self._scope(user=user, agent=agent), self._now()
        query = RecordQuery(search.record_filter(None, None, None, wanted), limit=None)
        return self._read(lambda tx: Records(tx).find(scope, query, now))

    @verb("update")
    def update(self, id: str, /, *, user: str | None = None, agent: str | None = None, **changes: Any) -> Record:
        """Change some fields of a record. Its id and creation time stay; what it said before goes to its history."""
        scope, now = self._scope(user=user, agent=agent), self._now()
        checked, cut = memory.checked_changes(changes, now), self._cut
        if self._runtime.embedding is not None and (checked.content or checked.title):
            expected = checked.over(self._found(scope, checked_id(id, "record id")))
            cut = cut.with_vectors(self._runtime.store, self._runtime.embedding, expected)
        changed = self._write(lambda tx: memory.update(tx, scope, id, checked, cut, now))
        self._look_after(changed, cut)
        return changed

    def _look_after(self, record: Record, cut: memory.Cutter) -> None:
        if self._runtime.embedding is not None:
            self._runtime.look_after(cut.drafts(record))

    @verb("history")
    def history(self, id: str, *, user: str | None = None, agent: str | None = None) -> list[Record]:
        """Everything the record has said, the oldest first, the current version last."""
        scope, record_id = self._scope(user=user, agent=agent), checked_id(id, "record id")
        versions = self._read(lambda tx: Records(tx).history(scope, record_id))
        if not versions:
            raise RecordNotFound(f"no record {record_id} here")
        return versions

    @verb("forget")
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
            choose = memory.by_id(owner, id)
        else:
            home = self._home(user, agent, session, scope)
            owner = home.scope
            choose = memory.by_words(home, query, self._now()) if query is not None else memory.by_key(home, key or "")

        if dry_run:
            would_go = self._read(lambda tx: forget.chosen(self._runtime, tx, owner, choose))
            return Forgotten({}, tuple(record.id for record in would_go.records))
        return forget.forget(self._runtime, self._tenant, owner, choose, self._cut, query)


def _once(
    key: str | None, home: Home, record_id: str | None, changes: memory.Changes, ttl: timedelta | float | None
) -> Asked | None:
    """The request as it is when it is asked again: without the time that it is asked at."""
    if key is None:
        return None
    said = {name: getattr(changes, name) for name in changes.__slots__ if name != "expires_at"}
    lasting = None if ttl is None else checked_ttl(ttl) // timedelta(microseconds=1)
    return Asked.of(
        Thing.RECORD, key, {**said, "ttl": lasting, "id": record_id, "home": [home.level.value, home.owner]}
    )


def _again(tx: Tx, home: Home, asked: Asked | None, now: datetime) -> Record | None:
    def find(tx: Tx, record_id: str) -> Record:
        found = Records(tx).get(home.scope, record_id)
        if found is None:
            raise RecordNotFound(f"record {record_id} was made under this idempotency_key, and is gone since")
        return found

    return once.made_before(tx, home.space, asked, find, now)
