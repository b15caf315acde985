"""Sessions: opened by their key, loaded by their id, listed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from holdfast.domain.keys import SessionKey, user_for
from holdfast.domain.session import SessionInfo, SessionQuery, State
from holdfast.domain.text import checked_choice, checked_name, optional_name
from holdfast.domain.times import checked_ttl
from holdfast.domain.values import checked_metadata, checked_number, checked_page
from holdfast.engine.face import Face
from holdfast.errors import SessionNotFound
from holdfast.handle import Session
from holdfast.session import lifecycle


class Sessions(Face):
    """The verbs on sessions."""

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
        key = SessionKey.of(channel, chat, thread)
        name = (self._agent or self.config.session.default_agent) if agent is None else checked_name(agent, "agent")
        if self._agents.runtime(name) is not self._runtime:
            theirs = Sessions(self._agents, self._tenant, name)
            return theirs.session(channel, chat, thread, user=user, agent=name, metadata=metadata, ttl=ttl)
        scope = self._scope(user=user_for(key) if user is None else user, agent=name)
        about, life = checked_metadata(metadata), None if ttl is None else checked_ttl(ttl)
        info = self._read(lambda tx: tx.sessions.live(scope, str(key)))
        if info is None:
            now, new_id = self._now(), self._runtime.new_id
            info = self._write(
                lambda tx: lifecycle.open_session(tx, scope, key, new_id=new_id, now=now, metadata=about, ttl=life)
            )
        return Session(self._runtime, info)

    def load_session(self, session_id: str, *, user: str | None = None) -> Session:
        """The session with this id, live or ended, with the settings of its agent and wherever that keeps it."""
        try:
            info = self._session(session_id, user)
        except SessionNotFound:
            for name, _ in self._agents.existing() if self._agent is None else ():
                with suppress(SessionNotFound):
                    return Sessions(self._agents, self._tenant, name).load_session(session_id, user=user)
            raise
        return Session(self._runtime if self._is_elsewhere(info.agent) else self._agents.runtime(info.agent), info)

    def sessions(
        self,
        user: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        state: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[SessionInfo]:
        """Sessions, the most recently active first. Those of an agent with its own store are listed if it is named."""
        if agent is not None and self._is_elsewhere(checked_name(agent, "agent")):
            return Sessions(self._agents, self._tenant, agent).sessions(user, agent, channel, state, limit, offset)
        scope = self._scope(user=user, agent=agent)
        query = SessionQuery(
            channel=optional_name(channel, "channel"),
            state=_state(state),
            limit=checked_page(limit),
            offset=checked_number(offset, "offset"),
        )
        return self._read(lambda tx: tx.sessions.find(scope, query))


def _state(value: object) -> State | None:
    if value is None:
        return None
    return checked_choice(State, value.upper() if isinstance(value, str) else value, "state")
