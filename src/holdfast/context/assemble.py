"""Putting a context together from what a session holds."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.domain.context import Context, Dropped
from holdfast.domain.message import Message
from holdfast.domain.session import Summary
from holdfast.domain.tokens import estimate

SUMMARY = "Summary"


def assemble(messages: Sequence[Message], summary: Summary | None, total: int) -> Context:
    """The kept messages; the summary only when older ones were cut, since else it repeats what is there."""
    cut = total - len(messages)
    sections = {SUMMARY: summary.text} if summary is not None and cut else {}
    text = "\n\n".join(f"## {title}\n\n{body}" for title, body in sections.items())
    dropped = (Dropped(f"{cut} older messages", "over the token or message budget"),) if cut else ()
    tokens = estimate(text) + sum(message.tokens for message in messages)
    return Context(text, tuple(messages), tokens, sections, (), dropped)
