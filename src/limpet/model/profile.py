"""What is known about a user, in a few lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from limpet.model.types import Moment


class ProfileLine(NamedTuple):
    text: Annotated[str, "one line"]
    sources: Annotated[tuple[str, ...], "ids of the records it was made from"]


@dataclass(frozen=True, slots=True)
class Profile:
    """``sources`` are the ids of the records the text was made from. Without a text there is nothing to tell yet."""

    text: Annotated[str, "what is known about the user; empty: nothing yet"] = ""
    sources: Annotated[tuple[str, ...], "ids of the records the text was made from"] = ()
    updated_at: Annotated[Moment | None, "when it was last written; null: never"] = None
    lines: Annotated[tuple[ProfileLine, ...], "the text, line by line, with the records of each"] = ()
