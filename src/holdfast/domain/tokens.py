"""How many tokens a text costs, without a tokenizer.

Byte-pair tokenizers spend about one token on a word with the space before it, one on two or three digits or marks, and
on other scripts a share of a token for each character. Counting those classes separately stays close on English, code,
Chinese and emoji alike, where characters/4 does not. The shares are those of the ``o200k`` vocabulary; older ones spend
more on every script but Latin.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

TokenCounter = Callable[[str], int]

# Longer words fall into pieces of about ten letters, longer numbers of three digits; 's and _name stay whole. Spelled
# out for ASCII, which is most text and is counted at every append.
_ASCII = re.compile(r"[A-Za-z]{1,10}|['_][A-Za-z]{1,10}|[0-9]{1,3}|[!-/:-@\[-^`{-~]{1,3}|_+|\n+")

_LATIN_MARKED = r"[\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff]"
# Tokens a character, by script. Marks that change the letter or the picture before them count among theirs.
_SHARES = {
    r"[\u2e80-\u303f\u31c0-\ua4cf\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]": 0.76,  # Chinese, and its marks
    r"[\u3040-\u31bf]": 0.75,  # kana
    r"[\u1100-\u11ff\uac00-\ud7ff]": 0.76,  # Korean
    r"[\u0900-\u0dff]": 0.42,  # the scripts of India
    r"[\u0e00-\u10ff]": 0.5,  # Thai, Lao, Tibetan, Burmese, Georgian
    r"[\u0530-\u08ff]": 0.4,  # Armenian, Hebrew, Arabic
    r"[\u0370-\u052f]": 0.34,  # Greek, Cyrillic
    r"[\u200d\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]": 1.75,  # pictures
    _LATIN_MARKED: 0.6,  # beside the word they stand in
}


def estimate(text: str) -> int:
    if not text:
        return 0
    if text.isascii():
        return len(_ASCII.findall(text)) or 1
    patterns = _patterns()
    others = 0.0
    for script, share, left in patterns.scripts:
        text, found = script.subn(left, text)
        others += found * share
    return round(len(patterns.piece.findall(text)) + others) or 1


class _Patterns:
    def __init__(self) -> None:
        self.piece = re.compile(r"['’_]?[^\W\d_]{1,10}|\d{1,3}|[^\w\s]{1,3}|_+|\n+")
        self.scripts = [
            (re.compile(pattern), share, "x" if pattern is _LATIN_MARKED else " ") for pattern, share in _SHARES.items()
        ]


@cache
def _patterns() -> _Patterns:
    """Compiled when the first text that is not ASCII comes."""
    return _Patterns()
