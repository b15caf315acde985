"""What goes into the next prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.domain.chunk import Hit
from holdfast.domain.message import Message


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something that was left out, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Context:
    """``text`` belongs before the conversation, ``messages`` are its newest part; ``tokens`` counts both."""

    text: str
    messages: tuple[Message, ...]
    tokens: int
    sections: Mapping[str, str]
    hits: tuple[Hit, ...]
    dropped: tuple[Dropped, ...]
