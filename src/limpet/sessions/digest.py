"""A summary without a model: who said what, shortened until it fits, and nobody's line left out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from limpet.errors import InvalidInput
from limpet.model.message import Message, Role
from limpet.model.shorten import Line, within
from limpet.model.text import checked_text
from limpet.model.tokens import TokenCounter

_LONGEST = 1000  # characters of a message that are looked at: more would never be shown
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_SHARED = re.compile(r"- \((\d+) messages\) ")


def digest(old: str, messages: Sequence[Message], most_tokens: int, count: TokenCounter) -> str:
    """The old summary's lines and one for each message, all of them within the tokens."""
    return within([*_lines(old), *filter(None, map(_said, messages))], most_tokens, count)


def _lines(summary: str) -> list[Line]:
    """What a digest wrote line by line, what anybody else wrote sentence by sentence."""
    found = []
    for line in filter(str.strip, summary.split("\n")):
        if shared := _SHARED.match(line):
            found.append(Line(line[shared.end() :], int(shared[1])))
        elif line.startswith("- "):
            found.append(Line(line[2:]))
        else:
            found += [Line(part.strip()) for part in _SENTENCE.split(line) if part.strip()]
    return found


def _said(message: Message) -> Line | None:
    """Tool results are left out: what mattered in them is in what the assistant said next."""
    if message.role is Role.TOOL:
        return None
    who = f"{message.name} ({message.role})" if message.name else f"the {message.role}"
    called = f"[called {', '.join(call.name for call in message.tool_calls)}]" if message.tool_calls else ""
    said = " ".join(f"{message.text[:_LONGEST]} {called}".split())
    return Line(f"{who}: {said or '(nothing)'}")


def is_text(text: str) -> bool:
    """Whether a store can keep it."""
    try:
        checked_text(text, "summary")
    except InvalidInput:
        return False
    return True
