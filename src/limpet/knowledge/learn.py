"""What turns teach becomes records: found outside the transaction, reconciled with what is known inside one.

How far learning has come through a session is stored with it, so that no turn is learned from twice, whatever is
restarted in between. Two workers that learn from the same user take turns by the user's space.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from limpet.api.runtime import Runtime, make_redactor
from limpet.config import Config
from limpet.errors import ProviderError, SessionNotFound
from limpet.knowledge import remember
from limpet.knowledge.candidate import Candidate, TurnMessage
from limpet.knowledge.english.retraction import is_change
from limpet.knowledge.maintenance import enqueue_maintenance
from limpet.knowledge.reconcile import Add, End, ExistingRecord, Ignore, Merge, Supersede, reconcile
from limpet.knowledge.remember import MAX_TAGS, RecordChunker
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkQuery, Hit, SourceKind
from limpet.model.job import Job
from limpet.model.message import Message, Role
from limpet.model.record import Origin, Record, RecordSource, fingerprint
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.model.session import LearnResult, SessionInfo
from limpet.model.turns import group_turns
from limpet.providers.llm import Llm, TokenUsage
from limpet.search import recipes
from limpet.search.chunk_repository import Chunks
from limpet.search.question import Question
from limpet.search.search import SearchRequest, search
from limpet.sessions import usage
from limpet.sessions.repository import Cursors, Messages, Sessions
from limpet.store.claim import JobLease
from limpet.store.tx import Tx

log = logging.getLogger("limpet.knowledge")

CURSOR = "extract"
_BATCH = 200  # messages learned from at a time
_NEAR = 8  # records a candidate is compared with, beside those about the same thing
_RECORDS = ChunkQuery(kinds=(SourceKind.RECORD,))
_QUESTION = 600  # characters of a message by which records are looked for that it may repeat


def learn_job(runtime: Runtime) -> Callable[[JobLease], datetime | None]:
    """Learn from a session, a batch of messages a run."""

    def run(claim: JobLease) -> datetime | None:
        scope = _session_scope(claim.job)
        info = runtime.store.read(lambda tx: Sessions(tx).get(scope))
        if info is None:
            return None  # deleted since: there is nothing to learn from
        config = runtime.config.for_agent(info.agent).learn
        patience = claim.job.attempts <= config.llm_attempts
        lesson = _LearnBatch.prepare(runtime, info, patient=patience, everything=False)
        if lesson is None:
            return None
        claim.renew()
        more = claim.now() if lesson.more else None
        lesson.commit(lambda tx: claim.finish(tx, more))
        return more

    return run


def learn(runtime: Runtime, info: SessionInfo) -> LearnResult:
    """All that is left of a session, at once. A model that fails is the caller's to know."""
    total = LearnResult()
    while (lesson := _LearnBatch.prepare(runtime, info, patient=True, everything=True)) is not None:
        total += lesson.commit()
        if not lesson.more:
            break
    return total


def _session_scope(job: Job) -> Scope:
    return Scope(job.space.tenant, user=job.space.owner, session=job.detail)


class TurnExtraction(NamedTuple):
    """What was found in some messages, with what finding it cost."""

    candidates: list[Candidate]
    calls: int = 0
    used: TokenUsage = TokenUsage()


