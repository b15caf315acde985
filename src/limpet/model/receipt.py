"""What a purge leaves behind: a receipt without content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from limpet.model.column_hints import SET_ONCE, WHOSE, Column, Plain
from limpet.model.constraints import EMPTY_IS_NULL
from limpet.model.types import Moment


class PurgeTarget(StrEnum):
    SESSION = "session"
    USER = "user"
    OLDER = "older"  # everything of a user that is older than a moment


class ErasureState(StrEnum):
    """What became of the bytes on the disk."""

    GONE = "gone"
    WAITING = "waiting"  # a job overwrites what the database has left in unused places
    VACUUM = "vacuum"  # only a vacuum does; PostgreSQL keeps dead rows until then


@dataclass(frozen=True, slots=True)
class Receipt:
    """A purge: what was asked for, what was removed, and what was found afterwards.

    ``digest`` is the SHA-256 of the tenant and the user's or session's id: whoever knows them can check it with
    ``receipt.names(…)``; nobody else learns them. ``left`` names rows and files of the purged that are still there,
    and places where somebody else's memory, or what the user stated for themselves, still says the same.
    """

    id: Annotated[
        str, EMPTY_IS_NULL, SET_ONCE, Plain("an id"), "given by the store; null: nothing was removed, only counted"
    ]
    what: Annotated[PurgeTarget, SET_ONCE, "what was asked for"]
    digest: Annotated[
        str,
        SET_ONCE,
        Plain("tells a name from another to who knows it"),
        "SHA-256 of whom it was about: who knows the name can check it",
    ]
    asked_at: Annotated[Moment, SET_ONCE, "when it was asked for"]
    tenant: Annotated[str, SET_ONCE, WHOSE, "the tenant it belongs to"] = ""
    before: Annotated[
        Moment | None, SET_ONCE, Column("before_at"), "of older: what was made before it went; null: all went"
    ] = None
    asked_by: Annotated[str | None, SET_ONCE, Plain("who"), "where it was asked for, such as http; null: unknown"] = (
        None
    )
    done_at: Annotated[Moment | None, "when the last of it was removed; null: it still goes on"] = None
    counts: Annotated[Mapping[str, int], Plain("kinds of rows, and how many"), "how many of each kind were removed"] = (
        field(default_factory=dict)
    )
    verified: Annotated[bool, "whether a search afterwards found nothing of it"] = False
    left: Annotated[
        tuple[str, ...],
        Column("remaining"),
        Plain("names of places where something was left"),
        "where the same can still be found, in words; empty: nowhere",
    ] = ()
    bytes: Annotated[ErasureState, "on the disk: gone, waiting for a job, or for a vacuum of PostgreSQL"] = (
        ErasureState.WAITING
    )

    def is_about(self, name: str) -> bool:
        """Whether the receipt is about this user, or this session."""
        return self.digest == purge_digest(self.tenant, name)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def purge_digest(tenant: str, name: str) -> str:
    return hashlib.sha256(f"{len(tenant)}:{tenant}:{name}".encode()).hexdigest()
