"""What turns teach becomes records: found outside the transaction, reconciled with what is known inside one.

How far learning has come through a session is stored with it, so that no turn is learned from twice, whatever is
restarted in between. Two workers that learn from the same user take turns by the user's partition.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from limpet.config import Config
from limpet.errors import ProviderError, SessionNotFound
from limpet.knowledge import english, remember
from limpet.knowledge.apply import LOOKED_THROUGH, RecentClaims, Reconciler, build_record
from limpet.knowledge.candidate import Candidate, TurnMessage, find_references
from limpet.knowledge.change import find_changes, tells_of_change
from limpet.knowledge.opt_out import asks_not_to_keep
from limpet.knowledge.promote import choose_layer
from limpet.knowledge.read import read_turn
from limpet.knowledge.remember import REPLY_TIME, RecordChunker, enqueue_learning, enqueue_maintenance
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkQuery, Hit, SourceKind
from limpet.model.dataclass import dataclass, replace
from limpet.model.message import Message, Role, group_turns
from limpet.model.record import Layer, Origin, Record, RecordSource, RecordType, fingerprint
from limpet.model.scope import Level, Owner, Scope
from limpet.model.session import LearnResult, SessionInfo, SessionStatus
from limpet.model.values import Clock, IdFactory, to_local, with_bucket
from limpet.providers.llm import Llm, TokenUsage, UnusableAnswer
from limpet.search import recipes
from limpet.search.analysis import Question
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import ChunkEmbedder
from limpet.search.recipes import SKILL_KEY
from limpet.search.search import SearchRequest, embed_questions, search
from limpet.security.mask import mark_as_word, unmark_word
from limpet.sessions import usage
from limpet.sessions.repository import Cursors, Messages, Sessions
from limpet.store.jobs import JobLease
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.knowledge")

Finish = Callable[[Tx], None]
Pause = Callable[[], None]  # between two steps of long work

CURSOR = "extract"
_BATCH = 200  # messages learned from at a time
_EARLIER = 4  # messages before a turn that may tell what it is about
_NEAR = 8  # records a candidate is compared with, beside those about the same thing
_RECORDS = ChunkQuery(kinds=(SourceKind.RECORD,))
_NAME_QUESTION = "what is my name, what am I called"
_QUESTION = 600  # characters of a message by which records are looked for that it may repeat
_ASKED, _ANSWERED, _TOOL = 200, 300, 80  # characters
_CONFIDENCE, _SALIENCE = 0.6, 0.3  # what happened, and not yet a lesson


class TurnExtraction(NamedTuple):
    """What was found in some turns, and what finding it cost. ``error``: what stopped it behind the first ``turns``."""

    candidates: list[Candidate]
    turns: int = 0
    calls: int = 0
    used: TokenUsage = TokenUsage()
    error: ProviderError | None = None


class LearnBatch(NamedTuple):
    """A few turns of a session, and what they teach."""

    info: SessionInfo
    after: int
    ends: Sequence[int]  # the last message of each turn
    more: bool
    found: TurnExtraction
    near: Sequence[Mapping[str, float | None]]  # for each candidate, the records that are near it
    cut: RecordChunker
    llm: Llm | None

    def split(self) -> Iterator[LearnBatch]:
        """Yield a part for each turn that teaches something, so that others wait briefly. The first has the bill."""
        taught = list(zip(self.found.candidates, self.near, strict=True))
        taught.sort(key=lambda each: self._find_turn(each[0]))
        turns = [self._find_turn(candidate) for candidate, _ in taught]
        after, found, first = self.after, self.found, 0
        for number, end in enumerate(self.ends):
            last = bisect_right(turns, number)
            if last > first or number == len(self.ends) - 1:
                mine, near = [each for each, _ in taught[first:last]], [each for _, each in taught[first:last]]
                part = self._replace(after=after, ends=self.ends[: number + 1], near=near)
                yield part._replace(found=found._replace(candidates=mine))
                after, found, first = end, found._replace(calls=0), last

    def _find_turn(self, candidate: Candidate) -> int:
        return min(bisect_left(self.ends, candidate.sequence), len(self.ends) - 1)


@dataclass(frozen=True, slots=True)
class Learner:
    """Learns from the sessions of an agent, by the agent's settings and language model."""

    store: Store
    config: Config  # the agent's
    llm: Llm | None
    embedder: ChunkEmbedder
    mask: Callable[[str], str]
    clock: Clock
    new_id: IdFactory

    def enqueue(
        self, tx: Tx, info: SessionInfo, turn: Sequence[Message], skill: str | None, mask: Callable[[str], str]
    ) -> None:
        """The finished turn as a record of what happened, and a job to learn from it.

        ``mask``: hides secrets; it knows the texts of the turn by now, as masking a long one takes a while.
        """
        settings, now, space = self.config.learn, self.clock(), info.partition
        if not settings.enabled:
            return
        if settings.turns:
            messages = list({message.sequence: message for message in turn if message.sequence}.values())
            home, active = (
                Owner(Scope(info.tenant, user=info.user), Level.USER),
                turn[-1].metadata.get(SKILL_KEY, skill),
            )
            event = build_turn_event(
                with_bucket(self.new_id(), space.bucket), home, info.id, messages, active, mask, now
            )
            if event is not None:
                remember.insert(tx, event, RecordChunker(self.config.chunks))
        enqueue_learning(tx, info, self.config, now, now)
        enqueue_maintenance(tx, space, settings, now)

    def run_job(self, lease: JobLease, info: SessionInfo) -> datetime | None:
        """Learn from a session, a batch of messages a run. A question without a reply is given time to get one."""
        patient = lease.job.attempts <= self.config.learn.llm_attempts
        open_until = self._find_open_end(info, lease.now())
        batch = self._prepare(info, patient=patient, everything=open_until is None, between=lease.renew)
        if batch is None:
            return open_until
        lease.renew()
        more = lease.now() if batch.more else open_until
        self._commit(batch, lambda tx: lease.finish(tx, more), lease.renew)
        return more

    def learn(self, info: SessionInfo) -> LearnResult:
        """All that is left of a session, at once. A model that fails is the caller's to know."""
        total = LearnResult()
        while (batch := self._prepare(info, patient=True, everything=True)) is not None:
            total += self._commit(batch)
            if not batch.more:
                break
        return total

    def _find_open_end(self, info: SessionInfo, now: datetime) -> datetime | None:
        """Until when the reply to the last message is waited for; None where nobody waits for one any more."""
        if info.state is SessionStatus.TERMINATED:
            return None
        last = self.store.read(lambda tx: Messages(tx).recent(info.scope, 1))
        if not last or _is_reply(last[0]):
            return None
        end = min(last[0].created_at or now, now) + REPLY_TIME
        return end if now < end else None

    def _prepare(
        self, info: SessionInfo, *, patient: bool, everything: bool, between: Pause = lambda: None
    ) -> LearnBatch | None:
        """Everything slow: reading, finding, embedding. None when there is nothing to learn from."""
        after, earlier, messages = self.store.read(lambda tx: _read_new_messages(tx, info.scope))
        turns = _split_turns(messages, everything=everything or len(messages) == _BATCH)
        if not turns:
            return None
        llm = self._choose_llm(patient=patient)
        found = self._extract(info, turns, earlier, llm, between)
        if found.error is not None and not found.turns:
            self._bill(info, llm, found)
            raise found.error
        turns = turns[: found.turns]
        candidates = [self._admit(candidate) for candidate in found.candidates]
        self._prepare_changes(info, candidates)
        near = self._find_near(info, [candidate.content for candidate in candidates])
        drafts = [build_record(info, each, "draft", self.clock()) for each in _list_wordings(candidates)]
        return LearnBatch(
            info,
            after,
            [turn[-1].sequence for turn in turns],
            found.error is not None or len(messages) == _BATCH,
            found._replace(candidates=candidates),
            near,
            RecordChunker(self.config.chunks).with_vectors(self.embedder, *drafts),
            llm,
        )

    def _prepare_changes(self, info: SessionInfo, candidates: Sequence[Candidate]) -> None:
        """Analyse what may be taken back before the transaction: inside it, only numbers are compared."""
        telling = [each for each in dict.fromkeys(each.message for each in candidates) if tells_of_change(each)]
        if not telling:
            return
        space, now = info.partition, self.clock()
        known = self.store.read(lambda tx: Records(tx).find_newest_claims(space, LOOKED_THROUGH, now))
        for message in telling:
            others = [candidate.content for candidate in candidates if candidate.message != message]
            find_changes(message, [*(record.content for record in known), *others])

    def _commit(self, batch: LearnBatch, finish: Finish = lambda _: None, between: Pause = lambda: None) -> LearnResult:
        """In slices: nobody waits long for the lock, and whoever is killed goes on behind the last turn."""
        *parts, last = batch.split()
        learned = LearnResult()
        for part in parts:
            learned += self.store.write(partial(self._write, batch=part))
            between()
        return learned + self.store.write(partial(self._write, batch=last, finish=finish))

    def _write(self, tx: Tx, batch: LearnBatch, finish: Finish = lambda _: None) -> LearnResult:
        info, found, now = batch.info, batch.found, self.clock()
        Chunks(tx).lock(info.partition)
        finish(tx)
        if Sessions(tx).get(info.scope) is None:
            raise SessionNotFound(f"session {info.id} was deleted while it was learned from")
        if Cursors(tx).get(info.scope, CURSOR) != batch.after:
            return LearnResult()  # another worker was faster: these messages were learned from
        Cursors(tx).set(info.scope, CURSOR, batch.ends[-1])
        _add_usage(tx, info, batch.llm, found)
        learned, recent = LearnResult(), RecentClaims(tx, info.partition, now)
        for candidate, near in zip(found.candidates, batch.near, strict=True):
            beside = [each for each in found.candidates if each.sequence == candidate.sequence]
            learned += Reconciler(tx, info, candidate, batch.cut, now, self.new_id, recent, beside).apply(near)
        if learned.added:
            enqueue_maintenance(tx, info.partition, self.config.learn, now)
        return learned

    def _bill(self, info: SessionInfo, llm: Llm | None, found: TurnExtraction) -> None:
        """An answer that could not be used was paid for too."""

        def write(tx: Tx) -> None:
            if Sessions(tx).get(info.scope) is not None:
                _add_usage(tx, info, llm, found)

        if found.calls:
            self.store.write(write)

    def _admit(self, candidate: Candidate) -> Candidate:
        """A candidate without secrets, on its layer: what is not sure enough for lasting knowledge is an episode."""
        settings = self.config.learn
        masked = _mask_candidate(candidate, self.mask)
        if candidate.layer is Layer.EPISODIC or not settings.promote:
            return masked
        return replace(masked, layer=choose_layer(candidate.type, candidate.confidence, settings.promote_confidence))

    def _choose_llm(self, *, patient: bool) -> Llm | None:
        settings = self.config.learn
        if settings.extractor in ("rules", "none") or not settings.enabled:
            return None
        if settings.extractor == "auto" and not patient and self.llm is not None:
            log.warning("the language model failed too often; rules learn from these turns")
            return None
        return self.llm

    def _extract(
        self,
        info: SessionInfo,
        turns: Sequence[Sequence[Message]],
        earlier: Sequence[Message],
        llm: Llm | None,
        between: Pause,
    ) -> TurnExtraction:
        """What the turns teach. ``earlier`` are the messages before them: a question that the first one answers."""
        settings = self.config.learn
        if not settings.enabled or settings.extractor == "none":
            return TurnExtraction([], len(turns))
        if settings.extractor == "llm" and llm is None:
            raise ProviderError(
                "learn.extractor is llm, and there is no language model; set llm.model, or choose rules"
            )
        whole, now = TurnExtraction([]), self.clock()
        before = self._read_messages(info, earlier, now)
        for turn in turns:
            said = self._read_messages(info, turn, now)
            part = self._extract_turn(info, said, before[-_EARLIER:], self._find_echo_texts(info, turn), llm)
            calls, used = whole.calls + part.calls, whole.used + part.used
            if part.error is not None:
                return whole._replace(calls=calls, used=used, error=part.error)
            skill = next((str(each.metadata[SKILL_KEY]) for each in turn if SKILL_KEY in each.metadata), None)
            texts = {each.sequence: each.text for each in said}
            candidates = [
                *whole.candidates,
                *(replace(each, skill=skill, message=texts.get(each.sequence, "")) for each in part.candidates),
            ]
            whole = TurnExtraction(candidates, whole.turns + 1, calls, used)
            before += said
            between()
        return whole

    def _read_messages(self, info: SessionInfo, messages: Sequence[Message], now: datetime) -> list[TurnMessage]:
        """All that may be kept, masked as a whole: in a sentence alone nothing may say that it is a password."""
        zone = self.config.notes.find_zone(info.user)
        read = [TurnMessage.from_message(each, info.created_at, now) for each in messages]
        kept = [each for each in read if each.role is not Role.USER or not asks_not_to_keep(each.text)]
        return [
            replace(each, text=self.mask(each.text), created_at=to_local(each.created_at, zone=zone)) for each in kept
        ]

    def _extract_turn(
        self,
        info: SessionInfo,
        said: Sequence[TurnMessage],
        before: Sequence[TurnMessage],
        recalled: Sequence[str],
        llm: Llm | None,
    ) -> TurnExtraction:
        if llm is None:
            said, before = [_mark_as_words(each) for each in said], [_mark_as_words(each) for each in before]
            found = read_turn(said, recalled, before)
            corrected = self._resolve_corrections(info, said, [each for each in found if each.value is not None])
            placed = {each.sentence for each in corrected}
            kept = [each for each in found if each.value is not None or each.sentence not in placed]
            return TurnExtraction([*kept, *corrected])
        from limpet.knowledge import llm_extract  # late: few programs have a model

        question = before[-1].text if before else ""
        try:
            answer = llm_extract.extract_facts(
                llm, said, recalled, before=question, timeout=self.config.learn.timeout_s
            )
        except UnusableAnswer as error:
            return TurnExtraction([], calls=error.calls, used=error.usage, error=error)
        except ProviderError as error:
            return TurnExtraction([], error=error)
        return TurnExtraction(answer.candidates, calls=answer.calls, used=answer.used)

    def _resolve_corrections(
        self, info: SessionInfo, said: Sequence[TurnMessage], found: Sequence[Candidate]
    ) -> list[Candidate]:
        """Whom "her name is Alexis, not Alexa" is about, only what is known can tell."""
        named = [
            english.apply_correction(correction, self._find_by_value(info, correction.old or _NAME_QUESTION))
            for correction in english.find_corrections(said, found)
        ]
        return [candidate for candidate in named if candidate is not None]

    def _find_by_value(self, info: SessionInfo, value: str) -> list[Record]:
        [hits] = self._search_records(info, [value], _NEAR)
        ids = [hit.source.id for hit in hits]
        known = self.store.read(lambda tx: Records(tx).get_many(info.partition, ids))
        return [record for record in known if record.superseded_by is None and record.archived_at is None]

    def _find_echo_texts(self, info: SessionInfo, turn: Sequence[Message]) -> list[str]:
        """What memory may have put before the model: what an assistant repeats of it is not news."""
        said = [message.text for message in turn if message.role is Role.ASSISTANT and message.text.strip()]
        found = self._search_records(info, [text[:_QUESTION] for text in said], 2 * _NEAR)
        return list(dict.fromkeys(hit.text for hits in found for hit in hits))

    def _find_near(self, info: SessionInfo, texts: Sequence[str]) -> list[dict[str, float | None]]:
        """For each text the records most like it, with the cosine where it is known."""
        return [
            {hit.source.id: signal.score if (signal := hit.signals.get("vectors")) else None for hit in hits}
            for hits in self._search_records(info, texts, _NEAR)
        ]

    def _search_records(self, info: SessionInfo, texts: Sequence[str], k: int) -> list[list[Hit]]:
        if not texts:
            return []
        space, now, settings = info.partition, self.clock(), self.config.search
        recipe = recipes.WORDS if self.embedder.model is None else recipes.WEIGHTED
        vectors = embed_questions(self.embedder, [space], texts)
        wanted = [
            SearchRequest(Question.parse(text, now), _RECORDS, recipe, k, settings, now, vector.get(space))
            for text, vector in zip(texts, vectors, strict=True)
        ]
        return self.store.read(lambda tx: [search(tx, space, each) for each in wanted])