@dataclass(frozen=True, slots=True)
class _LearnBatch:
    """A few turns of a session, and what they teach."""

    runtime: Runtime
    info: SessionInfo
    after: int
    through: int
    more: bool
    found: TurnExtraction
    near: Sequence[Mapping[str, float | None]]  # for each candidate, the records that are near it
    cut: RecordChunker
    llm: Llm | None

    @classmethod
    def prepare(cls, runtime: Runtime, info: SessionInfo, *, patient: bool, everything: bool) -> _LearnBatch | None:
        """Everything slow: reading, finding, embedding. None when there is nothing to learn from."""
        config = runtime.config.for_agent(info.agent)
        scope = info.scope
        after, messages = runtime.store.read(lambda tx: _read_new_messages(tx, scope))
        turns = _split_turns(messages, everything=everything or len(messages) == _BATCH)
        if not turns:
            return None
        llm = _choose_llm(runtime, config, patient=patient)
        found = _extract_candidates(runtime, info, config, turns, llm)
        candidates = [_mask_candidate(candidate, make_redactor(config)) for candidate in found.candidates]
        near = [_find_near(runtime, info, candidate.content) for candidate in candidates]
        through = turns[-1][-1].sequence
        drafts = [_build_record(info, candidate, "draft", runtime.clock()) for candidate in candidates]
        return cls(
            runtime,
            info,
            after,
            through,
            len(messages) == _BATCH,
            found._replace(candidates=candidates),
            near,
            RecordChunker(runtime.config.chunks).with_vectors(runtime.store, runtime.embedding, *drafts),
            llm,
        )

    def commit(self, finish: Callable[[Tx], None] = lambda _: None) -> LearnResult:
        return self.runtime.store.write(lambda tx: self._write(tx, finish))

    def _write(self, tx: Tx, finish: Callable[[Tx], None]) -> LearnResult:
        Chunks(tx).lock(_user_partition(self.info))
        finish(tx)
        if Sessions(tx).get(self.info.scope) is None:
            raise SessionNotFound(f"session {self.info.id} was deleted while it was learned from")
        if Cursors(tx).get(self.info.scope, CURSOR) != self.after:
            return LearnResult()  # somebody else was quicker: what is there now was learned from
        Cursors(tx).set(self.info.scope, CURSOR, self.through)
        if self.llm is not None and self.found.calls:
            usage.add(tx, self.info.scope, usage.build_llm_usage(self.llm.model, self.found.calls, self.found.used))
        learned = LearnResult()
        for candidate, near in zip(self.found.candidates, self.near, strict=True):
            learned += _Reconciler(self.runtime, tx, self.info, candidate, self.cut).apply(near)
        if learned.added:
            enqueue_maintenance(tx, _user_partition(self.info), self.runtime.config.learn, self.runtime.clock())
        return learned


def _read_new_messages(tx: Tx, scope: Scope) -> tuple[int, list[Message]]:
    after = Cursors(tx).get(scope, CURSOR)
    return after, Messages(tx).range(scope, after, None, _BATCH)


def _split_turns(messages: Sequence[Message], *, everything: bool) -> list[list[Message]]:
    """Turns that have their reply. The last one of several that are read may go on behind them."""
    turns = [[messages[at] for step in turn for at in step] for turn in group_turns(messages)]
    turns = [sorted(turn, key=lambda message: message.sequence) for turn in turns if turn]
    if everything or not turns:
        return turns
    last = turns[-1]
    done = last[-1].role is Role.ASSISTANT and not last[-1].tool_calls
    return turns if done else turns[:-1]


def _choose_llm(runtime: Runtime, config: Config, *, patient: bool) -> Llm | None:
    settings = config.learn
    if settings.extractor in ("rules", "none") or not settings.enabled:
        return None
    if settings.extractor == "auto" and not patient and runtime.llm is not None:
        log.warning("the language model failed too often; rules learn from these turns")
        return None
    return runtime.llm


def _extract_candidates(
    runtime: Runtime, info: SessionInfo, config: Config, turns: Sequence[Sequence[Message]], llm: Llm | None
) -> TurnExtraction:
    if not config.learn.enabled or config.learn.extractor == "none":
        return TurnExtraction([])
    if config.learn.extractor == "llm" and llm is None:
        raise ProviderError("learn.extractor is llm, and there is no language model; set llm.model, or choose rules")
    from limpet.knowledge import llm_extract  # late: the rules have many patterns
    from limpet.knowledge.english.extract import extract

    candidates: list[Candidate] = []
    calls, used = 0, TokenUsage()
    for turn in turns:
        said = [TurnMessage.from_message(message, info.created_at) for message in turn]
        recalled = _find_echo_texts(runtime, info, turn)
        if llm is None:
            found = extract(said, recalled)
            candidates += [*found, *_resolve_corrections(runtime, info, said, found)]
        else:
            answer = llm_extract.extract_facts(llm, said, recalled, timeout=config.learn.timeout_s)
            candidates += answer.candidates
            calls, used = calls + answer.calls, used + answer.used
    return TurnExtraction(candidates, calls, used)


def _resolve_corrections(
    runtime: Runtime, info: SessionInfo, said: Sequence[TurnMessage], found: Sequence[Candidate]
) -> list[Candidate]:
    """Whom "her name is Alexis, not Alexa" is about, only what is known can tell."""
    from limpet.knowledge.english.correct import (  # late: the rules have many patterns
        apply_correction,
        find_corrections,
    )

    named = [
        apply_correction(correction, _find_by_value(runtime, info, correction.old))
        for correction in find_corrections(said, found)
    ]
    return [candidate for candidate in named if candidate is not None]


