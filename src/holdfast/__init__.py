"""Holdfast: the memory of an AI agent."""

from typing import TYPE_CHECKING, Any

from holdfast.config import Config
from holdfast.domain.chunk import Hit, Signal, Source
from holdfast.domain.context import Context
from holdfast.domain.message import FilePart, ImagePart, Message, TextPart, ToolCall
from holdfast.domain.record import Forgotten, Record
from holdfast.domain.session import SessionInfo, Summary, Usage
from holdfast.engine import Holdfast
from holdfast.errors import HoldfastError
from holdfast.handle import Session

if TYPE_CHECKING:
    from holdfast.aio import AsyncHoldfast, AsyncSession

__version__ = "0.1.0"

__all__ = [
    "AsyncHoldfast",
    "AsyncSession",
    "Config",
    "Context",
    "FilePart",
    "Forgotten",
    "Hit",
    "Holdfast",
    "HoldfastError",
    "ImagePart",
    "Message",
    "Record",
    "Session",
    "SessionInfo",
    "Signal",
    "Source",
    "Summary",
    "TextPart",
    "ToolCall",
    "Usage",
]


def __getattr__(name: str) -> Any:
    """The asynchronous face is loaded when asked for: asyncio is most of what importing it costs."""
    if name in ("AsyncHoldfast", "AsyncSession"):
        from holdfast import aio

        return getattr(aio, name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
