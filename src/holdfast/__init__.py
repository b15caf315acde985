"""Holdfast: the memory of an AI agent."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.aio import AsyncHoldfast, AsyncSession, AsyncTurn
    from holdfast.config import Config
    from holdfast.domain.access import Grant, Granted
    from holdfast.domain.api_key import KeyInfo, NewKey
    from holdfast.domain.audit import AuditEntry
    from holdfast.domain.chunk import Hit, Signal, Source
    from holdfast.domain.context import Context
    from holdfast.domain.document import Document
    from holdfast.domain.graph import Entity, Graph, GraphSource, Mention, Relation
    from holdfast.domain.job import JobInfo
    from holdfast.domain.message import FilePart, ImagePart, Message, TextPart, ToolCall
    from holdfast.domain.observed import Observed
    from holdfast.domain.profile import Profile
    from holdfast.domain.receipt import Receipt
    from holdfast.domain.record import Forgotten, Record
    from holdfast.domain.retention import Retained
    from holdfast.domain.schedule import Notification, Outcome, Run, Schedule
    from holdfast.domain.session import Compacted, SessionInfo, Summary, Usage
    from holdfast.engine import Holdfast
    from holdfast.errors import HoldfastError, Unauthenticated
    from holdfast.handle import Session
    from holdfast.schedule.firing import Firing
    from holdfast.turn import Turn

__version__ = "0.1.0"

__all__ = [
    "AsyncHoldfast",
    "AsyncSession",
    "AsyncTurn",
    "AuditEntry",
    "Compacted",
    "Config",
    "Context",
    "Document",
    "Entity",
    "FilePart",
    "Firing",
    "Forgotten",
    "Grant",
    "Granted",
    "Graph",
    "GraphSource",
    "Hit",
    "Holdfast",
    "HoldfastError",
    "ImagePart",
    "JobInfo",
    "KeyInfo",
    "Mention",
    "Message",
    "NewKey",
    "Notification",
    "Observed",
    "Outcome",
    "Profile",
    "Receipt",
    "Record",
    "Relation",
    "Retained",
    "Run",
    "Schedule",
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
    "aio": "AsyncHoldfast AsyncSession AsyncTurn",
    "config": "Config",
    "domain.access": "Grant Granted",
    "domain.api_key": "KeyInfo NewKey",
    "domain.audit": "AuditEntry",
    "domain.chunk": "Hit Signal Source",
    "domain.context": "Context",
    "domain.document": "Document",
    "domain.graph": "Entity Graph GraphSource Mention Relation",
    "domain.job": "JobInfo",
    "domain.message": "FilePart ImagePart Message TextPart ToolCall",
    "domain.observed": "Observed",
    "domain.profile": "Profile",
    "domain.receipt": "Receipt",
    "domain.record": "Forgotten Record",
    "domain.schedule": "Notification Outcome Run Schedule",
    "domain.retention": "Retained",
    "domain.session": "Compacted SessionInfo Summary Usage",
    "engine": "Holdfast",
    "errors": "HoldfastError Unauthenticated",
    "handle": "Session",
    "schedule.firing": "Firing",
    "turn": "Turn",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Each name is loaded when first used, so that a program pays only for what it needs of us."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"holdfast.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
