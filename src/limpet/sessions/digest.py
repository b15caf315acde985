"""A summary without a model: who said what, shortened until it fits, and nobody's line left out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from limpet.errors import InvalidInput
from limpet.model.message import Message, Role
from limpet.model.shorten import DigestLine, fit_lines
from limpet.model.text import check_text
from limpet.model.tokens import TokenCounter

_LONGEST = 1000  # characters of a message that are looked at: more would never be shown
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_SHARED = re.compile(r"- \((\d+) messages\) ")


def summarize_by_rules(old: str, messages: Sequence[Message], most_tokens: int, count: TokenCounter) -> str:
    """The old summary's lines and one for each message, all of them within the tokens."""
    return fit_lines([*_parse_lines(old), *filter(None, map(_message_line, messages))], most_tokens, count)


def _parse_lines(summary: str) -> list[DigestLine]:
    """What a digest wrote line by line, what anybody else wrote sentence by sentence."""
    found = []
    for line in filter(str.strip, summary.split("\n")):
        if shared := _SHARED.match(line):
            found.append(DigestLine(line[shared.end() :], int(shared[1])))
        elif line.startswith("- "):
            found.append(DigestLine(line[2:]))
        else:
            found += [DigestLine(part.strip()) for part in _SENTENCE.split(line) if part.strip()]
    return found


def _message_line(message: Message) -> DigestLine | None:
    """Tool results are left out: what mattered in them is in what the assistant said next."""
    if message.role is Role.TOOL:
        return None
    who = f"{message.name} ({message.role})" if message.name else f"the {message.role}"
    called = f"[called {', '.join(call.name for call in message.tool_calls)}]" if message.tool_calls else ""
    said = " ".join(f"{message.text[:_LONGEST]} {called}".split())
    return DigestLine(f"{who}: {said or '(nothing)'}")


def is_storable(text: str) -> bool:
    """Whether a store can keep it."""
    try:
        check_text(text, "summary")
    except InvalidInput:
        return False
    return True
