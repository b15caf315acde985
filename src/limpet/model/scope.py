"""Whose memory, and by which names. Every read and write of the store carries a scope, an owner or a partition."""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, NamedTuple

from limpet.errors import InvalidInput, InvalidKey
from limpet.model.columns import WHOSE, Column, Plain
from limpet.model.constraints import EMPTY_IS_NULL
from limpet.model.dataclass import dataclass
from limpet.model.schema import FLATTEN, NO_EXPORT, JsonName
from limpet.model.text_cache import cache_texts
from limpet.model.types import Id, Name
from limpet.model.values import check_name, check_optional_name

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


@cache_texts(1 << 14)
def hash_bucket(tenant: str, level: str, owner: str) -> int:
    """From 0 to 4095, and for ever the same: rows are found by it."""
    digest = blake2b(f"{tenant}\0{level}\0{owner}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % BUCKETS


@cache_texts(1 << 14)
def user_partition(tenant: str, user: str) -> Partition:
    return Partition(tenant, Level.USER, user)


# Whose the jobs of a whole store are: no tenant has such a name, so that none lists or drops them.
STORE_PARTITION = Partition(" ", Level.GLOBAL, "")


@dataclass(frozen=True, slots=True)
class Scope:
    """A tenant, narrowed by each field that is given. A field left None does not narrow."""

    tenant: Annotated[str, NO_EXPORT, WHOSE, "the tenant it belongs to"]
    user: Annotated[Name | None, Column("user_id"), WHOSE, "the user it belongs to; null: no user's"] = None
    agent: Annotated[Name | None, WHOSE, "the agent it belongs to; null: no agent's"] = None
    session: Annotated[Id | None, JsonName("session_id"), Column("session_id"), "id of its session; null: none"] = None

    @property
    def partition(self) -> Partition:
        """Where the memory of its user is searched."""
        assert self.user is not None
        return user_partition(self.tenant, self.user)

    def list_visible(self, agent: str) -> tuple[Partition, Partition, Partition]:
        """Return the partitions a session may read: its user's, its agent's, and the tenant's shared one."""
        shared = Partition(self.tenant, Level.AGENT, agent), Partition(self.tenant, Level.GLOBAL, "")
        return self.partition, *shared


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
            return self.scope.partition
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
    raise InvalidInput(
        "say whose memory this is: name a user, an agent or a session, or the scope global for the whole tenant"
    )


MAX_SESSION_KEY = 1024  # with tenant, user and agent it must fit one entry of a PostgreSQL index


@dataclass(frozen=True, slots=True)
class SessionKey:
    """``channel:chat[:thread]``; it outlives the session id."""

    channel: Annotated[str, Plain("by which sessions are found"), "the platform of the chat, such as telegram"]
    chat: Annotated[str, Plain("the chat's id"), "the chat's name in its channel"]
    thread: Annotated[str | None, Plain("the thread's id"), "the thread within the chat; null: it has none"] = None

    @classmethod
    def of(cls, channel: str, chat: str, thread: str | None = None) -> SessionKey:
        key = cls(check_name(channel, "channel"), check_name(chat, "chat"), check_optional_name(thread, "thread"))
        check_name(str(key), "the session key", max_bytes=MAX_SESSION_KEY)
        return key

    @classmethod
    def parse(cls, text: str) -> SessionKey:
        parts = [_unescape(part) for part in text.split(":")]
        if len(parts) not in (2, 3):
            raise InvalidKey(f"a session key is channel:chat or channel:chat:thread, not {text[:80]!r}")
        return cls.of(*parts)

    def __str__(self) -> str:
        parts = [self.channel, self.chat] if self.thread is None else [self.channel, self.chat, self.thread]
        return ":".join(_escape(part) for part in parts)


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")


def _unescape(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")


def default_user_id(key: SessionKey) -> str:
    """The user a chat belongs to, when the caller names none; on WhatsApp, with the address that phones have there."""
    end = "@s.whatsapp.net" if key.channel == "whatsapp" else ""
    return f"{_escape(key.channel)}:{key.chat.removesuffix(end)}{end}"
