"""Who acts, and what they may: rights on levels, given as grants."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from limpet.errors import InvalidInput
from limpet.model.ids import check_id
from limpet.model.text import check_name, short_repr
from limpet.model.types import Moment


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

    user: Annotated[str, "who may"]
    grant: Annotated[Grant, "what, such as read:global"]
    at: Annotated[Moment, "since when"]
    by: Annotated[str, "who granted it"]
