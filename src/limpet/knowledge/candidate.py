"""What extraction is given, and what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from limpet.knowledge.echo import blank_ranges
from limpet.model.message import Message, Role, ToolCall
from limpet.model.record import Layer, RecordType

QUOTED_KEY = "quoted"  # of a reply's metadata: the ranges of its text that repeat what memory had put before the model


@dataclass(frozen=True, slots=True)
class TurnMessage:
    """One message of a turn."""

    sequence: int
    role: Role
    text: str
    created_at: datetime
    speaker: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False

    @classmethod
    def from_message(cls, message: Message, created_at: datetime) -> TurnMessage:
        """A stored message, without what it repeats of its prompt. ``created_at`` stands in where it has no time."""
        return cls(
            message.sequence,
            message.role,
            blank_ranges(message.text, message.metadata.get(QUOTED_KEY)),
            message.created_at or created_at,
            message.name,
            message.tool_calls,
            message.tool_call_id,
            message.is_error,
        )

    def contains(self, sentence: str) -> bool:
        """Whether the words stand in the message: in its text, or in what a tool was called with."""
        return sentence in self.text or any(sentence in text for call in self.tool_calls for text in iter_texts(call))


def iter_texts(call: ToolCall) -> Iterator[str]:
    for value in call.arguments.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, (list, tuple)):
            yield " ".join(part for part in value if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something worth keeping, and the words it was learned from.

    ``subject`` is who or what it is about: ``user``, a name (``caroline``), a way to somebody (``user/sister``) or
    ``project``. ``exclusive``: the attribute holds one value at a time, so that a new one may supersede the old.
    ``polarity`` is False for what is denied or has ended.
    """

    type: RecordType
    layer: Layer
    content: str
    sentence: str
    sequence: int
    subject: str
    said_at: datetime
    speaker: str | None = None
    attribute: str | None = None
    value: str | None = None
    exclusive: bool = False
    polarity: bool = True
    confidence: float = 0.8
    salience: float = 0.5
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
