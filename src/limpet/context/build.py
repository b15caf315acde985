"""Read the parts of a context and compose it.

Everything is read in one transaction, and each part of memory may fail alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import cache, partial
from typing import NamedTuple, TypeVar

from limpet.config import Config
from limpet.context.budget import compute_budget
from limpet.context.compose import Candidates, Composer, describe_hit, hit_section
from limpet.context.select import ContextInputs, ContextSection, layer_limits
from limpet.errors import SessionNotFound
from limpet.knowledge.hits import is_off_topic
from limpet.knowledge.outdated import mark_outdated
from limpet.knowledge.profile import is_accurate, to_profile
from limpet.knowledge.prominence import DOUBTED_BY, find_standing, prefetch_standing
from limpet.knowledge.recall import SEARCH_SOURCES
from limpet.knowledge.recall import recall as recall_claims
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkQuery, Hit, SourceKind, Vector
from limpet.model.context import Context, Omission, OmissionReason
from limpet.model.dataclass import dataclass, replace
from limpet.model.message import Cost, Message
from limpet.model.note import Note
from limpet.model.record import Layer, ProfileLine, Record
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.model.session import CompactionResult, SessionInfo, Summary
from limpet.model.tokens import TokenCounter
from limpet.model.types import MAX_HITS
from limpet.model.values import PROFILE, Clock, check_number, check_optional_name, check_text, check_time, to_local
from limpet.notes.user_notes import UserNotes
from limpet.providers.llm import Deadline
from limpet.search import recipes, search
from limpet.search.analysis import Question
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import ChunkEmbedder
from limpet.sessions.compaction import Compactor, Unsummarised
from limpet.sessions.messages import first_page_size, read_newest
from limpet.sessions.repository import (
    WORKING_MEMORY,
    KeyValueEntries,
    Messages,
    Sessions,
    summary_queries,
    unsummarised_query,
)
from limpet.sessions.summary import NO_SUMMARY
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.context")

T = TypeVar("T")

_CANDIDATES_PER_SHOWN = 3  # newest records read per record shown in a layer, in addition to recalled ones
_RECORDS_ONLY = ChunkQuery(kinds=(SourceKind.RECORD,))


@dataclass(frozen=True, slots=True)
class ContextRequest:
    query: str
    budget: int
    skill: str | None
    at: datetime
    now: datetime

    def start_inputs(self, session: str) -> ContextInputs:
        """Return inputs without memory and conversation."""
        return ContextInputs(session, self.now, self.query, skill=self.skill)


class PreparedRecall(NamedTuple):
    """What a recall needs before the transaction: the question and its vectors."""

    question: Question
    recipe: recipes.Recipe
    vectors: Mapping[Partition, Vector]


class Conversation(NamedTuple):
    """A session with its newest messages, and those that no summary covered when both were read."""

    info: SessionInfo
    summary: Summary | None
    history: tuple[Message, ...]
    shown: tuple[Message, ...]  # those of the history that the summary does not cover
    ended: tuple[str, ...] = ()
    unsummarised: Sequence[Message] = ()
    removals: int = 0  # of the user's chunks

    def with_next(self, message: Message, removals: int) -> Conversation | None:
        """The same after a message was stored, unless others came, or something was removed, in between."""
        if message.sequence != self.info.last_sequence + 1 or removals != self.removals:
            return None
        return self._replace(
            info=replace(self.info, message_count=self.info.message_count + 1, last_sequence=message.sequence),
            history=(*self.history, message),
            shown=(*self.shown, message),
            unsummarised=(*self.unsummarised, message),
        )

    def add_to(self, recalled: ContextInputs) -> ContextInputs:
        return replace(
            recalled,
            session=self.info.id,
            history=self.history,
            message_count=self.info.message_count,
            summary=self.summary,
            ended=self.ended,
            unsummarised=self.shown,
        )


class ContextCompaction(NamedTuple):
    """A context, and what was compacted to complete it."""

    context: Context
    compacted: tuple[CompactionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextBuilder:
    """Builds contexts with an agent's settings."""

    store: Store
    config: Config  # the agent's
    embedder: ChunkEmbedder
    notes: UserNotes
    compactor: Compactor
    count: TokenCounter
    cost: Cost
    clock: Clock

    def check_request(
        self, query: object, max_tokens: object, model_window: object, skill: object, at: object
    ) -> ContextRequest:
        limits, now = self.config.context, self.clock()
        most = limits.max_tokens if max_tokens is None else check_number(max_tokens, "max_tokens")
        window = None if model_window is None else check_number(model_window, "model_window")
        return ContextRequest(
            check_text(query, "the question"),
            compute_budget(most, window, limits),
            check_optional_name(skill, "skill"),
            now if at is None else check_time(at, "at"),
            now,
        )

    def build(self, scope: Scope, visible: Sequence[Partition], request: ContextRequest) -> Context:
        """Build a context from one snapshot of the store, so that conversation and memory are consistent."""
        prepared = self._prepare_recall(visible, request)

        def read(tx: Tx) -> tuple[ContextInputs, Mapping[str, Note]]:
            self._prefetch_conversation(tx, scope, request)
            recalled, notes = self._collect(tx, scope, visible, request, prepared)
            return self._read_conversation(tx, scope, request).add_to(recalled), notes

        return self.compose(request, self._add_notes(scope, request, *self.store.read_recent(read, visible)))

    def recall(self, scope: Scope, visible: Sequence[Partition], request: ContextRequest) -> ContextInputs:
        """Recall what memory has on the question, and read the user's files."""
        prepared = self._prepare_recall(visible, request)
        found = self.store.read(lambda tx: self._collect(tx, scope, visible, request, prepared))
        return self._add_notes(scope, request, *found)

    def recall_with_conversation(
        self, scope: Scope, visible: Sequence[Partition], request: ContextRequest
    ) -> tuple[ContextInputs, Conversation | None]:
        """The same, and the conversation of the same moment; None where it cannot be read."""
        prepared = self._prepare_recall(visible, request)

        def read(tx: Tx) -> tuple[tuple[ContextInputs, Mapping[str, Note]], Conversation | None]:
            self._prefetch_conversation(tx, scope, request, unsummarised=True)
            found = self._collect(tx, scope, visible, request, prepared)
            try:
                conversation = self._read_unsummarised(tx, scope, request)
                return found, conversation._replace(removals=Chunks(tx).count_removals(scope.partition))
            except Exception as error:  # why: memory is of use without it; who needs it reads it again, and says why
                log.debug("the conversation was not read with the recall: %s", error)
                return found, None

        found, conversation = self.store.read(read)
        return self._add_notes(scope, request, *found), conversation

    def _collect(
        self, tx: Tx, scope: Scope, visible: Sequence[Partition], request: ContextRequest, prepared: PreparedRecall
    ) -> tuple[ContextInputs, Mapping[str, Note]]:
        """What memory has, and the user's notes as the store has them."""
        if tx.db.is_remote:
            tx.db.prefetch([KeyValueEntries.query(scope, self.config.session.kv_cap)])
        Chunks(tx).load_partitions(visible)
        collector = _Collector(self.config, scope, visible, request, prepared, tx)
        if tx.db.is_remote:
            self.notes.prefetch_shown(tx, scope.partition, self.config.context, request.now)
            collector.prefetch()
        recalled = collector.collect()
        return recalled, self.notes.find_shown(tx, scope.partition, self.config.context, request.now)

    def _add_notes(
        self, scope: Scope, request: ContextRequest, inputs: ContextInputs, stored: Mapping[str, Note]
    ) -> ContextInputs:
        """Add the user's notes as their files have them, which are read outside the transaction."""
        texts = self.notes.read_texts(scope.partition, self.config.context, request.now, stored)
        failed = (*texts.failed, *inputs.failed)
        return replace(inputs, long_term=texts.long_term, today=texts.today, recent=texts.recent, failed=failed)

    def compose(self, request: ContextRequest, inputs: ContextInputs, offered: Candidates | None = None) -> Context:
        return Composer(inputs, self.config.context, request.budget, self.count, self.cost, offered).assemble()

    def compose_conversation(
        self,
        scope: Scope,
        request: ContextRequest,
        recalled: ContextInputs,
        unsaved: Message | None = None,
        offered: Candidates | None = None,
    ) -> Context:
        """Compose with the stored conversation and a message that could not be stored."""
        return self.compose(request, self._read_inputs(scope, request, recalled, unsaved), offered)

    def _read_inputs(
        self, scope: Scope, request: ContextRequest, recalled: ContextInputs, unsaved: Message | None
    ) -> ContextInputs:
        def read(tx: Tx) -> ContextInputs:
            self._prefetch_conversation(tx, scope, request)
            return self._read_conversation(tx, scope, request).add_to(recalled)

        inputs = self.store.read(read)
        return inputs if unsaved is None else inputs.with_message(unsaved)

    def compact_if_due(
        self,
        scope: Scope,
        request: ContextRequest,
        window: int | None = None,
        deadline: Deadline | None = None,
        read: Conversation | None = None,
    ) -> tuple[CompactionResult, Conversation]:
        """Compact if that is due. Return also the conversation before that, which is read unless it was just now."""
        if read is None:
            read = self.store.read(lambda tx: self._read_unsummarised(tx, scope, request))
        known = Unsummarised(read.summary or NO_SUMMARY, read.unsummarised)
        shown = self.config.context.recent_messages if self.config.context.show_summary else None
        return self.compactor.compact_if_due(scope, window, deadline, known, shown), read

    def compose_complete(
        self,
        scope: Scope,
        request: ContextRequest,
        recalled: ContextInputs,
        window: int | None = None,
        unsaved: Message | None = None,
        deadline: Deadline | None = None,
        read: Conversation | None = None,
    ) -> ContextCompaction:
        """Compose a context that covers every message: among its messages, or by its summary.

        ``read``: the conversation, where it was just read and has not been compacted since.
        """
        done: tuple[CompactionResult, ...] = ()
        offered = Candidates.of(recalled, self.config.context, self.count)
        if read is None:
            inputs = self._read_inputs(scope, request, recalled, unsaved)
        else:
            inputs = read.add_to(recalled)
            inputs = inputs if unsaved is None else inputs.with_message(unsaved)
        context = self.compose(request, inputs, offered)
        shown = {message.sequence for message in context.messages}
        is_complete = read is not None and shown.issuperset(message.sequence for message in read.unsummarised)
        if is_complete or len(context.messages) >= inputs.message_count:
            return ContextCompaction(context)
        covers = self.compactor.settings.enabled and self.config.context.show_summary
        # A longer summary takes room itself. A second round compacts everything that it displaced.
        for everything in (False, True) if covers else ():
            compacted = self.compactor.compact_left_out(scope, shown, window, deadline, everything=everything)
            if not compacted.done:
                break
            done = (*done, compacted)
            context = self.compose_conversation(scope, request, recalled, unsaved, offered)
            shown = {message.sequence for message in context.messages}
        return ContextCompaction(context, done)

    def _prepare_recall(self, visible: Sequence[Partition], request: ContextRequest) -> PreparedRecall:
        recipe = search.find_recipe(self.config.search.recipe)
        vectors = search.embed_question(self.embedder, visible, request.query) if recipe.dense else {}
        return PreparedRecall(Question.parse(request.query, request.at), recipe, vectors)

    def _prefetch_conversation(
        self, tx: Tx, scope: Scope, request: ContextRequest, *, unsummarised: bool = False
    ) -> None:
        """Let it be read along with whatever is read next."""
        if tx.db.is_remote:
            assert scope.session is not None
            page = Messages.recent_query(scope, first_page_size(self.config.context.recent_messages))
            ended = Records.ended_query(scope.partition, scope.session, request.now)
            tx.db.prefetch([*summary_queries(scope), page, ended, *([unsummarised_query(scope)] * unsummarised)])

    def _read_unsummarised(self, tx: Tx, scope: Scope, request: ContextRequest) -> Conversation:
        """The conversation with all messages that no summary covers."""
        self._prefetch_conversation(tx, scope, request, unsummarised=True)
        return self._read_conversation(tx, scope, request)._replace(unsummarised=Messages(tx).list_unsummarised(scope))

    def _read_conversation(self, tx: Tx, scope: Scope, request: ContextRequest) -> Conversation:
        info, summary = Sessions(tx).get_with_summary(scope)
        if info is None:
            raise SessionNotFound(f"session {scope.session} was deleted")
        most = self.config.context.recent_messages
        recent = cache(partial(Messages(tx).recent, scope))  # both reads below start with the same page
        history = read_newest(recent, request.budget, most, self.cost)
        unsummarised, ended = history, tuple[str, ...]()
        if summary is not None:
            ended = Records(tx).find_ended_sentences(scope.partition, info.id, request.now)
            unsummarised = read_newest(recent, request.budget, most, self.cost, summary.upper_sequence)
        return Conversation(info, summary, tuple(history), tuple(unsummarised), ended)


