"""Whose memory a request means: a user's, a session's, an agent's, or everybody's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from limpet.server.auth import Caller
from limpet.server.params import Body, Id, Name, Query, User

_Agent = Annotated[Name, Field(description="an agent's memory, instead of a user's")]
_Scope = Annotated[Literal["global"], Field(description="what everybody shares, instead of a user's")]
OneSession = Annotated[Id, Field(description="one of the user's sessions, and nothing outside it")]


def _not_both(*names: str) -> dict[str, Any]:
    """In words of a schema: at most one of them."""
    said = {name: {"type": "string"} for name in names}
    return {"required": list(names), "properties": said}


_ONE_OWNER: Any = [_not_both("user", "agent"), _not_both("user", "scope"), _not_both("agent", "scope")]
_ONE_SESSION_OWNER: Any = [*_ONE_OWNER, _not_both("session", "agent"), _not_both("session", "scope")]


class OwnerBody(Body):
    """At most one of them; none means your own."""

    model_config = ConfigDict(json_schema_extra={"not": {"anyOf": _ONE_OWNER}})

    user: User | None = None
    agent: _Agent | None = None
    scope: _Scope | None = None

    def owner_arguments(self, who: Caller) -> dict[str, Any]:
        return who.owner_arguments(self.user, self.agent, None, self.scope)


class SessionOwnerBody(OwnerBody):
    """A user, perhaps with one of their sessions; or an agent; or everybody. None of them means your own."""

    model_config = ConfigDict(json_schema_extra={"not": {"anyOf": _ONE_SESSION_OWNER}})

    session: OneSession | None = None

    def owner_arguments(self, who: Caller) -> dict[str, Any]:
        return who.owner_arguments(self.user, self.agent, self.session, self.scope)


class OwnerQuery(Query):
    """For reading: what is shared counts before a user."""

    user: User | None = None
    agent: _Agent | None = None
    scope: _Scope | None = None

    def owner_arguments(self, who: Caller) -> dict[str, Any]:
        if self.scope is not None:
            return {"scope": self.scope}
        return who.owner_arguments(None if self.agent else self.user, self.agent, None, None)
