"""Purging, for a protocol that can ask the user. It is none of ``TOOLS``: no toolbox hands it to a model.

Whoever offers it calls ``would_go``, shows that to the user, and calls ``purge`` when the user has agreed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from limpet import Receipt
from limpet.errors import InvalidInput
from limpet.model.constraints import Number
from limpet.model.dataclass import dataclass
from limpet.model.types import Id, Text
from limpet.tools.tool import ToolContext

NAME = "memory_purge"
TITLE = "Purge memory for good"
DOC = (
    "Remove a session, what was said more than some days ago, or everything of this user, for good. The user is asked "
    "before anything goes; use it only when they want it. To drop single memories use memory_forget."
)
_ASKED_BY = "mcp"  # never the user's name: a receipt outlives what it is about


@dataclass(frozen=True, slots=True)
class PurgeArguments:
    what: Annotated[Literal["session", "user", "older"], "One session, everything of the user, or what is older."]
    session: Annotated[Id | None, "The session's id; for what = session."] = None
    days: Annotated[Annotated[float, Number(0, 100_000)] | None, "Older than so many days; for what = older."] = None
    everything: Annotated[bool, "For what = older: explicit and pinned memories too; needed for 0 days."] = False
    confirm: Annotated[Text | None, "The code an earlier call answered, once the user has agreed."] = None

    def __str__(self) -> str:
        if self.what == "session":
            return f"session {self.session} with everything that came of it"
        if self.what == "user":
            return "everything of this user"
        return f"{'everything' if self.everything else 'what was said'} more than {self.days:g} days ago"


@dataclass(frozen=True, slots=True)
class PurgeCount:
    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class PurgeResult:
    state: Literal["purged", "declined", "unconfirmed"]
    says: str
    counts: Annotated[tuple[PurgeCount, ...], "What was removed, or would be."]
    confirm: Annotated[str | None, "For a second call with the same arguments, once the user has agreed."]
    receipt: Receipt | None


def validate_arguments(asked: PurgeArguments) -> PurgeArguments:
    """What it names is there, and nothing that belongs to another kind of purge."""
    needed = {"session": "session", "older": "days"}.get(asked.what)
    for name in ("session", "days"):
        given = getattr(asked, name) is not None
        if given and name != needed:
            raise InvalidInput(f"what = {asked.what} takes no {name}")
        if not given and name == needed:
            raise InvalidInput(f"what = {asked.what} needs {name}")
    return asked


def count_purge(whose: ToolContext, asked: PurgeArguments) -> tuple[PurgeCount, ...]:
    """Only counted."""
    return to_counts(_purge(whose, asked, dry_run=True).counts)


def purge(whose: ToolContext, asked: PurgeArguments) -> PurgeResult:
    receipt = _purge(whose, asked, asked_by=_ASKED_BY)
    said = "looked again, nothing of it is left" if receipt.verified else "something of it is left, see the receipt"
    gone = to_counts(receipt.counts)
    return PurgeResult("purged", f"Purged {asked}: {format_counts(gone)}; {said}.", gone, None, receipt)


def to_counts(given: Mapping[str, int]) -> tuple[PurgeCount, ...]:
    return tuple(PurgeCount(kind, number) for kind, number in given.items())


def format_counts(given: tuple[PurgeCount, ...]) -> str:
    return ", ".join(f"{each.number:,} {each.kind}" for each in given) or "nothing"


def _purge(whose: ToolContext, asked: PurgeArguments, **more: Any) -> Receipt:
    if asked.what == "session":
        assert asked.session is not None
        return whose.memory.privacy.purge_session(asked.session, user=whose.user, **more)
    if asked.what == "user":
        return whose.memory.privacy.purge_user(whose.user, **more)
    assert asked.days is not None
    return whose.memory.privacy.purge_older(whose.user, asked.days, everything=asked.everything, **more)
