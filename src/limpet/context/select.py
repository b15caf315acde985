"""Select the contents of a context: what is always included, and recalled passages, without duplicates.

Always included are the user's files, stated memories and the best records of each layer. A passage is not shown if the
context already contains it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from limpet.config import ContextSettings
from limpet.context.inputs import ContextInputs, ContextSection, EntryChoice, PromptEntry, hit_section, preview
from limpet.context.lean import format_day
from limpet.context.quote import format_item, format_speaker, quote_document, quote_inline
from limpet.knowledge.prominence import DOUBTED_BY
from limpet.model.chunk import Hit, SourceKind
from limpet.model.context import Omission
from limpet.model.message import Message
from limpet.model.record import Layer, Origin, ProfileLine, Record
from limpet.model.scope import Level
from limpet.model.tokens import TokenCounter
from limpet.search.analysis import count_shared_terms, extract_terms
from limpet.search.recipes import score

_SECTION = {
    Layer.WORKING: ContextSection.WORKING,
    Layer.SEMANTIC: ContextSection.SEMANTIC,
    Layer.PROCEDURAL: ContextSection.PROCEDURAL,
    Layer.EPISODIC: ContextSection.EPISODIC,
}
_NO_DATE = ""
_PROFILE_ORDER = " "  # after the lines of a file, before records

_Describe = Callable[[], str]
_MessageRef = tuple[str | None, int]


def select_always_included(material: ContextInputs, limits: ContextSettings, count: TokenCounter) -> EntryChoice:
    """The most important first: a tight budget cuts from the end."""
    pinned: list[Record] = []
    stated: list[Record] = []
    others: list[Record] = []
    for record in material.records:
        if record.session_id in (None, material.session) and not _is_in_conversation(record, material.session):
            (pinned if record.pinned else stated if _is_explicit(record) else others).append(record)
    worth = _score_relevance(material, stated + others)
    chosen = EntryChoice([], [])
    if limits.show_long_term:
        chosen.entries.extend(_split_lines(ContextSection.LONG_TERM, material.long_term, "MEMORY.md", count))
        chosen.entries.extend(
            _build_entry(ContextSection.LONG_TERM, record, count) for record in _sort_oldest_first(pinned)
        )
    if limits.show_working:
        chosen.entries.extend(_split_lines(ContextSection.WORKING, material.working_memory, "working memory", count))
    if limits.show_user_memories:
        _choose_stated(stated, worth, limits, count, chosen)
    _choose_scored(others, worth, material, limits, count, chosen)
    if limits.show_profile:
        _add_profile_lines(material.profile, count, chosen)
    if limits.show_today:
        chosen.entries.extend(reversed(_split_lines(ContextSection.TODAY, material.today, "today's notes", count)))
    if limits.show_recent:
        notes = _split_lines(ContextSection.RECENT, material.recent, "the notes of the days before", count)
        chosen.entries.extend(reversed(notes))
    return chosen


def layer_limits(limits: ContextSettings) -> dict[Layer, int]:
    """Return the number of records for each layer that is shown."""
    layers = {
        Layer.WORKING: (limits.working_top, limits.show_working),
        Layer.SEMANTIC: (limits.semantic_top, limits.show_semantic),
        Layer.PROCEDURAL: (limits.procedural_top, limits.show_procedural),
        Layer.EPISODIC: (limits.episodic_top, limits.show_episodic),
    }
    return {layer: top for layer, (top, show) in layers.items() if show}


def _add_profile_lines(profile: Sequence[ProfileLine], count: TokenCounter, chosen: EntryChoice) -> None:
    """Add the profile lines that say more than the memories already chosen, before all of them."""
    there = {entry.record for entry in chosen.entries if entry.record is not None}
    lines = [line for line in profile if not there >= set(line.sources)]
    entries = []
    for at, line in enumerate(lines):
        text = format_item("", line.text)
        what = partial(_describe_line, "the profile", line.text)
        entries.append(PromptEntry(ContextSection.LONG_TERM, text, count, what, (_PROFILE_ORDER, at)))
    chosen.entries[:0] = entries
    if repeated := len(profile) - len(lines):
        lines_said = f"{repeated} line{'s' * (repeated != 1)} of the profile"
        chosen.dropped.append(Omission(lines_said, "said by the memories that are shown"))


def _is_in_conversation(record: Record, session: str) -> bool:
    """Return whether a turn of this conversation is among its messages or in its summary."""
    return record.origin is Origin.TURN and record.source.session_id == session


def _is_explicit(record: Record) -> bool:
    return record.key is not None and record.home.level is Level.USER and record.origin is Origin.EXPLICIT


def _score_relevance(material: ContextInputs, records: Iterable[Record]) -> dict[str, float]:
    """Return the recall score, or the share of the question's words if that is higher."""
    terms = frozenset(extract_terms(material.query))
    return {
        record.id: max(material.relevance.get(record.id, 0.0), compute_coverage(terms, record)) for record in records
    }


