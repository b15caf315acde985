"""Who did what, to whose memory, and when. Names and ids only: never a text, a question or a value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from limpet.model.column_hints import WHOSE, Column, Plain
from limpet.model.types import Id, Moment


class AuditOutcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"  # a grant was missing
    FAILED = "failed"  # it raised: not found, wrong, or the store refused


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One call, or ``calls`` equal ones between ``at`` and ``last_at``. ``missing`` is the grant it was refused for."""

    id: Annotated[Id, "given by the store"]
    at: Annotated[Moment, "of the first call"]
    last_at: Annotated[Moment, "of the last call"]
    principal: Annotated[str, Plain("who"), "who called"]
    tenant: Annotated[str, WHOSE, "the tenant it belongs to"]
    verb: Annotated[str, Plain("a word of ours"), "what was called"]
    access: Annotated[str, Plain("a word of ours"), "read, write or read+write"]
    outcome: Annotated[AuditOutcome, "done, refused or failed"]
    user: Annotated[str | None, Column("user_id"), WHOSE, "whose memory; null: no user's"] = None
    agent: Annotated[str | None, WHOSE, "whose memory; null: no agent's"] = None
    session: Annotated[str | None, Column("session_id"), Plain("an id"), "id of the session; null: none"] = None
    record: Annotated[str | None, Column("record_id"), Plain("an id"), "id of the record; null: none"] = None
    missing: Annotated[str | None, Plain("a right, and whose"), "the grant it was refused for; null: it was not"] = None
    calls: Annotated[int, "how many equal calls"] = 1


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
