"""Select what stands in a context whatever is recalled, in two layouts, each statement once.

The lean layout has what is known about the user, instructions and constraints, and notes, as dated sentences. The
layout golemcore has the user's files, stated memories and the best records of each layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import filterfalse
from typing import Any, NamedTuple

from limpet.config import ContextSettings
from limpet.context.quote import (
    find_wording,
    format_day,
    format_item,
    format_speaker,
    normalize,
    preview,
    quote_document,
    quote_inline,
)
from limpet.knowledge import english
from limpet.knowledge.prominence import DOUBTED_BY, is_doubtful, is_rule, prominence
from limpet.knowledge.similarity import is_near_duplicate
from limpet.model.chunk import Hit, SourceKind
from limpet.model.context import Omission, OmissionReason
from limpet.model.dataclass import dataclass, replace
from limpet.model.message import Message, Role
from limpet.model.record import Layer, Origin, ProfileLine, Record
from limpet.model.scope import Level
from limpet.model.session import Summary
from limpet.model.tokens import TokenCounter, estimate_tokens, min_tokens
from limpet.search.analysis import count_shared_terms, extract_terms
from limpet.search.recipes import score

_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_TURN_LINE = re.compile(r"(?:\d{4}-\d\d-\d\d )?\[\d\d:\d\d\] (?:User|Assistant): ")
DOUBT = "perhaps no longer true"
_LEAST_QUOTED = 3  # words of a quotation that stands unasked
_RELEVANCE = 2.0  # how much being asked for counts against standing out unasked
_COMPARED = 40  # memories that learned claims are compared with
_MessageKey = tuple[str | None, tuple[int, ...]]


class ContextSection(StrEnum):
    """In printed order: what changes least comes first, so that the start of a prompt stays cached."""

    ABOUT = "About the user"
    RULES = "Instructions and constraints"
    NOTES = "Notes"
    LONG_TERM = "Long-term Memory"
    USER = "User Memories"
    WORKING = "Working Memory"
    SEMANTIC = "Semantic Memory"
    PROCEDURAL = "Procedural Memory"
    EPISODIC = "Episodic Memory"
    TODAY = "Today's Notes"
    RECENT = "Recent Context"
    RELEVANT = "Relevant Memory"
    RELATED = "Relevant"
    ALSO = "Also said"
    SUMMARY = "Summary"
    EARLIER = "Earlier in this conversation"


@dataclass(frozen=True, slots=True)
class ContextInputs:
    """``history``: the newest messages that could fit; ``unsummarised``: those that the summary does not cover.

    The texts are Markdown from the user's own files.
    """

    session: str
    now: datetime
    query: str = ""
    history: tuple[Message, ...] = ()
    message_count: int = 0
    summary: Summary | None = None
    unsummarised: tuple[Message, ...] | None = None
    records: tuple[Record, ...] = ()
    relevance: Mapping[str, float] = field(default_factory=dict)  # of recalled records
    hits: tuple[Hit, ...] = ()
    later: Mapping[str, Record] = field(default_factory=dict)  # what may change a record or a hit, by its id
    working_memory: str = ""
    long_term: str = ""
    profile: tuple[ProfileLine, ...] = ()
    today: str = ""
    recent: str = ""
    skill: str | None = None
    failed: tuple[Omission, ...] = ()
    omitted: tuple[Omission, ...] = ()  # what was recalled and is not among the hits
    ended: tuple[str, ...] = ()  # words of this conversation that stated what no longer holds
    zone: str = "UTC"  # the user's

    def add_later(self, entry: PromptEntry, said_at: datetime | None, metadata: Mapping[str, Any]) -> PromptEntry:
        """Return the entry, now with its time and with what was said since and may change it."""
        entry.said_at, entry.later = said_at, self.later.get(metadata.get(DOUBTED_BY, ""))
        return entry

    def with_message(self, message: Message) -> ContextInputs:
        """Return a copy with a message that is not stored."""
        recent = None if self.unsummarised is None else (*self.unsummarised, message)
        count = self.message_count + 1
        return replace(self, history=(*self.history, message), message_count=count, unsummarised=recent)


@dataclass(slots=True, eq=False, repr=False)
class PromptEntry:
    """An entry that may be printed in a section, and its position there.

    Tokens are counted on demand: most omitted entries are never counted.
    """

    section: ContextSection
    text: str
    count: TokenCounter
    what: Callable[[], str]  # describes it to a person if it is omitted
    place: tuple[str | int, ...] = ()
    under: str = ""  # a line shared by several entries, such as their day
    hit: Hit | None = None
    record: str | None = None
    source: tuple[str | None, int] | None = None  # the message it was learned from, or is
    said: str = ""  # the words of that message
    states: str = ""  # the sentence of a claim
    said_at: datetime | None = None
    later: Record | None = None  # what was said since and may change it
    counted: int | None = None
    compared: tuple[str, str, str] | None = None

    @property
    def wording(self) -> tuple[str, str, str]:
        """What is compared with other entries: its words, its statement, and that without what only brings it up."""
        self.compared = self.compared or find_wording(self.said, self.states or self.said)
        return self.compared

    @property
    def tokens(self) -> int:
        if self.counted is None:
            self.counted = self.count(f"{self.text}\n")
        return self.counted

    def fits(self, room: int) -> bool:
        if self.counted is None and self.count is estimate_tokens and min_tokens(self.text) > room:
            return False
        return self.tokens <= room

    @property
    def record_id(self) -> str | None:
        """Return the id of the record it shows, in its section or as a hit."""
        if self.hit is not None and self.hit.source.kind is SourceKind.RECORD:
            return self.hit.source.id
        return self.record


class EntryChoice(NamedTuple):
    """Entries in selection order, and what was already omitted."""

    entries: list[PromptEntry]
    dropped: list[Omission]
    doubtful: tuple[PromptEntry, ...] = ()  # as they were said; they fill what room is left

    def drop(self, records: Iterable[Record], reason: OmissionReason, **values: object) -> None:
        self.dropped.extend(Omission(describe_record(record), reason.value.format(**values)) for record in records)


def describe_record(record: Record) -> str:
    return f"{record.type} {f'{record.key}: ' if record.key else ''}{preview(record.content)}"


def select_standing(material: ContextInputs, limits: ContextSettings, count: TokenCounter) -> EntryChoice:
    """What is known of the user and said by them, the most important first: a tight budget cuts from the end."""
    select = _select_lean if limits.layout == "lean" else _select_by_layer
    return select(material, limits, count)


def _share_terms(terms: frozenset[int], text: str) -> float:
    return count_shared_terms(terms, text) / len(terms) if terms else 0.0


def _split_lines(section: ContextSection, text: str, name: str, count: TokenCounter, number: int) -> list[PromptEntry]:
    """Split a text into lines, so that the part that fits can be kept."""
    document = quote_document(text)
    lines = document.split("\n") if document.strip() else []
    return [_build_line(section, line, name, line, count, ("", number, at)) for at, line in enumerate(lines)]


def _build_line(
    section: ContextSection, text: str, name: str, line: str, count: TokenCounter, place: tuple[str | int, ...]
) -> PromptEntry:
    return PromptEntry(section, text, count, lambda: f"a line of {name}: {preview(line)}", place)


# The lean layout


def _select_lean(material: ContextInputs, limits: ContextSettings, count: TokenCounter) -> EntryChoice:
    terms = frozenset(extract_terms(material.query))
    found, repeated = _deduplicate(_filter(material, limits))
    worth = {record.id: _score(record, material, terms) for record in found}
    found.sort(key=lambda record: (-worth[record.id], record.id))
    ranked = [record for record in found if not is_doubtful(record)]
    unsure = [record for record in found if is_doubtful(record)]
    doubtful, terse = [*filter(_says_something, unsure)], [*filterfalse(_says_something, unsure)]
    quoted = tuple(_quote_entry(record, material, terms, count) for record in doubtful[: limits.standing])
    chosen = EntryChoice([], [], quoted)
    chosen.entries.extend(_build_statement(record, material, count) for record in ranked[: limits.standing])
    beyond = ranked[limits.standing :] + doubtful[limits.standing :]
    chosen.drop(beyond, OmissionReason.BEYOND_STANDING, most=limits.standing)
    chosen.drop(repeated, OmissionReason.IN_MEMORIES)
    chosen.drop(terse, OmissionReason.SAYS_LITTLE)
    chosen.entries.extend(_note_entries(material, limits, terms, count))
    return chosen


def _says_something(record: Record) -> bool:
    """Whether what may be a claim is in words that say something by themselves."""
    text = record.source.sentence or "" if record.source.session_id is not None else ""
    return len(text.split()) >= _LEAST_QUOTED and len(extract_terms(text)) > 1


def _filter(material: ContextInputs, limits: ContextSettings) -> Iterable[Record]:
    """Claims and, where settings show it, what was stated outright; no episodes, which the messages tell."""
    for record in material.records:
        here = record.session_id in (None, material.session)
        shown = limits.show_user_memories or record.pinned or not _is_explicit(record)
        if here and shown and record.origin not in (Origin.TURN, Origin.CONDENSED):
            yield record


def _deduplicate(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """Each statement once, and the repeated ones: those that another record says or, of the same message, quotes."""
    found, seen = list(records), set[str]()
    kept: list[Record] = []
    repeated: list[Record] = []
    by_message: dict[_MessageKey, list[Record]] = {}
    for record in found:
        by_message.setdefault(_find_message(record), []).append(record)
    explicit = [record for record in found if record.origin is Origin.EXPLICIT][:_COMPARED]
    for record in found:
        same = normalize(record.content)
        beside = by_message[_find_message(record)] if record.source.sentence and record.source.sequences else ()
        is_new = same not in seen and not any(_is_told_by(record, other) for other in beside)
        if is_new and record.origin is Origin.EXTRACTED:
            is_new = not any(_restates(record, other) for other in explicit)
        (kept if is_new else repeated).append(record)
        if is_new:
            seen.add(same)
    return kept, repeated


def _find_message(record: Record) -> _MessageKey:
    return record.source.session_id, record.source.sequences


def _is_told_by(record: Record, other: Record) -> bool:
    """Whether another claim of its message quotes more, or says its value beside more: "my wife Anjali is a nurse"."""
    quote, longer = record.source.sentence or "", other.source.sentence or ""
    if quote != longer:
        return quote in longer
    value = (record.value or "").casefold()
    if other is record or is_doubtful(other) or not value or len(other.content) <= len(record.content):
        return False
    role = (record.subject or "").rpartition("/")[2]
    said = other.content.casefold()
    return value in said and (role == "user" or role in said) and (other.value or "").casefold() != value


def _restates(record: Record, stated: Record) -> bool:
    """Whether somebody saved the words that a claim was learned from."""
    return is_near_duplicate(record.source.sentence or record.content, stated.content)


def _score(record: Record, material: ContextInputs, terms: frozenset[int]) -> float:
    relevance = max(material.relevance.get(record.id, 0.0), _share_terms(terms, record.content))
    return prominence(record, material.now) + _RELEVANCE * relevance


def _build_statement(record: Record, material: ContextInputs, count: TokenCounter) -> PromptEntry:
    section = ContextSection.RULES if is_rule(record) else ContextSection.ABOUT
    text = format_item("", _date(record))
    day = "" if record.created_at is None else record.created_at.isoformat()
    place = ("" if record.subject in (None, "user") else record.subject or "", day, record.id)
    source = (record.source.session_id, record.source.sequences[0]) if record.source.sequences else None
    said, what = record.source.sentence or record.content, partial(describe_record, record)
    entry = PromptEntry(
        section, text, count, what, place, record=record.id, source=source, said=said, states=record.content
    )
    return material.add_later(entry, record.valid_from or record.created_at, record.metadata)


def _quote_entry(record: Record, material: ContextInputs, terms: frozenset[int], count: TokenCounter) -> PromptEntry:
    """What may be a claim, as it was said: under its day, with its speaker."""
    said = record.source.sentence or record.content
    section = ContextSection.RELATED if _share_terms(terms, said) else ContextSection.ALSO
    day = _format_day(record.valid_from or record.created_at)
    doubt = f" ({DOUBT})" if DOUBTED_BY in record.metadata else ""
    text = format_item(f"{format_speaker(Role.USER, record.source.speaker)}: ", f"{said}{doubt}")
    sequence = record.source.sequences[0] if record.source.sequences else 0
    place = (day, record.source.session_id or "", sequence, record.id)
    source, what = (record.source.session_id, sequence), partial(describe_record, record)
    entry = PromptEntry(section, text, count, what, place, under=day, record=record.id, source=source, said=said)
    return material.add_later(entry, record.valid_from or record.created_at, record.metadata)


def _date(record: Record) -> str:
    """The sentence with the day it was said, unless it names a year itself."""
    said = record.valid_from or record.created_at
    label = "".join(f"{part}: " for part in (record.key, record.title) if part)
    content = record.content
    if record.origin is Origin.EXPLICIT and (saved := record.updated_at or said) is not None:
        content = english.resolve_dates(content, saved)
    text = f"{label}{content}"
    undated = said is None or _YEAR.search(text) or record.origin is Origin.EXPLICIT
    notes = [] if said is None or undated else [format_day(said)]
    notes += [DOUBT] if DOUBTED_BY in record.metadata else []
    return f"{text.rstrip()} ({', '.join(notes)})" if notes else text


def _note_entries(
    material: ContextInputs, limits: ContextSettings, terms: frozenset[int], count: TokenCounter
) -> list[PromptEntry]:
    """Lines of the user's notes, the relevant ones first; what a turn wrote there is in the messages already."""
    texts = (
        ("working memory", material.working_memory, limits.show_working),
        ("MEMORY.md", material.long_term, limits.show_long_term),
        ("the notes of the days before", material.recent, limits.show_recent),
        ("today's notes", material.today, limits.show_today),
    )
    entries = [
        entry
        for number, (name, text, show) in enumerate(texts)
        for entry in (_split_lines(ContextSection.NOTES, _drop_turns(text), name, count, number) if show else ())
        if entry.text.strip() and not _TURN_LINE.match(entry.text)
    ]
    return sorted(entries, key=lambda entry: (-_share_terms(terms, entry.text), entry.place))


