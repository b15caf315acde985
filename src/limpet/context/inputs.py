"""The inputs of a context as read, and the entries it is composed of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from limpet.model.chunk import Hit, SourceKind
from limpet.model.context import Omission
from limpet.model.dataclass import dataclass
from limpet.model.message import Message
from limpet.model.record import ProfileLine, Record
from limpet.model.session import Summary
from limpet.model.tokens import TokenCounter, estimate_tokens, min_tokens


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
    SUMMARY = "Summary"
    EARLIER = "Earlier in this conversation"


def hit_section(layout: str) -> ContextSection:
    return ContextSection.RELATED if layout == "lean" else ContextSection.RELEVANT


def summary_section(layout: str) -> ContextSection:
    return ContextSection.EARLIER if layout == "lean" else ContextSection.SUMMARY


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
    working_memory: str = ""
    long_term: str = ""
    profile: tuple[ProfileLine, ...] = ()
    today: str = ""
    recent: str = ""
    skill: str | None = None
    failed: tuple[Omission, ...] = ()


class PromptEntry:
    """An entry that may be printed in a section, and its position there.

    Tokens are counted on demand: most omitted entries are never counted.
    """

    __slots__ = ("_count", "_tokens", "hit", "place", "record", "section", "source", "text", "under", "what")

    def __init__(
        self,
        section: ContextSection,
        text: str,
        count: TokenCounter,
        what: Callable[[], str],  # describes it to a person if it is omitted
        place: tuple[str | int, ...] = (),
        under: str = "",  # a line shared by several entries, such as their day
        hit: Hit | None = None,
        record: str | None = None,
        source: tuple[str | None, int] | None = None,  # the message it was learned from
    ) -> None:
        self.section = section
        self.text = text
        self.what = what
        self.place = place
        self.under = under
        self.hit = hit
        self.record = record
        self.source = source
        self._count = count
        self._tokens: int | None = None

    @property
    def tokens(self) -> int:
        if self._tokens is None:
            self._tokens = self._count(f"{self.text}\n")
        return self._tokens

    def fits(self, room: int) -> bool:
        if self._tokens is None and self._count is estimate_tokens and min_tokens(self.text) > room:
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


def preview(text: str, most: int = 60) -> str:
    """Return the start of a text, to identify what was omitted."""
    line = " ".join(text[: 2 * most].split())
    return line if len(line) <= most and len(text) <= 2 * most else f"{line[:most].rstrip()}…"
