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
from limpet.context.always_included import layer_limits
from limpet.context.compose import Candidates, assemble, compute_budget
from limpet.context.inputs import ContextInputs, ContextSection
from limpet.errors import SessionNotFound
from limpet.knowledge.profile_text import is_accurate, to_profile
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkQuery, Hit, SourceKind, Vector
from limpet.model.context import Context, Omission
from limpet.model.message import Message
from limpet.model.naming import PROFILE
from limpet.model.profile import ProfileLine
from limpet.model.record import Layer, Record
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.model.session import Summary
from limpet.model.text import check_optional_name
from limpet.model.times import check_time
from limpet.model.values import check_number
from limpet.search import recipes, search
from limpet.search.question import Question
from limpet.sessions import kv
from limpet.sessions.repository import Messages, Sessions, Summaries
from limpet.sessions.restore import read_newest
from limpet.store.tx import Tx

log = logging.getLogger("limpet.context")

T = TypeVar("T")
RecallFunction = Callable[[Partition, ChunkQuery, int], list[Hit]]

_CANDIDATES_PER_SHOWN = (
    3  # newest records of a layer for one that is shown: the best of them are, beside those that were recalled
)
_RECORDS_ONLY = ChunkQuery(kinds=(SourceKind.RECORD,))


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """A wish for a context, checked."""

    query: str
    budget: int
    skill: str | None
    at: datetime
    now: datetime


def check_request(
    runtime: Runtime, query: object, max_tokens: object, model_window: object, skill: object, at: object
) -> ContextRequest:
    limits, now = runtime.config.context, runtime.clock()
    most = limits.max_tokens if max_tokens is None else check_number(max_tokens, "max_tokens")
    window = None if model_window is None else check_number(model_window, "model_window")
    return ContextRequest(
        search.validate_question(query),
        compute_budget(most, window, limits),
        check_optional_name(skill, "skill"),
        now if at is None else check_time(at, "at"),
        now,
    )


class NoteTexts(NamedTuple):
    """The user's own files, as Markdown."""

    long_term: str = ""  # MEMORY.md
    today: str = ""
    recent: str = ""  # the notes of the days before
    failed: tuple[Omission, ...] = ()  # files that could not be read


NO_NOTE_TEXTS = NoteTexts()


class Recalled(NamedTuple):
    """What memory knows about the query."""

    hits: tuple[Hit, ...] = ()
    records: tuple[Record, ...] = ()
    relevance: Mapping[str, float] = MappingProxyType({})  # of records that were recalled
    working_memory: str = ""
    profile: tuple[ProfileLine, ...] = ()
    texts: NoteTexts = NO_NOTE_TEXTS
    failed: tuple[Omission, ...] = ()


class Conversation(NamedTuple):
    """What the conversation holds: its newest messages, and those of them that the summary does not tell."""

    session: str
    history: tuple[Message, ...] = ()
    message_count: int = 0
    summary: Summary | None = None
    unsummarised: tuple[Message, ...] | None = None

    def with_message(self, message: Message) -> Conversation:
        """With a message that is not stored, or not any more."""
        told = None if self.unsummarised is None else (*self.unsummarised, message)
        count = self.message_count + 1
        return self._replace(history=(*self.history, message), message_count=count, unsummarised=told)


def build_context(
    runtime: Runtime, scope: Scope, agent: str, asked: ContextRequest, texts: NoteTexts = NO_NOTE_TEXTS
) -> Context:
    """From one view of the store: what was said and what is known fit together."""
    seen = runtime.gate.filter_visible(visible_partitions(scope, agent))
    recalling = Recaller.prepare(runtime, asked, seen)

    def read(tx: Tx) -> tuple[Conversation, Recalled]:
        said = read_conversation(runtime, tx, scope, asked)
        return said, _Collector(runtime, scope, seen, asked, texts, tx).collect(recalling.bind(tx))

    return compose_context(runtime, asked, *runtime.store.read(read))


def recall_memory(
    runtime: Runtime, scope: Scope, agent: str, asked: ContextRequest, texts: NoteTexts = NO_NOTE_TEXTS
) -> Recalled:
    seen = runtime.gate.filter_visible(visible_partitions(scope, agent))
    recalling = Recaller.prepare(runtime, asked, seen)
    return runtime.store.read(lambda tx: _Collector(runtime, scope, seen, asked, texts, tx).collect(recalling.bind(tx)))


def load_conversation(runtime: Runtime, scope: Scope, asked: ContextRequest) -> Conversation:
    return runtime.store.read(lambda tx: read_conversation(runtime, tx, scope, asked))


def read_conversation(runtime: Runtime, tx: Tx, scope: Scope, asked: ContextRequest) -> Conversation:
    info = Sessions(tx).get(scope)
    if info is None:
        raise SessionNotFound(f"session {scope.session} is gone; it was deleted")
    most, cost = runtime.config.context.recent_messages, runtime.cost
    recent = cache(partial(Messages(tx).recent, scope))  # both of what follows begin with the same page
    history = read_newest(recent, asked.budget, most, cost)
    summary = Summaries(tx).get(scope)
    unsummarised = read_newest(recent, asked.budget, most, cost, summary.upper_sequence) if summary else history
    return Conversation(info.id, tuple(history), info.message_count, summary, tuple(unsummarised))


def collect_candidates(runtime: Runtime, asked: ContextRequest, session: str, known: Recalled) -> Candidates:
    """What memory has for any context of this question, for whoever lays out several."""
    return Candidates.of(_build_inputs(asked, Conversation(session), known), runtime.config.context, runtime.count)


