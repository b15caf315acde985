"""Recalled passages: each thing once, nothing that stands in the context already, terse and with its source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from holdfast.config import Context as Limits
from holdfast.context.material import Entry, Material, Section, shown
from holdfast.context.quote import inline, item, speaker
from holdfast.domain.chunk import Hit, SourceKind
from holdfast.domain.message import Message
from holdfast.domain.tokens import TokenCounter

_Seen = set[tuple[str | None, int]]


def passages(material: Material, limits: Limits, count: TokenCounter) -> list[Entry]:
    """Every hit as it would be printed, the best first."""
    return [_entry(hit, count) for hit in material.hits] if limits.show_relevant else []


class Sifted(NamedTuple):
    """Entries worth printing, and what to call the others with the reason against each."""

    entries: list[Entry]
    left: list[tuple[Callable[[], str], str]]


def sifted(
    entries: Sequence[Entry],
    material: Material,
    messages: Sequence[Message],
    records: Collection[str],
    limits: Limits,
) -> Sifted:
    """The passages worth printing beside these messages and records."""
    chosen = Sifted([], [])
    query, shown_here = material.query.strip(), {message.sequence: message for message in messages}
    seen: _Seen = set()
    for entry in entries:
        assert entry.hit is not None
        if _is_elsewhere(entry.hit, material):
            chosen.left.append((_of_another_session, "what it says is known there only"))
        elif entry.hit.text.strip() == query:
            chosen.left.append((entry.what, "it is the question itself"))
        elif reason := _reason_against(entry.hit, material.session, shown_here, records, seen):
            chosen.left.append((entry.what, reason))
        else:
            chosen.entries.append(entry)
    return _within_facts(chosen, limits)


def _of_another_session() -> str:
    return "a record of another session"


def _reason_against(
    hit: Hit, session: str, messages: Mapping[int, Message], records: Collection[str], seen: _Seen
) -> str:
    source = hit.source
    if source.kind is not SourceKind.MESSAGE:
        return "already in a section above" if source.id in records else ""
    first, last = source.first_sequence or 0, source.last_sequence or 0
    if source.session_id == session and _is_among(hit, first, last, messages):
        return "already among the messages"
    # A text said twice reaches from its first message to its last; those between are others'.
    ends = {(source.session_id, first), (source.session_id, last)}
    if not ends.isdisjoint(seen):
        return "of the same message as a better hit"
    seen |= ends
    return ""


def _is_elsewhere(hit: Hit, material: Material) -> bool:
    return hit.source.kind is SourceKind.RECORD and hit.source.session_id not in (None, material.session)


def _is_among(hit: Hit, first: int, last: int, messages: Mapping[int, Message]) -> bool:
    """A text said twice has a range; only the messages that hold it are the hit's."""
    if first == last:
        return first in messages
    return any(first <= sequence <= last and hit.text in said.searchable for sequence, said in messages.items())


def _within_facts(chosen: Sifted, limits: Limits) -> Sifted:
    """Records among the hits have a number and a budget of their own."""
    kept: list[Entry] = []
    facts = tokens = 0
    for entry in chosen.entries:
        assert entry.hit is not None
        if entry.hit.source.kind is SourceKind.RECORD:
            if facts >= limits.facts or tokens + entry.tokens > limits.facts_tokens:
                reason = f"beyond {limits.facts} recalled facts or their {limits.facts_tokens} tokens"
                chosen.left.append((entry.what, reason))
                continue
            facts, tokens = facts + 1, tokens + entry.tokens
        kept.append(entry)
    return Sifted(kept, chosen.left)


def _entry(hit: Hit, count: TokenCounter) -> Entry:
    """The day stands above all that was said on it: a date for each hit would cost a hit in six."""
    source = hit.source
    text = item(f"{_who(hit)}: ", hit.text)
    day = source.created_at.date().isoformat()
    place = (day, source.session_id or "", source.first_sequence or 0, source.id)
    return Entry(Section.RELEVANT, text, count(f"{text}\n"), partial(_what, hit), place, under=day, hit=hit)


def _who(hit: Hit) -> str:
    if hit.source.kind is SourceKind.MESSAGE:
        return speaker(hit.source.role, hit.source.name)
    about = next(_known(hit), hit.source.kind.value)
    return inline(about)


def _known(hit: Hit) -> Iterator[str]:
    names = ("key", "type") if hit.source.kind is SourceKind.RECORD else ("title", "uri")
    return (str(hit.metadata[name]) for name in names if hit.metadata.get(name))


def _what(hit: Hit) -> str:
    return f"hit of {hit.source.created_at:%Y-%m-%d} from {shown(_who(hit), 30)}: {shown(hit.text)}"
