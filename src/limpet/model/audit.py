"""Who did what, to whose memory, and when. Names and ids only: never a text, a question or a value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class AuditOutcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"  # a grant was missing
    FAILED = "failed"  # it raised: not found, wrong, or the store refused


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One call, or ``calls`` equal ones between ``at`` and ``last_at``. ``missing`` is the grant it was refused for."""

    id: str
    at: datetime
    last_at: datetime
    principal: str
    tenant: str
    verb: str
    access: str  # read, write, or read+write
    outcome: AuditOutcome
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    record: str | None = None
    missing: str | None = None
    calls: int = 1


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which entries to list; a field left None does not filter."""

    user: str | None = None
    principal: str | None = None
    verb: str | None = None
    outcome: AuditOutcome | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50
    offset: int = 0