def _choose_stated(
    stated: list[Record], worth: dict[str, float], limits: ContextSettings, count: TokenCounter, chosen: EntryChoice
) -> None:
    ranked = sorted(stated, key=lambda record: (worth[record.id], _update_time(record)), reverse=True)
    chosen.entries.extend(_build_entry(ContextSection.USER, record, count) for record in ranked[: limits.user_memories])
    reason = f"beyond the {limits.user_memories} most relevant user memories"
    chosen.dropped.extend(Omission(_describe_record(record), reason) for record in ranked[limits.user_memories :])


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
    best: list[Record] = []
    for layer, top in layer_limits(limits).items():
        ranked = _rank((record for record in records if record.layer is layer), scores)
        if layer is Layer.EPISODIC:
            since = material.now - timedelta(days=limits.episodic_days)
            faded = {record.id for record in ranked if not _is_recent(record, since)} - material.relevance.keys()
            old = f"older than {limits.episodic_days} days and not recalled"
            chosen.dropped.extend(Omission(_describe_record(record), old) for record in ranked if record.id in faded)
            ranked = [record for record in ranked if record.id not in faded]
        best += ranked[:top]
        reason = f"beyond the {top} best {layer.value} records"
        chosen.dropped.extend(Omission(_describe_record(record), reason) for record in ranked[top:])
    _pack(_rank(best, scores), scores, limits, count, chosen)


def _pack(
    records: list[Record], scores: dict[str, float], limits: ContextSettings, count: TokenCounter, chosen: EntryChoice
) -> None:
    used = 0
    for record in records:
        entry = _build_entry(_SECTION[record.layer], record, count)
        if used + entry.tokens > limits.pack_hard:
            chosen.dropped.append(Omission(entry.what(), f"over the {limits.pack_hard} tokens for records"))
        elif used + entry.tokens > limits.pack_soft and scores[record.id] < limits.pack_strong:
            reason = f"past {limits.pack_soft} tokens only records with a score of {limits.pack_strong} enter"
            chosen.dropped.append(Omission(entry.what(), reason))
        else:
            used += entry.tokens
            chosen.entries.append(entry)


def _rank(records: Iterable[Record], scores: dict[str, float]) -> list[Record]:
    return sorted(records, key=lambda record: (scores[record.id], _update_time(record), record.id), reverse=True)


def _sort_oldest_first(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (_format_day(record.created_at), record.id))


def _is_recent(record: Record, since: datetime) -> bool:
    return any(at is not None and at >= since for at in (record.updated_at, record.last_used_at))


def _update_time(record: Record) -> float:
    return 0.0 if record.updated_at is None else record.updated_at.timestamp()


def _build_entry(section: ContextSection, record: Record, count: TokenCounter) -> PromptEntry:
    text = format_item(_label(section, record), record.content)
    # A record's position does not depend on its score: a prompt that keeps its order stays cached.
    place = ("record", record.key or "", _format_day(record.created_at), record.id)
    return PromptEntry(section, text, count, partial(_describe_record, record), place, record=record.id)


def _label(section: ContextSection, record: Record) -> str:
    parts = [
        _format_day(record.created_at) if section is ContextSection.EPISODIC else "",
        record.key or "",
        quote_inline(record.title) if record.title else "",
    ]
    return "".join(f"{part}: " for part in parts if part)


def _describe_record(record: Record) -> str:
    return f"{record.layer} record {f'{record.key}: ' if record.key else ''}{preview(record.content)}"


def _split_lines(section: ContextSection, text: str, name: str, count: TokenCounter) -> list[PromptEntry]:
    """Split a text into lines, so that the part that fits can be kept."""
    document = quote_document(text)
    lines = document.split("\n") if document.strip() else []
    return [
        PromptEntry(section, line, count, partial(_describe_line, name, line), (_NO_DATE, at))
        for at, line in enumerate(lines)
    ]


def _describe_line(name: str, line: str) -> str:
    return f"a line of {name}: {preview(line)}"


def _format_day(moment: datetime | None) -> str:
    return _NO_DATE if moment is None else moment.date().isoformat()


def compute_coverage(question: frozenset[int], record: Record) -> float:
    """Return the share of the question's words that the record contains."""
    if not question:
        return 0.0
    text = record.content
    if record.key or record.title:
        text = f"{(record.key or '').replace('_', ' ')} {record.title or ''} {text}"
    return count_shared_terms(question, text) / len(question)


# Passages


class HitCandidate(NamedTuple):
    """A hit as it would be printed, and what decides whether it is, computed once."""

    entry: PromptEntry
    hit: Hit
    what: _Describe
    against: str  # a reason to omit it regardless of the other entries
    ends: tuple[_MessageRef, ...]  # the first and last message of this text; empty for other sources
    here: bool  # from this session
    fact: bool  # a record


class Selection(NamedTuple):
    """Selected entries, and the omitted ones with their reasons."""

    entries: list[PromptEntry]
    left: list[tuple[_Describe, str]]


