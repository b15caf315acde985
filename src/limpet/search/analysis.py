"""Text to index terms, with one analysis for stored texts and questions.

Words are case-folded and stemmed (Snowball English). Chinese, Japanese and Korean runs become overlapping pairs, since
they have no spaces. An emoji is a word. A term is stored as a 64-bit hash, so that index rows contain no readable text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import pairwise

from limpet.model.chunk import Terms

# Stored in every database: an index built with another analysis is rebuilt, never mixed.
ANALYZER_VERSION = "snowball-english-3/pairs/dated"

_STOP_WORDS = frozenset(
    """a an and are as at be been but by did do does for from had has have he her him his how i if in into is it
    its me my of on or our she so than that the their them then there these they this those to us was we were
    what when where which who whom whose why will with would you your am being could should can't don't i'm it's
    you're""".split()
)
_CJK = (
    "\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\U00020000-\U0003134f"
)
_EMOJI = "\u2600-\u27bf\U0001f300-\U0001faff"
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
# For ASCII: lowercase letters, and a space for every character outside words.
_ASCII_TRANSLATION = "".join(char.lower() if char.isalnum() else " " for char in map(chr, range(128)))
_MAX_WORD = 64
_MAX_NAMES = 200
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def analyse(text: str) -> Terms:
    terms = _extract_terms(text)
    return Terms(Counter(terms), len(terms))


def format_index_text(text: str, name: str | None, at: datetime) -> str:
    """Return the text to index for a message's chunk: a question may name the speaker or the date."""
    spoken = f"{name}: {text}" if name else text
    return f"[{at.day} {_MONTHS[at.month - 1]} {at.year}] {spoken}"


def strip_names(text: str, names: tuple[str, ...]) -> str:
    """Return the text to embed, without names: names that occur everywhere make all texts similar."""
    if not names:
        return text
    bare = " ".join(_name_pattern(names[:_MAX_NAMES]).sub(" ", text).split())
    return bare or text


@lru_cache(maxsize=256)
def _name_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)  # "Anna Maria" before "Anna"
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})(?:['\u2019]s)?\b", re.IGNORECASE)


def extract_terms(text: str) -> list[int]:
    """Return the distinct terms of a question, in order of first occurrence."""
    return list(dict.fromkeys(_extract_terms(text)))


def count_shared_terms(question: frozenset[int], text: str) -> int:
    """Return how many of a question's terms the text contains."""
    return len(question.intersection(map(_hash_word, _tokenize(text))))


def _extract_terms(text: str) -> list[int]:
    return [term for word in _tokenize(text) if (term := _hash_word(word)) is not None]


def _tokenize(text: str) -> Iterable[str]:
    if not text.isascii():
        return _tokenize_unicode(text)
    # An apostrophe inside a word belongs to it. Most texts have none and are faster to split.
    return _ASCII_WORD.findall(text.lower()) if "'" in text else text.translate(_ASCII_TRANSLATION).split()


def _tokenize_unicode(text: str) -> Iterator[str]:
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    for run, word in _word_pattern().findall(folded):
        if run:
            yield from _bigrams(run)
        else:
            yield word


@cache
def _word_pattern() -> re.Pattern[str]:
    """Match a run of ideographs, or another word. Compiled on the first non-ASCII text."""
    letter = f"[^\\W_{_CJK}]"
    return re.compile(f"([{_CJK}]+)|({letter}+(?:'{letter}+)*|[{_EMOJI}])")


def _bigrams(run: str) -> Iterator[str]:
    """Return each character and each pair: a one-character question matches, a longer one ranks by pairs."""
    yield from run
    yield from map("".join, pairwise(run))


@lru_cache(maxsize=1 << 16)
def _hash_word(word: str) -> int | None:
    if word in _STOP_WORDS:
        return None
    # A long base64 run is identified by its start.
    stem = _load_stemmer()(word[:_MAX_WORD]) if word.isascii() else word[:_MAX_WORD]
    return int.from_bytes(blake2b(stem.encode(), digest_size=8).digest(), "big", signed=True)


@cache
def _load_stemmer() -> Callable[[str], str]:
    from Stemmer import Stemmer  # late: most commands analyse no text

    stemmer = Stemmer("english")
    stemmer.maxCacheSize = 0  # _term has its own cache
    stem: Callable[[str], str] = stemmer.stemWord
    return stem