def _drop_turns(text: str) -> str:
    """Drop the lines that turns wrote: they are most of a day's notes, and quoting them costs much."""
    return "\n".join([line for line in text.split("\n") if not _TURN_LINE.match(line)])


# The layout golemcore


def _select_by_layer(material: ContextInputs, limits: ContextSettings, count: TokenCounter) -> EntryChoice:
    pinned: list[Record] = []
    stated: list[Record] = []
    others: list[Record] = []
    for record in material.records:
        if record.session_id in (None, material.session) and not _is_in_conversation(record, material.session):
            (pinned if record.pinned else stated if _is_explicit(record) else others).append(record)
    terms = frozenset(extract_terms(material.query))
    worth = {
        record.id: max(material.relevance.get(record.id, 0.0), compute_coverage(terms, record))
        for record in stated + others
    }
    chosen = EntryChoice([], [])
    if limits.show_long_term:
        pinned.sort(key=lambda record: (_format_day(record.created_at), record.id))
        chosen.entries.extend(_split_lines(ContextSection.LONG_TERM, material.long_term, "MEMORY.md", count, 0))
        chosen.entries.extend(_build_entry(ContextSection.LONG_TERM, record, count) for record in pinned)
    if limits.show_working:
        lines = _split_lines(ContextSection.WORKING, material.working_memory, "working memory", count, 0)
        chosen.entries.extend(lines)
    if limits.show_user_memories:
        _choose_stated(stated, worth, limits, count, chosen)
    _choose_scored(others, worth, material, limits, count, chosen)
    if limits.show_profile:
        _add_profile_lines(material.profile, count, chosen)
    for section, text, name, show in (
        (ContextSection.TODAY, material.today, "today's notes", limits.show_today),
        (ContextSection.RECENT, material.recent, "the notes of the days before", limits.show_recent),
    ):
        chosen.entries.extend(reversed(_split_lines(section, text, name, count, 0)) if show else ())
    return chosen


