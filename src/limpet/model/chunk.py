"""The unit of search, and what search answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, NamedTuple

from limpet.model.dataclass import dataclass
from limpet.model.message import Message
from limpet.model.record import RecordFilter
from limpet.model.types import Metadata, Moment, Text


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
    flags: int = 0
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
    version: int = 0  # of a document: which version of its text


@dataclass(frozen=True, slots=True)
class Source:
    """Where a hit came from: a session and its sequences, a record, or a document and its characters."""

    kind: Annotated[SourceKind, "message, record or document"]
    id: Annotated[str, "id of the session, record or document"]
    created_at: Annotated[Moment, "when it was said or created"]
    session_id: Annotated[str | None, "of a message: its session; null: no message"] = None
    first_sequence: Annotated[int | None, "of messages: the first; null: no message"] = None
    last_sequence: Annotated[int | None, "of messages: the last; null: no message"] = None
    role: Annotated[str | None, "of a message: who spoke; null: no message"] = None
    name: Annotated[str | None, "of a message: the speaker's name; null: none was given"] = None
    uri: Annotated[str | None, "of a document; null: no document"] = None
    offset: Annotated[int | None, "of a document: the character the hit begins at; null: no document"] = None
    end_offset: Annotated[int | None, "of a document: the character after its end; null: no document"] = None


@dataclass(frozen=True, slots=True)
class Signal:
    rank: Annotated[int, "its place by this signal alone; 1 is the best"]
    score: Annotated[float, "this signal's own measure; compare it with no other's"]


@dataclass(frozen=True, slots=True)
class Hit:
    text: Annotated[Text, "its text"]
    score: Annotated[float, "what it is ranked by; compare it within one answer only"]
    signals: Annotated[Mapping[str, Signal], "rank and score by words, vectors and so on, by name"]
    source: Annotated[Source, "where it came from"]
    metadata: Annotated[Metadata, "of the message, record or document"] = field(default_factory=dict)
    neighbours: Annotated[tuple[Message, ...], "messages around it, if they were requested"] = ()
    rank: Annotated[int, "its place; 1 is the best"] = field(default=0, compare=False)
    holds: Annotated[bool, "false: it is no longer true"] = True
    until: Annotated[Moment | None, "when it stopped being true; null: it holds, or unknown"] = None
    superseded_by: Annotated[str | None, "id of the record that replaced it; null: none did"] = None
    why: Annotated[str, "one sentence on why it was found"] = ""


@dataclass(frozen=True, slots=True)
class ChunkQuery:
    """Which chunks a search may return: all given filters hold at once."""

    kinds: tuple[SourceKind, ...] = ()
    session: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    records: RecordFilter | None = None
