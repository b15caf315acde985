"""API keys: what a program shows to a server so that it acts for somebody. The secret is shown once and never kept."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from limpet.model.access import Grant, Principal
from limpet.model.column_hints import WHOSE, Column, Plain
from limpet.model.types import Id, Moment, Name

SECRET_BYTES = 32
MAX_NAME = 128  # bytes; the audit has it with "key:" before it
_SECRET = re.compile(r"lim_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key as it is kept: whom it acts for, what it may besides, and until when. Nothing of its secret."""

    id: Annotated[Id, "given by the store"]
    tenant: Annotated[Name, WHOSE, "the tenant it belongs to"]
    name: Annotated[str, Plain("what people call it"), "unique among the tenant's live keys"]
    user: Annotated[Name | None, Column("user_id"), WHOSE, "whom it acts for; null: no user"]
    agent: Annotated[Name | None, WHOSE, "the agent it acts for; null: no agent"]
    grants: Annotated[tuple[Grant, ...], Plain("rights, and whose"), "what it may besides, such as read:global"]
    created_at: Annotated[Moment, "when it was made"]
    created_by: Annotated[str, Plain("who"), "who made it, as the audit names them"]
    expires_at: Annotated[Moment | None, "when it ends by itself; null: never"] = None
    revoked_at: Annotated[Moment | None, "since when it opens nothing; null: it was not revoked"] = None
    last_used_at: Annotated[Moment | None, "to the minute; null: never"] = None

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
    """Those of the keys that it made, that those made, and so on. While it lives, its name is no other key's."""
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
    """What the audit calls whoever acts by a key of this name."""
    return f"key:{key_name}"


def encode_secret(randomness: bytes) -> str:
    """A secret as people copy it: ``lim_`` and 43 letters."""
    return f"lim_{base64.urlsafe_b64encode(randomness).rstrip(b'=').decode()}"


def hash_secret(secret: object) -> str | None:
    """What is kept of a secret; None for what cannot be one."""
    if not isinstance(secret, str) or _SECRET.fullmatch(secret) is None:
        return None
    return hashlib.sha256(secret.encode()).hexdigest()
