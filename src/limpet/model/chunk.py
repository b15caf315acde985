"""The unit of search, and what search answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from limpet.model.message import Message
from limpet.model.record import RecordFilter


class SourceKind(StrEnum):
    MESSAGE = "message"
    RECORD = "record"
    DOCUMENT = "document"


class Terms(NamedTuple):
    """A text's words as the index keeps them: numbered terms with their counts, and the length in words."""

    counts: Mapping[int, int]
    length: int


@dataclass(frozen=True, slots=True)
class Vector:
    """An embedding, only comparable with others of its model."""

    model: str
    values: tuple[float, ...]


class ChunkDraft(NamedTuple):
    """A chunk on its way in: prepared before the transaction, so that no text is read or embedded inside it."""

    text: str
    hash: bytes
    terms: Terms
    traits: int = 0
    vector: Vector | None = None
    offset: int | None = None  # of a document: where in its text the chunk begins, in characters


class ChunkSource(NamedTuple):
    """What the chunks of one draft list were cut from."""

    kind: SourceKind
    id: str
    created_at: datetime
    session_id: str | None = None
    sequence: int | None = None
    role: str | None = None
    name: str | None = None
    worded_at: datetime | None = None  # of what was changed; else it was worded when it was created


@dataclass(frozen=True, slots=True)
class Source:
    """Where a hit came from: a session and its sequences, a record, or a document and its characters."""

    kind: SourceKind
    id: str
    created_at: datetime
    session_id: str | None = None
    first_sequence: int | None = None
    last_sequence: int | None = None
    role: str | None = None
    name: str | None = None
    uri: str | None = None
    offset: int | None = None
    end_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    text: str
    score: float
    signals: Mapping[str, Signal]
    source: Source
    metadata: Mapping[str, Any] = field(default_factory=dict)
    neighbours: tuple[Message, ...] = ()  # the messages around it, when they were asked for


@dataclass(frozen=True, slots=True)
class ChunkQuery:
    """Which chunks a search may return: all given filters hold at once."""

    kinds: tuple[SourceKind, ...] = ()
    session: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    records: RecordFilter | None = None
