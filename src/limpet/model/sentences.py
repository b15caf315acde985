"""Where sentences begin and end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# A mark ends a sentence before white space only: 3.14, main.py and v1.2 stay whole.
_END = re.compile(r"[.!?…]{1,50}[\"')\]”’»*_]{0,5}(?=\s|$)|[。！？]{1,50}|[/]s(?=\s*$)|\n")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:mrs?|ms|dr|prof|st|sr|jr|vs|etc|e\.g|i\.e|approx|no|fig|dept|inc|ltd|co|mt|[a-z])\.$",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*(?:[-*•–—‣▪]|\(?\d{1,3}[.)]|\[[ xX]?\])\s+")
_NUMBERED = re.compile(r"\s*\(?\d{1,3}[.)]$")


class Sentence(NamedTuple):
    """``start`` is the place of its first character in the text; a bullet's mark is no part of it."""

    start: int
    text: str
    bullet: bool = False


def split_sentences(text: str) -> Iterator[Sentence]:
    """In their order, each as it stands in the text without the space around it. Linear in the length."""
    start = 0
    for mark in _END.finditer(text):
        end = mark.end()
        if mark.group() == "." and _is_mid_sentence(text, start, end):
            continue
        if found := _make_sentence(text, start, end):
            yield found
        start = end
    if found := _make_sentence(text, start, len(text)):
        yield found


def _is_mid_sentence(text: str, start: int, end: int) -> bool:
    """After an abbreviation, an initial (but not the word I), or the number of a list."""
    before = text[max(start, end - 10) : end]
    if _NUMBERED.match(text[start:end] if end - start < 8 else ""):
        return True
    found = _ABBREVIATION.search(before)
    return found is not None and found.group().strip(" (\n\t").casefold() not in {"i.", "no."}


def _make_sentence(text: str, start: int, end: int) -> Sentence | None:
    bullet = _BULLET.match(text, start, min(end, start + 200))
    whole = text[bullet.end() if bullet else start : end]
    kept = whole.strip()
    if not any(map(str.isalnum, kept[:1000])):
        return None
    return Sentence(end - len(whole.lstrip()), kept, bullet is not None)
