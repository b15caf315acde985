"""Recalled passages: each thing once, nothing that stands in the context already, terse and with its source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from limpet.config import ContextSettings
from limpet.context.inputs import ContextInputs, ContextSection, PromptEntry, preview
from limpet.context.quote import format_item, format_speaker, quote_inline
from limpet.model.chunk import Hit, SourceKind
from limpet.model.message import Message
from limpet.model.tokens import TokenCounter

_Describe = Callable[[], str]
_MessageRef = tuple[str | None, int]


class HitCandidate(NamedTuple):
    """A hit as it would be printed, and what decides whether it is, looked up once."""

    entry: PromptEntry
    hit: Hit
    what: _Describe
    against: str  # a reason that holds whatever stands beside it
    ends: tuple[_MessageRef, ...]  # the first and the last message of this text; none for what is no message
    here: bool  # said in this session
    fact: bool  # a record


class Selection(NamedTuple):
    """Entries worth printing, and what to call the others with the reason against each."""

    entries: list[PromptEntry]
    left: list[tuple[_Describe, str]]


def build_candidates(material: ContextInputs, limits: ContextSettings, count: TokenCounter) -> list[HitCandidate]:
    """Every hit, the best first."""
    query = material.query.strip()
    return (
        [_build_candidate(hit, material.session, query, count) for hit in material.hits] if limits.show_relevant else []
    )


def _build_candidate(hit: Hit, session: str, query: str, count: TokenCounter) -> HitCandidate:
    source, entry = hit.source, _build_entry(hit, count)
    fact, said = source.kind is SourceKind.RECORD, source.kind is SourceKind.MESSAGE
    first, last = (source.session_id, source.first_sequence or 0), (source.session_id, source.last_sequence or 0)
    what, against = entry.what, "it is the question itself" if hit.text.strip() == query else ""
    if fact and source.session_id not in (None, session):
        what, against = _describe_foreign_record, "what it says is known there only"
    ends = () if not said else (first,) if first == last else (first, last)
    return HitCandidate(entry, hit, what, against, ends, said and source.session_id == session, fact)


def _describe_foreign_record() -> str:
    return "a record of another session"


def select_hits(
    found: Sequence[HitCandidate], messages: Sequence[Message], records: Collection[str], limits: ContextSettings
) -> Selection:
    """The passages worth printing beside these messages and records.

    Records among them have a number and a budget of their own.
    """
    shown_here = {message.sequence: message for message in messages}
    kept: list[PromptEntry] = []
    left: list[tuple[_Describe, str]] = []
    beyond: list[tuple[_Describe, str]] = []
    seen: set[_MessageRef] = set()
    facts = tokens = 0
    for passage in found:
        entry = passage.entry
        if reason := passage.against or _rejection_reason(passage, shown_here, records, seen):
            left.append((passage.what, reason))
        elif passage.fact and (facts >= limits.facts or tokens + entry.tokens > limits.facts_tokens):
            reason = f"beyond {limits.facts} recalled facts or their {limits.facts_tokens} tokens"
            beyond.append((passage.what, reason))
        else:
            kept.append(entry)
            if passage.fact:
                facts, tokens = facts + 1, tokens + entry.tokens
    return Selection(kept, left + beyond)


def _rejection_reason(
    passage: HitCandidate, messages: Mapping[int, Message], records: Collection[str], seen: set[_MessageRef]
) -> str:
    if not passage.ends:
        return "already in a section above" if passage.hit.source.id in records else ""
    if passage.here and _is_in_messages(passage, messages):
        return "already among the messages"
    # A text said twice reaches from its first message to its last; those between are others'.
    if not seen.isdisjoint(passage.ends):
        return "of the same message as a better hit"
    seen.update(passage.ends)
    return ""


def _is_in_messages(passage: HitCandidate, messages: Mapping[int, Message]) -> bool:
    """A text said twice has a range; only the messages that hold it are the hit's."""
    first, last, text = passage.ends[0][1], passage.ends[-1][1], passage.hit.text
    if first == last:
        return first in messages
    return any(first <= sequence <= last and text in said.searchable for sequence, said in messages.items())


def _build_entry(hit: Hit, count: TokenCounter) -> PromptEntry:
    """The day stands above all that was said on it: a date for each hit would cost a hit in six."""
    source = hit.source
    text = format_item(f"{_source_label(hit)}: ", hit.text)
    day = source.created_at.date().isoformat()
    place = (day, source.session_id or "", source.first_sequence or 0, source.id)
    return PromptEntry(ContextSection.RELEVANT, text, count, partial(_describe_hit, hit), place, under=day, hit=hit)


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
