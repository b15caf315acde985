"""How many tokens a text costs, without a tokenizer.

Byte-pair tokenizers spend about one token on a word with the space before it, one on two or three digits or marks, and
on other scripts a share of a token for each character. Counting those classes separately stays close on English, code,
Chinese and emoji alike, where characters/4 does not. The shares are those of the ``o200k`` vocabulary; older ones spend
more on every script but Latin.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cache

TokenCounter = Callable[[str], int]

# Longer words fall into pieces of about ten letters, longer numbers of three digits; 's and _name stay whole. ASCII is
# most text and is counted at every append, so it has a pattern of its own. A space counts nothing, but is quicker taken
# with what follows it than passed over.
_ASCII = re.compile(r" ?(?:[A-Za-z]{1,10}|['_][A-Za-z]{1,10}|[0-9]{1,3}|[!-/:-@\[-^`{-~]{1,3}|_+|\n+)")
_UNCOUNTED = bytes(code for code in range(128) if not chr(code).isprintable() and code not in b"\t\n\v\f\r")

_OTHER_SHARE = 1.0
# Tokens a character, from each code point on. Marks that change the letter or the picture before them are among theirs.
_SHARES = {
    0x00C0: 0.6,  # Latin letters with marks, beside the word they stand in
    0x0250: _OTHER_SHARE,
    0x0300: 0.6,  # the marks alone
    0x0370: 0.34,  # Greek, Cyrillic
    0x0530: 0.4,  # Armenian, Hebrew, Arabic
    0x0900: 0.42,  # the scripts of India
    0x0E00: 0.5,  # Thai, Lao, Tibetan, Burmese, Georgian
    0x1100: 0.76,  # Korean
    0x1200: _OTHER_SHARE,
    0x1E00: 0.6,
    0x1F00: _OTHER_SHARE,
    0x200D: 1.75,  # what joins pictures
    0x200E: _OTHER_SHARE,
    0x2190: 1.75,  # arrows, symbols
    0x2C00: _OTHER_SHARE,
    0x2E80: 0.76,  # Chinese, its marks, kana
    0xA4D0: _OTHER_SHARE,
    0xAC00: 0.76,  # Korean
    0xD800: _OTHER_SHARE,
    0xF900: 0.76,
    0xFB00: _OTHER_SHARE,
    0xFE0F: 1.75,  # what makes a symbol a picture
    0xFE10: _OTHER_SHARE,
    0xFF00: 0.76,  # wide marks
    0xFFF0: _OTHER_SHARE,
    0x1F000: 1.75,  # pictures
    0x1FB00: _OTHER_SHARE,
    0x20000: 0.76,
}


def estimate_tokens(text: str) -> int:
    if not text:
        return 0
    if text.isascii():
        return len(_ASCII.findall(text)) or 1
    pieces, others, share = _patterns()
    return round(len(pieces.findall(text)) + sum(map(share.__getitem__, others.findall(text)))) or 1


def min_tokens(text: str) -> int:
    """What the estimate is never below, at a fraction of its price: a word with a sign of ASCII costs one or more."""
    return len(text.encode("ascii", "ignore").translate(None, _UNCOUNTED).split())


class _ShareTable(dict[str, float]):
    """The share of each character that was met."""

    def __missing__(self, char: str) -> float:
        starts = list(_SHARES)
        at = bisect_right(starts, ord(char)) - 1
        self[char] = found = _SHARES[starts[at]] if at >= 0 else _OTHER_SHARE
        return found


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], _ShareTable]:
    """What is counted as words and marks, and what by character. Made when the first text that is not ASCII comes."""
    letter, marks = r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]", r"\u2010-\u2027"
    pieces = rf"{letter}{{1,10}}|['\u2019_]{letter}{{1,10}}|[0-9]{{1,3}}|[!-/:-@\[-^`{{-~{marks}]{{1,3}}|_+|\n+"
    return re.compile(pieces), re.compile(rf"[^\x00-\x7f\s{marks}]"), _ShareTable()
