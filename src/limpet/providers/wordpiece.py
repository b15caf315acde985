"""WordPiece as BERT's uncased models were trained with it: text to the numbers of its 30,522 pieces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

UNKNOWN, START, END = 100, 101, 102  # [UNK], [CLS], [SEP]
_LONGEST_WORD = 100  # characters; a longer one is unknown
_CLEAR = re.compile(r"[\t\n\r -~]*").fullmatch  # nothing to strip, remove or take apart but words and punctuation
_PARTS = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")  # of clear text, lowered
_WORD = re.compile(r"[^ \t\n\r\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]{1,1000}")
_DROPPED = {"Cc", "Cf", "Co", "Cs"}  # what Unicode has not assigned yet stays, and is unknown
_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)),
    *((0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0x2F800, 0x2FA1F)),
)


def token_ids(text: str, limit: int) -> list[int]:
    """The pieces between a start and an end mark, ``limit`` numbers at most. Marks written in the text are text."""
    ids = [START]
    for word in _words(text):
        ids += _pieces(word)
        if len(ids) >= limit:
            break
    return [*ids[: limit - 1], END]


def _words(text: str) -> Iterator[str]:
    """Lowered, without accents and control characters; punctuation and ideographs each alone. Lazy: texts are long."""
    if _CLEAR(text):
        for part in _PARTS.finditer(text.lower()):
            yield part.group()
        return
    for found in _WORD.finditer(text):
        yield from _split_word(found.group())


def _split_word(word: str) -> Iterator[str]:
    start = 0
    folded = _fold_word(word)
    for end, char in enumerate(folded):
        if _is_separator(char):
            if start < end:
                yield folded[start:end]
            yield char
            start = end + 1
    if start < len(folded):
        yield folded[start:]


def _fold_word(word: str) -> str:
    kept = "".join(char for char in word if unicodedata.category(char) not in _DROPPED and char != "\ufffd")
    bare = "".join(char for char in unicodedata.normalize("NFD", kept) if unicodedata.category(char) != "Mn")
    return "".join(map(str.lower, bare))  # letter by letter: a Greek sigma at a word's end is a sigma like the others


def _is_separator(char: str) -> bool:
    if char < "\x80":
        return not char.isalnum()
    return unicodedata.category(char)[0] == "P" or any(low <= ord(char) <= high for low, high in _IDEOGRAPHS)


def _pieces(word: str) -> list[int]:
    """The longest known beginning, then the longest known continuation, and so on; unknown when one is missing."""
    known = _vocabulary()
    if (whole := known.get(word)) is not None:
        return [whole]
    if len(word) > _LONGEST_WORD:
        return [UNKNOWN]
    ids, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = known.get(f"##{word[start:end]}" if start else word[start:end])
            if piece is not None:
                break
        else:
            return [UNKNOWN]
        ids.append(piece)
        start = end
    return ids


@cache
def _vocabulary() -> dict[str, int]:
    import gzip
    from importlib.resources import files

    packed = files("limpet.providers").joinpath("data", "wordpiece_uncased.txt.gz").read_bytes()
    return {piece: number for number, piece in enumerate(gzip.decompress(packed).decode().split("\n")[:-1])}
