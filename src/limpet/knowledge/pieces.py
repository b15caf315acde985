"""Cut a text into word pieces, each with its place in the text and the shape of its letters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")
MAX_CACHED = 50_000

SMALL, CAPITAL, CAPITALS, NUMBER = range(4)


class Pieces:
    """The vocabulary. Safe between threads: a cached word is only ever written with the same value."""

    def __init__(self, vocabulary: Sequence[str], unknown: int) -> None:
        self._known = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = unknown
        self._cache: dict[str, list[int]] = {}

    def cut(self, text: str) -> tuple[list[int], list[int], list[int]]:
        """Return for each piece its number, the place of its word in the text, and its shape."""
        numbers: list[int] = []
        places: list[int] = []
        shapes: list[int] = []
        for found in _WORD.finditer(text):
            word = found.group()
            pieces = self._cache.get(word)
            if pieces is None:
                pieces = self._cut_word(word)
                if len(self._cache) < MAX_CACHED:
                    self._cache[word] = pieces
            numbers += pieces
            places += [found.start()] * len(pieces)
            shapes += [_shape(word)] * len(pieces)
        return numbers, places, shapes

    def _cut_word(self, word: str) -> list[int]:
        word = word.lower()
        if not word.isascii():
            word = "".join(c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn")
            word = {"’": "'", "‘": "'", "“": '"', "”": '"', "—": "-", "–": "-", "…": "."}.get(word, word)
        if len(word) > 60:
            return [self._unknown]
        numbers, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                number = self._known.get(("##" if start else "") + word[start:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            numbers.append(number)
            start = end
        return numbers or [self._unknown]


def _shape(word: str) -> int:
    first = word[0]
    if first.isdigit():
        return NUMBER
    if not first.isupper():
        return SMALL
    return CAPITALS if len(word) > 1 and word.isupper() else CAPITAL
