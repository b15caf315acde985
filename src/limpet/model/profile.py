"""What is known about a user, in a few lines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class ProfileLine(NamedTuple):
    text: str
    sources: tuple[str, ...]  # the ids of the records it was made from


@dataclass(frozen=True, slots=True)
class Profile:
    """``sources`` are the ids of the records the text was made from. Without a text there is nothing to tell yet."""

    text: str = ""
    sources: tuple[str, ...] = ()
    updated_at: datetime | None = None
    lines: tuple[ProfileLine, ...] = ()
