"""Server-sent events: the lines a server streams, put together however they were cut."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_LINE_END = re.compile(rb"\r\n|\r|\n")


def parse_events(pieces: Iterable[bytes]) -> Iterator[str]:
    """The data of each event. What has no data (a comment that keeps the connection alive) is none."""
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
    if data:  # the standard drops it, but a server that forgets the last empty line has said it all the same
        yield "\n".join(data)


def _read_lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Whole lines are decoded, never pieces: a piece may end inside a character, or between CR and LF."""
    held: list[bytes] = []
    first = True
    for piece in _join_line_ends(pieces):
        *whole, rest = _LINE_END.split(piece)
        for line in whole:
            text = b"".join([*held, line]).decode("utf-8", "replace")
            yield text.removeprefix("\ufeff") if first else text
            held, first = [], False
        held.append(rest)
    if last := b"".join(held).decode("utf-8", "replace"):
        yield last.removeprefix("\ufeff") if first else last


def _join_line_ends(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A line is given as soon as its CR came; the LF that may follow is no second line."""
    after_return = False
    for piece in pieces:
        whole = piece[1:] if after_return and piece.startswith(b"\n") else piece
        after_return = piece.endswith(b"\r") if piece else after_return
        if whole:
            yield whole
