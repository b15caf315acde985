"""The base of every handle: a view of a store, and whose memory is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Generic, Self, TypeVar, overload

from limpet.api.agents import Agents
from limpet.api.runtime import DEFAULT_USER, Runtime
from limpet.errors import InvalidInput, SessionNotFound
from limpet.model.access import Grant, Principal
from limpet.model.dataclass import dataclass, replace
from limpet.model.late import lazy_property
from limpet.model.scope import DEFAULT_TENANT, Level, Owner, Scope, resolve_owner
from limpet.model.session import SessionInfo
from limpet.model.values import PageCursor, check_name
from limpet.security.access_repository import Grants
from limpet.security.authorize import OPERATOR, GrantAuthorizer
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

T = TypeVar("T")
H_co = TypeVar("H_co", covariant=True)


@dataclass(frozen=True)
class View:
    """A store as one caller sees it. All handles of a memory share one view."""

    agents: Agents
    tenant: str = DEFAULT_TENANT
    agent: str | None = None  # whose settings and store these are; None: those of every agent without its own
    caller: Principal | None = None  # None: the operator
    scheduled: bool = False  # given to a scheduled turn, which may not create schedules
    default_user: str = DEFAULT_USER  # whose memory it is where the operator names nobody
    closes: bool = True  # whether the operator's close() closes the store; not for one that came with a key

    def __post_init__(self) -> None:
        check_name(self.tenant, "tenant")

    @lazy_property
    def runtime(self) -> Runtime:
        return self.agents.runtime(self.agent)

    @lazy_property
    def shared(self) -> Runtime:
        """Of all agents without their own store: grants and API keys are there."""
        return self.agents.runtime()

    @lazy_property
    def principal(self) -> Principal:
        return self.caller or Principal(self.runtime.config.audit.operator, self.tenant, grants=OPERATOR)

    @lazy_property
    def authorizer(self) -> GrantAuthorizer:
        base, user = self.runtime, self.default_user
        return GrantAuthorizer(
            self.principal, base.store, base.audit_log, self._load_grants, base.observers, user, base.check_upkeep
        )

    def derive(self, **changes: Any) -> View:
        """Another view of the same store for the same caller, except for the changes."""
        return replace(self, **{"caller": self.principal, **changes})

    def _load_grants(self, principal: Principal) -> tuple[Grant, ...]:
        """The grants as they are now, so that a revoked one stops working at once."""
        if principal.user is None:
            return ()
        scope = Scope(self.tenant, user=principal.user)
        return self.shared.store.read(lambda tx: Grants(tx).list_for(scope))


def to_cursor(before: object) -> PageCursor | None:
    """The checked ``before`` of a list, which its caller gives as a plain tuple."""
    assert before is None or isinstance(before, PageCursor)
    return before


class SubHandle(Generic[H_co]):
    """A handle of the same view, as an attribute: ``memory.records``."""

    def __init__(self, kind: Callable[[View], H_co]) -> None:
        self.kind = kind

    @overload
    def __get__(self, handle: None, owner: type) -> Self: ...

    @overload
    def __get__(self, handle: Handle, owner: type) -> H_co: ...

    def __get__(self, handle: Handle | None, owner: type) -> H_co | Self:
        return self if handle is None else self.kind(handle._view)  # noqa: SLF001 - a handle of ours


class Handle:
    """The operations on one noun. Every public method is an ``@operation``."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._authorizer = view.authorizer

    @property
    def _runtime(self) -> Runtime:
        return self._view.runtime

    @property
    def _tenant(self) -> str:
        return self._view.tenant

    @property
    def _default_agent(self) -> str:
        return self._view.agent or self._runtime.config.session.default_agent

    def _scope(self, *, user: str | None = None, agent: str | None = None, session: str | None = None) -> Scope:
        if agent is not None and self._view.agents.runtime(agent).store is not self._runtime.store:
            raise InvalidInput(f"agent {agent!r} has a store of its own: use memory.agent({agent!r})")
        return Scope(self._tenant, user, agent, session)

    def _stores(self) -> list[tuple[str | None, Runtime]]:
        """For what is about the whole store: this one, and those of agents that have their own, with their names.

        A handle of such an agent means its own store alone.
        """
        return [(None, self._runtime), *((name, get()) for name, get in self._find_own_stores())]

    def _find_own_stores(self) -> Iterable[tuple[str, Callable[[], Runtime]]]:
        return self._view.agents.find_own_stores() if self._view.agent is None else ()

    def _resolve_owner(
        self, user: str | None, agent: str | None = None, session: str | None = None, scope: str | None = None
    ) -> Owner:
        """The one level a memory belongs to. A session alone is enough: its user is looked up."""
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
