"""How long things are kept, and what a purge leaves behind: a receipt without content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Annotated

from limpet.errors import InvalidInput
from limpet.model.columns import SET_ONCE, WHOSE, Column, Plain
from limpet.model.constraints import EMPTY_IS_NULL
from limpet.model.dataclass import dataclass
from limpet.model.types import Moment
from limpet.model.values import check_name


class PurgeTarget(StrEnum):
    SESSION = "session"
    USER = "user"
    OLDER = "older"  # what a user said before a moment, and what was learned from it
    OLDER_EVERYTHING = "older_everything"  # with explicit and pinned memories, documents and MEMORY.md


class ErasureState(StrEnum):
    """What became of the bytes on the disk."""

    GONE = "gone"
    WAITING = "waiting"  # a job overwrites what the database has left in unused places
    VACUUM = "vacuum"  # only a vacuum does; PostgreSQL keeps dead rows until then


@dataclass(frozen=True, slots=True)
class Receipt:
    """A purge: what was asked for, what was removed, and what was found afterwards.

    Who knows the tenant and the user's or session's id can check the digest with ``receipt.is_about(…)``; nobody else
    learns them. ``left`` names what is still there, also in somebody else's memory.
    """

    id: Annotated[str, EMPTY_IS_NULL, SET_ONCE, Plain("an id"), "given by the store; null: it was only counted"]
    what: Annotated[PurgeTarget, SET_ONCE, "what was requested"]
    digest: Annotated[
        str,
        SET_ONCE,
        Plain("tells a name from another to who knows it"),
        "SHA-256 of whom it was about; anyone who knows the name can check it",
    ]
    asked_at: Annotated[Moment, SET_ONCE, "when it was requested"]
    tenant: Annotated[str, SET_ONCE, WHOSE, "the tenant it belongs to"] = ""
    before: Annotated[
        Moment | None, SET_ONCE, Column("before_at"), "for a purge of older memory: the limit; null: everything"
    ] = None
    asked_by: Annotated[str | None, SET_ONCE, Plain("who"), "who asked for it, such as http; null: unknown"] = None
    done_at: Annotated[Moment | None, "when it was finished; null: it is running"] = None
    counts: Annotated[Mapping[str, int], Plain("kinds of rows, and how many"), "how many of each kind were removed"] = (
        field(default_factory=dict)
    )
    verified: Annotated[bool, "whether a check afterwards found nothing left"] = False
    left: Annotated[
        tuple[str, ...],
        Column("remaining"),
        Plain("names of places where something was left"),
        "where the same can still be found; empty: nowhere",
    ] = ()
    bytes: Annotated[ErasureState, "the bytes on disk: gone, waiting for a job, or for a vacuum"] = ErasureState.WAITING

    def is_about(self, name: str) -> bool:
        """Whether the receipt is about this user, or this session."""
        return self.digest == purge_digest(self.tenant, name)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def purge_digest(tenant: str, name: str) -> str:
    return hashlib.sha256(f"{len(tenant)}:{tenant}:{name}".encode()).hexdigest()


_KINDS = ("messages", "records", "documents", "notes")


def parse_tenant_days(text: str) -> dict[str, dict[str, int]]:
    """``acme=30, acme.records=365, beta=0``: by tenant, the days of each kind; of messages where none is named."""
    found: dict[str, dict[str, int]] = {}
    if text == "none":
        return found
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        name, sign, days = (part.strip() for part in entry.rpartition("="))
        tenant, _, kind = name.rpartition(".")
        if kind not in _KINDS or not tenant:
            tenant, kind = name, "messages"
        if not sign or not (days.isascii() and days.isdecimal()) or int(days[:9]) > 100_000:
            raise InvalidInput(f"{entry!r} is not TENANT=DAYS or TENANT.records=DAYS, with a whole number up to 100000")
        found.setdefault(check_name(tenant, "tenant"), {})[kind] = int(days)
    return found


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """What retention removed, or would remove, of one agent's sessions; of a tenant's records and documents where
    ``agent`` is None."""

    tenant: Annotated[str, "the tenant it belongs to"]
    agent: Annotated[str | None, "whose sessions; null: the tenant's records and documents"]
    days: Annotated[Mapping[str, int], "how long each kind is kept; 0: forever"]
    counts: Annotated[Mapping[str, int], "how many of each kind were removed"] = field(default_factory=dict)