def layer_limits(limits: ContextSettings) -> dict[Layer, int]:
    layers = (Layer.WORKING, Layer.SEMANTIC, Layer.PROCEDURAL, Layer.EPISODIC)
    return {layer: getattr(limits, f"{layer}_top") for layer in layers if getattr(limits, f"show_{layer}")}


def _add_profile_lines(profile: Sequence[ProfileLine], count: TokenCounter, chosen: EntryChoice) -> None:
    """Add the profile lines that say more than the memories already chosen, before all of them."""
    there = {entry.record for entry in chosen.entries if entry.record is not None}
    lines = [line.text for line in profile if not there >= set(line.sources)]
    chosen.entries[:0] = [
        _build_line(ContextSection.LONG_TERM, format_item("", line), "the profile", line, count, (" ", 0, at))
        for at, line in enumerate(lines)
    ]
    if repeated := len(profile) - len(lines):
        what = f"{repeated} line{'s' * (repeated != 1)} of the profile"
        chosen.dropped.append(Omission(what, OmissionReason.IN_MEMORIES.value))


def _is_in_conversation(record: Record, session: str) -> bool:
    """Return whether a turn of this conversation is among its messages or in its summary."""
    return record.origin is Origin.TURN and record.source.session_id == session


def _is_explicit(record: Record) -> bool:
    return record.key is not None and record.home.level is Level.USER and record.origin is Origin.EXPLICIT


