"""A summary without a model: who said what, shortened until it fits, and nobody's line left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.domain.message import Message, Role
from holdfast.domain.text import checked_text
from holdfast.domain.tokens import TokenCounter
from holdfast.errors import InvalidInput

_SHORTEST = 24  # characters of a line; where there is no room for them, the oldest lines share one
_LONGEST = 1000  # characters of a message that are looked at: more would never be shown
_GAP = " … "
_END = " …"
_WORD = re.compile(r"\S+")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_SHARED = re.compile(r"- \((\d+) messages\) ")
# What a shortened line keeps first: numbers, names, and the words that make a decision, a wish or a refusal.
_DECIDING = frozenset(
    "agreed always because cannot chose decided decision deadline don't due fixed forgot hate hates like likes love"
    " loves moved must need needs never no not plan prefer prefers promised remember should stop want wants will"
    " won't".split()
)


class Line(NamedTuple):
    text: str
    messages: int = 1

    def __str__(self) -> str:
        return f"- {self.text}" if self.messages == 1 else f"- ({self.messages} messages) {self.text}"


def digest(old: str, messages: Sequence[Message], most_tokens: int, count: TokenCounter) -> str:
    """The old summary's lines and one for each message, all of them within the tokens."""
    lines = [*_lines(old), *filter(None, map(_said, messages))]
    characters = 4 * most_tokens
    while count(text := "\n".join(map(str, _fitted(lines, characters)))) > most_tokens and characters > _SHORTEST:
        characters = characters * 7 // 8  # scripts other than Latin spend more tokens on a character
    return text


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


def _fitted(lines: Sequence[Line], characters: int) -> list[Line]:
    lines = _shared(lines, max(1, characters // (_SHORTEST + 3)))
    room = characters - sum(len(str(line)) - len(line.text) + 1 for line in lines)
    most = _even(sorted(len(line.text) for line in lines), room)
    return [Line(shortened(line.text, most), line.messages) for line in lines]


def _shared(lines: Sequence[Line], most: int) -> list[Line]:
    """At most so many lines: neighbours share one, the oldest first."""
    found = list(lines)
    while len(found) > most:
        pairs = min(len(found) - most, len(found) // 2)
        joined = [_joined(*found[at : at + 2]) for at in range(0, 2 * pairs, 2)]
        found = joined + found[2 * pairs :]
    return found


def _joined(one: Line, other: Line) -> Line:
    most = 4 * _SHORTEST  # long enough for what will be left of it
    return Line(f"{shortened(one.text, most)} · {shortened(other.text, most)}", one.messages + other.messages)


def _even(lengths: Sequence[int], room: int) -> int:
    """How long a line may be, when the short ones leave to the long ones what they do not need."""
    for at, length in enumerate(lengths):
        share = room // (len(lengths) - at)
        if length > share:
            return max(share, _SHORTEST // 2)
        room -= length
    return max(lengths, default=0)


def shortened(text: str, most: int) -> str:
    """The words that matter, in their order, with a mark where others were."""
    if len(text) <= most:
        return text
    words = _WORD.findall(text)
    kept: set[int] = set()
    room = most - len(_END)
    for at in sorted(range(len(words)), key=lambda at: (-_weight(words, at), at)):
        price = len(words[at]) + (1 if at - 1 in kept else len(_GAP)) - (len(_GAP) - 1) * (at + 1 in kept)
        if price <= room:
            kept.add(at)
            room -= price
    return _printed(words, kept) if kept else f"{text[: max(0, most - 1)]}…"


def _weight(words: Sequence[str], at: int) -> int:
    word = words[at]
    bare = word.strip(".,;:!?\"'()[]").lower()
    begins = at == 0 or words[at - 1][-1] in ".!?:"
    named = word[:1].isupper() and not begins and len(word) > 1
    # Who speaks stands before the first colon.
    speaks = at < 3 and any(other.endswith(":") for other in words[at:3])
    return 8 * speaks + 4 * any(char.isdigit() for char in word) + 3 * named + 2 * (bare in _DECIDING) + (at < 8)


def _printed(words: Sequence[str], kept: set[int]) -> str:
    shown: list[str] = []
    last = -1
    for at in sorted(kept):
        shown += [_GAP if at != last + 1 else " ", words[at]]
        last = at
    return "".join(shown).lstrip(" ") + _END * (last != len(words) - 1)


def is_text(text: str) -> bool:
    """Whether a store can keep it."""
    try:
        checked_text(text, "summary")
    except InvalidInput:
        return False
    return True
