"""Sessions: opened by their key, loaded by their id, listed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from limpet.api.base import Face
from limpet.api.session import Session
from limpet.errors import SessionNotFound
from limpet.model.naming import SessionKey, user_for
from limpet.model.paging import PageEnd, checked_end
from limpet.model.session import SessionInfo, SessionQuery, State, Usage
from limpet.model.text import checked_choice, checked_name, optional_name
from limpet.model.times import checked_ttl
from limpet.model.values import checked_metadata, checked_number, checked_page
from limpet.security.operation import verb
from limpet.sessions import lifecycle, usage
from limpet.sessions.repository import Sessions


class SessionOperations(Face):
    """The verbs on sessions."""

    @verb("session")
    def session(
        self,
        channel: str,
        chat: str,
        thread: str | None = None,
        *,
        user: str | None = None,
        agent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        ttl: timedelta | None = None,
    ) -> Session:
        """The live session of this chat, made when there is none. Without a user, the channel's chat is one."""
        return self._live(SessionKey.of(channel, chat, thread), user, agent, metadata, ttl)

    def _live(
        self,
        key: SessionKey,
        user: str | None,
        agent: str | None,
        metadata: Mapping[str, Any] | None,
        ttl: timedelta | None,
    ) -> Session:
        name = (self._agent or self.config.session.default_agent) if agent is None else checked_name(agent, "agent")
        if self._agents.runtime(name) is not self._shared:
            return self._of_agent(name)._live(key, user, name, metadata, ttl)  # noqa: SLF001
        scope = self._scope(user=user_for(key) if user is None else user, agent=name)
        about, life = checked_metadata(metadata), None if ttl is None else checked_ttl(ttl)
        info = self._read(lambda tx: Sessions(tx).live(scope, str(key)))
        if info is None:
            now, new_id = self._now(), self._runtime.new_id
            info = self._write(
                lambda tx: lifecycle.open_session(tx, scope, key, new_id=new_id, now=now, metadata=about, ttl=life)
            )
        return Session(self._runtime, info)

    def _of_agent(self, name: str) -> SessionOperations:
        return SessionOperations(self._agents, self._tenant, name, self._principal)

    @verb("load_session")
    def load_session(self, session_id: str, *, user: str | None = None) -> Session:
        """The session with this id, live or ended, with the settings of its agent and wherever that keeps it."""
        return self._loaded(session_id, user)

    def _loaded(self, session_id: str, user: str | None) -> Session:
        try:
            info = self._session(session_id, user)
        except SessionNotFound:
            for name, _ in self._agents.existing() if self._agent is None else ():
                with suppress(SessionNotFound):
                    return self._of_agent(name)._loaded(session_id, user)  # noqa: SLF001
            raise
        if self._is_elsewhere(info.agent):
            return Session(self._runtime, info)
        return Session(replace(self._agents.runtime(info.agent), gate=self._gate), info)

    @verb("sessions")
    def sessions(
        self,
        user: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        state: str | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        before: tuple[datetime, str] | None = None,
    ) -> list[SessionInfo]:
        """Sessions, the most recently active first. Those of an agent with its own store are listed if it is named.

        ``before`` goes on where another page ended: its last session's ``last_active_at`` and ``id``.
        """
        place = checked_end(before)
        if agent is not None and self._is_elsewhere(checked_name(agent, "agent")):
            return self._of_agent(agent)._listed(user, agent, channel, state, limit, offset, place)  # noqa: SLF001
        return self._listed(user, agent, channel, state, limit, offset, place)

    def _listed(
        self,
        user: str | None,
        agent: str | None,
        channel: str | None,
        state: str | None,
        limit: int,
        offset: int,
        before: PageEnd | None,
    ) -> list[SessionInfo]:
        scope = self._scope(user=user, agent=agent)
        query = SessionQuery(
            channel=optional_name(channel, "channel"),
            state=_state(state),
            limit=checked_page(limit),
            offset=checked_number(offset, "offset"),
            before=before,
        )
        return self._read(lambda tx: Sessions(tx).find(scope, query))

    @verb("usage")
    def usage(self, user: str | None = None, agent: str | None = None, session: str | None = None) -> Usage:
        """What models took in all: of a session, a user, an agent, or as far as the grants reach."""
        scope = self._scope(user=user, agent=agent, session=session)
        return self._read(lambda tx: usage.read(tx, scope))


def _state(value: object) -> State | None:
    if value is None:
        return None
    return checked_choice(State, value.upper() if isinstance(value, str) else value, "state")
