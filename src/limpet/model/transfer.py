"""Memory on its way from one place to another: what of each noun has to go along, and what became of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated

from limpet.model.dataclass import dataclass
from limpet.model.document import Document
from limpet.model.message import Message
from limpet.model.note import Note
from limpet.model.record import Record
from limpet.model.schedule import Run
from limpet.model.schema import FLATTEN
from limpet.model.scope import Partition
from limpet.model.session import KvEntry, ModelUsage, SessionInfo, Summary
from limpet.model.types import Id, Moment, Name, Text

MAX_LISTED_SKIPS = 200  # what was left out is counted to the end, and named up to here


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session with all that is its own but its messages and key-value entries."""

    info: Annotated[SessionInfo, FLATTEN]
    cleared_through: Annotated[int, "messages up to this number were cleared"] = 0
    summary_epoch: Annotated[int, "the last epoch of a summary, even a removed one"] = 0
    summary: Annotated[
        Summary | None,
        "the rolling summary: `text`, `epoch`, `upper_sequence`, `message_count`, `updated_at`, `written_sequence`,"
        " `written_characters`",
    ] = None
    usage: Annotated[
        tuple[ModelUsage, ...],
        "a list with `model`, `calls`, `input_tokens`, `output_tokens`, `cached_tokens` and `cost` each",
    ] = ()
    cursors: Annotated[Mapping[Name, int], "the last sequence number that each kind of work has finished, by name"] = (
        field(default_factory=dict)
    )
    waiting: Annotated[tuple[str, ...], "pending work: `extract`, `graph`"] = ()
    external_id: Annotated[Name | None, "the id it had before an import under another owner; both find it"] = None


@dataclass(frozen=True, slots=True)
class KvState:
    """A key-value entry and the session that has it."""

    session_id: Annotated[Id, "the session it belongs to"]
    entry: Annotated[KvEntry, FLATTEN]


@dataclass(frozen=True, slots=True)
class MessageState:
    """A message and the session it is of."""

    session_id: Annotated[Id, "the session it belongs to"]
    message: Annotated[Message, FLATTEN]


@dataclass(frozen=True, slots=True)
class RecordVersion:
    """What a record said before a change."""

    record: Annotated[Record, FLATTEN]
    replaced_at: Annotated[Moment, "when the next version replaced it"]


@dataclass(frozen=True, slots=True)
class RecordState:
    """A record with what it said before."""

    record: Annotated[Record, FLATTEN]
    versions: Annotated[
        tuple[RecordVersion, ...], "earlier versions: the same fields without the owner, and `replaced_at`"
    ] = ()
    waiting: Annotated[tuple[str, ...], "pending work: `graph-record`"] = ()
    external_id: Annotated[Name | None, "the id it had before an import under another owner; both find it"] = None


@dataclass(frozen=True, slots=True)
class DocumentState:
    """A document and whose it is."""

    space: Annotated[Partition, FLATTEN]
    document: Annotated[Document, FLATTEN]


@dataclass(frozen=True, slots=True)
class DocumentPiece:
    """A chunk of a document's text, and where it stands in it."""

    text: Annotated[Text, "what stands there"]
    offset: Annotated[int, "where it stands in the text, in characters"]


@dataclass(frozen=True, slots=True)
class PieceState:
    """A piece and the document it is of."""

    document_id: Annotated[Id, "the document it belongs to"]
    piece: Annotated[DocumentPiece, FLATTEN]


@dataclass(frozen=True, slots=True)
class NoteState:
    """A note and whose it is."""

    space: Annotated[Partition, FLATTEN]
    note: Annotated[Note, FLATTEN]


@dataclass(frozen=True, slots=True)
class RunState:
    """A run of a schedule with all that it said."""

    run: Annotated[Run, FLATTEN]
    output: Annotated[Text, "its whole output"] = ""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export wrote: lines by kind, and copied files."""

    path: Annotated[str, "where it was written"]
    counts: Annotated[Mapping[str, int], "lines by kind, and copied files"]
    bytes: Annotated[int, "its total size"]


@dataclass(frozen=True, slots=True)
class ImportSkip:
    """Something that was not taken in: where it stands, and why."""

    place: Annotated[str, "where it is"]
    reason: Annotated[str, "why it was left out"]


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import took in."""

    format: Annotated[str, "the detected format"]
    sessions: Annotated[int, "sessions that were added"] = 0
    messages: Annotated[int, "messages that were added"] = 0
    records: Annotated[int, "records that were added"] = 0
    documents: Annotated[int, "documents that were added"] = 0
    notes: Annotated[int, "notes that were added"] = 0
    files: Annotated[int, "files that were copied"] = 0
    already: Annotated[bool, "whether all of it was imported before"] = False
    continued: Annotated[int, "lines that an earlier, interrupted call added"] = 0
    left_out: Annotated[int, "entries that were not added"] = 0
    skipped: Annotated[tuple[ImportSkip, ...], "the first of those, with the reason of each"] = ()
    dry_run: Annotated[bool, "whether it was only checked"] = False
    schedules: Annotated[int, "schedules that were added"] = 0
    learning: Annotated[int, "sessions that are now learned from in the background"] = 0


@dataclass(frozen=True, slots=True)
class ItemProblem:
    """A line that was left as it is, and why."""

    file: Annotated[str, "the file it is in"]
    line: Annotated[int, "its number there"]
    reason: Annotated[str, "what is wrong with it"]


@dataclass(frozen=True, slots=True)
class ItemExportResult:
    """How many records stand in the files, edits that wait for an import, and lines that lost against their record."""

    records: Annotated[int, "records in the files"]
    waiting: Annotated[int, "edited lines that wait for an import"] = 0
    conflicts: Annotated[int, "lines whose record had changed too"] = 0
    problems: Annotated[tuple[ItemProblem, ...], "lines that cannot be read"] = ()
    has_folder: Annotated[bool, "whether the store has a folder for files; without one nothing was written"] = True


@dataclass(frozen=True, slots=True)
class ItemImportResult:
    """What became of the lines, and what of the records that had none."""

    added: Annotated[int, "new records"] = 0
    changed: Annotated[int, "records that were changed"] = 0
    removed: Annotated[int, "records that were removed"] = 0
    conflicts: Annotated[int, "lines whose record had changed too"] = 0
    problems: Annotated[tuple[ItemProblem, ...], "lines that cannot be read"] = ()
    has_folder: Annotated[bool, "whether the store has a folder for files; without one nothing was read"] = True


def derive_id(old: str, owner: str) -> str:
    """Another id for another owner's copy: always the same one, and in the same order by time."""
    digest = hashlib.blake2b(f"{owner}\n{old}".encode(), digest_size=10).hexdigest()
    variant = "89ab"[int(digest[3], 16) % 4]
    return f"{old[:13]}-7{digest[:3]}-{variant}{digest[4:7]}-{digest[7:19]}"
