"""Reading what a prompt is made of: everything in one transaction, and each part of memory may fail alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from limpet.api.runtime import Runtime
from limpet.config import SearchSettings
from limpet.context.always_included import tops
from limpet.context.compose import Offered, assemble, budget_of
from limpet.context.inputs import Material, Section
from limpet.errors import SessionNotFound
from limpet.knowledge.profile_text import as_profile, is_true
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkQuery, Hit, SourceKind, Vector
from limpet.model.context import Context, Dropped
from limpet.model.message import Message
from limpet.model.naming import PROFILE
from limpet.model.profile import ProfileLine
from limpet.model.record import Layer, Record
from limpet.model.scope import Home, Level, Scope, Space
from limpet.model.session import Summary
from limpet.model.text import optional_name
from limpet.model.times import checked_time
from limpet.model.values import checked_number
from limpet.search import recipes, search
from limpet.search.question import Question
from limpet.sessions import kv
from limpet.sessions.repository import Messages, Sessions, Summaries
from limpet.sessions.restore import newest
from limpet.store.tx import Tx

log = logging.getLogger("limpet.context")

T = TypeVar("T")
Recall = Callable[[Space, ChunkQuery, int], list[Hit]]

_OF_EACH = 3  # newest records of a layer for one that is shown: the best of them are, beside those that were recalled
_RECORDS_ONLY = ChunkQuery(kinds=(SourceKind.RECORD,))


@dataclass(frozen=True, slots=True)
class Asked:
    """A wish for a context, checked."""

    query: str
    budget: int
    skill: str | None
    at: datetime
    now: datetime


def checked(
    runtime: Runtime, query: object, max_tokens: object, model_window: object, skill: object, at: object
) -> Asked:
    limits, now = runtime.config.context, runtime.clock()
    most = limits.max_tokens if max_tokens is None else checked_number(max_tokens, "max_tokens")
    window = None if model_window is None else checked_number(model_window, "model_window")
    return Asked(
        search.checked_question(query),
        budget_of(most, window, limits),
        optional_name(skill, "skill"),
        now if at is None else checked_time(at, "at"),
        now,
    )


class Texts(NamedTuple):
    """The user's own files, as Markdown."""

    long_term: str = ""  # MEMORY.md
    today: str = ""
    recent: str = ""  # the notes of the days before
    failed: tuple[Dropped, ...] = ()  # files that could not be read


NO_TEXTS = Texts()


class Known(NamedTuple):
    """What memory knows about the query."""

    hits: tuple[Hit, ...] = ()
    records: tuple[Record, ...] = ()
    relevance: Mapping[str, float] = MappingProxyType({})  # of records that were recalled
    working_memory: str = ""
    profile: tuple[ProfileLine, ...] = ()
    texts: Texts = NO_TEXTS
    failed: tuple[Dropped, ...] = ()


class Said(NamedTuple):
    """What the conversation holds: its newest messages, and those of them that the summary does not tell."""

    session: str
    history: tuple[Message, ...] = ()
    message_count: int = 0
    summary: Summary | None = None
    unsummarised: tuple[Message, ...] | None = None

    def then(self, message: Message) -> Said:
        """With a message that is not stored, or not any more."""
        told = None if self.unsummarised is None else (*self.unsummarised, message)
        count = self.message_count + 1
        return self._replace(history=(*self.history, message), message_count=count, unsummarised=told)


def context(runtime: Runtime, scope: Scope, agent: str, asked: Asked, texts: Texts = NO_TEXTS) -> Context:
    """From one view of the store: what was said and what is known fit together."""
    seen = runtime.gate.visible(spaces(scope, agent))
    recalling = Recalling.about(runtime, asked, seen)

    def read(tx: Tx) -> tuple[Said, Known]:
        said = conversation(runtime, tx, scope, asked)
        return said, _Reading(runtime, scope, seen, asked, texts, tx).known(recalling.within(tx))

    return lay_out(runtime, asked, *runtime.store.read(read))


def known(runtime: Runtime, scope: Scope, agent: str, asked: Asked, texts: Texts = NO_TEXTS) -> Known:
    seen = runtime.gate.visible(spaces(scope, agent))
    recalling = Recalling.about(runtime, asked, seen)
    return runtime.store.read(lambda tx: _Reading(runtime, scope, seen, asked, texts, tx).known(recalling.within(tx)))


def said(runtime: Runtime, scope: Scope, asked: Asked) -> Said:
    return runtime.store.read(lambda tx: conversation(runtime, tx, scope, asked))


def conversation(runtime: Runtime, tx: Tx, scope: Scope, asked: Asked) -> Said:
    info = Sessions(tx).get(scope)
    if info is None:
        raise SessionNotFound(f"session {scope.session} is gone; it was deleted")
    most, cost = runtime.config.context.recent_messages, runtime.cost
    recent = cache(partial(Messages(tx).recent, scope))  # both of what follows begin with the same page
    history = newest(recent, asked.budget, most, cost)
    summary = Summaries(tx).get(scope)
    unsummarised = newest(recent, asked.budget, most, cost, summary.upper_sequence) if summary else history
    return Said(info.id, tuple(history), info.message_count, summary, tuple(unsummarised))


def offered(runtime: Runtime, asked: Asked, session: str, known: Known) -> Offered:
    """What memory has for any context of this question, for whoever lays out several."""
    return Offered.of(_material(asked, Said(session), known), runtime.config.context, runtime.count)


def lay_out(runtime: Runtime, asked: Asked, said: Said, known: Known, offered: Offered | None = None) -> Context:
    material = _material(asked, said, known)
    return assemble(material, runtime.config.context, asked.budget, runtime.count, runtime.cost, offered)