def _choose_stated(
    stated: list[Record], worth: dict[str, float], limits: ContextSettings, count: TokenCounter, chosen: EntryChoice
) -> None:
    most = limits.user_memories
    ranked = sorted(stated, key=lambda record: (worth[record.id], _update_time(record)), reverse=True)
    chosen.entries.extend(_build_entry(ContextSection.USER, record, count) for record in ranked[:most])
    chosen.drop(ranked[most:], OmissionReason.BEYOND_USER_MEMORIES, most=most)


def _choose_scored(
    records: list[Record],
    worth: dict[str, float],
    material: ContextInputs,
    limits: ContextSettings,
    count: TokenCounter,
    chosen: EntryChoice,
) -> None:
    """Choose the best of each layer, then the best of all that fit."""
    scores = {record.id: score(record, worth[record.id], material.now, material.skill) for record in records}

    def rank(found: Iterable[Record]) -> list[Record]:
        return sorted(found, key=lambda record: (scores[record.id], _update_time(record), record.id), reverse=True)

    best: list[Record] = []
    for layer, top in layer_limits(limits).items():
        ranked = rank(record for record in records if record.layer is layer)
        if layer is Layer.EPISODIC:
            ranked = list(_drop_faded(ranked, material, limits, chosen))
        best += ranked[:top]
        chosen.drop(ranked[top:], OmissionReason.BEYOND_LAYER, most=top, layer=layer)
    _pack(rank(best), scores, limits, count, chosen)


