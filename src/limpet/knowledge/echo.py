"""Whether somebody said it, or memory did: what a prompt recalled must not be learned again."""

from __future__ import annotations

from collections.abc import Collection

from limpet.knowledge.similarity import compute_signature, fold_text, is_near_duplicate, tokenize, tokenize_folded
from limpet.model.sentences import split_sentences

_SHORTEST = 3  # words: "I agree" stands in many texts by chance
_MARKS = " \t\r\n-*#>\\|"
_MOST = 400  # recalled sentences that are compared one by one


class Echoes:
    """The texts that memory had put before the model in this turn."""

    def __init__(self, recalled: Collection[str]) -> None:
        self._whole = [f" {' '.join(tokenize(text))} " for text in recalled if text.strip()]
        parts = (sentence.text for text in recalled for sentence in split_sentences(text))
        self._sentences = [part for _, part in zip(range(_MOST), parts, strict=False)]

    def contains(self, sentence: str) -> bool:
        """Word for word, or as good as."""
        said = tokenize(sentence)
        if not self._whole or len(said) < _SHORTEST:
            return False
        run = f" {' '.join(said)} "
        if any(run in text for text in self._whole):
            return True
        return len(compute_signature(sentence).stems) >= 2 and any(
            is_near_duplicate(sentence, part) for part in self._sentences
        )


def find_echoes(text: str, shown: str) -> list[tuple[int, int]]:
    """Where a text repeats, sentence by sentence, what stood in the prompt: from one character up to another."""
    plain = fold_text(shown)
    whole = ""  # of its words; made when a sentence has no other, which few have
    ranges: list[tuple[int, int]] = []
    for sentence in split_sentences(text):
        said = tokenize(sentence.text)
        if len(said) < _SHORTEST or not all(word in plain for word in said):
            continue
        whole = whole or f" {' '.join(tokenize_folded(plain))} "
        if f" {' '.join(said)} " in whole:
            start, end = sentence.start, sentence.start + len(sentence.text)
            joins = bool(ranges) and not text[ranges[-1][1] : start].strip(_MARKS)
            ranges[-1:] = [(ranges[-1][0], end)] if joins else [*ranges[-1:], (start, end)]
    return ranges


def blank_ranges(text: str, ranges: object) -> str:
    """The text with blanks where it repeats. Anything that is no list of ranges leaves it as it is."""
    if not isinstance(ranges, list):
        return text
    for pair in ranges:
        if isinstance(pair, list) and len(pair) == 2 and all(type(at) is int and 0 <= at <= len(text) for at in pair):
            text = f"{text[: pair[0]]}{' ' * (pair[1] - pair[0])}{text[pair[1] :]}"
    return text
