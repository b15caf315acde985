"""Records: list, read, change, promote; and the knowledge graph."""

from __future__ import annotations

from typing import Any

from limpet.api import parameters as arg
from limpet.api.handle import Handle, to_cursor
from limpet.errors import RecordNotFound
from limpet.knowledge import remember as memory
from limpet.knowledge.repository import Records
from limpet.model.graph import Graph
from limpet.model.record import Record, RecordChanges, RecordFilter, RecordQuery, list_change_arguments
from limpet.model.scope import Scope
from limpet.security.operation import ExtraPermission, On, operation


class RecordOperations(Handle):
    """Long-term memories: calling ``memory.records`` lists them."""

    @operation(
        "records.list",
        On.REACH,
        "read",
        "GET /v1/records",
        names={"layers": "layer", "types": "type", "tags": "tag"},
        page="updated_at",
        tool="memory_list",
        cli="records list",
    )
    def __call__(
        self,
        user: arg.OfUser | None = None,
        session: arg.OfSession | None = None,
        layers: arg.Layers | None = None,
        types: arg.Types | None = None,
        tags: arg.WithTags | None = None,
        metadata: arg.WithLabels | None = None,
        since: arg.Since | None = None,
        until: arg.Until | None = None,
        as_of: arg.AsOf | None = None,
        limit: arg.Limit = 50,
        offset: arg.Offset = 0,
        *,
        agent: arg.OfAgent | None = None,
        history: arg.History = False,
        archived: arg.Archived = False,
        before: arg.Before | None = None,
    ) -> list[Record]:
        """List records, latest change first: those true now, or at ``as_of``; with ``history`` also past ones.

        With ``archived``, only faded ones. ``before`` continues after another page: the ``updated_at`` and ``id`` of
        its last record.
        """
        query = RecordQuery(
            RecordFilter.of(layers, types, tags, metadata),
            since=since,
            until=until,
            as_of=as_of,
            include_past=history,
            archived=archived,
            limit=limit,
            offset=offset,
            before=to_cursor(before),
        )
        scope, now = self._scope(user=user, agent=agent, session=session), self._now()
        return self._read(lambda tx: Records(tx).find(scope, query, now))

    @operation(
        "records.count",
        On.REACH,
        "read",
        "GET /v1/records/count",
        names={"layers": "layer", "types": "type", "tags": "tag"},
        answer="count",
        cli="records count",
    )
    def count(
        self,
        user: arg.OfUser | None = None,
        session: arg.OfSession | None = None,
        layers: arg.Layers | None = None,
        types: arg.Types | None = None,
        tags: arg.WithTags | None = None,
        metadata: arg.WithLabels | None = None,
        since: arg.Since | None = None,
        until: arg.Until | None = None,
        as_of: arg.AsOf | None = None,
        *,
        agent: arg.OfAgent | None = None,
        history: arg.History = False,
        archived: arg.Archived = False,
    ) -> int:
        """Count the records that a list with the same filters has; by default those that are true now."""
        wanted = RecordFilter.of(layers, types, tags, metadata)
        query = RecordQuery(wanted, since=since, until=until, as_of=as_of, include_past=history, archived=archived)
        scope, now = self._scope(user=user, agent=agent, session=session), self._now()
        return self._read(lambda tx: Records(tx).count(scope, query, now))

    @operation("records.search_metadata", On.REACH, "read", "GET /v1/records/metadata", cli="records search")
    def search_metadata(
        self,
        key: arg.MetadataKey,
        value: arg.MetadataValue,
        user: arg.OfUser | None = None,
        *,
        agent: arg.OfAgent | None = None,
    ) -> list[Record]:
        """List every current record whose metadata has exactly this value under this key."""
        scope, now = self._scope(user=user, agent=agent), self._now()
        query = RecordQuery(RecordFilter(metadata={key: value}), limit=None)
        return self._read(lambda tx: Records(tx).find(scope, query, now))

    @operation("records.get", On.ID, "read", "GET /v1/records/{id}", cli="records show")
    def get(self, id: arg.RecordId, *, user: arg.OfUser | None = None, agent: arg.OfAgent | None = None) -> Record:
        """Return the record with this id."""
        return self._get_record(self._scope(user=user, agent=agent), id)

    def _get_record(self, scope: Scope, record_id: str) -> Record:
        found = self._read(lambda tx: Records(tx).get(scope, record_id))
        if found is None:
            raise RecordNotFound(f"no record {record_id} here")
        return found

    # It reads too: it returns the whole record.
    @operation(
        "records.update",
        On.ID,
        "read write",
        "PATCH /v1/records/{id}",
        names={"ttl": "ttl_seconds"},
        keywords=list_change_arguments,
        tool="memory_update",
        cli="records update",
    )
    def update(
        self,
        id: arg.RecordId,
        /,
        *,
        user: arg.OfUser | None = None,
        agent: arg.OfAgent | None = None,
        clear: arg.Clear = (),
        **changes: Any,
    ) -> Record:
        """Change fields of a record. Its id and creation time stay; the old text becomes a version.

        A field that is left out or None does not change; ``clear`` names fields to empty, such as ``expires_at``.
        """
        scope, now = self._scope(user=user, agent=agent), self._now()
        checked, chunker = RecordChanges.validate(changes, now, clear).mask(self._runtime.mask), self._runtime.chunker
        embedding = self._runtime.embedding
        if embedding is not None and checked.values.keys() & {"content", "title"}:
            expected = checked.apply_to(self._get_record(scope, id))
            chunker = chunker.with_vectors(self._runtime.embedder, expected)
        changed = self._write(lambda tx: memory.update(tx, scope, id, checked, chunker, now))
        if embedding is not None:
            self._runtime.embedder.request_missing(chunker.build_drafts(changed))
        return changed

    @operation(
        "records.history", On.ID, "read", "GET /v1/records/{id}/history", answer="versions", cli="records history"
    )
    def history(
        self, id: arg.RecordId, *, user: arg.OfUser | None = None, agent: arg.OfAgent | None = None
    ) -> list[Record]:
        """List every version of the record, oldest first, the current one last."""
        scope = self._scope(user=user, agent=agent)
        versions = self._read(lambda tx: Records(tx).history(scope, id))
        if not versions:
            raise RecordNotFound(f"no record {id} here")
        return versions

    @operation(
        "records.promote",
        On.ID,
        "read write",
        "POST /v1/records/{id}/promote",
        values=("scope",),
        when=(ExtraPermission("scope", "global", "write:global"),),
        tool="memory_promote",
        cli="records promote",
    )
    def promote(
        self,
        id: arg.RecordId,
        *,
        user: arg.OfUser | None = None,
        agent: arg.OfAgent | None = None,
        scope: arg.Promotion | None = None,
    ) -> Record:
        """Promote an episodic record, whatever its confidence, to a copy that is linked to its origin.

        The copy is procedural for a failure, a fix or a command result, else semantic. If the same is already known,
        that record is strengthened instead. The copy has the same readers as its origin, unless you widen that:
        ``scope="user"`` shares what one chat knows with all chats of its user, ``scope="global"`` with the whole
        tenant. Promoting again returns the first copy.
        """
        return self._runtime.promoter.promote(self._scope(user=user, agent=agent), id, scope)

    @operation("records.revive", On.ID, "read write", "POST /v1/records/{id}/revive", cli="records revive")
    def revive(self, id: arg.RecordId, *, user: arg.OfUser | None = None, agent: arg.OfAgent | None = None) -> Record:
        """Bring back a record that was archived because it was not used. Fading starts again from the beginning."""
        return self._runtime.fader.revive(self._scope(user=user, agent=agent), id, self._runtime.chunker)


class GraphOperations(Handle):
    """The knowledge graph: calling ``memory.graph`` reads it."""

    @operation("graph.get", On.OWNER, "read", "GET /v1/graph", cli="graph")
    def __call__(
        self,
        user: arg.User | None = None,
        entity: arg.Entity | None = None,
        depth: arg.Depth = 1,
        *,
        agent: arg.Agent | None = None,
        scope: arg.Everyone | None = None,
        fresh: arg.Fresh = False,
    ) -> Graph:
        """Return who and what is mentioned, how they are related, and where: the whole graph, or around an entity.

        ``depth`` is the number of relations to follow. Messages are read in the background; ``fresh`` reads the unread
        ones first.
        """
        space = self._resolve_owner(user, agent, None, scope).space
        self._runtime.graph.catch_up(space, now=fresh)
        return self._runtime.graph.load_graph(space, entity, depth)