@dataclass(slots=True)
class _Collector:
    config: Config
    scope: Scope
    spaces: Sequence[Partition]  # the user's own first
    asked: ContextRequest
    prepared: PreparedRecall
    tx: Tx
    signals: search.SignalCache = field(default_factory=dict)
    failed: list[Omission] = field(default_factory=list)
    omitted: list[Omission] = field(default_factory=list)

    def collect(self) -> ContextInputs:
        hits: list[Hit] = self._read_part(hit_section(self.config.context.layout), self._find_hits, [])
        relevance = {hit.source.id: hit.score for hit in reversed(hits) if hit.source.kind is SourceKind.RECORD}
        records: list[Record] = self._read_part("records", lambda: self._find_records(relevance), [])
        working_memory = self._read_part(
            ContextSection.WORKING,
            lambda: KeyValueEntries(self.tx).get_text(self.scope, WORKING_MEMORY, self.config.session.kv_cap),
            "",
        )
        profile: tuple[ProfileLine, ...] = self._read_part("the profile", self._read_profile, ())
        zone = self.config.notes.find_zone(self.scope.user)
        return replace(
            self.asked.start_inputs(self.scope.session or ""),
            hits=tuple(hits),
            records=tuple(records if zone == "UTC" else [_localize(record, zone) for record in records]),
            zone=zone,
            relevance=relevance,
            later=self._read_part("what was said since", lambda: self._find_later(hits, records, zone), {}),
            working_memory=working_memory,
            profile=profile,
            failed=tuple(self.failed),
            omitted=tuple(self.omitted),
        )

    def _recall(self, partition: Partition, query: ChunkQuery, k: int) -> list[Hit]:
        question, recipe, vectors = self.prepared
        now, vector = self.asked.now, vectors.get(partition)
        request = search.SearchRequest(
            question, query, recipe, k, self.config.search, now, vector, sources=SEARCH_SOURCES
        )
        return recall_claims(self.tx, partition, request, self.signals)

    def _read_part(self, name: str, read: Callable[[], T], empty: T) -> T:
        try:
            return read()
        except Exception as error:  # why: a smaller prompt is better than a broken agent
            log.warning("a context is built without its %s: %s", name, error)
            self.failed.append(Omission(str(name), OmissionReason.UNREADABLE.format(error=error)))
            return empty

    def _find_hits(self) -> list[Hit]:
        limits = self.config.context
        if not self.asked.query.strip() or not limits.hits or not limits.show_relevant:
            return []
        hits = [hit for partition in self.spaces for hit in self._recall(partition, ChunkQuery(), limits.hits)]
        asked, unasked = list[Hit](), list[Hit]()
        for hit in sorted(hits, key=lambda hit: -hit.score):
            (unasked if is_off_topic(hit, self.prepared.question) else asked).append(hit)
        self._omit(asked[limits.hits :], OmissionReason.BEYOND_HITS.format(most=limits.hits))
        self._omit(unasked, OmissionReason.OFF_TOPIC.value)
        return asked[: limits.hits]

    def _omit(self, hits: Iterable[Hit], reason: str) -> None:
        zone = self.config.notes.find_zone(self.scope.user)
        for hit in hits:
            day = to_local(hit.source.created_at, zone=zone).date().isoformat()
            self.omitted.append(Omission(describe_hit(hit, day), reason))

    def _find_records(self, relevance: dict[str, float]) -> list[Record]:
        limits = self.config.context
        if limits.layout == "lean":
            return self._find_standing(relevance)
        most = limits.user_memories
        layers = {layer: _CANDIDATES_PER_SHOWN * top for layer, top in layer_limits(limits).items()}
        records = [
            record
            for partition in self.spaces
            for record in self._find_always_included(partition, most + 1, layers, relevance)
        ]
        if sum(record.key is not None for record in records) <= most or not self.asked.query.strip():
            return records
        # There may be more than the newest: search the records alone for relevant ones.
        mine = self.spaces[0]
        hits = self._recall(mine, _RECORDS_ONLY, min(max(1, most), MAX_HITS))
        relevance |= {hit.source.id: max(hit.score, relevance.get(hit.source.id, 0.0)) for hit in reversed(hits)}
        missing = relevance.keys() - {record.id for record in records}
        return records + self._find_always_included(mine, 0, {}, sorted(missing))

    def prefetch(self) -> None:
        """Let what does not depend on the hits be read along with the first of them."""
        if self.config.context.layout == "lean":
            for partition in self.spaces:
                prefetch_standing(self.tx, partition, self.scope.session or "", self._most_standing, self.asked.now)

    @property
    def _most_standing(self) -> int:
        return _CANDIDATES_PER_SHOWN * self.config.context.standing

    def _find_standing(self, relevance: Mapping[str, float]) -> list[Record]:
        """What stands about the user whatever is asked, and what was recalled."""
        assert self.scope.session is not None
        found = [
            record
            for partition in self.spaces
            for record in find_standing(self.tx, partition, self.scope.session, self._most_standing, self.asked.now)
        ]
        missing = relevance.keys() - {record.id for record in found}
        if missing:
            found += self._find_always_included(self.spaces[0], 0, {}, sorted(missing))
        return found if self.prepared.question.asks_back else mark_outdated(self.asked.query, found)

    def _find_later(self, hits: Iterable[Hit], records: Iterable[Record], zone: str) -> dict[str, Record]:
        """What was said since, and may change what is shown. The layout golemcore only marks."""
        if self.config.context.layout != "lean":
            return {}
        known = {record.id: record for record in records}
        metadata = [*(hit.metadata for hit in hits), *(record.metadata for record in known.values())]
        ids = {id for each in metadata if (id := each.get(DOUBTED_BY)) is not None}
        if missing := sorted(ids - known.keys()):
            known |= {record.id: record for record in Records(self.tx).get_many(self.spaces[0], missing)}
        later = [known[id] for id in ids if id in known]
        return {each.id: _localize(each, zone) for each in later}

    def _find_always_included(
        self, partition: Partition, keyed: int, layers: Mapping[Layer, int], ids: Iterable[str]
    ) -> list[Record]:
        assert self.scope.session is not None
        return Records(self.tx).find_always_included(
            partition, self.scope.session, keyed, layers, list(ids), self.asked.now
        )

    def _read_profile(self) -> tuple[ProfileLine, ...]:
        """Return the profile, or nothing if its sources were changed or deleted since. The lean layout has none."""
        limits = self.config.context
        if limits.layout == "lean" or not (limits.show_profile and self.config.learn.profile):
            return ()
        owner = Owner(Scope(self.scope.tenant, user=self.scope.user), Level.USER)
        profile = Records(self.tx).find_by_key(owner, PROFILE, lock=False)
        if profile is None or not is_accurate(
            profile, Records(self.tx).get_many(owner.space, profile.inputs), self.asked.now
        ):
            return ()
        return to_profile(profile).lines


def _localize(record: Record, zone: str) -> Record:
    """The record with its times in the user's zone: a context names days of theirs."""
    created, updated, since = (
        None if moment is None else to_local(moment, zone=zone)
        for moment in (record.created_at, record.updated_at, record.valid_from)
    )
    return replace(record, created_at=created, updated_at=updated, valid_from=since)