def compose_context(
    runtime: Runtime, asked: ContextRequest, said: Conversation, known: Recalled, offered: Candidates | None = None
) -> Context:
    material = _build_inputs(asked, said, known)
    return assemble(material, runtime.config.context, asked.budget, runtime.count, runtime.cost, offered)


def _build_inputs(asked: ContextRequest, said: Conversation, known: Recalled) -> ContextInputs:
    return ContextInputs(
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
class Recaller:
    """The way into recall, with all that is done before the transaction."""

    question: Question
    recipe: recipes.Recipe
    config: SearchSettings
    now: datetime
    meanings: Mapping[Partition, Vector]

    @classmethod
    def prepare(cls, runtime: Runtime, asked: ContextRequest, spaces: Sequence[Partition]) -> Recaller:
        recipe = recipes.find_recipe(runtime.config.search.recipe)
        meanings = runtime.embed_query_for(spaces, asked.query) if recipe.dense else {}
        return cls(Question.parse(asked.query, asked.at), recipe, runtime.config.search, asked.now, meanings)

    def bind(self, tx: Tx) -> RecallFunction:
        """Recall in a transaction. A space that is asked a second time is not looked through again."""
        known: search.SignalCache = {}

        def recall(space: Partition, query: ChunkQuery, k: int) -> list[Hit]:
            meaning = self.meanings.get(space)
            wanted = search.SearchRequest(self.question, query, self.recipe, k, self.config, self.now, meaning)
            return search.search(tx, space, wanted, known)

        return recall


@dataclass(slots=True)
class _Collector:
    runtime: Runtime
    scope: Scope
    spaces: Sequence[Partition]  # the user's own first
    asked: ContextRequest
    texts: NoteTexts
    tx: Tx
    failed: list[Omission] = field(default_factory=list)

    def collect(self, recall: RecallFunction) -> Recalled:
        """As far as it can be read."""
        hits: list[Hit] = self._read_part(ContextSection.RELEVANT, lambda: self._find_hits(recall), [])
        relevance = {hit.source.id: hit.score for hit in reversed(hits) if hit.source.kind is SourceKind.RECORD}
        records: list[Record] = self._read_part("records", lambda: self._find_records(relevance, recall), [])
        working_memory = self._read_part(ContextSection.WORKING, self._read_working_memory, "")
        profile: tuple[ProfileLine, ...] = self._read_part("the profile", self._read_profile, ())
        return Recalled(tuple(hits), tuple(records), relevance, working_memory, profile, self.texts, tuple(self.failed))

    def _read_part(self, name: str, read: Callable[[], T], empty: T) -> T:
        try:
            return read()
        except Exception as error:  # why: memory never breaks the agent; a prompt with less of it beats none
            log.warning("a context goes without its %s: %s", name, error)
            self.failed.append(Omission(str(name), f"could not be read: {error}"))
            return empty

    def _find_hits(self, recall: RecallFunction) -> list[Hit]:
        limits = self.runtime.config.context
        if not self.asked.query.strip() or not limits.hits or not limits.show_relevant:
            return []
        found = [hit for space in self.spaces for hit in recall(space, ChunkQuery(), limits.hits)]
        return sorted(found, key=lambda hit: -hit.score)[: limits.hits]

    def _find_records(self, relevance: dict[str, float], recall: RecallFunction) -> list[Record]:
        limits = self.runtime.config.context
        most, layers = (
            limits.user_memories,
            {layer: _CANDIDATES_PER_SHOWN * top for layer, top in layer_limits(limits).items()},
        )
        found = [
            record for space in self.spaces for record in self._find_always_included(space, most + 1, layers, relevance)
        ]
        if sum(record.key is not None for record in found) <= most or not self.asked.query.strip():
            return found
        # There may be more than the newest: let recall look among the records alone for those that matter.
        mine = self.spaces[0]
        hits = recall(mine, _RECORDS_ONLY, min(max(1, most), search.MAX_HITS))
        relevance |= {hit.source.id: max(hit.score, relevance.get(hit.source.id, 0.0)) for hit in reversed(hits)}
        missing = relevance.keys() - {record.id for record in found}
        return found + self._find_always_included(mine, 0, {}, sorted(missing))

    def _find_always_included(
        self, space: Partition, keyed: int, layers: Mapping[Layer, int], ids: Iterable[str]
    ) -> list[Record]:
        assert self.scope.session is not None
        return Records(self.tx).find_always_included(
            space, self.scope.session, keyed, layers, list(ids), self.asked.now
        )

    def _read_profile(self) -> tuple[ProfileLine, ...]:
        """Nothing of one that tells what has changed since, or was forgotten."""
        config = self.runtime.config
        if not (config.context.show_profile and config.learn.profile):
            return ()
        home = Owner(Scope(self.scope.tenant, user=self.scope.user), Level.USER)
        kept = Records(self.tx).find_by_key(home, PROFILE, lock=False)
        if kept is None or not is_accurate(kept, Records(self.tx).get_many(home.space, kept.inputs), self.asked.now):
            return ()
        return to_profile(kept).lines

    def _read_working_memory(self) -> str:
        cap = self.runtime.config.session.kv_cap
        return kv.as_text(kv.get(self.tx, self.scope, kv.WORKING_MEMORY, cap))


def visible_partitions(scope: Scope, agent: str) -> tuple[Partition, Partition, Partition]:
    """Whose memory a session may see: its user's, its agent's, and what is everybody's in the tenant."""
    tenant, user = scope.tenant, scope.user
    assert user is not None
    return (
        Partition(tenant, Level.USER, user),
        Partition(tenant, Level.AGENT, agent),
        Partition(tenant, Level.GLOBAL, ""),
    )
