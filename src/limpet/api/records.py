"""Records: remembered, read, changed and forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from limpet.api.handle import Handle
from limpet.errors import InvalidInput, RecordNotFound
from limpet.knowledge import remember as memory
from limpet.knowledge.repository import Records
from limpet.model.ids import check_id
from limpet.model.paging import check_cursor
from limpet.model.record import Record, RecordChanges, RecordQuery
from limpet.model.scope import Scope
from limpet.model.text import check_text, short_repr
from limpet.model.times import check_time
from limpet.model.values import check_flag, check_label, check_number, check_page
from limpet.search import search
from limpet.security.operation import operation


class RecordOperations(Handle):
    """Long-term memories: calling ``memory.records`` lists them."""

    @operation("records.get")
    def get(self, id: str, *, user: str | None = None, agent: str | None = None) -> Record:
        """The record with this id."""
        return self._get_record(self._scope(user=user, agent=agent), check_id(id, "record id"))

    def _get_record(self, scope: Scope, record_id: str) -> Record:
        found = self._read(lambda tx: Records(tx).get(scope, record_id))
        if found is None:
            raise RecordNotFound(f"no record {record_id} here")
        return found

    @operation("records.list")
    def __call__(
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

    @operation("records.count")
    def count(self, user: str | None = None, *, agent: str | None = None, session: str | None = None) -> int:
        """How many records are true now."""
        scope, now = self._scope(user=user, agent=agent, session=session), self._now()
        return self._read(lambda tx: Records(tx).count(scope, RecordQuery(), now))

    @operation("records.search_metadata")
    def search_metadata(
        self, key: str, value: str, user: str | None = None, *, agent: str | None = None
    ) -> list[Record]:
        """Every current record whose metadata has exactly this value under this key."""
        wanted = {check_label(key, "the metadata key"): check_text(value, "the metadata value")}
        scope, now = self._scope(user=user, agent=agent), self._now()
        query = RecordQuery(search.build_record_filter(None, None, None, wanted), limit=None)
        return self._read(lambda tx: Records(tx).find(scope, query, now))

    @operation("records.update")
    def update(self, id: str, /, *, user: str | None = None, agent: str | None = None, **changes: Any) -> Record:
        """Change some fields of a record. Its id and creation time stay; what it said before goes to its history."""
        scope, now = self._scope(user=user, agent=agent), self._now()
        checked, cut = RecordChanges.validate(changes, now), self._view.chunker
        if self._runtime.embedding is not None and checked.values.keys() & {"content", "title"}:
            expected = checked.apply_to(self._get_record(scope, check_id(id, "record id")))
            cut = cut.with_vectors(self._runtime.embedder, expected)
        changed = self._write(lambda tx: memory.update(tx, scope, id, checked, cut, now))
        self._request_embedding(changed, cut)
        return changed

    def _request_embedding(self, record: Record, cut: memory.RecordChunker) -> None:
        if self._runtime.embedding is not None:
            self._runtime.embedder.request_missing(cut.build_drafts(record))

    @operation("records.history")
    def history(self, id: str, *, user: str | None = None, agent: str | None = None) -> list[Record]:
        """Everything the record has said, the oldest first, the current version last."""
        scope, record_id = self._scope(user=user, agent=agent), check_id(id, "record id")
        versions = self._read(lambda tx: Records(tx).history(scope, record_id))
        if not versions:
            raise RecordNotFound(f"no record {record_id} here")
        return versions

    @operation("records.promote")
    def promote(
        self,
        id: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        scope: Literal["user", "global"] | None = None,
    ) -> Record:
        """Make lasting knowledge of an episodic record, however sure it is: a copy that is linked to its origin.

        The copy is semantic, or procedural for a failure, a fix and a command result; where the same is known already,
        that record is strengthened. It is seen by nobody who could not see the record before, unless you say so:
        ``scope="user"`` makes what one chat knows known in all chats of its user, ``scope="global"`` to the whole
        tenant. Promoting a second time gives the record of the first.
        """
        if scope not in (None, "user", "global"):
            raise InvalidInput(f"scope is 'user', 'global' or left out, not {short_repr(scope)}")
        return self._runtime.promoter.promote(self._scope(user=user, agent=agent), check_id(id, "record id"), scope)

    @operation("records.revive")
    def revive(self, id: str, *, user: str | None = None, agent: str | None = None) -> Record:
        """Bring back a record that was archived because nobody used it. It begins its time anew."""
        wanted = check_id(id, "record id")
        return self._runtime.fader.revive(self._scope(user=user, agent=agent), wanted, self._view.chunker)
