"""Lines that tell what happened, shortened until they fit, and nobody's left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from limpet.model.tokens import TokenCounter

_SHORTEST = 40  # characters of a line; where there is no room for them, the oldest lines share one
_END = " …"
_JOINTS = ("…", "·")
_WORD = re.compile(r"\S{1,16}")  # a script without spaces is cut somewhere
_SPEAKER = re.compile(r"the \w+: |[^:]{1,80} \(\w+\): ")
_DIGIT = re.compile(r"\d")
# What a shortened line keeps first, after numbers and names: the words that make a decision, a wish or a refusal.
_DECIDING = frozenset(
    "agreed always because can't cannot chose decided decision deadline don't due fixed forgot hate hates like likes"
    " love loves moved must need needs never no not plan prefer prefers promised remember should stop want wants will"
    " won't".split()
)
_MARKS = ".,;:!?\"'()[]"


class DigestLine(NamedTuple):
    text: str
    number: int = 1
    of: str = "messages"

    def __str__(self) -> str:
        return f"- {self.text}" if self.number == 1 else f"- ({self.number} {self.of}) {self.text}"


def fit_lines(lines: Sequence[DigestLine], most_tokens: int, count: TokenCounter) -> str:
    """All of them within the tokens."""
    characters = 4 * most_tokens
    lines = _merge_oldest(lines, _max_lines(characters))
    while (
        count(text := "\n".join(map(str, _fit_to_length(lines, characters)))) > most_tokens and characters > _SHORTEST
    ):
        characters = characters * 7 // 8  # names, numbers and most scripts spend more tokens on a character
    return text


def _max_lines(characters: int) -> int:
    return max(1, characters // _SHORTEST)


def _fit_to_length(lines: Sequence[DigestLine], characters: int) -> list[DigestLine]:
    lines = _merge_oldest(lines, _max_lines(characters))
    room = characters - sum(len(str(line)) - len(line.text) + 1 for line in lines)
    most = _max_line_length(sorted(len(line.text) for line in lines), room)
    return [line._replace(text=shorten_text(line.text, most)) for line in lines]


def _merge_oldest(lines: Sequence[DigestLine], most: int) -> list[DigestLine]:
    """At most so many lines: neighbours share one, the oldest first."""
    found = list(lines)
    while len(found) > most:
        pairs = min(len(found) - most, len(found) // 2)
        joined = [_join_lines(*found[at : at + 2]) for at in range(0, 2 * pairs, 2)]
        found = joined + found[2 * pairs :]
    return found


def _join_lines(one: DigestLine, other: DigestLine) -> DigestLine:
    """Who spoke matters less now than what about."""
    texts = (
        shorten_text(_SPEAKER.sub("", line.text, count=1).removesuffix(_END), 2 * _SHORTEST) for line in (one, other)
    )
    return DigestLine(" · ".join(texts), one.number + other.number, one.of)


def _max_line_length(lengths: Sequence[int], room: int) -> int:
    """How long a line may be, when the short ones leave to the long ones what they do not need."""
    for at, length in enumerate(lengths):
        share = room // (len(lengths) - at)
        if length > share:
            return max(share, _SHORTEST // 2)
        room -= length
    return max(lengths, default=0)


def shorten_text(text: str, most: int) -> str:
    """The words that matter, each once and in their order, and a mark that there were others."""
    if len(text) <= most:
        return text
    words = [word for word in _WORD.finditer(text) if word.group() not in _JOINTS]
    weights = _weights([word.group() for word in words])
    kept: set[int] = set()
    seen: set[str] = set()
    room = most - len(_END)
    for at in sorted(range(len(words)), key=lambda at: (-weights[at], at)):
        word = words[at].group()
        if len(word) + 1 <= room and word not in seen:
            kept.add(at)
            seen.add(word)
            room -= len(word) + 1
    return _join_words(words, kept) + _END if kept else f"{text[: max(0, most - 1)]}…"


def _weights(words: Sequence[str]) -> list[int]:
    # Who speaks stands before the first colon.
    colon = next((at for at, word in enumerate(words[:4]) if word.endswith(":")), -1)
    found = []
    begins, decided = True, False
    for at, word in enumerate(words):
        deciding = word.strip(_MARKS).lower() in _DECIDING
        named = word[0].isupper() and not begins and len(word) > 1
        weight = 8 * (at <= colon) + 4 * bool(_DIGIT.search(word)) + 3 * named + 2 * deciding
        # What was decided stands behind the word that says so; long words say more than short ones.
        found.append(2 * weight + 2 * decided + (len(word) > 4))
        begins, decided = word[-1] in ".!?:·", deciding
    return found


def _join_words(words: Sequence[re.Match[str]], kept: set[int]) -> str:
    shown = ""
    for at in sorted(kept):
        beside = at - 1 in kept and words[at - 1].end() == words[at].start()
        shown += words[at].group() if beside or not shown else f" {words[at].group()}"
    return shown
