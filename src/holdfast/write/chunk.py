"""Cutting text into chunks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from holdfast.domain.chunk import ChunkDraft
from holdfast.storage.analysis import analyse

# Where a chunk may end, best first: a paragraph, a sentence (also in Chinese and Japanese), a line, a word.
_ENDS = (re.compile(r"\n\s*\n"), re.compile(r"[.!?…]+[\"')\]]*\s|[。！？]+"), re.compile(r"\n"), re.compile(r"\s"))


def cut(text: str, max_chars: int, overlap: int) -> Iterator[str]:
    """Pieces of at most ``max_chars``, each beginning up to ``overlap`` characters before the last one's end."""
    text = text.strip()
    start = 0
    while start < len(text):
        end = _end(text, start, max_chars)
        piece = text[start:end].strip()
        if piece:
            yield piece
        if end >= len(text):
            return
        start = _start(text, max(end - overlap, start + 1), end)


def _end(text: str, start: int, max_chars: int) -> int:
    limit = start + max_chars
    if limit >= len(text):
        return len(text)
    # A break in the first half would leave a stub; a plain cut is better than that.
    floor = start + max_chars // 2
    for pattern in _ENDS:
        ends = [match.end() for match in pattern.finditer(text, floor, limit)]
        if ends:
            return ends[-1]
    return limit


def _start(text: str, wanted: int, end: int) -> int:
    """The first word's beginning at or after ``wanted``; ``wanted`` itself when no word begins before ``end``."""
    if text[wanted - 1].isspace():
        return wanted
    space = re.compile(r"\s").search(text, wanted, end)
    return space.end() if space else wanted


def drafts(text: str, max_chars: int, overlap: int, *, speaker: str = "") -> list[ChunkDraft]:
    """Chunks ready to store. The speaker is part of the identity: two people saying the same stay two chunks."""
    return [
        ChunkDraft(piece, hashlib.blake2b(f"{speaker}\n{piece}".encode(), digest_size=16).digest(), analyse(piece))
        for piece in cut(text, max_chars, overlap)
    ]
