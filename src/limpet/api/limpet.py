"""Limpet: the memory of an agent, and the handles it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Self, cast

from limpet.api import parameters as arg
from limpet.api.access import AccessOperations
from limpet.api.admin import AdminOperations
from limpet.api.agents import Agents, OpenOptions
from limpet.api.documents import DocumentOperations
from limpet.api.handle import SubHandle, View, to_cursor
from limpet.api.jobs import JobOperations, register_handlers
from limpet.api.memory import MemoryOperations
from limpet.api.notes import NoteOperations
from limpet.api.privacy import PrivacyOperations
from limpet.api.records import GraphOperations, RecordOperations
from limpet.api.runtime import DEFAULT_USER, read_default_user
from limpet.api.schedules import ScheduleOperations
from limpet.api.session import Session
from limpet.api.transfer import TransferOperations
from limpet.config import Config
from limpet.errors import ConfigError, InvalidInput, SessionNotFound
from limpet.model.access import Grant, Principal, Reach
from limpet.model.dataclass import replace
from limpet.model.scope import DEFAULT_TENANT, Scope, SessionKey, default_user_id
from limpet.model.session import SessionInfo, SessionQuery, SessionStatus
from limpet.model.tokens import TokenCounter, check_counter
from limpet.model.values import Clock, check_clock, check_name, check_path, system_clock
from limpet.providers.embedder import Embedder, check_embedder
from limpet.providers.llm import Llm, check_llm
from limpet.security.operation import IN_PROCESS, On, operation
from limpet.sessions import lifecycle
from limpet.sessions.repository import Sessions


class Limpet(MemoryOperations):
    """An agent's memory. Safe to share between threads; ``open`` one for each store a process uses."""

    @classmethod
    def open(
        cls,
        location: str | PathLike[str],
        *,
        config: Config | None = None,
        llm: Llm | None = None,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Limpet:
        """Open or create the store at a folder, at ``:memory:``, or at a ``postgresql://`` address.

        Without an embedder or a language model the settings choose one, or none. ``counter`` counts tokens exactly
        where budgets are kept; without one they are estimated.
        """
        if config is not None and not isinstance(config, Config):
            raise ConfigError(f"config must be a Config, not {type(config).__name__}; Config.load(…) reads a file")
        settings = Config.load() if config is None else config
        now = check_clock(system_clock if clock is None else clock)
        check_name(tenant, "tenant")
        check_embedder(embedder)
        check_llm(llm)
        place = check_path(location, "the store's place")
        given = OpenOptions(place, now, check_counter(counter), embedder, llm)
        agents = Agents(settings, given, register_handlers)
        opened = cls(View(agents, tenant, default_user=read_default_user()))
        if settings.session.import_snapshot:
            opened.transfer._import_snapshot()  # noqa: SLF001 - a handle of ours
        return opened

    @classmethod
    def connect(cls, url: str, *, key: str | None = None, user: str | None = None, timeout: float = 30.0) -> Limpet:
        """The memory of the server at this address, such as ``http://127.0.0.1:8420``: the same names over HTTP.

        ``key`` is an API key. ``user`` is whose memory it is where a call names nobody; without it, the key's user.
        ``timeout`` is in seconds, for a whole call. Raises StoreUnavailable where no server answers.
        """
        from limpet.api.remote.memory import connect  # late: most programs open their store

        return connect(url, key=key, user=user, timeout=timeout)

    def close(self) -> None:
        """Finish what is being written and close the store, with those of agents that have their own. Idempotent.

        A handle that acts for somebody closes nothing.
        """
        if self._closes_store:
            self._view.agents.close()

    @property
    def _closes_store(self) -> bool:
        return self._view.principal.is_operator and self._view.closes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        acting = "" if self.principal.is_operator else f" as {self.principal.name}"
        return f"<Limpet {self._runtime.store.location} tenant={self._tenant}{acting}>"

    @property
    def principal(self) -> Principal:
        """Who acts through this handle."""
        return self._view.principal

    @property
    def config(self) -> Config:
        """The settings of this memory."""
        return self._runtime.config

    # The handles

    records = SubHandle(RecordOperations)
    documents = SubHandle(DocumentOperations)
    graph = SubHandle(GraphOperations)
    notes = SubHandle(NoteOperations)
    schedules = SubHandle(ScheduleOperations)
    jobs = SubHandle(JobOperations)
    access = SubHandle(AccessOperations)
    privacy = SubHandle(PrivacyOperations)
    transfer = SubHandle(TransferOperations)
    admin = SubHandle(AdminOperations)

    # Sessions

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
        """Return the live session of this chat, or create it. Default: channel "app", chat "main".

        Without a user it belongs to the default user (``LIMPET_USER``), or to the chat if a channel or chat is named.
        """
        key, owner = self._resolve_chat(channel, chat, thread, user)
        view, scope, now = self._view_for(agent), self._scope_in(owner, agent), self._now()
        info = view.runtime.store.read(lambda tx: Sessions(tx).find_live(scope, str(key), now))
        if info is None:
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
        """Return the live session of this chat, or None. Creates nothing."""
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
        """Return the session with this id, live or ended, with its agent's settings, from whichever store has it."""
        scope, agents = Scope(self._tenant, user=user, session=session_id), self._view.agents
        for view in self._list_views():
            info = view.runtime.store.read(lambda tx: Sessions(tx).get(scope))
            if info is not None:
                own = agents.runtime(info.agent)
                return Session(own if own.store is view.runtime.store else view.runtime, view.authorizer, info)
        raise SessionNotFound(f"no session {session_id} here")

    def _list_views(self) -> Iterator[View]:
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
        """List sessions, the most recently active first. Name an agent with its own store to list those.

        ``before`` continues after another page: the ``last_active_at`` and ``id`` of its last session.
        """
        status = None if state is None else SessionStatus(state)
        query = SessionQuery(channel=channel, state=status, limit=limit, offset=offset, before=to_cursor(before))
        scope, view = (
            Scope(self._tenant, user=user, agent=agent),
            self._view if agent is None else self._view_for(agent),
        )
        return view.runtime.store.read(lambda tx: Sessions(tx).find(scope, query))

    # Other views of the same store

    @operation("acting", On.WHOLE, "write:store", silent=True, left_out=IN_PROCESS)
    def acting(
        self,
        user: arg.OneUser | None = None,
        *,
        agent: arg.ThroughAgent | None = None,
        session: arg.SessionId | None = None,
        grants: arg.Grants = (),
        name: arg.ActingName | None = None,
    ) -> Limpet:
        """Return the same store for somebody with fewer rights: a user, one session of a user, or some grants.

        A user may read and write everything of their own, a session only itself; the rest needs a grant, passed here or
        stored with ``access.grant``. If a call names no user, it is this one. The audit log shows ``name``, by default
        the user's. This does not touch the store, so a server can call it for each request.
        """
        known, parsed = name or user or agent or session, cast("tuple[Grant, ...]", grants)
        if known is None:
            raise InvalidInput(
                "say who acts: name a user, an agent or a session; for somebody who owns nothing, a name"
            )
        principal = Principal(known, self._tenant, user, agent, session, parsed)
        return Limpet(self._view.derive(agent=agent or self._view.agent, caller=principal))

    @operation("tenant", On.WHOLE, "read:store", silent=True, left_out=IN_PROCESS)
    def tenant(self, name: arg.Tenant) -> Limpet:
        """Return the same store as another tenant. Tenants share nothing but the file."""
        return Limpet(self._view.derive(tenant=name, caller=self._principal_in(name)))

    def agent(self, name: str) -> Limpet:
        """Memory as this agent has it: with its settings, in its own store if it has one, or stored nowhere at all.

        ``memory.session(agent=…)`` chooses the right one itself. All are closed together.
        """
        return Limpet(self._view.derive(agent=check_name(name, "agent")))

    def _principal_in(self, tenant: str) -> Principal:
        """In another tenant the caller owns nothing, and has only the grants that reach over all tenants."""
        me = self._view.principal
        if tenant == self._tenant:
            return me
        grants = tuple(grant for grant in me.grants if grant.reach is Reach.STORE)
        return replace(me, tenant=tenant, user=None, agent=None, session=None, grants=grants)
