"""A note: a user's MEMORY.md, or what was noted on a day."""

from __future__ import annotations

import hashlib
import re
from datetime import date
from typing import Annotated

from limpet.errors import InvalidInput
from limpet.model.columns import SET_ONCE, Encrypted, Plain
from limpet.model.dataclass import dataclass
from limpet.model.schema import NO_EXPORT
from limpet.model.types import Moment, Name, Text

MEMORY_FILE = "MEMORY.md"
_DAY = re.compile(r"\d{4}-\d\d-\d\d\.md")


@dataclass(frozen=True, slots=True)
class Note:
    """``mirrored`` is a digest of what the file said when it was last read or written."""

    name: Annotated[Name, SET_ONCE, Plain("MEMORY.md, or a day"), "`MEMORY.md`, or a day such as `2026-03-10.md`"]
    text: Annotated[Text, "what it says, in Markdown"]
    updated_at: Annotated[Moment, "when it was last changed"]
    version: Annotated[int, NO_EXPORT, "how often it was changed"] = 1
    mirrored: Annotated[str | None, NO_EXPORT, Encrypted("same"), "of the file's text"] = None
    pending: Annotated[bool, NO_EXPORT, "whether its file has still to be written"] = False


def day_name(day: date) -> str:
    """The name of the notes of a day."""
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
    """What a note is called in a sentence."""
    day = parse_day(name)
    return name if day is None else f"the notes of {day}"
