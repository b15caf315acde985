"""Forgetting: records with every copy of what they say, also in the messages, summaries and notes they came from.

The sentence a record was learned from is taken out of its message, and the message is cut, indexed and read anew. All
of that is one transaction; the user's notes follow it. Afterwards a search looks for what may still say it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial

from holdfast import items
from holdfast.compact.digest import digest
from holdfast.domain.chunk import ChunkQuery, Source, SourceKind
from holdfast.domain.job import GRAPH
from holdfast.domain.message import Message, Part, TextPart
from holdfast.domain.record import Forgotten, Record
from holdfast.domain.scope import Level, Scope, Space
from holdfast.domain.sentences import sentences
from holdfast.domain.tokens import estimate
from holdfast.files import edited
from holdfast.files.daily_notes import day_file, redacted_lines
from holdfast.notes import Notes
from holdfast.recall import recipes
from holdfast.recall.question import Question
from holdfast.recall.search import Search, search
from holdfast.runtime import Runtime, masking
from holdfast.storage.base import Tx
from holdfast.write import append, remember
from holdfast.write.remember import Choice, Cutter

log = logging.getLogger("holdfast.forget")

MARK = "[forgotten]"
_LOOKED_AT = 20  # hits among which what is left is looked for
_NAMED = 20  # places that still say it, named at most


@dataclass(slots=True)
class Trail:
    """Where records came from: for each message, the sentences that are to go."""

    said: dict[tuple[str, str], dict[int, set[str]]] = field(default_factory=lambda: defaultdict(dict))
    days: dict[str, set[date]] = field(default_factory=lambda: defaultdict(set))

    def add(self, record: Record) -> None:
        source, user = record.source, record.user
        if source.session_id is None or source.sentence is None or user is None:
            return
        for sequence in source.sequences:
            self.said[user, source.session_id].setdefault(sequence, set()).add(source.sentence)

    def sentences(self, user: str) -> set[str]:
        found = [each.values() for (owner, _), each in self.said.items() if owner == user]
        return {sentence for values in found for many in values for sentence in many}


def chosen(tx: Tx, owner: Scope, choose: Choice) -> list[Record]:
    """The records that go: those that were meant, their copies, and the turns they were said in."""
    found = {record.id: record for record in remember.with_copies(tx, owner, choose(tx))}
    for record in list(found.values()):
        found |= {twin.id: twin for twin in _turns(tx, record)}
    return list(found.values())


def _turns(tx: Tx, record: Record) -> list[Record]:
    source = record.source
    if source.session_id is None or source.sentence is None:
        return []
    turns = tx.records.turns_of(record.home.space, source.session_id)
    said = set(source.sequences)
    return [turn for turn in turns if said & set(turn.source.sequences)]


def forget(runtime: Runtime, tenant: str, owner: Scope, choose: Choice, cut: Cutter) -> Forgotten:
    trail = Trail()

    def remove(tx: Tx) -> tuple[Forgotten, list[Record]]:
        records = chosen(tx, owner, choose)
        trail.said.clear()
        for record in records:
            trail.add(record)
        gone = remember.forget(tx, records, cut, runtime.clock())
        edited_messages = sum(
            _Scrub(runtime, tx, Scope(tenant, user=user, session=session)).messages(said, trail.days[user])
            for (user, session), said in sorted(trail.said.items())
        )
        counts = {**gone.counts, **({"messages": edited_messages} if edited_messages else {})}
        return Forgotten(counts, gone.ids), records

    gone, records = runtime.store.write(remove)
    for user in sorted({record.user for record in records if record.user is not None}):
        items.drop_lines(runtime, tenant, user, gone.ids)
        lines = _clean_notes(runtime, Space(tenant, Level.USER, user), trail.days[user], trail.sentences(user))
        gone = replace(
            gone,
            counts={**gone.counts, "note lines": gone.counts.get("note lines", 0) + lines} if lines else gone.counts,
        )
    return replace(gone, left=_left(runtime, records))


@dataclass(frozen=True, slots=True)
class _Scrub:
    """One session, without some sentences."""

    runtime: Runtime
    tx: Tx
    scope: Scope

    def messages(self, said: Mapping[int, Iterable[str]], days: set[date]) -> int:
        """How many were changed. A session that was deleted says nothing any more."""
        if self.tx.sessions.get(self.scope) is None:
            return 0
        self.tx.sessions.lock(self.scope)
        mask = masking(self.runtime.config)
        changed = 0
        for sequence, gone in sorted(said.items()):
            for message in self.tx.messages.range(self.scope, sequence - 1, sequence + 1, None):
                scrubbed = without(message, set(gone), mask)
                if scrubbed != message:
                    self.tx.messages.replace(self.scope, scrubbed)
                    changed += 1
                    assert message.created_at is not None
                    day = Notes.day_of(self.runtime, message.created_at)
                    days |= {day, day + timedelta(days=1)}  # a turn's line stands where its reply came
        if changed:
            self._anew()
        return changed

    def _anew(self) -> None:
        """What was made of the messages is made again: chunks, the graph, and the summary."""
        tx, scope, runtime = self.tx, self.scope, self.runtime
        history = tx.messages.range(scope, None, None, None)
        tx.chunks.drop_session(scope)
        for entry in append.prepare(history, runtime.config.chunks, runtime.clock()):
            append.index(tx, scope, entry.message, entry.chunks)
        tx.graph.drop_session(scope)
        tx.cursors.set(scope, GRAPH, 0)
        assert scope.session is not None
        if runtime.config.graph.enabled:
            tx.jobs.ask(append.space_of(scope), GRAPH, scope.session, runtime.clock())
        summary = tx.summaries.get(scope)
        if summary is not None:
            told = [message for message in history if message.sequence <= summary.upper_sequence]
            text = digest("", told, runtime.config.compact.summary_tokens, runtime.count)
            _, last_epoch = tx.summaries.past(scope)
            tx.summaries.put(scope, replace(summary, text=text, epoch=last_epoch + 1, updated_at=runtime.clock()))


def without(message: Message, gone: set[str], mask: Callable[[str], str]) -> Message:
    """The message with a mark in the place of these sentences, also where a secret in them was masked."""

    def scrubbed(text: str) -> str:
        for sentence in reversed(list(sentences(text))):
            if sentence.text in gone or mask(sentence.text) in gone:
                text = f"{text[: sentence.start]}{MARK}{text[sentence.start + len(sentence.text) :]}"
        return text

    def in_part(part: Part) -> Part:
        return replace(part, text=scrubbed(part.text)) if isinstance(part, TextPart) else part

    content = message.content
    if isinstance(content, str):
        changed = replace(message, content=scrubbed(content))
    else:
        changed = replace(message, content=tuple(map(in_part, content)))
    if changed == message:
        return message
    return replace(changed, tokens=estimate(changed.searchable))


def _clean_notes(runtime: Runtime, space: Space, days: Iterable[date], gone: Iterable[str]) -> int:
    """The lines of daily notes that told it. Another's edit of the file at that moment is kept."""
    if runtime.folder is None:
        return 0
    notes, cleaned, said = Notes.of(runtime, space), 0, sorted(gone, key=len, reverse=True)
    for day in sorted(days):
        path = day_file(notes.folder, day)
        if not path.exists():
            continue
        with edited.held(notes.root, path):
            before = edited.read(notes.root, path, runtime.config.notes.max_day_bytes)
            after, lines = redacted_lines(edited.text_of(path, before), said, MARK)
            if lines:
                edited.rewrite(path, partial(_instead, after))
                cleaned += lines
    return cleaned


def _instead(text: str, _there: bytes) -> bytes:
    return text.encode()


def _left(runtime: Runtime, records: Sequence[Record]) -> tuple[str, ...]:
    """Where a search still finds what these records said: what somebody stated outright, said elsewhere, or wrote."""
    found: dict[str, None] = {}
    for record in records:
        for text in {record.content, record.source.sentence or record.content}:
            found |= dict.fromkeys(_places(runtime, record.home.space, text))
    return tuple(found)[:_NAMED]


def _places(runtime: Runtime, space: Space, text: str) -> list[str]:
    now = runtime.clock()
    wanted = Search(
        Question.read(text[:2000], now), ChunkQuery(), recipes.WORDS, _LOOKED_AT, runtime.config.search, now
    )
    hits = runtime.store.read(lambda tx: search(tx, space, wanted))
    words = _folded(text)
    return [_place(hit.source) for hit in hits if words in _folded(hit.text)]


def _place(source: Source) -> str:
    if source.kind is SourceKind.MESSAGE:
        return f"message {source.first_sequence} of session {source.session_id}"
    return f"document {source.uri}" if source.kind is SourceKind.DOCUMENT else f"record {source.id}"


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!? ")
