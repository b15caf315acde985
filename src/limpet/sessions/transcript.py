"""A conversation as Markdown, and back.

An entry is ``### role — time``, a blank line, the text, a blank line. A line of text that starts with ``###`` is
escaped with a backslash, for this parser and for Markdown readers; parsing removes it. Every character that some reader
treats as a line end counts as one here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from limpet.errors import InvalidInput
from limpet.model.dataclass import dataclass
from limpet.model.message import Role
from limpet.model.values import format_utc
from limpet.store.files import parse_timestamp

_BREAKS = r"\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_LINE_START = rf"(\A|[{_BREAKS}])([^\S{_BREAKS}]*)"
_LIKE_A_HEADER = re.compile(rf"{_LINE_START}(?=\\*###)")
_ESCAPED = re.compile(rf"{_LINE_START}\\(?=\\*###)")
_HEADER = re.compile(
    r"^###[ \t]+(?P<role>[A-Za-z]+)[ \t]+[\u2014\u2013-][ \t]+(?P<time>\S.{0,60}?)[ \t]*+(?P<cr>\r?)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    role: Annotated[Role, "who speaks"]
    created_at: Annotated[datetime, "when it was said"]
    text: Annotated[str, "what was said"]


def render(entries: Iterable[TranscriptEntry]) -> str:
    return "".join(map(render_entry, entries))


def render_entry(entry: TranscriptEntry) -> str:
    return f"### {checked_role(entry.role)} — {format_utc(entry.created_at)}\n\n{_escape(entry.text)}\n\n"


def parse(text: str) -> list[TranscriptEntry]:
    """Parse a transcript: exactly if it was rendered, as far as possible if it was edited by hand. Never raises.

    A line is a header only with a known role and a valid ISO time (UTC without a zone); any other line is text. Text
    before the first header is ignored. Blank lines added by hand belong to their entry. If a header ends in CRLF, an
    editor changed all line ends, and the entry is read with plain ones.
    """
    return [_entry(header, block) for header, block in _blocks(text.removeprefix("\ufeff"))]


def split(text: str) -> tuple[str, list[str]]:
    """Return the text before the first header, then each entry as written; joined, they are the whole text."""
    blocks = [block for _, block in _blocks(text)]
    return text[: len(text) - sum(map(len, blocks))], blocks


def checked_role(role: str) -> Role:
    try:
        return Role(role)
    except ValueError:
        raise InvalidInput(f"role must be one of {', '.join(Role)}; not {role!r}") from None


@dataclass(frozen=True, slots=True)
class _Header:
    role: Role
    created_at: datetime
    length: int
    crlf: bool


def _blocks(text: str) -> list[tuple[_Header, str]]:
    """Return each header with the text from its first character to the next header."""
    headers = [(match.start(), header) for match in _HEADER.finditer(text) if (header := _header(match))]
    edges = [start for start, _ in headers] + [len(text)]
    return [(header, text[start:end]) for (start, header), end in zip(headers, edges[1:], strict=True)]


def _header(match: re.Match[str]) -> _Header | None:
    try:
        role, moment = Role(match["role"].lower()), parse_timestamp(match["time"])
    except ValueError:
        return None
    return _Header(role, moment, match.end() - match.start(), bool(match["cr"]))


def _entry(header: _Header, block: str) -> TranscriptEntry:
    body = block[header.length :].removeprefix("\n")
    if header.crlf:
        body = body.replace("\r\n", "\n")
    body = body.removeprefix("\n")
    body = body.removesuffix("\n").removesuffix("\n")
    return TranscriptEntry(header.role, header.created_at, _ESCAPED.sub(r"\1\2", body))


def _escape(text: str) -> str:
    return _LIKE_A_HEADER.sub(r"\1\2\\", text)
