"""Sessions: opened by their key, loaded by their id, listed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from limpet.api.handle import Handle
from limpet.api.session import Session
from limpet.errors import SessionNotFound
from limpet.model.naming import SessionKey, default_user_id
from limpet.model.paging import PageCursor, check_cursor
from limpet.model.session import SessionInfo, SessionQuery, SessionStatus
from limpet.model.text import check_choice, check_name, check_optional_name
from limpet.model.times import check_ttl
from limpet.model.values import check_metadata, check_number, check_page
from limpet.security.operation import operation
from limpet.sessions import lifecycle
from limpet.sessions.repository import Sessions


class SessionOperations(Handle):
    """Open, find and list sessions."""

    @operation("session")
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
        return self._open_session(SessionKey.of(channel, chat, thread), user, agent, metadata, ttl)

    def _open_session(
        self,
        key: SessionKey,
        user: str | None,
        agent: str | None,
        metadata: Mapping[str, Any] | None,
        ttl: timedelta | None,
    ) -> Session:
        usual = self._view.agent or self._runtime.config.session.default_agent
        name = usual if agent is None else check_name(agent, "agent")
        if self._view.agents.runtime(name) is not self._view.base:
            return self._for_agent(name)._open_session(key, user, name, metadata, ttl)  # noqa: SLF001
        scope = self._scope(user=default_user_id(key) if user is None else user, agent=name)
        about, life = check_metadata(metadata), None if ttl is None else check_ttl(ttl)
        info = self._read(lambda tx: Sessions(tx).find_live(scope, str(key)))
        if info is None:
            now, new_id = self._now(), self._runtime.new_id
            info = self._write(
                lambda tx: lifecycle.open_session(tx, scope, key, new_id=new_id, now=now, metadata=about, ttl=life)
            )
        return Session(self._runtime, info)

    @operation("load_session")
    def load_session(self, session_id: str, *, user: str | None = None) -> Session:
        """The session with this id, live or ended, with the settings of its agent and wherever that keeps it."""
        return self._load_session(session_id, user)

    def _load_session(self, session_id: str, user: str | None) -> Session:
        try:
            info = self._get_session(session_id, user)
        except SessionNotFound:
            for name, _ in self._view.agents.iter_own_stores() if self._view.agent is None else ():
                with suppress(SessionNotFound):
                    return self._for_agent(name)._load_session(session_id, user)  # noqa: SLF001
            raise
        if self._has_other_store(info.agent):
            return Session(self._runtime, info)
        return Session(replace(self._view.agents.runtime(info.agent), gate=self._gate), info)

    @operation("sessions")
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
        place = check_cursor(before)
        if agent is not None and self._has_other_store(check_name(agent, "agent")):
            return self._for_agent(agent)._find_sessions(user, agent, channel, state, limit, offset, place)  # noqa: SLF001
        return self._find_sessions(user, agent, channel, state, limit, offset, place)

    def _find_sessions(
        self,
        user: str | None,
        agent: str | None,
        channel: str | None,
        state: str | None,
        limit: int,
        offset: int,
        before: PageCursor | None,
    ) -> list[SessionInfo]:
        scope = self._scope(user=user, agent=agent)
        query = SessionQuery(
            channel=check_optional_name(channel, "channel"),
            state=_parse_state(state),
            limit=check_page(limit),
            offset=check_number(offset, "offset"),
            before=before,
        )
        return self._read(lambda tx: Sessions(tx).find(scope, query))


def _parse_state(value: object) -> SessionStatus | None:
    if value is None:
        return None
    return check_choice(SessionStatus, value.upper() if isinstance(value, str) else value, "state")
