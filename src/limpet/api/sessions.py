"""Sessions: open them by their key, load them by their id, list them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from limpet.api import parameters as arg
from limpet.api.handle import Handle, to_cursor
from limpet.api.runtime import DEFAULT_USER
from limpet.api.session import Session
from limpet.errors import SessionNotFound
from limpet.model.scope import SessionKey, default_user_id
from limpet.model.session import SessionInfo, SessionQuery
from limpet.security.operation import On, operation
from limpet.sessions import lifecycle
from limpet.sessions.repository import Sessions


class SessionOperations(Handle):
    """Open, find and list sessions."""

    @operation("session", On.CHAT, "write:user", "POST /v1/sessions", names={"ttl": "ttl_seconds"}, cli="sessions open")
    def session(
        self,
        channel: arg.Channel | None = None,
        chat: arg.Chat | None = None,
        thread: arg.Thread | None = None,
        *,
        user: arg.OneUser | None = None,
        agent: arg.ThroughAgent | None = None,
        metadata: arg.Metadata | None = None,
        ttl: arg.Lifetime | None = None,
    ) -> Session:
        """The live session of this chat, created when there is none: channel "app" and chat "main" if none are named.

        Without a user it is the default user's (``LIMPET_USER``); else, where a channel or a chat is named, the chat's.
        """
        key, owner = self._resolve_chat(channel, chat, thread, user)
        return self._open_session(key, owner, agent, metadata, ttl)

    def _open_session(
        self,
        key: SessionKey,
        user: str,
        agent: str | None,
        metadata: Mapping[str, Any] | None,
        ttl: timedelta | float | None,
    ) -> Session:
        name = agent or self._default_agent
        if self._view.agents.runtime(name) is not self._runtime:
            return self._for_agent(name)._open_session(key, user, name, metadata, ttl)  # noqa: SLF001
        assert ttl is None or isinstance(ttl, timedelta)
        scope, about = self._scope(user=user, agent=name), dict(metadata or {})
        now = self._now()
        info = self._read(lambda tx: Sessions(tx).find_live(scope, str(key), now))
        if info is None:
            new_id = self._runtime.new_id
            info = self._write(
                lambda tx: lifecycle.open_session(tx, scope, key, new_id=new_id, now=now, metadata=about, ttl=ttl)
            )
        return Session(self._runtime, self._authorizer, info)

    @operation("find_session", On.CHAT, "read:user", "GET /v1/sessions/find", answer="session", cli="sessions find")
    def find_session(
        self,
        channel: arg.Channel | None = None,
        chat: arg.Chat | None = None,
        thread: arg.Thread | None = None,
        *,
        user: arg.OneUser | None = None,
        agent: arg.ThroughAgent | None = None,
    ) -> Session | None:
        """The live session of this chat, or None. Creates nothing."""
        key, owner = self._resolve_chat(channel, chat, thread, user)
        return self._find_session(key, owner, agent)

    def _find_session(self, key: SessionKey, user: str, agent: str | None) -> Session | None:
        name = agent or self._default_agent
        if self._view.agents.runtime(name) is not self._runtime:
            return self._for_agent(name)._find_session(key, user, name)  # noqa: SLF001
        scope = self._scope(user=user, agent=name)
        now = self._now()
        info = self._read(lambda tx: Sessions(tx).find_live(scope, str(key), now))
        return None if info is None else Session(self._runtime, self._authorizer, info)

    def _resolve_chat(
        self, channel: str | None, chat: str | None, thread: str | None, user: str | None
    ) -> tuple[SessionKey, str]:
        """The session's key, and whose it is: ``user``, else LIMPET_USER, else the chat's user, else "me"."""
        key = SessionKey.of(channel or "app", chat or "main", thread)
        if user is None and self._view.default_user == DEFAULT_USER and (channel or chat):
            return key, default_user_id(key)
        return key, user or self._view.default_user

    @property
    def _default_agent(self) -> str:
        return self._view.agent or self._runtime.config.session.default_agent

    @operation("load_session", On.ID, "read:session", "GET /v1/sessions/{session_id}", cli="sessions show")
    def load_session(self, session_id: arg.SessionId, *, user: arg.OfUser | None = None) -> Session:
        """The session with this id, live or ended, with the settings of its agent, in whichever store it is."""
        return self._load_session(session_id, user)

    def _load_session(self, session_id: str, user: str | None) -> Session:
        try:
            info = self._get_session(session_id, user)
        except SessionNotFound:
            for name, _ in self._view.agents.iter_own_stores() if self._view.agent is None else ():
                with suppress(SessionNotFound):
                    return self._for_agent(name)._load_session(session_id, user)  # noqa: SLF001
            raise
        runtime = self._runtime if self._has_other_store(info.agent) else self._view.agents.runtime(info.agent)
        return Session(runtime, self._authorizer, info)

    @operation("sessions", On.FILTER, "read", "GET /v1/sessions", page="last_active_at", cli="sessions list")
    def sessions(
        self,
        user: arg.OfUser | None = None,
        agent: arg.OfAgent | None = None,
        channel: arg.Channel | None = None,
        state: arg.State | None = None,
        limit: arg.Limit = 50,
        offset: arg.Offset = 0,
        *,
        before: arg.Before | None = None,
    ) -> list[SessionInfo]:
        """Sessions, the most recently active first. Those of an agent with its own store are listed if it is named.

        ``before`` continues where another page ended: its last session's ``last_active_at`` and ``id``.
        """
        status: Any = state
        query = SessionQuery(channel=channel, state=status, limit=limit, offset=offset, before=to_cursor(before))
        if agent is not None and self._has_other_store(agent):
            return self._for_agent(agent)._find_sessions(user, agent, query)  # noqa: SLF001
        return self._find_sessions(user, agent, query)

    def _find_sessions(self, user: str | None, agent: str | None, query: SessionQuery) -> list[SessionInfo]:
        scope = self._scope(user=user, agent=agent)
        return self._read(lambda tx: Sessions(tx).find(scope, query))
