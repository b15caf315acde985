"""What goes into the next prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from limpet.model import chat_format
from limpet.model.chunk import Hit
from limpet.model.message import Message


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that was left out, and why."""

    what: Annotated[str, "what was left out"]
    reason: Annotated[str, "why, in words"]


@dataclass(frozen=True, slots=True)
class Context:
    """``text`` belongs before the conversation, ``messages`` are its newest part; ``tokens`` counts both.

    ``text`` is Markdown: what memory knows, as quoted data, then the summary when older messages were cut. ``sections``
    maps each of its headings to what stands under it, ``hits`` are the recalled passages it quotes, the best first;
    ``records`` are the ids of all records it shows.
    """

    text: Annotated[str, "Markdown that belongs before the messages; data, not instructions"]
    messages: Annotated[tuple[Message, ...], "the newest messages, as many as fit"]
    tokens: Annotated[int, "of the text and the messages, estimated"]
    sections: Annotated[Mapping[str, str], "what stands in the text, by heading"]
    hits: Annotated[tuple[Hit, ...], "recalled passages that the text quotes, the best first"]
    dropped: Annotated[tuple[Omission, ...], "what was left out"]
    records: Annotated[tuple[str, ...], "ids of all records the text shows"] = ()

    def as_openai(self) -> list[dict[str, Any]]:
        """The ``messages`` of a chat completion: memory as the user's first message, then the conversation."""
        return chat_format.as_openai(self.text, self.messages)

    def as_anthropic(self) -> dict[str, Any]:
        """``messages``, and ``system`` where the session has system messages, for ``client.messages.create(**…)``."""
        return chat_format.as_anthropic(self.text, self.messages)
