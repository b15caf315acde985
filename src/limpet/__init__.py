"""Limpet: the memory of an AI agent."""

from importlib import import_module

TYPE_CHECKING = False  # type checkers know the name; importing typing takes longer than all of this module
if TYPE_CHECKING:
    from limpet.api import Limpet
    from limpet.api.async_limpet import AsyncLimpet, AsyncSession, AsyncTurn
    from limpet.api.session import Session
    from limpet.api.turn import Turn
    from limpet.config import Config
    from limpet.errors import LimpetError, Unauthenticated
    from limpet.model.access import AuditEntry, Grant, GrantInfo, KeyInfo, NewKey
    from limpet.model.chunk import Hit, Signal, Source
    from limpet.model.context import Context
    from limpet.model.document import Document
    from limpet.model.graph import Entity, Graph, GraphSource, Mention, Relation
    from limpet.model.job import Finding, JobInfo
    from limpet.model.message import FilePart, ImagePart, Message, TextPart, ToolCall
    from limpet.model.privacy import Receipt, RetentionResult
    from limpet.model.record import Forgotten, Profile, Record
    from limpet.model.schedule import Notification, OutputPage, Run, RunResult, Schedule, ScheduleLease
    from limpet.model.session import CompactionResult, FileInfo, LearnResult, SessionInfo, Summary, Usage
    from limpet.model.transfer import ExportResult, ImportResult, ItemExportResult, ItemImportResult
    from limpet.schedules.runner import Firing
    from limpet.security.telemetry import ActivityResult
    from limpet.sessions.files import FileSessions

__version__ = "0.1.0"

__all__ = [
    "ActivityResult",
    "AsyncLimpet",
    "AsyncSession",
    "AsyncTurn",
    "AuditEntry",
    "CompactionResult",
    "Config",
    "Context",
    "Document",
    "Entity",
    "ExportResult",
    "FileInfo",
    "FilePart",
    "FileSessions",
    "Finding",
    "Firing",
    "Forgotten",
    "Grant",
    "GrantInfo",
    "Graph",
    "GraphSource",
    "Hit",
    "ImagePart",
    "ImportResult",
    "ItemExportResult",
    "ItemImportResult",
    "JobInfo",
    "KeyInfo",
    "LearnResult",
    "Limpet",
    "LimpetError",
    "Mention",
    "Message",
    "NewKey",
    "Notification",
    "OutputPage",
    "Profile",
    "Receipt",
    "Record",
    "Relation",
    "RetentionResult",
    "Run",
    "RunResult",
    "Schedule",
    "ScheduleLease",
    "Session",
    "SessionInfo",
    "Signal",
    "Source",
    "Summary",
    "TextPart",
    "ToolCall",
    "Turn",
    "Unauthenticated",
    "Usage",
]

_HOMES = {
    "api.async_limpet": "AsyncLimpet AsyncSession AsyncTurn",
    "config": "Config",
    "model.access": "AuditEntry Grant GrantInfo KeyInfo NewKey",
    "model.chunk": "Hit Signal Source",
    "model.context": "Context",
    "model.document": "Document",
    "model.graph": "Entity Graph GraphSource Mention Relation",
    "model.job": "Finding JobInfo",
    "model.message": "FilePart ImagePart Message TextPart ToolCall",
    "model.privacy": "Receipt RetentionResult",
    "model.record": "Forgotten Profile Record",
    "model.schedule": "Notification OutputPage RunResult Run Schedule ScheduleLease",
    "model.session": "CompactionResult FileInfo LearnResult SessionInfo Summary Usage",
    "security.telemetry": "ActivityResult",
    "model.transfer": "ExportResult ImportResult ItemExportResult ItemImportResult",
    "sessions.files": "FileSessions",
    "api": "Limpet",
    "errors": "LimpetError Unauthenticated",
    "api.session": "Session",
    "schedules.runner": "Firing",
    "api.turn": "Turn",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Each name is loaded when first used, so that a program pays only for what it needs of us."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'limpet' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"limpet.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
