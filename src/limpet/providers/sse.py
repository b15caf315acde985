"""Parser for server-sent events, independent of how the bytes are split."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_LINE_END = re.compile(rb"\r\n|\r|\n")


def parse_events(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each event. Events without data, such as keep-alive comments, are skipped."""
    data: list[str] = []
    for line in _read_lines(pieces):
        if not line:
            if data:
                yield "\n".join(data)
            data = []
            continue
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
    if data:  # the standard drops it, but some servers omit the last empty line
        yield "\n".join(data)


def _read_lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Decode whole lines, not pieces: a piece may end inside a character, or between CR and LF."""
    buffer: list[bytes] = []
    first = True
    for piece in _join_line_ends(pieces):
        *whole, rest = _LINE_END.split(piece)
        for line in whole:
            text = b"".join([*buffer, line]).decode("utf-8", "replace")
            yield text.removeprefix("\ufeff") if first else text
            buffer, first = [], False
        buffer.append(rest)
    if last := b"".join(buffer).decode("utf-8", "replace"):
        yield last.removeprefix("\ufeff") if first else last


def _join_line_ends(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a line as soon as its CR arrives; an LF after it does not start another line."""
    after_return = False
    for piece in pieces:
        whole = piece[1:] if after_return and piece.startswith(b"\n") else piece
        after_return = piece.endswith(b"\r") if piece else after_return
        if whole:
            yield whole
