"""When two short texts say the same."""

from __future__ import annotations

import re
import unicodedata
from itertools import zip_longest
from typing import NamedTuple

from limpet.model.text_cache import cache_texts

_WORD = re.compile(r"\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)?")
_ENOUGH = 0.75  # of the larger text's words, which the smaller one has to hold
_LIGHT = frozenset(
    """a an the and or of to in on at for with by from as is am are was were be been being do does did have has had i
    me my mine you your we us our he him his she her it its they them their this that these those so very really just
    also too now then there here quite actually currently please well oh yes ok btw user""".split()
)
_NEGATIONS = frozenset(
    """no not never none nobody nothing neither nor without cannot longer stopped quit hate hates dislike dislikes
    detest avoid stop""".split()
)
_SUFFIXES = ("ations", "ation", "ingly", "edly", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s")

DUPLICATE_COSINE = 0.97  # cosine from which two texts with the same numbers and no denial say the same

# Behind a number: it says how much of something, which in a taste is beside the point.
_MEASURES = frozenset(
    """second seconds minute minutes hour hours day days week weeks month months year years times people euros dollars
    pounds kilometres miles metres pages percent degrees""".split()
)


class TextSignature(NamedTuple):
    """What has to be equal, or nearly so, for two texts to say the same."""

    stems: frozenset[str]
    numbers: frozenset[str]
    negated: bool


def fold_text(text: str) -> str:
    """Case, width, quotation marks and spacing undone."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("‘", "'")
    return " ".join(plain.replace("“", '"').replace("”", '"').split())


def tokenize(text: str) -> list[str]:
    return tokenize_folded(fold_text(text))


def tokenize_folded(plain: str) -> list[str]:
    return _WORD.findall(plain)


def stem(word: str) -> str:
    """Enough to bring forms of one word together; it never has to be read."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)] + ("y" if suffix in {"ies", "ied"} else "")
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word.rstrip("e") if len(word) > 4 else word


@cache_texts(4096)
def compute_signature(text: str) -> TextSignature:
    found = tokenize(text)
    numbers = frozenset(word for word in found if word[0].isdigit())
    negated = any(word in _NEGATIONS or word.endswith("n't") for word in found)
    stems = frozenset(
        stem(word.removesuffix("'s"))
        for word in found
        if not word[0].isdigit() and word not in _LIGHT and word not in _NEGATIONS and not word.endswith("n't")
    )
    return TextSignature(stems, numbers, negated)


def is_near_duplicate(one: str, other: str) -> bool:
    """Near-duplicates: one says all that the other says, with the same numbers, and neither denies it.

    A word that stands in one of them and another in its place make two statements, however long the rest is.
    """
    mine, theirs = compute_signature(one), compute_signature(other)
    if mine.numbers != theirs.numbers or mine.negated != theirs.negated:
        return False
    small, large = mine.stems, theirs.stems
    if len(small) > len(large):
        small, large = large, small
    if not small:
        return mine == theirs and tokenize(one) == tokenize(other)
    return len(small) >= _ENOUGH * len(large) and small <= large


def is_duplicate(one: str, other: str, cosine: float | None) -> bool:
    """In nearly the same words, or near in meaning with the same numbers and denials."""
    if is_near_duplicate(one, other):
        return True
    mine, theirs = compute_signature(one), compute_signature(other)
    equal = mine.numbers == theirs.numbers and mine.negated == theirs.negated
    return equal and cosine is not None and cosine >= DUPLICATE_COSINE


def is_same_value(one: str | None, other: str | None, *, amounts: bool = True) -> bool:
    """Porto, and Porto in Portugal: the same place, with more or less detail.

    Without ``amounts`` it does not matter of how many minutes or euros they speak.
    """
    if one is None or other is None:
        return one is other
    mine, theirs = _tokenize_value(one, amounts), _tokenize_value(other, amounts)
    if not mine or not theirs:
        return fold_text(one) == fold_text(other)
    shorter = min(len(mine), len(theirs))
    return mine[:shorter] == theirs[:shorter]  # York is not part of New York


def has_same_breadth(one: str | None, other: str | None) -> bool:
    """Neither says more than the other: mornings, and mornings on weekends, are two things to like."""
    if one is None or other is None:
        return True
    return _tokenize_value(one, amounts=False) == _tokenize_value(other, amounts=False)


def _tokenize_value(value: str, amounts: bool) -> list[str]:
    found = tokenize(value)
    if not amounts:
        found = [
            word for word, after in zip_longest(found, found[1:]) if not word[0].isdigit() or after not in _MEASURES
        ]
    return [stem(word) for word in found if word not in _LIGHT]


_GENERIC = frozenset(
    map(
        stem,
        """now no longer moved move switch switched change changed started start stop stopped quit left
    new old gave give up back get got go went going make made take took day week month year time today yesterday last
    next since user others more like want need use used still work works live lives home thing things good
    bit""".split(),
    )
)


def find_content_stems(text: str) -> frozenset[str]:
    """The words of a text that say what it is about."""
    return frozenset(each for each in compute_signature(text).stems if each not in _GENERIC)


def find_name_stems(text: str) -> frozenset[str]:
    """The words a text writes as names: what they name is spoken of again."""
    words = (word.strip("'’.,;:!?()“”\"") for word in text.split()[1:])
    return frozenset(stem(word.casefold().removesuffix("'s")) for word in words if word[:1].isupper() and len(word) > 2)