def _find_by_value(runtime: Runtime, info: SessionInfo, value: str) -> list[Record]:
    ids = [hit.source.id for hit in _search_records(runtime, info, value, _NEAR)]
    known = runtime.store.read(lambda tx: Records(tx).get_many(_user_partition(info), ids))
    return [record for record in known if record.superseded_by is None and record.archived_at is None]


def _find_echo_texts(runtime: Runtime, info: SessionInfo, turn: Sequence[Message]) -> list[str]:
    """What memory may have put before the model: what an assistant repeats of it is not news."""
    echoes = [message.text for message in turn if message.role is Role.ASSISTANT and message.text.strip()]
    found = [record for text in echoes for record in _find_similar_texts(runtime, info, text[:_QUESTION])]
    return list(dict.fromkeys(found))


def _find_similar_texts(runtime: Runtime, info: SessionInfo, text: str) -> list[str]:
    return [hit.text for hit in _search_records(runtime, info, text, 2 * _NEAR)]


def _find_near(runtime: Runtime, info: SessionInfo, text: str) -> dict[str, float | None]:
    """The records most like a text, with the cosine where it is known."""
    hits = _search_records(runtime, info, text, _NEAR)
    return {hit.source.id: signal.score if (signal := hit.signals.get("vectors")) else None for hit in hits}


def _search_records(runtime: Runtime, info: SessionInfo, text: str, k: int) -> list[Hit]:
    space, now = _user_partition(info), runtime.clock()
    recipe = recipes.WORDS if runtime.embedding is None else recipes.WEIGHTED
    meaning = runtime.embed_query(space, text)
    wanted = SearchRequest(Question.parse(text, now), _RECORDS, recipe, k, runtime.config.search, now, meaning)
    return runtime.store.read(lambda tx: search(tx, space, wanted))


def _user_partition(info: SessionInfo) -> Partition:
    return Partition(info.tenant, Level.USER, info.user)


def _mask_candidate(candidate: Candidate, mask: Callable[[str], str]) -> Candidate:
    value = None if candidate.value is None else mask(candidate.value)
    references = tuple(mask(reference) for reference in candidate.references)
    content, sentence = mask(candidate.content), mask(candidate.sentence)
    return replace(candidate, content=content, sentence=sentence, value=value, references=references)


def _build_record(info: SessionInfo, candidate: Candidate, id: str, now: datetime) -> Record:
    return Record(
        id=id,
        home=Owner(Scope(info.tenant, user=info.user), Level.USER),
        layer=candidate.layer,
        type=candidate.type,
        content=candidate.content,
        tags=candidate.tags,
        confidence=candidate.confidence,
        salience=candidate.salience,
        references=candidate.references,
        fingerprint=fingerprint(candidate.type, candidate.content),
        source=RecordSource(info.id, (candidate.sequence,), candidate.speaker, candidate.sentence),
        origin=Origin.EXTRACTED,
        created_at=now,
        updated_at=now,
        valid_from=candidate.said_at,
        subject=candidate.subject,
        attribute=candidate.attribute,
        value=candidate.value,
        polarity=candidate.polarity,
    )


