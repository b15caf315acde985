"""How a context says that something is past, or prints it with what was said since and may change it.

The newest statement comes first: a true one may be marked, but what is new must not stand behind what is old.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from limpet.context.quote import format_day, quote_inline
from limpet.context.select import DOUBT, ContextSection, PromptEntry
from limpet.knowledge.prominence import DOUBTED_BY, PASSED
from limpet.model.chunk import Hit
from limpet.model.dataclass import replace
from limpet.model.record import Record
from limpet.model.values import to_local

_LONGEST = 500  # characters of what is said in one line


def mark_past(hit: Hit, zone: str) -> str:
    """What is printed behind a hit that no longer holds, or perhaps not."""
    if hit.holds:
        return f" ({DOUBT})" if DOUBTED_BY in hit.metadata else ""
    if PASSED in hit.metadata:
        return " (past)"  # a fact of its day, under which it stands
    until = "" if hit.until is None else f"until {format_day(to_local(hit.until, zone=zone))}, "
    return f" ({until}no longer true)"


def join_later(
    entries: Sequence[PromptEntry], messages: Collection[tuple[str | None, int]], room: int
) -> tuple[list[PromptEntry], list[PromptEntry]]:
    """Return the entries to print, and those that moved into the line of another: each statement is printed once.

    All that one statement may change stands in one line with it. A statement that has no entry is added where there is
    room, unless it is among the messages.
    """
    lines, given = _Lines(entries), {*map(id, entries)}
    for entry in entries:
        later = entry.later
        if later is None or _find_place(later) in messages:
            continue
        mine, own = lines.of(entry), lines.find(later)
        if own is None:
            own = [_to_entry(later, entry)]
            if (room := room - own[0].tokens) < 0:
                break
        if own is not mine and sum(len(each.said) for each in (*mine, *own)) <= _LONGEST:
            lines.join(mine, own)
    parts = [_split_line(line, given) for line in lines.by_place.values()]
    printed = [_print_line(head, others) if others else head for head, others in parts]
    return printed, [each for _, others in parts for each in others if id(each) in given]


class _Lines:
    """Entries in lines, each of its own at first. A line stands where its first entry did."""

    def __init__(self, entries: Sequence[PromptEntry]) -> None:
        self._places = {id(entry): place for place, entry in enumerate(entries)}
        self.by_place = {place: [entry] for place, entry in enumerate(entries)}
        self._by_key: dict[object, list[PromptEntry]] = {}  # by record, and by message
        for entry in entries:
            self._add_keys(entry)

    def _add_keys(self, entry: PromptEntry) -> None:
        for key in (entry.record_id, entry.source):
            if key is not None:
                self._by_key.setdefault(key, []).append(entry)

    def of(self, entry: PromptEntry) -> list[PromptEntry]:
        return self.by_place[self._places[id(entry)]]

    def find(self, later: Record) -> list[PromptEntry] | None:
        keys = (later.id, _find_place(later))
        near = (entry for key in keys if key is not None for entry in self._by_key.get(key, ()))
        place = min((self._places[id(entry)] for entry in near if _shows(entry, later)), default=None)
        return None if place is None else self.by_place[place]

    def join(self, line: list[PromptEntry], other: list[PromptEntry]) -> None:
        """Move the entries of the other line, which may be new, behind those of the first."""
        place = self._places[id(line[0])]
        for entry in other:
            there = self._places.get(id(entry))
            if there is None:
                self._add_keys(entry)
            else:
                self.by_place.pop(there, None)
            self._places[id(entry)] = place
        line += other


def _split_line(line: Sequence[PromptEntry], given: Collection[int]) -> tuple[PromptEntry, list[PromptEntry]]:
    """A rule or the newest of those that were given, and the others in the order they were said."""
    heads = [each for each in line if id(each) in given]
    head = max(heads, key=lambda each: (each.section is ContextSection.RULES, _get_time(each), each.under))
    return head, sorted((each for each in line if each is not head), key=_get_time)


def _print_line(head: PromptEntry, others: Sequence[PromptEntry]) -> PromptEntry:
    """Two claims may be of the same words."""
    quotes = dict.fromkeys(_print_other(each, head) for each in others if each.said not in head.said)
    stop = "." if quotes and head.text[-1].isalnum() else ""
    return replace(head, text=" ".join((f"{head.text}{stop}", *quotes)), counted=None)


def _print_other(entry: PromptEntry, head: PromptEntry) -> str:
    later, same = _get_time(entry) > _get_time(head), _get_day(entry) == _get_day(head)
    label = "Also said" if same else f"Said {'since' if later else 'before'}, {_get_day(entry)}"
    return f"{label}: “{quote_inline(entry.said)}”{f' ({DOUBT})' if DOUBT in entry.text else ''}"


def _get_time(entry: PromptEntry) -> float:
    return 0.0 if entry.said_at is None else entry.said_at.timestamp()


def _get_day(entry: PromptEntry) -> str:
    return "" if entry.said_at is None else format_day(entry.said_at)


def _to_entry(later: Record, beside: PromptEntry) -> PromptEntry:
    said, said_at = later.source.sentence or later.content, later.valid_from or later.created_at
    entry = PromptEntry(beside.section, "", beside.count, beside.what, record=later.id, said=said, said_at=said_at)
    doubt = "" if later.superseded_by is None and later.valid_to is None else DOUBT
    return replace(entry, text=_print_other(replace(entry, text=doubt), beside))


def _find_place(record: Record) -> tuple[str | None, int] | None:
    return (record.source.session_id, record.source.sequences[0]) if record.source.sequences else None


def _shows(entry: PromptEntry, later: Record) -> bool:
    same = entry.source is not None and entry.source == _find_place(later)
    return entry.record_id == later.id or (same and (later.source.sentence or "") in entry.said)
