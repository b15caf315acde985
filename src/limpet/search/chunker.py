"""Split text into chunks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from limpet.model.chunk import ChunkDraft
from limpet.model.document import DocumentKind
from limpet.model.message import Message
from limpet.search.analysis import analyse, flag_chunk, flag_message, format_index_text


class Layout(NamedTuple):
    """Where a piece may end, best first; where the next may start; what to strip from its start."""

    ends: tuple[re.Pattern[str], ...]
    begins: re.Pattern[str]
    margin: str | None = None  # white space of any kind


_WORD = re.compile(r"\s")
_LINE = re.compile(r"\n")
# A paragraph, a sentence (also in Chinese and Japanese), a line, a word.
PROSE = Layout((re.compile(r"\n\s*\n"), re.compile(r"[.!?…]+[\"')\]]*\s|[。！？]+"), _LINE, _WORD), _WORD)
# A blank line before something that is not indented, any blank line, a line, a word. Indentation is part of a line.
CODE = Layout((re.compile(r"\n[^\S\n]*\n(?=\S)"), re.compile(r"\n[^\S\n]*\n"), _LINE, _WORD), _LINE, "\r\n")

_HEADING_OR_FENCE = re.compile(r"^ {0,3}(?:(`{3,}|~{3,})|#{1,6}(?=\s|$).*)", re.MULTILINE)


def split_pieces(
    text: str, max_chars: int, overlap: int, layout: Layout = PROSE, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the pieces between two positions of a text, each with its position.

    A piece has at most ``max_chars``, and overlaps the previous one by up to ``overlap`` characters.
    """
    whole = text[start:stop].rstrip()
    stop = start + len(whole)
    start = stop - len(whole.lstrip(layout.margin))
    while start < stop:
        end = _find_end(text, start, stop, max_chars, layout)
        whole = text[start:end].rstrip()
        piece = whole.lstrip(layout.margin)
        if piece:
            yield start + len(whole) - len(piece), piece
        if end >= stop:
            return
        start = _find_start(text, max(end - overlap, start + 1), end, layout)


def _find_end(text: str, start: int, stop: int, max_chars: int, layout: Layout) -> int:
    limit = start + max_chars
    if limit >= stop:
        return stop
    # A break in the first half would leave a very short piece; a plain cut is better.
    floor = start + max_chars // 2
    for pattern in layout.ends:
        ends = [match.end() for match in pattern.finditer(text, floor, limit)]
        if ends:
            return ends[-1]
    return limit


def _find_start(text: str, position: int, end: int, layout: Layout) -> int:
    """Return the first word or line start at or after ``position``; ``position`` itself if none is before ``end``."""
    before = layout.begins.search(text, position - 1, end)
    return before.end() if before else position


def split_sections(text: str) -> Iterator[tuple[int, int]]:
    """Split at Markdown headings. A heading without text belongs to the next section; code has no headings."""
    starts, under_heading, fence = [0], 0, ""
    for mark in _HEADING_OR_FENCE.finditer(text):
        if mark[1]:
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence):
                fence = ""
        elif not fence:
            if text[under_heading : mark.start()].strip():
                starts.append(mark.start())
            under_heading = mark.end()
    return zip(starts, [*starts[1:], len(text)], strict=True)


def chunk_message(message: Message, created_at: datetime, max_chars: int, overlap: int) -> tuple[ChunkDraft, ...]:
    """Return a message's chunks. The speaker is part of a chunk's identity: two speakers of one text stay two."""
    whole = flag_message(message.text)
    speaker = f"{message.role} {message.name or ''}"
    return tuple(
        ChunkDraft(
            piece,
            _hash(speaker, piece),
            analyse(format_index_text(piece, message.name, created_at)),
            int(whole | flag_chunk(piece)),
        )
        for _, piece in split_pieces(message.searchable, max_chars, overlap)
    )


def chunk_text(text: str, max_chars: int, overlap: int) -> list[ChunkDraft]:
    """Return the chunks of a record."""
    return [make_draft(piece) for _, piece in split_pieces(text, max_chars, overlap)]


def chunk_document(text: str, kind: DocumentKind, max_chars: int, overlap: int) -> list[ChunkDraft]:
    """Return the chunks of a document with their positions; Markdown is split by section."""
    layout = CODE if kind is DocumentKind.CODE else PROSE
    parts = split_sections(text) if kind is DocumentKind.MARKDOWN else [(0, len(text))]
    return [
        make_draft(piece, offset)
        for start, stop in parts
        for offset, piece in split_pieces(text, max_chars, overlap, layout, start, stop)
    ]


def make_draft(piece: str, offset: int | None = None) -> ChunkDraft:
    """Return the chunk of a record, or of a document if it has a position."""
    return ChunkDraft(piece, _hash("", piece), analyse(piece), int(flag_chunk(piece)), offset=offset)


def _hash(speaker: str, piece: str) -> bytes:
    return hashlib.blake2b(f"{speaker}\n{piece}".encode(), digest_size=16).digest()
