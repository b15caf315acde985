"""What a purge leaves behind: a receipt without content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


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

    id: str
    what: PurgeTarget
    digest: str
    asked_at: datetime
    tenant: str = ""
    before: datetime | None = None
    asked_by: str | None = None
    done_at: datetime | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    verified: bool = False
    left: tuple[str, ...] = ()
    bytes: ErasureState = ErasureState.WAITING

    def is_about(self, name: str) -> bool:
        """Whether the receipt is about this user, or this session."""
        return self.digest == purge_digest(self.tenant, name)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def purge_digest(tenant: str, name: str) -> str:
    return hashlib.sha256(f"{len(tenant)}:{tenant}:{name}".encode()).hexdigest()
