"""The verbs of a memory: remember, recall, forget, profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

from limpet.api.handle import Handle
from limpet.context.build import SEARCH_SOURCES
from limpet.errors import InvalidInput, RecordNotFound, Unsupported
from limpet.knowledge import remember as memory
from limpet.knowledge.remember import enqueue_maintenance
from limpet.knowledge.repository import Records
from limpet.model.chunk import Hit, Vector, number_hits
from limpet.model.idempotency import IdempotencyKey, ResourceKind
from limpet.model.ids import check_id
from limpet.model.profile import Profile
from limpet.model.record import Forgotten, Layer, Record, RecordChanges, RecordType, editable_fields
from limpet.model.scope import Owner, Partition
from limpet.model.text import check_name, check_optional_name
from limpet.model.times import check_time, check_ttl
from limpet.providers.reranker import Reranker, check_reranker, rerank_hits
from limpet.search import recipes, search
from limpet.search.question import Question
from limpet.security.operation import operation
from limpet.store import once
from limpet.store.tx import Tx


class MemoryOperations(Handle):
    """Remember, recall, forget."""

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
        changes = RecordChanges.validate(values, now)
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
        cut = self._view.chunker.with_vectors(self._runtime.embedder, changes.apply_to(draft))

        def save(tx: Tx) -> Record:
            before = _find_previous(tx, home, asked, now)
            if before is not None:
                return before
            saved = memory.save(tx, draft, changes, cut, now)
            once.save_key(tx, home.space, asked, saved.id, now)
            if saved.layer is Layer.EPISODIC:  # it may be worth promoting
                enqueue_maintenance(tx, home.space, self._runtime.config.learn, now)
            return saved

        saved = self._write(save)
        if self._runtime.embedding is not None:
            self._runtime.embedder.request_missing(cut.build_drafts(saved))
        return saved

    @operation("recall")
    def recall(
        self,
        query: str,
        user: str | None = None,
        k: int | None = None,
        session: str | None = None,
        kinds: Iterable[str] | None = None,
        layers: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: datetime | None = None,
        at: datetime | None = None,
        recipe: str | None = None,
        rerank: Reranker | None = None,
        *,
        agent: str | None = None,
        scope: Literal["global"] | None = None,
        neighbours: int = 0,
        skill: str | None = None,
    ) -> list[Hit]:
        """The chunks that answer the question best, of a user, one of the user's sessions, an agent, or the tenant.

        With ``neighbours`` each hit brings so many messages from before and after it. ``rerank`` looks at the best
        hits once more and orders them anew. The recipe ``records`` weighs records by relevance, recency, salience,
        confidence and type, and by whether they were learned with the ``skill`` that is active now.
        """
        settings = self._runtime.config.search
        text, count = search.validate_question(query), search.validate_k(settings.k if k is None else k)
        chosen = recipes.find_recipe(settings.recipe if recipe is None else recipe)
        check_reranker(rerank)
        home = self._resolve_owner(user, agent, session, scope)
        chunks = search.build_chunk_query(
            session=home.scope.session,
            kinds=kinds,
            records=search.build_record_filter(layers, types, tags, metadata),
            since=since,
            until=until,
            as_of=as_of,
        )
        now = self._now()
        question = Question.parse(text, now if at is None else check_time(at, "at"))
        wanted = search.SearchRequest(
            question,
            chunks,
            chosen,
            count if rerank is None else max(count, settings.rerank),
            settings,
            now,
            self._embed_query(home.space, text, chosen),
            search.validate_neighbours(neighbours),
            check_optional_name(skill, "skill"),
            SEARCH_SOURCES,
        )
        hits = self._read(lambda tx: search.search(tx, home.space, wanted))
        return number_hits(hits if rerank is None or not hits else rerank_hits(rerank, text, hits)[:count])

    def _embed_query(self, space: Partition, question: str, recipe: recipes.Recipe) -> Vector | None:
        """The question's vector, made before the transaction that searches with it."""
        if not recipe.dense:
            return None
        if self._runtime.embedding is None and not recipe.words:
            raise Unsupported(
                f"the recipe {recipe.name!r} needs an embedder: set embedding.model, or install limpet[minilm]"
            )
        return self._runtime.embedder.embed_question(space, question)

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
            would_go = self._read(lambda tx: self._runtime.forgetter.plan(tx, owner, choose))
            return Forgotten({}, tuple(record.id for record in would_go.records))
        return self._runtime.forgetter.forget(self._tenant, owner, choose, self._view.chunker, query)

    @operation("profile")
    def profile(self, user: str) -> Profile:
        """A short standing text about a user, made of what is known in all chats, with the ids of its sources.

        It is kept, and made anew when something it is made from has changed.
        """
        return self._runtime.profiler.load_profile(self._scope(user=check_name(user, "user")))


def _build_request(
    key: str | None, home: Owner, record_id: str | None, changes: RecordChanges, ttl: timedelta | float | None
) -> IdempotencyKey | None:
    """The request as it is when it is asked again: without the time that it is asked at."""
    if key is None:
        return None
    said = {name: changes.values.get(name) for name in editable_fields() if name != "expires_at"}
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
