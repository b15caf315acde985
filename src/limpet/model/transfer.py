"""Memory on its way from one place to another: what of each noun has to go along, and what became of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from limpet.model.document import Document
from limpet.model.graph import GraphDraft
from limpet.model.record import Record
from limpet.model.schedule import Run
from limpet.model.scope import Partition
from limpet.model.session import ModelUsage, SessionInfo, Summary

MAX_LISTED_SKIPS = 200  # what was left out is counted to the end, and named up to here


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session with all that is its own but its messages and key-value entries."""

    info: SessionInfo
    cleared_through: int = 0
    summary_epoch: int = 0
    summary: Summary | None = None
    usage: tuple[ModelUsage, ...] = ()
    cursors: Mapping[str, int] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()  # the kinds of jobs that are asked for


@dataclass(frozen=True, slots=True)
class RecordVersion:
    """What a record said before a change."""

    record: Record
    replaced_at: datetime


@dataclass(frozen=True, slots=True)
class RecordState:
    record: Record
    versions: tuple[RecordVersion, ...] = ()
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentState:
    space: Partition
    document: Document


@dataclass(frozen=True, slots=True)
class DocumentPiece:
    """A chunk of a document's text, and where it stands in it."""

    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class GraphState:
    """What one message or record says for the graph."""

    space: Partition
    told: GraphDraft


@dataclass(frozen=True, slots=True)
class RunState:
    """A run of a schedule with all that it said."""

    run: Run
    output: str


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export wrote: lines by kind, and copied files."""

    path: Annotated[str, "where it was written"]
    counts: Annotated[Mapping[str, int], "lines by kind, and copied files"]
    bytes: Annotated[int, "size of all of it"]


@dataclass(frozen=True, slots=True)
class ImportSkip:
    """Something that was not taken in: where it stands, and why."""

    place: Annotated[str, "where it stands"]
    reason: Annotated[str, "why it was left out, in words"]


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import took in. ``already`` says that all of it was here; ``continued`` how many lines an earlier call,
    which was interrupted, had taken in; of ``left_out`` things the first are named in ``skipped``."""

    format: Annotated[str, "what it was recognised as"]
    sessions: Annotated[int, "sessions that were added"] = 0
    messages: Annotated[int, "messages that were added"] = 0
    records: Annotated[int, "records that were added"] = 0
    documents: Annotated[int, "documents that were added"] = 0
    files: Annotated[int, "files that were copied"] = 0
    already: Annotated[bool, "whether all of it was here before"] = False
    continued: Annotated[int, "lines that an earlier, interrupted call had added"] = 0
    left_out: Annotated[int, "things that were not added"] = 0
    skipped: Annotated[tuple[ImportSkip, ...], "the first of those, with the reason of each"] = ()
    dry_run: Annotated[bool, "whether it was only checked"] = False
    schedules: Annotated[int, "schedules that were added"] = 0


def derive_id(old: str, owner: str) -> str:
    """Another id for another owner's copy: always the same one, and in the same order by time."""
    digest = hashlib.blake2b(f"{owner}\n{old}".encode(), digest_size=10).hexdigest()
    variant = "89ab"[int(digest[3], 16) % 4]
    return f"{old[:13]}-7{digest[:3]}-{variant}{digest[4:7]}-{digest[7:19]}"
