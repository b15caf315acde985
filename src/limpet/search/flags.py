"""What a text is like, seen once when it is stored, so that ranking never reads texts."""

from __future__ import annotations

import re
from enum import IntFlag


class TextFlag(IntFlag):
    ENDS_ASKING = 1  # the message ends in a question mark
    ONLY_ASKS = 2  # every sentence of the message is a question
    TIME_WORD = 4  # the chunk says when
    STANDING_WISH = 8  # the chunk says how something shall always be


_SENTENCE_END = re.compile(r"[.!?…]+[\"')\]]*(?:\s|$)")
_WORD = re.compile(r"[a-z]+|\d+")
_TIME_WORDS = frozenset(
    """yesterday today tonight tomorrow ago last next week weeks weekend month months year years day days morning
    evening recently soon since monday tuesday wednesday thursday friday saturday sunday january february march
    april may june july august september october november december spring summer fall autumn winter""".split()
) | frozenset(map(str, range(1900, 2100)))
# One of these stands in every standing wish: most texts need no closer look.
_WISH_WORDS = frozenset("always never from whenever make prefer ask preference rather like".split())
_STANDING_WISH = re.compile(
    r"(?:^|[.!?]\s+)(?:please )?(?:always|never|from now on|whenever|make sure (?:to|you))\b"
    r"|\bi (?:really |would |'d |strongly |generally )?prefer\b|\bwhen i ask\b|\bmy preference\b"
    r"|\bi(?:'d| would) (?:rather|like)\b",
    re.IGNORECASE,
)


def flag_message(text: str) -> TextFlag:
    traits = TextFlag(0)
    if "?" in text:
        if text.rstrip().endswith("?"):
            traits |= TextFlag.ENDS_ASKING
        if _has_only_questions(text):
            traits |= TextFlag.ONLY_ASKS
    return traits


def flag_chunk(text: str) -> TextFlag:
    lowered = text.lower()
    words = set(_WORD.findall(lowered))
    traits = TextFlag(0) if words.isdisjoint(_TIME_WORDS) else TextFlag.TIME_WORD
    if not words.isdisjoint(_WISH_WORDS) and _STANDING_WISH.search(lowered):
        return traits | TextFlag.STANDING_WISH
    return traits


def _has_only_questions(text: str) -> bool:
    ends = _SENTENCE_END.findall(text)
    rest = _SENTENCE_END.split(text)[-1]
    return bool(ends) and all("?" in end for end in ends) and not any(map(str.isalnum, rest))
