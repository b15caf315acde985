"""Sessions: open them by their key, load them by their id, list them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from limpet.api import parameters as arg
from limpet.api.handle import Handle, View, to_cursor
from limpet.api.runtime import DEFAULT_USER
from limpet.api.session import Session
from limpet.errors import SessionNotFound
from limpet.model.scope import Scope, SessionKey, default_user_id
from limpet.model.session import SessionInfo, SessionQuery, SessionStatus
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
        view, scope, now = self._view_for(agent), self._scope_in(owner, agent), self._now()
        info = view.runtime.store.read(lambda tx: Sessions(tx).find_live(scope, str(key), now))
        if info is None:
            assert ttl is None or isinstance(ttl, timedelta)
            new_id, about = view.runtime.new_id, dict(metadata or {})
            info = view.runtime.store.write(
                lambda tx: lifecycle.open_session(tx, scope, key, new_id=new_id, now=now, metadata=about, ttl=ttl)
            )
        return Session(view.runtime, view.authorizer, info)

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
        view, scope, now = self._view_for(agent), self._scope_in(owner, agent), self._now()
        info = view.runtime.store.read(lambda tx: Sessions(tx).find_live(scope, str(key), now))
        return None if info is None else Session(view.runtime, view.authorizer, info)

    def _resolve_chat(
        self, channel: str | None, chat: str | None, thread: str | None, user: str | None
    ) -> tuple[SessionKey, str]:
        """The session's key, and whose it is: ``user``, else LIMPET_USER, else the chat's user, else "me"."""
        key = SessionKey.of(channel or "app", chat or "main", thread)
        if user is None and self._view.default_user == DEFAULT_USER and (channel or chat):
            return key, default_user_id(key)
        return key, user or self._view.default_user

    def _scope_in(self, user: str, agent: str | None) -> Scope:
        return Scope(self._tenant, user=user, agent=agent or self._default_agent)

    def _view_for(self, agent: str | None) -> View:
        """With the settings of the agent, and in its store."""
        name, view = agent or self._default_agent, self._view
        return view if view.agents.runtime(name) is view.runtime else view.derive(agent=name)

    @operation("load_session", On.ID, "read:session", "GET /v1/sessions/{session_id}", cli="sessions show")
    def load_session(self, session_id: arg.SessionId, *, user: arg.OfUser | None = None) -> Session:
        """The session with this id, live or ended, with the settings of its agent, in whichever store it is."""
        scope, agents = Scope(self._tenant, user=user, session=session_id), self._view.agents
        for view in self._list_views():
            info = view.runtime.store.read(lambda tx: Sessions(tx).get(scope))
            if info is not None:
                own = agents.runtime(info.agent)
                return Session(own if own.store is view.runtime.store else view.runtime, view.authorizer, info)
        raise SessionNotFound(f"no session {session_id} here")

    def _list_views(self) -> Iterator[View]:
        """This one, then those of agents that have their own store."""
        yield self._view
        for name, _ in self._find_own_stores():
            yield self._view.derive(agent=name)

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
        status = None if state is None else SessionStatus(state)
        query = SessionQuery(channel=channel, state=status, limit=limit, offset=offset, before=to_cursor(before))
        scope, view = (
            Scope(self._tenant, user=user, agent=agent),
            self._view if agent is None else self._view_for(agent),
        )
        return view.runtime.store.read(lambda tx: Sessions(tx).find(scope, query))