@dataclass(frozen=True, slots=True)
class _Reconciler:
    """One candidate among what is known, inside the transaction."""

    runtime: Runtime
    tx: Tx
    info: SessionInfo
    candidate: Candidate
    cut: RecordChunker

    def apply(self, near: Mapping[str, float | None]) -> LearnResult:
        found = self._find_matches(near)
        known = {record.id: record for record in found.values() if record.archived_at is None}
        faded = [record for record in found.values() if record.archived_at is not None]
        decision = reconcile(self.candidate, [_to_existing(record, near.get(record.id)) for record in known.values()])
        match decision:
            case Add(valid_from, valid_to, conflicts, confidence):
                new = replace(
                    self._new_record(),
                    valid_from=valid_from,
                    valid_to=valid_to,
                    confidence=self.candidate.confidence if confidence is None else confidence,
                )
                new = self._insert(new, conflicts)
                if valid_to is None:
                    self._end_faded(faded, new)
                return LearnResult(added=(new.id,))
            case Merge():
                self._merge(known[decision.into], decision)
                return LearnResult(merged=(decision.into,))
            case Supersede(ids, at, conflicts):
                new = self._insert(self._new_record(), conflicts)
                for old in ids:
                    self._end(known[old], at, new)
                self._end_faded(faded, new)
                return LearnResult(added=(new.id,), superseded=ids)
            case End(ids, at):
                for old in ids:
                    self._end(known[old], at, None)
                return LearnResult(ended=ids)
            case Ignore(reason):
                log.debug("what message %d says is passed over: %s", self.candidate.sequence, reason)
        return LearnResult()

    def _find_matches(self, near: Iterable[str]) -> dict[str, Record]:
        """Those that say the same, are about the same, or are near. Read here: others may have learned meanwhile."""
        tx, space, candidate = self.tx, _user_partition(self.info), self.candidate
        found = Records(tx).find_by_fingerprint(space, fingerprint(candidate.type, candidate.content))
        if candidate.attribute is not None:
            found += Records(tx).find_by_attribute(space, candidate.subject, candidate.attribute)
            found += self._find_same_role()
        owner = Scope(self.info.tenant, user=self.info.user)
        found += [record for id_ in near if (record := Records(tx).get(owner, id_)) is not None]
        # A chat's own records and a superseded one are none to merge with or to retire.
        return {
            record.id: record for record in found if record.home.level is Level.USER and record.superseded_by is None
        }

    def _find_same_role(self) -> list[Record]:
        """Whether "my sister" is one of two: what says so are her names, and how many there are."""
        subject = self.candidate.subject
        if not is_change(subject, self.candidate.sentence):
            return []
        about, space = Records(self.tx).find_by_attribute, _user_partition(self.info)
        return [*about(space, subject, "name"), *about(space, subject.rpartition("/")[0], "family")]

    def _new_record(self) -> Record:
        return _build_record(self.info, self.candidate, self.runtime.new_id(), self.runtime.clock())

    def _insert(self, record: Record, conflicts: Sequence[str]) -> Record:
        metadata = {"conflicts": " ".join(conflicts)} if conflicts else {}
        return remember.insert(self.tx, replace(record, metadata=metadata), self.cut)

    def _merge(self, record: Record, merge: Merge) -> None:
        """Said again: counted. Only what it adds is a change, with its history."""
        now = self.runtime.clock()
        Records(self.tx).update_confidence(
            _user_partition(self.info), record.id, merge.confidence, int(merge.agrees), now
        )
        if (merge.tags, merge.references) != (record.tags, record.references):
            current = Records(self.tx).lock(record.home.scope, record.id) or record
            wanted = replace(current, tags=merge.tags[:MAX_TAGS], references=merge.references[:MAX_TAGS])
            remember.rewrite(self.tx, current, wanted, self.cut, now)

    def _end(self, record: Record, at: datetime, successor: Record | None) -> None:
        """The record was true until then, and so was what was made of it."""
        now = self.runtime.clock()
        for old in (record, *self._find_copies(record)):
            until = max(at, old.valid_from or at)
            wanted = replace(old, valid_to=until, superseded_by=successor.id if successor else None)
            remember.rewrite(self.tx, old, wanted, self.cut, now)

    def _end_faded(self, faded: Sequence[Record], new: Record) -> None:
        """What was archived is not merged with, but what is over is over: nobody may revive it as if it still held."""
        decision = reconcile(self.candidate, [_to_existing(record, None) for record in faded])
        if isinstance(decision, (Supersede, End)):
            ended = set(decision.ids)
            for record in faded:
                if record.id in ended:
                    self._end(record, decision.at, new)

    def _find_copies(self, record: Record) -> list[Record]:
        made = Records(self.tx).find_derived_from(_user_partition(self.info), [record.id])
        return [copy for copy in made if copy.origin is Origin.PROMOTED and copy.superseded_by is None]


def _to_existing(record: Record, similarity: float | None) -> ExistingRecord:
    return ExistingRecord(
        id=record.id,
        type=record.type,
        content=record.content,
        fingerprint=record.fingerprint,
        subject=record.subject,
        attribute=record.attribute,
        value=record.value,
        polarity=record.polarity,
        valid_from=record.valid_from,
        valid_to=record.valid_to,
        confidence=record.confidence,
        uses=record.uses,
        origin=record.origin,
        pinned=record.pinned,
        tags=record.tags,
        references=record.references,
        similarity=similarity,
    )
