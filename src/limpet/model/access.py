"""Who acts, by which key, what they may, and what they did."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from limpet.errors import InvalidInput
from limpet.model.columns import WHOSE, Column, Plain
from limpet.model.dataclass import dataclass
from limpet.model.types import Id, Moment, Name
from limpet.model.values import check_id, check_name, short_repr


class Right(StrEnum):
    READ = "read"
    WRITE = "write"


class Reach(StrEnum):
    """How far a grant reaches. ``store`` covers ``global``, that covers the rest; ``user`` covers its sessions."""

    SESSION = "session"
    USER = "user"
    AGENT = "agent"
    GLOBAL = "global"  # all of a tenant
    STORE = "store"  # every tenant, and the store as a thing: its copies, its health, the files beside it


_NAMED = (Reach.SESSION, Reach.USER, Reach.AGENT)


@dataclass(frozen=True, slots=True)
class Grant:
    """``of`` names whose memory. Without it ``session``, ``user`` and ``agent`` mean one's own."""

    right: Right
    reach: Reach
    of: str | None = None

    def __str__(self) -> str:
        return f"{self.right}:{self.reach}" + (f":{self.of}" if self.of is not None else "")

    @classmethod
    def parse(cls, text: object) -> Grant:
        """``read:user``, ``write:global``, ``read:user:bob``, ``read:session:0189…``, ``read:agent:coder``."""
        if isinstance(text, Grant):
            return text
        right, _, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
        reach, named, name = rest.partition(":")
        if right not in set(Right) or reach not in set(Reach) or (bool(named) and reach not in set(_NAMED)):
            raise InvalidInput(
                f"a grant is read or write, then session, user, agent, global or store, then perhaps whose, such as"
                f" read:global or write:user:bob; not {short_repr(text)}"
            )
        check = check_id if reach == Reach.SESSION else check_name
        return cls(Right(right), Reach(reach), check(name, f"whose {reach} the grant is for") if named else None)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts. With a session, only that session is their own; with a user, all of that user's."""

    name: str
    tenant: str
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    grants: tuple[Grant, ...] = ()

    @property
    def is_operator(self) -> bool:
        """Nothing has to be checked: the program that opened the store."""
        reaches = {grant.right for grant in self.grants if grant.reach is Reach.STORE}
        return len(reaches) == len(Right)


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """What a call needs: a right on one place. ``user`` of a session is whose it is, as far as that is known."""

    right: Right
    reach: Reach
    user: str | None = None
    agent: str | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class GrantInfo:
    """A grant as it is kept: to which user, since when, by whom."""

    user: Annotated[str, "the user who has it"]
    grant: Annotated[Grant, "the right, such as read:global"]
    at: Annotated[Moment, "since when"]
    by: Annotated[str, "who granted it"]


SECRET_BYTES = 32
MAX_NAME = 128  # bytes; the audit has it with "key:" before it
_SECRET = re.compile(r"lim_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key as it is kept: whom it acts for, what it may besides, and until when. Nothing of its secret."""

    id: Annotated[Id, "given by the store"]
    tenant: Annotated[Name, WHOSE, "the tenant it belongs to"]
    name: Annotated[str, Plain("what people call it"), "unique among the tenant's live keys"]
    user: Annotated[Name | None, Column("user_id"), WHOSE, "the user it acts for; null: no user"]
    agent: Annotated[Name | None, WHOSE, "the agent it acts for; null: no agent"]
    grants: Annotated[tuple[Grant, ...], Plain("rights, and whose"), "its rights beyond that, such as read:global"]
    created_at: Annotated[Moment, "when it was created"]
    created_by: Annotated[str, Plain("who"), "who created it, as in the audit log"]
    expires_at: Annotated[Moment | None, "when it expires; null: never"] = None
    revoked_at: Annotated[Moment | None, "when it was revoked; null: it was not"] = None
    last_used_at: Annotated[Moment | None, "when it was last used, to the minute; null: never"] = None

    def is_live(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def was_live_at(self, moment: datetime) -> bool:
        return self.created_at <= moment and (self.revoked_at is None or moment <= self.revoked_at)

    @property
    def principal(self) -> Principal:
        return Principal(audit_name(self.name), self.tenant, self.user, self.agent, None, self.grants)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made, with its secret, which is nowhere else."""

    # Printed by accident, it would stay in a log.
    secret: Annotated[str, "what callers send; it is shown only here"] = field(repr=False)
    info: Annotated[KeyInfo, "the key without its secret"]


def find_descendant_keys(maker: KeyInfo, keys: Iterable[KeyInfo]) -> list[KeyInfo]:
    """Those of the keys that it made, that those made, and so on. While it lives, no other key has its name."""
    by: dict[str, list[KeyInfo]] = {}
    for key in keys:
        by.setdefault(key.created_by, []).append(key)
    found, makers = {maker.id: maker}, [maker]
    while makers:
        one = makers.pop()
        made = [key for key in by.get(audit_name(one.name), ()) if one.was_live_at(key.created_at)]
        makers += [key for key in made if key.id not in found]
        found |= {key.id: key for key in made}
    del found[maker.id]
    return list(found.values())


def audit_name(key_name: str) -> str:
    return f"key:{key_name}"


def encode_secret(randomness: bytes) -> str:
    """A secret as people copy it: ``lim_`` and 43 letters."""
    return f"lim_{base64.urlsafe_b64encode(randomness).rstrip(b'=').decode()}"


def hash_secret(secret: object) -> str | None:
    """What is kept of a secret; None for what cannot be one."""
    if not isinstance(secret, str) or _SECRET.fullmatch(secret) is None:
        return None
    return hashlib.sha256(secret.encode()).hexdigest()


class AuditOutcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"  # a grant was missing
    FAILED = "failed"  # it raised: not found, wrong, or the store refused


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One call, or ``calls`` equal ones between ``at`` and ``last_at``. ``missing`` is the grant it was refused for."""

    id: Annotated[Id, "given by the store"]
    at: Annotated[Moment, "time of the first call"]
    last_at: Annotated[Moment, "time of the last call"]
    principal: Annotated[str, Plain("who"), "who called"]
    tenant: Annotated[str, WHOSE, "the tenant it belongs to"]
    operation: Annotated[str, Plain("a word of ours"), "the operation"]
    access: Annotated[str, Plain("a word of ours"), "read, write or read+write"]
    outcome: Annotated[AuditOutcome, "done, refused or failed"]
    user: Annotated[str | None, Column("user_id"), WHOSE, "whose memory; null: no user's"] = None
    agent: Annotated[str | None, WHOSE, "whose memory; null: no agent's"] = None
    session: Annotated[str | None, Column("session_id"), Plain("an id"), "id of the session; null: none"] = None
    record: Annotated[str | None, Column("record_id"), Plain("an id"), "id of the record; null: none"] = None
    missing: Annotated[
        str | None, Plain("a right, and whose"), "the grant that was missing; null: it was not refused"
    ] = None
    calls: Annotated[int, "how many equal calls"] = 1


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which entries to list; a field left None does not filter."""

    user: str | None = None
    principal: str | None = None
    operation: str | None = None
    outcome: AuditOutcome | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50
    offset: int = 0
