"""What a memory is for: remember, recall, forget, context, profile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from limpet.api import parameters as arg
from limpet.api.handle import Handle
from limpet.api.runtime import Runtime
from limpet.errors import InvalidInput, SessionNotFound, Unsupported
from limpet.knowledge import remember as memory
from limpet.knowledge.forget import Forgetter
from limpet.knowledge.hits import add_note_lines, wants_notes
from limpet.knowledge.promote import LAYERS
from limpet.knowledge.recall import SEARCH_SOURCES
from limpet.knowledge.recall import recall as recall_claims
from limpet.knowledge.remember import enqueue_maintenance
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkQuery, Hit, SourceKind, Vector
from limpet.model.context import Context
from limpet.model.dataclass import replace
from limpet.model.note import MEMORY_FILE, Note
from limpet.model.record import (
    Forgotten,
    Layer,
    Profile,
    Record,
    RecordChanges,
    RecordFilter,
    RecordSource,
    RecordType,
    editable_fields,
)
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.model.values import compute_expiry, with_bucket
from limpet.notes.repository import Notes
from limpet.providers.reranker import Reranker, check_reranker, rerank_hits
from limpet.search import recipes, search
from limpet.search.analysis import Question
from limpet.search.chunk_repository import Chunks
from limpet.security.operation import ANY_VALUE, ExtraPermission, On, operation
from limpet.sessions.repository import Sessions
from limpet.store import idempotency
from limpet.store.idempotency import IdempotencyKey, ResourceKind
from limpet.store.tx import Tx


class MemoryOperations(Handle):
    """Remember, recall, forget."""

    # The same key again returns the record as it is then, even if others changed it.
    @operation(
        "remember",
        On.OWNER,
        "write",
        "POST /v1/records",
        when=(ExtraPermission("idempotency_key", ANY_VALUE, "read"),),
        status=201,
        names={"ttl": "ttl_seconds"},
        tool="memory_save",
        cli="remember",
    )
    def remember(
        self,
        content: arg.Remembered,
        user: arg.User | None = None,
        key: arg.RecordKey | None = None,
        type: arg.RecordTypeName = "fact",
        layer: arg.LayerByType | None = None,
        tags: arg.Tags = (),
        metadata: arg.Labels | None = None,
        confidence: arg.Confidence | None = None,
        salience: arg.Salience | None = None,
        pinned: arg.Pinned = False,
        valid_from: arg.ValidFrom | None = None,
        ttl: arg.Lifetime | None = None,
        *,
        id: arg.NewRecordId | None = None,
        title: arg.Title | None = None,
        references: arg.References = (),
        session: arg.SessionRef | None = None,
        agent: arg.Agent | None = None,
        scope: arg.Everyone | None = None,
        source: arg.SourceSession | None = None,
        idempotency_key: arg.IdempotencyName | None = None,
    ) -> Record:
        """Store a memory. The same key (or id) again replaces its text and keeps the old text as a version.

        Without a key or an id, a statement that is already stored is not stored twice; ``said`` counts it. ``session``
        limits the memory to that session; ``source`` only names the session it came up in. Passwords, keys and other
        secrets are masked, unless ``learn.secrets`` is off.

        Repeated with its ``idempotency_key`` within two days, it returns the record stored first, as it is now; another
        request under that key raises IdempotencyConflict.
        """
        now = self._now()
        home = self._resolve_owner(user, agent, session, scope)
        values = {
            "content": content,
            "key": key,
            "title": title,
            "type": RecordType(type),
            "layer": LAYERS.get(RecordType(type), Layer.SEMANTIC) if layer is None else Layer(layer),
            # Saying a key again changes its text: labels that were left out stay as they are.
            "tags": tags or None,
            "metadata": metadata,
            "confidence": confidence,
            "salience": salience,
            "references": references or None,
            "pinned": pinned or None,
            "valid_from": valid_from,
            "expires_at": compute_expiry(now, ttl),
        }
        given = RecordChanges({name: value for name, value in values.items() if value is not None})
        changes = given.mask(self._runtime.mask)
        asked = _build_request(idempotency_key, home, id, changes, ttl, source)
        known = None if asked is None else self._read(lambda tx: _find_previous(tx, home, asked, now))
        if known is not None:
            return known
        draft = _make_draft(id or with_bucket(self._runtime.new_id(), home.space.bucket), home, source, now)
        cut = self._runtime.chunker.with_vectors(self._runtime.embedder, changes.apply_to(draft))

        def save(tx: Tx) -> Record:
            before = _find_previous(tx, home, asked, now)
            if before is not None:
                return before
            if source is not None:
                _check_source(tx, home, source)
            saved = memory.save(tx, draft, changes, cut, now, anonymous=id is None and key is None)
            idempotency.save_key(tx, home.space, asked, saved.id, now)
            if saved.layer is Layer.EPISODIC:  # it may be worth promoting
                enqueue_maintenance(tx, home.space, self._runtime.config.learn, now)
            return saved

        saved = self._write(save)
        if self._runtime.embedding is not None:
            self._runtime.embedder.request_missing(cut.build_drafts(saved))
        return saved

    @operation("recall", On.OWNER, "read", "POST /v1/recall", answer="hits", tool="memory_search", cli="recall")
    def recall(
        self,
        query: arg.Question,
        user: arg.User | None = None,
        k: arg.HitCount | None = None,
        session: arg.SessionRef | None = None,
        kinds: arg.Kinds | None = None,
        layers: arg.Layers | None = None,
        types: arg.Types | None = None,
        tags: arg.WithTags | None = None,
        metadata: arg.WithLabels | None = None,
        since: arg.Since | None = None,
        until: arg.Until | None = None,
        as_of: arg.AsOf | None = None,
        at: arg.At | None = None,
        recipe: arg.RecipeName | None = None,
        rerank: Reranker | None = None,
        *,
        agent: arg.Agent | None = None,
        scope: arg.Everyone | None = None,
        neighbours: arg.Neighbours = 0,
        skill: arg.Skill | None = None,
        floor: arg.Floor = True,
    ) -> list[Hit]:
        """Search the memory of a user, one of the user's sessions, an agent, or the tenant.

        ``neighbours`` adds that many messages before and after each hit. ``rerank`` orders the best hits again. The
        recipe ``records`` weighs records by relevance, recency, salience, confidence and type, and by whether they were
        learned with the active ``skill``.
        """
        if rerank is not None:
            check_reranker(rerank)
        settings, now = self._runtime.config.search, self._now()
        count = settings.k if k is None else k
        chosen = search.find_recipe(settings.recipe if recipe is None else recipe)
        chosen = chosen if floor else replace(chosen, floor=False)
        home = self._resolve_owner(user, agent, session, scope)
        kinds_wanted: Any = tuple(kinds or ())
        wanted = search.SearchRequest(
            Question.parse(query, at or now),
            ChunkQuery(
                kinds=kinds_wanted,
                session=home.scope.session,
                since=since,
                until=until,
                as_of=as_of,
                records=RecordFilter.of(layers, types, tags, metadata) or None,
            ),
            chosen,
            count if rerank is None else max(count, settings.rerank),
            settings,
            now,
            self._embed_query(home.space, query, chosen),
            neighbours,
            skill,
            SEARCH_SOURCES,
        )
        hits = self._recall(home, wanted)
        self._count_uses(home.space, hits[:count], now)
        ranked = hits if rerank is None or not hits else rerank_hits(rerank, wanted.question.text, hits)[:count]
        return [replace(hit, rank=rank) for rank, hit in enumerate(ranked, start=1)]

    def _recall(self, home: Owner, wanted: search.SearchRequest) -> list[Hit]:
        """What is found, with the lines of the user's MEMORY.md that answer."""
        notes = self._runtime.notes
        reads_notes = notes.is_recalled and home.level is Level.USER and wants_notes(wanted)

        def read(tx: Tx) -> tuple[list[Hit], Note | None]:
            Chunks(tx).load_partitions([home.space])
            if reads_notes:
                Notes(tx).prefetch(home.space, [MEMORY_FILE])
            hits = recall_claims(tx, home.space, wanted, with_standing=True)
            return hits, Notes(tx).get(home.space, MEMORY_FILE) if reads_notes else None

        hits, stored = self._runtime.store.read_recent(read, [home.space])
        note = notes.find_recalled(home.space, stored) if reads_notes else None
        return hits if note is None else add_note_lines(hits, note.text, wanted.question, note.updated_at, wanted.k)

    def _count_uses(self, space: Partition, hits: list[Hit], now: datetime) -> None:
        """A record that a caller recalls is used. One that only stands in a context is not."""
        uses = self._runtime.uses
        uses.count(space, (hit.source.id for hit in hits if hit.source.kind is SourceKind.RECORD), now)
        if uses.is_due(now):
            self._runtime.flush_uses()

    def _embed_query(self, space: Partition, question: str, recipe: recipes.Recipe) -> Vector | None:
        """The question's vector, made before the transaction that searches with it."""
        if not recipe.dense:
            return None
        if self._runtime.embedding is None and not recipe.words:
            raise Unsupported(f"the recipe {recipe.name!r} needs an embedder: set embedding.model, such as to encoder")
        return search.embed_question(self._runtime.embedder, [space], question).get(space)

    @operation(
        "forget", On.ID_OR_OWNER, "read write", "POST /v1/forget", audited=True, tool="memory_forget", cli="forget"
    )
    def forget(
        self,
        id: arg.RecordId | None = None,
        *,
        key: arg.RecordKey | None = None,
        query: arg.Words | None = None,
        user: arg.User | None = None,
        agent: arg.Agent | None = None,
        session: arg.SessionRef | None = None,
        scope: arg.Everyone | None = None,
        everywhere: arg.Everywhere = False,
        dry_run: arg.DryRun = False,
    ) -> Forgotten:
        """Remove a record by id, by its owner's key, or all records of an owner that contain every word of a query.

        Every copy is removed too: promoted copies and their origins, duplicates, the turn's record, texts derived from
        it, the line in the daily notes, and the sentence in the message it was learned from. The result says what was
        removed, and in ``left`` where the same is still said. ``everywhere`` also removes it from messages, summaries,
        notes and MEMORY.md; other records and documents stay. With ``dry_run`` nothing is removed, and the result also
        lists the sentences that would be removed from messages.
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

        return self._runtime.forgetter.forget(
            self._tenant,
            owner,
            choose,
            self._runtime.chunker,
            query,
            everywhere=everywhere,
            dry_run=dry_run,
            others=[(name, partial(_get_forgetter, get)) for name, get in self._find_own_stores()],
        )

    @operation("context", On.USER, "read:user", "POST /v1/context", values=("agent",), cli="context")
    def context(
        self,
        query: arg.ContextQuery = "",
        user: arg.User | None = None,
        max_tokens: arg.Tokens | None = None,
        *,
        agent: arg.ThroughAgent | None = None,
        model_window: arg.Window | None = None,
        skill: arg.Skill | None = None,
        at: arg.At | None = None,
    ) -> Context:
        """Return what memory knows about a query, as text for a prompt, without a conversation.

        ``model_window`` leaves room for the model's reply. ``at`` is the time of the query (default: now).
        """
        builder = self._runtime.context
        asked = builder.check_request(query, max_tokens, model_window, skill, at)
        scope = replace(self._scope(user=user), session="")  # in no conversation
        name = agent or self._default_agent
        visible = self._authorizer.filter_visible(scope.list_visible(name))
        return builder.compose(asked, builder.recall(scope, visible, asked))

    @operation("profile", On.USER, "read:user", "GET /v1/profile", cli="profile")
    def profile(self, user: arg.User | None = None) -> Profile:
        """Return a short text about a user, made from what is known in all chats, with the ids of its sources.

        It is stored, and written again when one of its sources has changed.
        """
        return self._runtime.profiler.load_profile(self._scope(user=user))


def _make_draft(id: str, home: Owner, source: str | None, now: datetime) -> Record:
    return Record(
        id=id,
        home=home,
        layer=Layer.SEMANTIC,
        type=RecordType.FACT,
        content="",
        created_at=now,
        updated_at=now,
        valid_from=now,
        source=RecordSource(source or home.scope.session),
    )


def _check_source(tx: Tx, home: Owner, session: str) -> None:
    """A session of the same user: nobody learns by it whether somebody else's exists."""
    user = home.scope.user
    if user is None:
        raise InvalidInput("source is the session of a user, and this memory is of no user")
    if Sessions(tx).get(Scope(home.scope.tenant, user=user, session=session)) is None:
        raise SessionNotFound(f"no session {session} of {user}; leave source out, or name one of theirs")


def _build_request(
    key: str | None,
    home: Owner,
    record_id: str | None,
    changes: RecordChanges,
    ttl: timedelta | float | None,
    source: str | None,
) -> IdempotencyKey | None:
    """The request as it is when it is asked again: without the time that it is asked at."""
    if key is None:
        return None
    said = {name: changes.values.get(name) for name in editable_fields() if name != "expires_at"}
    assert ttl is None or isinstance(ttl, timedelta)
    lasting = None if ttl is None else ttl // timedelta(microseconds=1)
    return IdempotencyKey.from_request(
        ResourceKind.RECORD,
        key,
        {**said, "ttl": lasting, "id": record_id, "home": [home.level.value, home.owner]}
        | ({} if source is None else {"source": source}),
    )


def _find_previous(tx: Tx, home: Owner, asked: IdempotencyKey | None, now: datetime) -> Record | None:
    return idempotency.find_existing(tx, home.space, asked, partial(Records(tx).get, home.scope), now)


def _get_forgetter(get_runtime: Callable[[], Runtime]) -> Forgetter:
    return get_runtime().forgetter
