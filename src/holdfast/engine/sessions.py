"""Sessions: opened by their key, loaded by their id, listed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from holdfast.domain.keys import SessionKey, user_for
from holdfast.domain.session import SessionInfo, SessionQuery, State
from holdfast.domain.text import checked_choice, optional_name
from holdfast.domain.times import checked_ttl
from holdfast.domain.values import checked_metadata, checked_number, checked_page
from holdfast.engine.face import Face
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
        scope = self._scope(
            user=user_for(key) if user is None else user,
            agent=self.config.session.default_agent if agent is None else agent,
        )
        about, life = checked_metadata(metadata), None if ttl is None else checked_ttl(ttl)
        info = self._read(lambda tx: tx.sessions.live(scope, str(key)))
        if info is None:
            now, new_id = self._now(), self._runtime.new_id
            info = self._write(
                lambda tx: lifecycle.open_session(tx, scope, key, new_id=new_id, now=now, metadata=about, ttl=life)
            )
        return Session(self._runtime, info)

    def load_session(self, session_id: str, *, user: str | None = None) -> Session:
        """The session with this id, live or ended."""
        return Session(self._runtime, self._session(session_id, user))

    def sessions(
        self,
        user: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        state: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[SessionInfo]:
        """Sessions, the most recently active first."""
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
