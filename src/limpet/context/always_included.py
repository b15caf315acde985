"""What stands in a context whatever is recalled: the user's files, stated memories, the best records of each layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from limpet.config import ContextSettings
from limpet.context.inputs import Choice, Entry, Material, Section, shown
from limpet.context.quote import inline, item, quoted_document
from limpet.context.relevance import coverage
from limpet.knowledge.score import score
from limpet.model.context import Dropped
from limpet.model.profile import ProfileLine
from limpet.model.record import Layer, Origin, Record
from limpet.model.scope import Level
from limpet.model.tokens import TokenCounter
from limpet.search.analysis import query_terms

_SECTION = {
    Layer.WORKING: Section.WORKING,
    Layer.SEMANTIC: Section.SEMANTIC,
    Layer.PROCEDURAL: Section.PROCEDURAL,
    Layer.EPISODIC: Section.EPISODIC,
}
_LONG_AGO = ""
_PROFILE = " "  # after the lines of a file, before records


def standing(material: Material, limits: ContextSettings, count: TokenCounter) -> Choice:
    """The most important first: a tight budget cuts from the end."""
    pinned: list[Record] = []
    stated: list[Record] = []
    others: list[Record] = []
    for record in material.records:
        if record.session_id in (None, material.session) and not _is_told(record, material.session):
            (pinned if record.pinned else stated if _is_stated(record) else others).append(record)
    worth = _relevance(material, stated + others)
    chosen = Choice([], [])
    if limits.show_long_term:
        chosen.entries.extend(_lines(Section.LONG_TERM, material.long_term, "MEMORY.md", count))
        chosen.entries.extend(_entry(Section.LONG_TERM, record, count) for record in _oldest_first(pinned))
    if limits.show_working:
        chosen.entries.extend(_lines(Section.WORKING, material.working_memory, "working memory", count))
    if limits.show_user_memories:
        _choose_stated(stated, worth, limits, count, chosen)
    _choose_scored(others, worth, material, limits, count, chosen)
    if limits.show_profile:
        _tell_more(material.profile, count, chosen)
    if limits.show_today:
        chosen.entries.extend(reversed(_lines(Section.TODAY, material.today, "today's notes", count)))
    if limits.show_recent:
        notes = _lines(Section.RECENT, material.recent, "the notes of the days before", count)
        chosen.entries.extend(reversed(notes))
    return chosen


def tops(limits: ContextSettings) -> dict[Layer, int]:
    """How many records of each layer that is shown."""
    layers = {
        Layer.WORKING: (limits.working_top, limits.show_working),
        Layer.SEMANTIC: (limits.semantic_top, limits.show_semantic),
        Layer.PROCEDURAL: (limits.procedural_top, limits.show_procedural),
        Layer.EPISODIC: (limits.episodic_top, limits.show_episodic),
    }
    return {layer: top for layer, (top, show) in layers.items() if show}


def _tell_more(profile: Sequence[ProfileLine], count: TokenCounter, chosen: Choice) -> None:
    """The lines of the profile that say more than the memories chosen already, before all of them."""
    there = {entry.record for entry in chosen.entries if entry.record is not None}
    lines = [line for line in profile if not there >= set(line.sources)]
    entries = []
    for at, line in enumerate(lines):
        text = item("", line.text)
        what = partial(_what_line, "the profile", line.text)
        entries.append(Entry(Section.LONG_TERM, text, count, what, (_PROFILE, at)))
    chosen.entries[:0] = entries
    if said := len(profile) - len(lines):
        lines_said = f"{said} line{'s' * (said != 1)} of the profile"
        chosen.dropped.append(Dropped(lines_said, "said by the memories that are shown"))


def _is_told(record: Record, session: str) -> bool:
    """A turn of this conversation stands among its messages, or its summary tells it."""
    return record.origin is Origin.TURN and record.source.session_id == session


def _is_stated(record: Record) -> bool:
    return record.key is not None and record.home.level is Level.USER and record.origin is Origin.EXPLICIT


def _relevance(material: Material, records: Iterable[Record]) -> dict[str, float]:
    """What recall says, or the words shared with the question when that is more."""
    terms = frozenset(query_terms(material.query))
    return {record.id: max(material.relevance.get(record.id, 0.0), coverage(terms, record)) for record in records}


def _choose_stated(
    stated: list[Record], worth: dict[str, float], limits: ContextSettings, count: TokenCounter, chosen: Choice
) -> None:
    ranked = sorted(stated, key=lambda record: (worth[record.id], _touched(record)), reverse=True)
    chosen.entries.extend(_entry(Section.USER, record, count) for record in ranked[: limits.user_memories])
    reason = f"beyond the {limits.user_memories} most relevant user memories"
    chosen.dropped.extend(Dropped(_what(record), reason) for record in ranked[limits.user_memories :])


def _choose_scored(
    records: list[Record],
    worth: dict[str, float],
    material: Material,
    limits: ContextSettings,
    count: TokenCounter,
    chosen: Choice,
) -> None:
    """The best of each layer, then the best of all of them that the pack has room for."""
    scores = {record.id: score(record, worth[record.id], material.now, material.skill) for record in records}
    best: list[Record] = []
    for layer, top in tops(limits).items():
        ranked = _ranked((record for record in records if record.layer is layer), scores)
        if layer is Layer.EPISODIC:
            since = material.now - timedelta(days=limits.episodic_days)
            faded = {record.id for record in ranked if not _happened(record, since)} - material.relevance.keys()
            old = f"older than {limits.episodic_days} days and not recalled"
            chosen.dropped.extend(Dropped(_what(record), old) for record in ranked if record.id in faded)
            ranked = [record for record in ranked if record.id not in faded]
        best += ranked[:top]
        reason = f"beyond the {top} best {layer.value} records"
        chosen.dropped.extend(Dropped(_what(record), reason) for record in ranked[top:])
    _pack(_ranked(best, scores), scores, limits, count, chosen)


def _pack(
    records: list[Record], scores: dict[str, float], limits: ContextSettings, count: TokenCounter, chosen: Choice
) -> None:
    used = 0
    for record in records:
        entry = _entry(_SECTION[record.layer], record, count)
        if used + entry.tokens > limits.pack_hard:
            chosen.dropped.append(Dropped(entry.what(), f"over the {limits.pack_hard} tokens for records"))
        elif used + entry.tokens > limits.pack_soft and scores[record.id] < limits.pack_strong:
            reason = f"past {limits.pack_soft} tokens only records with a score of {limits.pack_strong} enter"
            chosen.dropped.append(Dropped(entry.what(), reason))
        else:
            used += entry.tokens
            chosen.entries.append(entry)


def _ranked(records: Iterable[Record], scores: dict[str, float]) -> list[Record]:
    return sorted(records, key=lambda record: (scores[record.id], _touched(record), record.id), reverse=True)


def _oldest_first(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (_day(record.created_at), record.id))


def _happened(record: Record, since: datetime) -> bool:
    return any(at is not None and at >= since for at in (record.updated_at, record.last_used_at))


def _touched(record: Record) -> float:
    return 0.0 if record.updated_at is None else record.updated_at.timestamp()


def _entry(section: Section, record: Record, count: TokenCounter) -> Entry:
    text = item(_label(section, record), record.content)
    # Where a record stands does not follow its score: a prompt that keeps its order stays cached.
    place = ("record", record.key or "", _day(record.created_at), record.id)
    return Entry(section, text, count, partial(_what, record), place, record=record.id)


def _label(section: Section, record: Record) -> str:
    parts = [
        _day(record.created_at) if section is Section.EPISODIC else "",
        record.key or "",
        inline(record.title) if record.title else "",
    ]
    return "".join(f"{part}: " for part in parts if part)


def _what(record: Record) -> str:
    return f"{record.layer} record {f'{record.key}: ' if record.key else ''}{shown(record.content)}"


def _lines(section: Section, text: str, name: str, count: TokenCounter) -> list[Entry]:
    """A text line by line, so that the part that fits can be kept."""
    document = quoted_document(text)
    lines = document.split("\n") if document.strip() else []
    return [
        Entry(section, line, count, partial(_what_line, name, line), (_LONG_AGO, at)) for at, line in enumerate(lines)
    ]


def _what_line(name: str, line: str) -> str:
    return f"a line of {name}: {shown(line)}"


def _day(moment: datetime | None) -> str:
    return _LONG_AGO if moment is None else moment.date().isoformat()