def _drop_faded(
    records: Sequence[Record], material: ContextInputs, limits: ContextSettings, chosen: EntryChoice
) -> Iterator[Record]:
    since = material.now - timedelta(days=limits.episodic_days)
    for record in records:
        recent = any(at is not None and at >= since for at in (record.updated_at, record.last_used_at))
        if recent or record.id in material.relevance:
            yield record
        else:
            chosen.drop([record], OmissionReason.FADED, days=limits.episodic_days)


def _pack(
    records: list[Record], scores: dict[str, float], limits: ContextSettings, count: TokenCounter, chosen: EntryChoice
) -> None:
    used = 0
    for record in records:
        entry = _build_entry(ContextSection[record.layer.name], record, count)
        if used + entry.tokens > limits.pack_hard:
            chosen.drop([record], OmissionReason.OVER_RECORD_TOKENS, most=limits.pack_hard)
        elif used + entry.tokens > limits.pack_soft and scores[record.id] < limits.pack_strong:
            chosen.drop([record], OmissionReason.NOT_STRONG, most=limits.pack_soft, least=limits.pack_strong)
        else:
            used += entry.tokens
            chosen.entries.append(entry)


def _update_time(record: Record) -> float:
    return 0.0 if record.updated_at is None else record.updated_at.timestamp()


def _build_entry(section: ContextSection, record: Record, count: TokenCounter) -> PromptEntry:
    day = _format_day(record.created_at)
    parts = (
        day if section is ContextSection.EPISODIC else "",
        record.key or "",
        quote_inline(record.title) if record.title else "",
    )
    text = format_item("".join(f"{part}: " for part in parts if part), record.content)
    # A record's position does not depend on its score: a prompt that keeps its order stays cached.
    place = ("record", record.key or "", day, record.id)
    return PromptEntry(section, text, count, partial(describe_record, record), place, record=record.id)


def _format_day(moment: datetime | None) -> str:
    return "" if moment is None else moment.date().isoformat()


def compute_coverage(question: frozenset[int], record: Record) -> float:
    names = f"{(record.key or '').replace('_', ' ')} {record.title or ''}"
    return _share_terms(question, f"{names} {record.content}")
