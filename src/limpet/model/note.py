"""A note: a user's MEMORY.md, or what was noted on a day; and the lines in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Annotated

from limpet.errors import InvalidInput
from limpet.model.columns import SET_ONCE, Encrypted, Plain
from limpet.model.dataclass import dataclass
from limpet.model.schema import NO_EXPORT
from limpet.model.types import Moment, Name, Text

MEMORY_FILE = "MEMORY.md"
_DAY = re.compile(r"\d{4}-\d\d-\d\d\.md")
USER_CHARS, ASSISTANT_CHARS = 200, 300
_MIN_CUT_CHARS = 12  # characters of a sentence that a cut line shows, to recognise it by
_SHOWN_CHARS = 65_536  # of a day, in a context: its end
# White space, controls, and what reverses the direction of text: none of it may end or turn a line.
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")


@dataclass(frozen=True, slots=True)
class Note:
    """``mirrored`` is a digest of what the file said when it was last read or written."""

    name: Annotated[Name, SET_ONCE, Plain("MEMORY.md, or a day"), "`MEMORY.md`, or a day such as `2026-03-10.md`"]
    text: Annotated[Text, "its text, in Markdown"]
    updated_at: Annotated[Moment, "when it was last changed"]
    version: Annotated[int, NO_EXPORT, "the number of changes"] = 1
    mirrored: Annotated[str | None, NO_EXPORT, Encrypted("same"), "digest of the file's text"] = None
    pending: Annotated[bool, NO_EXPORT, "whether its file is still to be written"] = False


def day_name(day: date) -> str:
    return f"{day.isoformat()}.md"


def parse_day(name: str) -> date | None:
    """The day of a note's name; None for MEMORY.md and what is not a note."""
    try:
        return date.fromisoformat(name[:10]) if _DAY.fullmatch(name) else None
    except ValueError:  # 2026-02-31
        return None


def is_note(name: str) -> bool:
    return name == MEMORY_FILE or parse_day(name) is not None


def check_note_name(name: str) -> str:
    if not is_note(name):
        raise InvalidInput(f"name: {MEMORY_FILE} or a day's notes such as 2026-03-10.md, not {name[:80]!r}")
    return name


def compute_version(text: str) -> str:
    """A short hash of the text: two texts are told apart by it."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def describe_note(name: str) -> str:
    day = parse_day(name)
    return name if day is None else f"the notes of {day}"


# The lines of notes: a turn as one line, sentences taken out of lines, and two edits of one text joined


def format_line(moment: datetime, user: str, assistant: str) -> str:
    """Return ``[HH:mm] User: … | Assistant: …``, without a silent side; "" if both were silent."""
    said = (("User", _clip(user, USER_CHARS)), ("Assistant", _clip(assistant, ASSISTANT_CHARS)))
    parts = [f"{who}: {text}" for who, text in said if text]
    return f"[{moment:%H:%M}] {' | '.join(parts)}" if parts else ""


def redact_lines(text: str, gone: Iterable[str], mark: str) -> list[tuple[str, str]]:
    """Return each line, and the same with a mark in place of these sentences, even if cut off by the line's end."""
    wanted = [_flatten(sentence) for sentence in gone]
    return [(line, _redact_line(line, wanted, mark)) for line in text.splitlines(keepends=True)]


def _redact_line(line: str, gone: Iterable[str], mark: str) -> str:
    for sentence in gone:
        if sentence in line:
            line = line.replace(sentence, mark)
            continue
        for length in range(len(sentence) - 1, _MIN_CUT_CHARS - 1, -1):
            if f"{sentence[:length]}…" in line:
                line = line.replace(f"{sentence[:length]}…", mark)
                break
    return line


def trim_to_tail(text: str) -> str:
    """Return as much of a day's end as a context can need, from the start of a line."""
    return text if len(text) <= _SHOWN_CHARS else text[-_SHOWN_CHARS:].partition("\n")[2]


def iter_days_before(today: date, count: int) -> Iterator[date]:
    """The oldest first."""
    first = max(today.toordinal() - count, date.min.toordinal())
    return (date.fromordinal(ordinal) for ordinal in range(first, today.toordinal()))


def prefix_day(day: date, text: str) -> str:
    """Put the day before every line: a line that alone finds room still says when."""
    name = day.isoformat()
    return "\n".join(f"{name} {line}" for line in text.splitlines() if line.strip())


def _clip(text: str, most: int) -> str:
    plain = _flatten(text)
    return plain if len(plain) <= most else f"{plain[: most - 1].rstrip()}…"


def _flatten(text: str) -> str:
    # The bar separates the two speakers; neither of them may write one.
    return _SPACE.sub(" ", text).replace("|", "¦").strip()


def merge_edits(base: str, there: str, new: str) -> str | None:
    """Return the text with both edits of the base; None if both do more than append."""
    if there in (base, new):
        return new
    if not base:
        return None
    if (added := _find_appended(base, new)) is not None:
        return end_line(there) + added
    if (added := _find_appended(base, there)) is not None:
        return end_line(new) + added
    return None


def _find_appended(base: str, text: str) -> str | None:
    """Return the lines that a text appends to its base; None if it differs in another way."""
    rest = text.removeprefix(base)
    if not text.startswith(base) or not (base.endswith("\n") or rest.startswith(("\n", "\r\n"))):
        return None
    return rest.lstrip("\r\n")


def end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
