"""Plain BM25 over whole turns: a simple baseline from a search library."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

_WORD = re.compile(r"\w+")


class PlainBm25:
    def __init__(self, texts: Sequence[str], k1: float = 1.2, b: float = 0.75) -> None:
        self._postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = []
        for at, text in enumerate(texts):
            words = _WORD.findall(text.lower())
            lengths.append(len(words))
            for word, count in Counter(words).items():
                self._postings[word].append((at, count))
        average = sum(lengths) / max(1, len(lengths)) or 1.0
        self._size = len(texts)
        self._weights = [k1 * (1 - b + b * length / average) for length in lengths]
        self._k1 = k1

    def search(self, question: str, depth: int) -> list[int]:
        scores: defaultdict[int, float] = defaultdict(float)
        for word in set(_WORD.findall(question.lower())):
            postings = self._postings.get(word, ())
            rarity = math.log1p((self._size - len(postings) + 0.5) / (len(postings) + 0.5))
            for at, count in postings:
                scores[at] += rarity * count * (self._k1 + 1) / (count + self._weights[at])
        return sorted(scores, key=lambda at: (-scores[at], at))[:depth]
