"""Whose memory. Every read and every write of the store carries one of these."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, NamedTuple

from limpet.errors import InvalidInput
from limpet.model.column_hints import WHOSE, Column
from limpet.model.constraints import EMPTY_IS_NULL
from limpet.model.ids import check_id
from limpet.model.schema import FLATTEN, NO_EXPORT, JsonName
from limpet.model.text import check_name
from limpet.model.types import Id, Name

DEFAULT_TENANT = "default"
DEFAULT_AGENT = "assistant"


class Level(StrEnum):
    """The one level a record belongs to."""

    SESSION = "session"
    USER = "user"
    AGENT = "agent"
    GLOBAL = "global"


BUCKETS = 4096


class Partition(NamedTuple):
    """One body of searchable text with its own word statistics: a user's, an agent's, or a tenant's own."""

    tenant: Annotated[str, NO_EXPORT, "the tenant it belongs to"]
    level: Annotated[Level, "whose it is"]
    owner: Annotated[str, EMPTY_IS_NULL, "the user or the agent"]

    @property
    def bucket(self) -> int:
        """Where its rows are: first in every key, so that a database may be spread by it."""
        return hash_bucket(self.tenant, self.level.value, self.owner)


@lru_cache(maxsize=1 << 14)
def hash_bucket(tenant: str, level: str, owner: str) -> int:
    """From 0 to 4095, and for ever the same: rows are found by it."""
    digest = blake2b(f"{tenant}\0{level}\0{owner}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % BUCKETS


# Whose the jobs of a whole store are: no tenant has such a name, so that none lists or drops them.
STORE_PARTITION = Partition(" ", Level.GLOBAL, "")


@dataclass(frozen=True, slots=True)
class Scope:
    """A tenant, narrowed by each field that is given. A field left None does not narrow."""

    tenant: Annotated[str, NO_EXPORT, WHOSE, "the tenant it belongs to"]
    user: Annotated[Name | None, Column("user_id"), WHOSE, "the user it belongs to; null: no user's"] = None
    agent: Annotated[Name | None, WHOSE, "the agent it belongs to; null: no agent's"] = None
    session: Annotated[Id | None, JsonName("session_id"), Column("session_id"), "id of its session; null: none's"] = (
        None
    )

    @classmethod
    def of(cls, tenant: str, *, user: str | None = None, agent: str | None = None, session: str | None = None) -> Scope:
        return cls(
            check_name(tenant, "tenant"),
            None if user is None else check_name(user, "user"),
            None if agent is None else check_name(agent, "agent"),
            None if session is None else check_id(session, "session id"),
        )


@dataclass(frozen=True, slots=True)
class Owner:
    """Where a record lives: exactly one level, with the names that level needs."""

    scope: Annotated[Scope, FLATTEN]
    level: Annotated[Level, "how far it reaches: session, user, agent or global"]

    @property
    def owner(self) -> str:
        """The name that, with tenant and level, makes a record's key unique."""
        names = {Level.SESSION: self.scope.session, Level.USER: self.scope.user, Level.AGENT: self.scope.agent}
        return names.get(self.level) or ""

    @property
    def space(self) -> Partition:
        """A session's records are searched with its user's."""
        if self.scope.user is not None:
            return Partition(self.scope.tenant, Level.USER, self.scope.user)
        if self.level is Level.AGENT:
            return Partition(self.scope.tenant, Level.AGENT, self.owner)
        return Partition(self.scope.tenant, Level.GLOBAL, "")


def resolve_owner(scope: Scope, *, everyone: bool = False) -> Owner:
    """The narrowest level the scope names. Memory for everybody must be asked for, never fallen into."""
    if everyone:
        if scope.user or scope.agent or scope.session:
            raise InvalidInput("scope='global' is memory for the whole tenant: leave out user, agent and session")
        return Owner(scope, Level.GLOBAL)
    if scope.session is not None:
        return Owner(scope, Level.SESSION)
    if scope.user is not None:
        return Owner(Scope(scope.tenant, user=scope.user), Level.USER)
    if scope.agent is not None:
        return Owner(Scope(scope.tenant, agent=scope.agent), Level.AGENT)
    raise InvalidInput("say whose memory this is: user=, agent= or session=, or scope='global' for the whole tenant")
