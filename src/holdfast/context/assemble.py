"""Putting a context together from what a session holds."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.domain.context import Context, Dropped
from holdfast.domain.message import Message
from holdfast.domain.session import Summary
from holdfast.domain.tokens import estimate

SUMMARY = "Summary"


def render(summary: Summary | None) -> str:
    return "" if summary is None else f"## {SUMMARY}\n\n{summary.text}"


def room(summary: Summary | None, max_tokens: int) -> int:
    """What is left for messages beside the summary, which is never cut."""
    return max(1, max_tokens - estimate(render(summary)))


def assemble(messages: Sequence[Message], summary: Summary | None, cut: int) -> Context:
    """The kept messages, and the summary of what was ``cut`` before them."""
    text = render(summary)
    dropped = (Dropped(f"{cut} older messages", "over the token or message budget"),) if cut else ()
    tokens = estimate(text) + sum(message.tokens for message in messages)
    sections = {SUMMARY: summary.text} if summary is not None else {}
    return Context(text, tuple(messages), tokens, sections, (), dropped)
