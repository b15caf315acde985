"""The lean layout: about the user, instructions and constraints, notes; each statement once, as a dated sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial

from limpet.config import ContextSettings
from limpet.context.inputs import ContextInputs, ContextSection, EntryChoice, PromptEntry, preview
from limpet.context.quote import format_item, format_speaker, quote_document
from limpet.knowledge.prominence import DOUBTED_BY, is_doubtful, is_rule, prominence
from limpet.model.context import Omission
from limpet.model.message import Role
from limpet.model.record import Origin, Record
from limpet.model.tokens import TokenCounter
from limpet.search.analysis import count_shared_terms, extract_terms

_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_TURN_LINE = re.compile(r"(?:\d{4}-\d\d-\d\d )?\[\d\d:\d\d\] (?:User|Assistant): ")
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_RELEVANCE = 2.0  # how much being asked for counts against standing out unasked
_EPISODES = (Origin.TURN, Origin.CONDENSED)


def select_standing(material: ContextInputs, limits: ContextSettings, count: TokenCounter) -> EntryChoice:
    """What is known of the user and said by them, the most important first: a tight budget cuts from the end."""
    terms = frozenset(extract_terms(material.query))
    found = list(_deduplicate(_filter(material)))
    worth = {record.id: _score(record, material, terms) for record in found}
    found.sort(key=lambda record: (-worth[record.id], record.id))
    ranked = [record for record in found if not is_doubtful(record)]
    doubtful = [record for record in found if is_doubtful(record) and record.source.session_id is not None]
    chosen = EntryChoice([], [], tuple(_quote_entry(record, count) for record in doubtful[: limits.standing]))
    kept = ranked[: limits.standing]
    chosen.entries.extend(_build_entry(record, count) for record in kept)
    reason = f"beyond the {limits.standing} that matter most"
    chosen.dropped.extend(Omission(describe_record(record), reason) for record in ranked[limits.standing :])
    chosen.entries.extend(_note_entries(material, limits, terms, count))
    return chosen


def _filter(material: ContextInputs) -> Iterable[Record]:
    """Claims and what was stated outright; no episodes, which the messages tell."""
    for record in material.records:
        here = record.session_id in (None, material.session)
        if here and record.origin not in _EPISODES:
            yield record


def _deduplicate(records: Iterable[Record]) -> Iterable[Record]:
    """Each statement once: what another record of the same message quotes as a part of more is left out."""
    found, seen = list(records), set[str]()
    quotes: dict[tuple[str | None, tuple[int, ...]], set[str]] = {}
    for record in found:
        quotes.setdefault((record.source.session_id, record.source.sequences), set()).add(record.source.sentence or "")
    for record in found:
        same = " ".join(record.content.casefold().split()).rstrip(".!")
        quote = record.source.sentence
        beside = quotes[record.source.session_id, record.source.sequences] if quote and record.source.sequences else ()
        if same not in seen and not any(quote != other and (quote or "") in other for other in beside):
            seen.add(same)
            yield record


def _score(record: Record, material: ContextInputs, terms: frozenset[int]) -> float:
    relevance = material.relevance.get(record.id, 0.0)
    if terms:
        relevance = max(relevance, count_shared_terms(terms, record.content) / len(terms))
    return prominence(record, material.now) + _RELEVANCE * relevance


def _build_entry(record: Record, count: TokenCounter) -> PromptEntry:
    section = ContextSection.RULES if is_rule(record) else ContextSection.ABOUT
    text = format_item("", _date(record))
    place = ("" if record.subject in (None, "user") else record.subject or "", _day(record), record.id)
    source = (record.source.session_id, record.source.sequences[0]) if record.source.sequences else None
    return PromptEntry(section, text, count, partial(describe_record, record), place, record=record.id, source=source)


def _quote_entry(record: Record, count: TokenCounter) -> PromptEntry:
    """What may be a claim, as it was said: under its day, with its speaker."""
    said = record.valid_from or record.created_at
    day = "" if said is None else said.date().isoformat()
    doubt = " (perhaps no longer true)" if DOUBTED_BY in record.metadata else ""
    said_words = f"{record.source.sentence or record.content}{doubt}"
    text = format_item(f"{format_speaker(Role.USER, record.source.speaker)}: ", said_words)
    sequence = record.source.sequences[0] if record.source.sequences else 0
    place = (day, record.source.session_id or "", sequence, record.id)
    source = record.source.session_id, sequence
    what = partial(describe_record, record)
    return PromptEntry(ContextSection.RELATED, text, count, what, place, under=day, record=record.id, source=source)


def _date(record: Record) -> str:
    """The sentence with the day it was said, unless it names a year itself."""
    said = record.valid_from or record.created_at
    label = "".join(f"{part}: " for part in (record.key, record.title) if part)
    text = f"{label}{record.content}"
    if said is None or _YEAR.search(text) or record.origin is Origin.EXPLICIT:
        return text
    return f"{text.rstrip()} ({format_day(said)})"


def format_day(moment: datetime) -> str:
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def _day(record: Record) -> str:
    return "" if record.created_at is None else record.created_at.isoformat()


def describe_record(record: Record) -> str:
    return f"{record.type} {f'{record.key}: ' if record.key else ''}{preview(record.content)}"


def _note_entries(
    material: ContextInputs, limits: ContextSettings, terms: frozenset[int], count: TokenCounter
) -> list[PromptEntry]:
    """Lines of the user's notes, the relevant ones first; what a turn wrote there is in the messages already."""
    entries: list[tuple[float, PromptEntry]] = []
    texts: Sequence[tuple[str, str, bool]] = (
        ("working memory", material.working_memory, limits.show_working),
        ("MEMORY.md", material.long_term, limits.show_long_term),
        ("the notes of the days before", material.recent, limits.show_recent),
        ("today's notes", material.today, limits.show_today),
    )
    for number, (name, text, show) in enumerate(texts):
        document = quote_document(text) if show else ""
        for at, line in enumerate(document.split("\n")):
            if not line.strip() or _TURN_LINE.match(line):
                continue
            relevance = count_shared_terms(terms, line) / len(terms) if terms else 0.0
            what = partial(_describe_line, name, line)
            entries.append((relevance, PromptEntry(ContextSection.NOTES, line, count, what, (number, at))))
    return [entry for _, entry in sorted(entries, key=lambda pair: (-pair[0], pair[1].place))]


def _describe_line(name: str, line: str) -> str:
    return f"a line of {name}: {preview(line)}"
