"""A record: one long-term memory."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from limpet.errors import InvalidInput
from limpet.model.paging import PageCursor
from limpet.model.scope import Owner
from limpet.model.text import check_choice, short_repr


class Layer(StrEnum):
    WORKING = "working"
    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"


class RecordType(StrEnum):
    FACT = "fact"
    PREFERENCE = "preference"
    CONSTRAINT = "constraint"
    DECISION = "decision"
    NOTE = "note"
    FAILURE = "failure"
    FIX = "fix"
    COMMAND_RESULT = "command_result"
    TASK_STATE = "task_state"


class Origin(StrEnum):
    """How a record came to be. What a user said explicitly never fades."""

    EXPLICIT = "explicit"
    EXTRACTED = "extracted"
    PROMOTED = "promoted"
    TURN = "turn"
    CONDENSED = "condensed"  # made of several others


@dataclass(frozen=True, slots=True)
class RecordSource:
    """The place in a conversation a record was learned from."""

    session_id: str | None = None
    sequences: tuple[int, ...] = ()
    speaker: str | None = None
    sentence: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    id: str
    home: Owner
    layer: Layer
    type: RecordType
    content: str
    key: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    confidence: float = 1.0
    salience: float = 0.5
    references: tuple[str, ...] = ()
    fingerprint: str = ""
    source: RecordSource = RecordSource()
    origin: Origin = Origin.EXPLICIT
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_used_at: datetime | None = None
    uses: int = 0
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    superseded_by: str | None = None
    expires_at: datetime | None = None
    pinned: bool = False
    version: int = 1
    subject: str | None = None  # whom or what it is about, such as user or user/sister
    attribute: str | None = None  # what of it, such as home; only what has one can be superseded by a new value
    value: str | None = None
    polarity: bool = True  # False where it denies: does not eat meat
    said: int = 1  # how often
    archived_at: datetime | None = None  # since then it is faded: kept, and no longer recalled
    inputs: tuple[str, ...] = ()  # the records it was made from

    def is_valid_at(self, moment: datetime) -> bool:
        begun = self.valid_from is None or self.valid_from <= moment
        return begun and not any(end is not None and end <= moment for end in (self.valid_to, self.expires_at))

    @property
    def level(self) -> str:
        return self.home.level.value

    @property
    def user(self) -> str | None:
        return self.home.scope.user

    @property
    def agent(self) -> str | None:
        return self.home.scope.agent

    @property
    def session_id(self) -> str | None:
        return self.home.scope.session


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """What a record must be: any of the layers, any of the types, all of the tags, all of the metadata."""

    layers: tuple[Layer, ...] = ()
    types: tuple[RecordType, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.layers or self.types or self.tags or self.metadata)


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Which records to list: all given conditions hold at once. Newest change first."""

    filter: RecordFilter = RecordFilter()
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    include_past: bool = False
    archived: bool = False  # those that have faded, and no others
    limit: int | None = 50
    offset: int = 0
    before: PageCursor | None = None

    def matches(self, record: Record) -> bool:
        """The filter and the times, on a record already read. Whether it was true is another question."""
        wanted, created = self.filter, record.created_at
        return (
            (not wanted.layers or record.layer in wanted.layers)
            and (not wanted.types or record.type in wanted.types)
            and set(wanted.tags) <= set(record.tags)
            and wanted.metadata.items() <= record.metadata.items()
            and (self.since is None or (created is not None and created >= self.since))
            and (self.until is None or (created is not None and created < self.until))
        )

    def matches_validity(self, record: Record, moment: datetime) -> bool:
        """Whether it is to be listed for what it was at the moment: true then, or faded, whichever is asked for."""
        if self.archived:
            return record.archived_at is not None
        return self.include_past or (record.is_valid_at(moment) and record.archived_at is None)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was really removed: how many of each kind, and the ids of the records or documents.

    ``left`` names where a search still finds it: stated for itself, said elsewhere, or in a document.
    """

    counts: Mapping[str, int]
    ids: tuple[str, ...]
    left: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return len(self.ids)


_SPACE = re.compile(r"\s+")


def fingerprint(type: RecordType, content: str) -> str:
    """Equal for texts that differ only in case, width or spacing."""
    normal = _SPACE.sub(" ", unicodedata.normalize("NFKC", content).casefold()).strip()
    return hashlib.blake2b(f"{type}\n{normal}".encode(), digest_size=16).hexdigest()


def check_layer(value: object) -> Layer:
    return check_choice(Layer, value, "layer")


def check_type(value: object) -> RecordType:
    return check_choice(RecordType, value, "type")


def check_fraction(value: object, what: str) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise InvalidInput(f"{what} must be a number from 0 to 1, not {short_repr(value)}")
    return float(value)
