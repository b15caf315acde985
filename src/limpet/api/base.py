"""What every group of verbs stands on: a store, whose memory is meant, and one transaction at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from limpet.api.agents import Agents
from limpet.config import Config
from limpet.errors import InvalidInput, SessionNotFound
from limpet.knowledge import remember as memory
from limpet.model.access import Grant, Principal
from limpet.model.scope import DEFAULT_TENANT, Level, Owner, Scope, resolve_owner
from limpet.model.session import SessionInfo
from limpet.model.text import check_name, short_repr
from limpet.security.access_repository import Grants
from limpet.security.authorize import GrantAuthorizer
from limpet.security.permissions import OPERATOR
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

T = TypeVar("T")
F = TypeVar("F", bound="BaseOperations")


class BaseOperations:
    _scheduled = False  # whether this memory was handed to a scheduled turn, which may not make schedules
    _closes = True  # whether an operator's closing closes the store; not for one that came in with a key

    def __init__(
        self,
        agents: Agents,
        tenant: str = DEFAULT_TENANT,
        agent: str | None = None,
        principal: Principal | None = None,
    ) -> None:
        self._agents = agents
        self._agent = agent  # whose settings and store these are; None for all that have none of their own
        self._shared = runtime = agents.runtime(agent)
        self._tenant = check_name(tenant, "tenant")
        operator = runtime.config.audit.operator
        self._principal = principal or Principal(operator, self._tenant, grants=OPERATOR)
        self._gate = GrantAuthorizer(
            self._principal, runtime.store, runtime.ledger, self._load_grants, runtime.observers
        )
        self._runtime = replace(runtime, gate=self._gate)  # its handles come through the same gate
        self._cut = memory.RecordChunker(runtime.config.chunks, for_graph=runtime.config.graph.enabled)

    def _inherit_flags(self, memory: F) -> F:
        """Another view of the same memory is no way around that."""
        memory._scheduled = self._scheduled  # noqa: SLF001 - one of ours
        memory._closes = self._closes  # noqa: SLF001
        return memory

    @property
    def _is_operator(self) -> bool:
        return self._principal.is_operator

    def _load_grants(self, principal: Principal) -> tuple[Grant, ...]:
        """As they are now, so that one that was taken away is gone at once, whoever took it."""
        if principal.user is None:
            return ()
        scope = Scope(self._tenant, user=principal.user)
        return self._agents.runtime().store.read(lambda tx: Grants(tx).list_for(scope))

    @property
    def principal(self) -> Principal:
        """Who acts through this handle."""
        return self._principal

    @property
    def config(self) -> Config:
        return self._runtime.config

    def _scope(self, *, user: str | None = None, agent: str | None = None, session: str | None = None) -> Scope:
        if agent is not None and self._has_other_store(check_name(agent, "agent")):
            raise InvalidInput(f"what agent {agent!r} knows is kept apart: ask hf.agent({agent!r})")
        return Scope.of(self._tenant, user=user, agent=agent, session=session)

    def _has_other_store(self, agent: str) -> bool:
        return self._agents.runtime(agent).store is not self._runtime.store

    def _resolve_owner(self, user: str | None, agent: str | None, session: str | None, scope: str | None) -> Owner:
        """The one level a memory belongs to. A session's user is looked up, so that a session alone is enough."""
        if scope not in (None, "global"):
            raise InvalidInput(f"scope is 'global' or left out, not {short_repr(scope)}")
        if user is not None and agent is not None:
            raise InvalidInput("a memory is a user's or an agent's: give user= or agent=, not both")
        if session is not None:
            owner = self._get_session(session, user)
            return Owner(Scope(owner.tenant, user=owner.user, session=owner.id), Level.SESSION)
        return resolve_owner(self._scope(user=user, agent=agent), everyone=scope == "global")

    def _get_session(self, session_id: str, user: str | None) -> SessionInfo:
        scope = self._scope(user=user, session=session_id)
        info = self._read(lambda tx: Sessions(tx).get(scope))
        if info is None:
            raise SessionNotFound(f"no session {session_id} here")
        return info

    def _now(self) -> datetime:
        return self._runtime.clock()

    def _read(self, work: Callable[[Tx], T]) -> T:
        return self._runtime.store.read(work)

    def _write(self, work: Callable[[Tx], T]) -> T:
        return self._runtime.store.write(work)