def _material(asked: Asked, said: Said, known: Known) -> Material:
    return Material(
        session=said.session,
        now=asked.now,
        query=asked.query,
        history=said.history,
        message_count=said.message_count,
        summary=said.summary,
        unsummarised=said.unsummarised,
        records=known.records,
        relevance=known.relevance,
        hits=known.hits,
        long_term=known.texts.long_term,
        today=known.texts.today,
        recent=known.texts.recent,
        working_memory=known.working_memory,
        profile=known.profile,
        skill=asked.skill,
        failed=(*known.texts.failed, *known.failed),
    )


@dataclass(frozen=True, slots=True)
class Recalling:
    """The way into recall, with all that is done before the transaction."""

    question: Question
    recipe: recipes.Recipe
    config: SearchSettings
    now: datetime
    meanings: Mapping[Space, Vector]

    @classmethod
    def about(cls, runtime: Runtime, asked: Asked, spaces: Sequence[Space]) -> Recalling:
        recipe = recipes.named(runtime.config.search.recipe)
        meanings = runtime.meanings(spaces, asked.query) if recipe.dense else {}
        return cls(Question.read(asked.query, asked.at), recipe, runtime.config.search, asked.now, meanings)

    def within(self, tx: Tx) -> Recall:
        """Recall in a transaction. A space that is asked a second time is not looked through again."""
        known: search.Known = {}

        def recall(space: Space, query: ChunkQuery, k: int) -> list[Hit]:
            meaning = self.meanings.get(space)
            wanted = search.Search(self.question, query, self.recipe, k, self.config, self.now, meaning)
            return search.search(tx, space, wanted, known)

        return recall


@dataclass(slots=True)
class _Reading:
    runtime: Runtime
    scope: Scope
    spaces: Sequence[Space]  # the user's own first
    asked: Asked
    texts: Texts
    tx: Tx
    failed: list[Dropped] = field(default_factory=list)

    def known(self, recall: Recall) -> Known:
        """As far as it can be read."""
        hits: list[Hit] = self._part(Section.RELEVANT, lambda: self._hits(recall), [])
        relevance = {hit.source.id: hit.score for hit in reversed(hits) if hit.source.kind is SourceKind.RECORD}
        records: list[Record] = self._part("records", lambda: self._records(relevance, recall), [])
        working_memory = self._part(Section.WORKING, self._working_memory, "")
        profile: tuple[ProfileLine, ...] = self._part("the profile", self._profile, ())
        return Known(tuple(hits), tuple(records), relevance, working_memory, profile, self.texts, tuple(self.failed))

    def _part(self, name: str, read: Callable[[], T], empty: T) -> T:
        try:
            return read()
        except Exception as error:  # why: memory never breaks the agent; a prompt with less of it beats none
            log.warning("a context goes without its %s: %s", name, error)
            self.failed.append(Dropped(str(name), f"could not be read: {error}"))
            return empty

    def _hits(self, recall: Recall) -> list[Hit]:
        limits = self.runtime.config.context
        if not self.asked.query.strip() or not limits.hits or not limits.show_relevant:
            return []
        found = [hit for space in self.spaces for hit in recall(space, ChunkQuery(), limits.hits)]
        return sorted(found, key=lambda hit: -hit.score)[: limits.hits]

    def _records(self, relevance: dict[str, float], recall: Recall) -> list[Record]:
        limits = self.runtime.config.context
        most, layers = limits.user_memories, {layer: _OF_EACH * top for layer, top in tops(limits).items()}
        found = [record for space in self.spaces for record in self._standing(space, most + 1, layers, relevance)]
        if sum(record.key is not None for record in found) <= most or not self.asked.query.strip():
            return found
        # There may be more than the newest: let recall look among the records alone for those that matter.
        mine = self.spaces[0]
        hits = recall(mine, _RECORDS_ONLY, min(max(1, most), search.MAX_HITS))
        relevance |= {hit.source.id: max(hit.score, relevance.get(hit.source.id, 0.0)) for hit in reversed(hits)}
        missing = relevance.keys() - {record.id for record in found}
        return found + self._standing(mine, 0, {}, sorted(missing))

    def _standing(self, space: Space, keyed: int, layers: Mapping[Layer, int], ids: Iterable[str]) -> list[Record]:
        assert self.scope.session is not None
        return Records(self.tx).standing(space, self.scope.session, keyed, layers, list(ids), self.asked.now)

    def _profile(self) -> tuple[ProfileLine, ...]:
        """Nothing of one that tells what has changed since, or was forgotten."""
        config = self.runtime.config
        if not (config.context.show_profile and config.learn.profile):
            return ()
        home = Home(Scope(self.scope.tenant, user=self.scope.user), Level.USER)
        kept = Records(self.tx).by_key(home, PROFILE, lock=False)
        if kept is None or not is_true(kept, Records(self.tx).some(home.space, kept.inputs), self.asked.now):
            return ()
        return as_profile(kept).lines

    def _working_memory(self) -> str:
        cap = self.runtime.config.session.kv_cap
        return kv.as_text(kv.get(self.tx, self.scope, kv.WORKING_MEMORY, cap))


def spaces(scope: Scope, agent: str) -> tuple[Space, Space, Space]:
    """Whose memory a session may see: its user's, its agent's, and what is everybody's in the tenant."""
    tenant, user = scope.tenant, scope.user
    assert user is not None
    return Space(tenant, Level.USER, user), Space(tenant, Level.AGENT, agent), Space(tenant, Level.GLOBAL, "")
