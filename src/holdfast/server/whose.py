"""Whose memory a request means: a user's, an agent's, a session's, or everybody's."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.server.door import Caller
from holdfast.server.given import Body, Id, Name


class Home(Body):
    """Leave all four out to mean your own."""

    user: Name | None = None
    agent: Name | None = None
    session: Id | None = None
    scope: Literal["global"] | None = None

    def home(self, who: Caller) -> dict[str, Any]:
        return who.home(self.user, self.agent, self.session, self.scope)
