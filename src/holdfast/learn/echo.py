"""Whether somebody said it, or memory did: what a prompt recalled must not be learned again."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.domain.sentences import sentences
from holdfast.learn.likeness import alike, gist, words

_SHORTEST = 3  # words: "I agree" stands in many texts by chance
_MOST = 400  # recalled sentences that are compared one by one


class Echoes:
    """The texts that memory had put before the model in this turn."""

    def __init__(self, recalled: Collection[str]) -> None:
        self._whole = [f" {' '.join(words(text))} " for text in recalled if text.strip()]
        parts = (sentence.text for text in recalled for sentence in sentences(text))
        self._sentences = [part for _, part in zip(range(_MOST), parts, strict=False)]

    def holds(self, sentence: str) -> bool:
        """Word for word, or as good as."""
        said = words(sentence)
        if not self._whole or len(said) < _SHORTEST:
            return False
        run = f" {' '.join(said)} "
        if any(run in text for text in self._whole):
            return True
        return len(gist(sentence).stems) >= 2 and any(alike(sentence, part) for part in self._sentences)