def build_candidates(material: ContextInputs, limits: ContextSettings, count: TokenCounter) -> list[HitCandidate]:
    """Return all hits, the best first."""
    query = material.query.strip()
    return (
        [_build_candidate(hit, material.session, query, count, limits) for hit in material.hits]
        if limits.show_relevant
        else []
    )


def _build_candidate(hit: Hit, session: str, query: str, count: TokenCounter, limits: ContextSettings) -> HitCandidate:
    section = hit_section(limits.layout)
    source, entry = hit.source, _build_hit_entry(hit, section, count)
    fact, is_message = source.kind is SourceKind.RECORD, source.kind is SourceKind.MESSAGE
    first, last = (source.session_id, source.first_sequence or 0), (source.session_id, source.last_sequence or 0)
    what, against = entry.what, "it is the question itself" if hit.text.strip() == query else ""
    learned = fact and source.role is not None  # from a message, and known everywhere
    if fact and not learned and source.session_id not in (None, session):
        what, against = _describe_foreign_record, "what it says is known there only"
    said = is_message or learned
    ends = () if not said else (first,) if first == last else (first, last)
    return HitCandidate(entry, hit, what, against, ends, said and source.session_id == session, fact)


def _describe_foreign_record() -> str:
    return "a record of another session"


def select_hits(
    candidates: Sequence[HitCandidate], messages: Sequence[Message], records: Collection[str], limits: ContextSettings
) -> Selection:
    """Select the passages to print in addition to these messages and records.

    Records among them have their own limits on number and tokens.
    """
    shown_here = {message.sequence: message for message in messages}
    entries: list[PromptEntry] = []
    omitted: list[tuple[_Describe, str]] = []
    beyond: list[tuple[_Describe, str]] = []
    seen: set[_MessageRef] = set()
    facts = tokens = 0
    for passage in candidates:
        entry = passage.entry
        if reason := passage.against or _rejection_reason(passage, shown_here, records, seen):
            omitted.append((passage.what, reason))
        elif passage.fact and (facts >= limits.facts or tokens + entry.tokens > limits.facts_tokens):
            reason = f"beyond {limits.facts} recalled facts or their {limits.facts_tokens} tokens"
            beyond.append((passage.what, reason))
        else:
            entries.append(entry)
            if passage.fact:
                facts, tokens = facts + 1, tokens + entry.tokens
    return Selection(entries, omitted + beyond)


def _rejection_reason(
    passage: HitCandidate, messages: Mapping[int, Message], records: Collection[str], seen: set[_MessageRef]
) -> str:
    if passage.fact and passage.hit.source.id in records:
        return "already in a section above"
    if not passage.hit.holds and passage.hit.superseded_by in records:
        return "no longer holds, and what took its place is above"
    if not passage.ends:
        return ""
    if passage.here and _is_in_messages(passage, messages):
        return "already among the messages"
    # A repeated text spans from its first message to its last; the messages between are different.
    if passage.fact:
        return ""
    if not seen.isdisjoint(passage.ends):
        return "of the same message as a better hit"
    seen.update(passage.ends)
    return ""


def _is_in_messages(passage: HitCandidate, messages: Mapping[int, Message]) -> bool:
    """A repeated text has a range; only the messages that contain it belong to the hit."""
    first, last, text = passage.ends[0][1], passage.ends[-1][1], passage.hit.text
    if first == last:
        return first in messages
    return any(first <= sequence <= last and text in said.searchable for sequence, said in messages.items())


def _build_hit_entry(hit: Hit, section: ContextSection, count: TokenCounter) -> PromptEntry:
    """One day heading for all hits of a day: a date on each hit would cost one hit in six."""
    source = hit.source
    label = "" if section is ContextSection.RELATED and _is_claim(hit) else f"{_source_label(hit)}: "
    text = format_item(label, f"{hit.text}{_mark_past(hit)}")
    day = source.created_at.date().isoformat()
    place = (day, source.session_id or "", source.first_sequence or 0, source.id)
    return PromptEntry(section, text, count, partial(_describe_hit, hit), place, under=day, hit=hit)


def _is_claim(hit: Hit) -> bool:
    return hit.source.kind is SourceKind.RECORD and hit.source.role is not None


def _mark_past(hit: Hit) -> str:
    if hit.holds:
        return " (perhaps no longer true)" if DOUBTED_BY in hit.metadata else ""
    return " (no longer true)" if hit.until is None else f" (until {format_day(hit.until)}, no longer true)"


def _source_label(hit: Hit) -> str:
    if hit.source.kind is SourceKind.MESSAGE:
        return format_speaker(hit.source.role, hit.source.name)
    about = next(_find_labels(hit), hit.source.kind.value)
    return quote_inline(about)


def _find_labels(hit: Hit) -> Iterator[str]:
    names = ("key", "type") if hit.source.kind is SourceKind.RECORD else ("title", "uri")
    return (str(hit.metadata[name]) for name in names if hit.metadata.get(name))


def _describe_hit(hit: Hit) -> str:
    return (
        f"hit of {hit.source.created_at.date().isoformat()} from {preview(_source_label(hit), 30)}: {preview(hit.text)}"
    )
