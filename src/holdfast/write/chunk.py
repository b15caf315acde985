"""Cutting text into chunks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime

from holdfast.domain import traits
from holdfast.domain.chunk import ChunkDraft
from holdfast.domain.message import Message
from holdfast.storage.analysis import analyse, indexed_text

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


def message_drafts(message: Message, created_at: datetime, max_chars: int, overlap: int) -> tuple[ChunkDraft, ...]:
    """A message's chunks, ready to store. Who said it is part of a chunk's identity: two who say the same stay two."""
    whole = traits.of_message(message.text)
    speaker = f"{message.role} {message.name or ''}"
    return tuple(
        ChunkDraft(
            piece,
            _hash(speaker, piece),
            analyse(indexed_text(piece, message.name, created_at)),
            int(whole | traits.of_chunk(piece)),
        )
        for piece in cut(message.searchable, max_chars, overlap)
    )


def text_drafts(text: str, max_chars: int, overlap: int) -> list[ChunkDraft]:
    """The chunks of a record or a document."""
    return [
        ChunkDraft(piece, _hash("", piece), analyse(piece), int(traits.of_chunk(piece)))
        for piece in cut(text, max_chars, overlap)
    ]


def _hash(speaker: str, piece: str) -> bytes:
    return hashlib.blake2b(f"{speaker}\n{piece}".encode(), digest_size=16).digest()