def _list_wordings(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, and each whole message that may become a record in their place."""
    whole = {each.whole: replace(each, content=each.whole) for each in candidates if each.whole and each.value is None}
    return [*candidates, *whole.values()]


def _read_new_messages(tx: Tx, scope: Scope) -> tuple[int, list[Message], list[Message]]:
    """How far learning has come, the last messages up to there, and the next ones."""
    after = Cursors(tx).get(scope, CURSOR)
    messages = Messages(tx).range(scope, after, None, _BATCH)
    earlier = Messages(tx).recent(scope, _EARLIER, after + 1) if messages and after else []
    return after, earlier, messages


def _add_usage(tx: Tx, info: SessionInfo, llm: Llm | None, found: TurnExtraction) -> None:
    if llm is not None and found.calls:
        usage.add(tx, info.scope, usage.build_llm_usage(llm.model, found.calls, found.used))


def _split_turns(messages: Sequence[Message], *, everything: bool) -> list[list[Message]]:
    """Turns that have their reply. The last one of several that are read may go on behind them."""
    turns = [[messages[at] for step in turn for at in step] for turn in group_turns(messages)]
    turns = [sorted(turn, key=lambda message: message.sequence) for turn in turns if turn]
    if everything or not turns:
        return turns
    return turns if _is_reply(turns[-1][-1]) else turns[:-1]


def _is_reply(message: Message) -> bool:
    return message.role is Role.ASSISTANT and not message.tool_calls


def _mark_as_words(message: TurnMessage) -> TurnMessage:
    return replace(message, text=mark_as_word(message.text))


def _mask_candidate(candidate: Candidate, mask: Callable[[str], str]) -> Candidate:
    def clean(text: str) -> str:
        return mask(unmark_word(text))

    return replace(
        candidate,
        content=clean(candidate.content),
        sentence=clean(candidate.sentence),
        whole=clean(candidate.whole),
        whole_quote=clean(candidate.whole_quote),
        subject=clean(candidate.subject),
        attribute=candidate.attribute and clean(candidate.attribute),
        value=candidate.value and clean(candidate.value),
        references=tuple(map(clean, candidate.references)),
    )


# A finished turn as a record: what was asked, what was answered, and how its tools fared


class TurnToolOutcome(NamedTuple):
    tool: str
    failed: bool


def build_turn_event(
    id: str,
    home: Owner,
    session: str,
    turn: Sequence[Message],
    skill: str | None,
    mask: Callable[[str], str],
    now: datetime,
) -> Record | None:
    """None if nothing was said, or the user asked not to have it remembered.

    ``turn`` begins with the user's message and ends with the reply.
    """
    if any(message.role is Role.USER and asks_not_to_keep(message.text) for message in turn):
        return None
    asked = " ".join(mask(message.text) for message in turn if message.role is Role.USER)
    answered = mask(turn[-1].text) if turn and turn[-1].role is Role.ASSISTANT else ""
    parts = {"Asked": _clip_text(asked, _ASKED), "Answered": _clip_text(answered, _ANSWERED)}
    content = " | ".join(f"{name}: {text}" for name, text in parts.items() if text)
    if not content:
        return None
    outcomes = collect_outcomes(turn)
    return Record(
        id=id,
        home=home,
        layer=Layer.EPISODIC,
        type=RecordType.TASK_STATE,
        content=content,
        tags=("turn", *((skill,) if skill else ())),
        metadata=_build_metadata(outcomes, skill),
        confidence=_CONFIDENCE,
        salience=_SALIENCE,
        references=find_references(f"{asked}\n{answered}"),
        fingerprint=fingerprint(RecordType.TASK_STATE, content),
        source=RecordSource(session, tuple(message.sequence for message in turn), turn[0].name),
        origin=Origin.TURN,
        created_at=now,
        updated_at=now,
        valid_from=now,
    )


def collect_outcomes(turn: Sequence[Message]) -> tuple[TurnToolOutcome, ...]:
    """Each call with whether its result was an error, or never came."""
    results = {message.tool_call_id: message for message in turn if message.role is Role.TOOL}
    calls = [call for message in turn for call in message.tool_calls]
    return tuple(TurnToolOutcome(call.name, call.id not in results or results[call.id].is_error) for call in calls)


def _build_metadata(outcomes: Sequence[TurnToolOutcome], skill: str | None) -> dict[str, str]:
    said: dict[str, str] = {"skill": skill} if skill else {}
    if outcomes:
        said["outcome"] = "failed" if any(outcome.failed for outcome in outcomes) else "done"
        named = dict.fromkeys(f"{each.tool[:_TOOL]} {'failed' if each.failed else 'done'}" for each in outcomes)
        said["tools"] = ", ".join(list(named)[:20])
    return said


def _clip_text(text: str, most: int) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1].rstrip()}…"
