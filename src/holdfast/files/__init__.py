"""The same memory as plain files: atomic writes, Markdown transcripts, sessions as folders, snapshots to import."""

from __future__ import annotations

from holdfast.files.atomic import locked, write_atomic
from holdfast.files.basic_session import BasicSession
from holdfast.files.families import SessionStore, open_store, register_store_type, store_types
from holdfast.files.sessions_index import FileSession, FileSessions
from holdfast.files.snapshot import Snapshot, SnapshotSession, parse_snapshot
from holdfast.files.transcript import TranscriptEntry

__all__ = [
    "BasicSession",
    "FileSession",
    "FileSessions",
    "SessionStore",
    "Snapshot",
    "SnapshotSession",
    "TranscriptEntry",
    "locked",
    "open_store",
    "parse_snapshot",
    "register_store_type",
    "store_types",
    "write_atomic",
]

register_store_type(BasicSession.type_name, BasicSession)
