"""What goes into the next prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from limpet.model import chat_format
from limpet.model.chunk import Hit
from limpet.model.message import Message


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that was left out, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Context:
    """``text`` belongs before the conversation, ``messages`` are its newest part; ``tokens`` counts both.

    ``text`` is Markdown: what memory knows, as quoted data, then the summary when older messages were cut. ``sections``
    maps each of its headings to what stands under it, ``hits`` are the recalled passages it quotes, the best first;
    ``records`` are the ids of all records it shows.
    """

    text: str
    messages: tuple[Message, ...]
    tokens: int
    sections: Mapping[str, str]
    hits: tuple[Hit, ...]
    dropped: tuple[Omission, ...]
    records: tuple[str, ...] = ()

    def as_openai(self) -> list[dict[str, Any]]:
        """The ``messages`` of a chat completion: memory as the user's first message, then the conversation."""
        return chat_format.as_openai(self.text, self.messages)

    def as_anthropic(self) -> dict[str, Any]:
        """``messages``, and ``system`` where the session has system messages, for ``client.messages.create(**…)``."""
        return chat_format.as_anthropic(self.text, self.messages)
