"""Recalled passages: each thing once, nothing that stands in the context already, terse and with its source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from limpet.config import ContextSettings
from limpet.context.inputs import Entry, Material, Section, shown
from limpet.context.quote import inline, item, speaker
from limpet.model.chunk import Hit, SourceKind
from limpet.model.message import Message
from limpet.model.tokens import TokenCounter

_What = Callable[[], str]
_At = tuple[str | None, int]


class Passage(NamedTuple):
    """A hit as it would be printed, and what decides whether it is, looked up once."""

    entry: Entry
    hit: Hit
    what: _What
    against: str  # a reason that holds whatever stands beside it
    ends: tuple[_At, ...]  # the first and the last message of this text; none for what is no message
    here: bool  # said in this session
    fact: bool  # a record


class Sifted(NamedTuple):
    """Entries worth printing, and what to call the others with the reason against each."""

    entries: list[Entry]
    left: list[tuple[_What, str]]


def passages(material: Material, limits: ContextSettings, count: TokenCounter) -> list[Passage]:
    """Every hit, the best first."""
    query = material.query.strip()
    return [_passage(hit, material.session, query, count) for hit in material.hits] if limits.show_relevant else []


def _passage(hit: Hit, session: str, query: str, count: TokenCounter) -> Passage:
    source, entry = hit.source, _entry(hit, count)
    fact, said = source.kind is SourceKind.RECORD, source.kind is SourceKind.MESSAGE
    first, last = (source.session_id, source.first_sequence or 0), (source.session_id, source.last_sequence or 0)
    what, against = entry.what, "it is the question itself" if hit.text.strip() == query else ""
    if fact and source.session_id not in (None, session):
        what, against = _of_another_session, "what it says is known there only"
    ends = () if not said else (first,) if first == last else (first, last)
    return Passage(entry, hit, what, against, ends, said and source.session_id == session, fact)


def _of_another_session() -> str:
    return "a record of another session"


def sifted(
    found: Sequence[Passage], messages: Sequence[Message], records: Collection[str], limits: ContextSettings
) -> Sifted:
    """The passages worth printing beside these messages and records.

    Records among them have a number and a budget of their own.
    """
    shown_here = {message.sequence: message for message in messages}
    kept: list[Entry] = []
    left: list[tuple[_What, str]] = []
    beyond: list[tuple[_What, str]] = []
    seen: set[_At] = set()
    facts = tokens = 0
    for passage in found:
        entry = passage.entry
        if reason := passage.against or _reason_against(passage, shown_here, records, seen):
            left.append((passage.what, reason))
        elif passage.fact and (facts >= limits.facts or tokens + entry.tokens > limits.facts_tokens):
            reason = f"beyond {limits.facts} recalled facts or their {limits.facts_tokens} tokens"
            beyond.append((passage.what, reason))
        else:
            kept.append(entry)
            if passage.fact:
                facts, tokens = facts + 1, tokens + entry.tokens
    return Sifted(kept, left + beyond)


def _reason_against(passage: Passage, messages: Mapping[int, Message], records: Collection[str], seen: set[_At]) -> str:
    if not passage.ends:
        return "already in a section above" if passage.hit.source.id in records else ""
    if passage.here and _is_among(passage, messages):
        return "already among the messages"
    # A text said twice reaches from its first message to its last; those between are others'.
    if not seen.isdisjoint(passage.ends):
        return "of the same message as a better hit"
    seen.update(passage.ends)
    return ""


def _is_among(passage: Passage, messages: Mapping[int, Message]) -> bool:
    """A text said twice has a range; only the messages that hold it are the hit's."""
    first, last, text = passage.ends[0][1], passage.ends[-1][1], passage.hit.text
    if first == last:
        return first in messages
    return any(first <= sequence <= last and text in said.searchable for sequence, said in messages.items())


def _entry(hit: Hit, count: TokenCounter) -> Entry:
    """The day stands above all that was said on it: a date for each hit would cost a hit in six."""
    source = hit.source
    text = item(f"{_who(hit)}: ", hit.text)
    day = source.created_at.date().isoformat()
    place = (day, source.session_id or "", source.first_sequence or 0, source.id)
    return Entry(Section.RELEVANT, text, count, partial(_what, hit), place, under=day, hit=hit)


def _who(hit: Hit) -> str:
    if hit.source.kind is SourceKind.MESSAGE:
        return speaker(hit.source.role, hit.source.name)
    about = next(_known(hit), hit.source.kind.value)
    return inline(about)


def _known(hit: Hit) -> Iterator[str]:
    names = ("key", "type") if hit.source.kind is SourceKind.RECORD else ("title", "uri")
    return (str(hit.metadata[name]) for name in names if hit.metadata.get(name))


def _what(hit: Hit) -> str:
    return f"hit of {hit.source.created_at.date().isoformat()} from {shown(_who(hit), 30)}: {shown(hit.text)}"
