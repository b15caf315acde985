"""One call of an operation: its arguments, whose memory they name, and what the audit log says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from limpet.errors import LimpetError
from limpet.model.access import AccessRequest, Reach, Right
from limpet.model.record import Record
from limpet.model.scope import Scope
from limpet.model.values import check_id, check_name
from limpet.security.operation import ANY_VALUE, ExtraPermission, On, Operation

AuditTarget = tuple[str | None, str | None, str | None, str | None]  # user, agent, session, record

_OWNED_RULES = (On.OWNER, On.USER, On.ID_OR_OWNER)
_OPEN_RULES = (On.REACH, On.FILTER, On.ID)


class OperationCall:
    """One call of an operation."""

    __slots__ = ("args", "kwargs", "operation", "subject")

    def __init__(self, operation: Operation, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.operation = operation
        self.subject = subject
        self.args = args
        self.kwargs = kwargs

    def invoke(self) -> Any:
        return self.operation.method(self.subject, *self.args, **self.kwargs)

    def check_arguments(self) -> None:
        """Replace each argument by its canonical value. Raises InvalidInput. Unknown names are left to Python."""
        checks = self.operation.checks
        if self.args:
            # Surplus arguments stay as they are: the call itself complains about them.
            names = self.operation.positional
            given = [checks[name](value, name) for name, value in zip(names, self.args, strict=False)]
            self.args = (*given, *self.args[len(names) :])
        if self.kwargs:
            self.kwargs = {
                name: checks[name](value, name) if name in checks else value for name, value in self.kwargs.items()
            }

    def argument(self, name: str) -> Any:
        """What was given under this name, or None."""
        position = self.operation.positions.get(name)
        return self.args[position] if position is not None and position < len(self.args) else self.kwargs.get(name)

    def owner(self, name: str) -> Any:
        """What was given under this name, where it names an owner; else None."""
        return self.argument(name) if name in self.operation.owners else None

    def set_argument(self, name: str, value: object) -> None:
        position = self.operation.positions.get(name)
        if position is not None and position < len(self.args):
            self.args = (*self.args[:position], value, *self.args[position + 1 :])
        elif name in self.operation.arguments:
            self.kwargs = {**self.kwargs, name: value}

    @property
    def needs_default_user(self) -> bool:
        """Nobody was named, and the operation works on one owner's memory."""
        operation = self.operation
        if operation.requires_user or operation.on not in _OWNED_RULES or self._is_by_id:
            return False
        return all(self.argument(name) is None for name in operation.owners)

    @property
    def is_tenant_wide(self) -> bool:
        """The whole tenant, or more, is meant, and not only fallen into."""
        return self.operation.on is On.WHOLE or (self.owner("scope") == "global" and not self._is_by_id)

    @property
    def is_unscoped(self) -> bool:
        """Without a user it is about all that the caller may see."""
        return self.operation.on in _OPEN_RULES or self._is_by_id

    @property
    def can_target_agent(self) -> bool:
        return "agent" in self.operation.owners

    def is_in_tenant(self, tenant: str) -> bool:
        """Whether the handle is of this tenant. Without a handle the arguments are, whatever they name."""
        return self.operation.on is not On.HANDLE or self._scope.tenant == tenant

    @property
    def _is_by_id(self) -> bool:
        return self.operation.on is On.ID or (self.operation.on is On.ID_OR_OWNER and self.argument("id") is not None)

    def resolve_target(self) -> AccessRequest:
        """Whose memory the arguments name, by the narrowest of them. What is compared must be a name, or is refused."""
        if self.operation.on is On.HANDLE:
            scope = self._scope
            return AccessRequest(Right.READ, Reach.SESSION, scope.user, scope.agent, scope.session)
        user, agent, session = _check_owner_names(self.owner)
        if self.owner("scope") == "global" and not self._is_by_id:
            reach = Reach.GLOBAL
        elif session is not None:
            reach = Reach.SESSION
        elif user is not None:
            reach = Reach.USER
        elif agent is not None:
            reach = Reach.AGENT
        else:
            reach = Reach.GLOBAL
        return AccessRequest(Right.READ, reach, user, agent, session)

    def list_requests(self, place: AccessRequest) -> list[AccessRequest]:
        """Everything this call needs there."""
        also = [when.needs for when in self.operation.when if _applies(when, self.argument(when.argument))]
        return [
            AccessRequest(each.right, each.reach or place.reach, place.user, place.agent, place.session)
            for each in (*self.operation.needs, *also)
        ]

    def audit_target(self, answer: Any = None) -> AuditTarget:
        """What the audit names: what was found, or else what was asked for, as far as that is names and ids."""
        if self.operation.on is On.HANDLE:
            scope = self._scope
            return scope.user, scope.agent, scope.session, None
        if isinstance(answer, Record):
            owner = answer.home.scope
            return owner.user, owner.agent, owner.session, answer.id
        found = getattr(answer, "_scope", None)  # a session's handle knows whose it is
        return (
            (found.user, found.agent, found.session, None)
            if isinstance(found, Scope)
            else self._target_from_arguments()
        )

    @property
    def _scope(self) -> Scope:
        scope: Scope = self.subject._scope  # noqa: SLF001  # what every object with operations on its session has
        return scope

    def _target_from_arguments(self) -> AuditTarget:
        """What is neither a name nor an id might be anything, a text too: left out."""
        try:
            user, agent, session = _check_owner_names(self.argument)
        except LimpetError:
            user = agent = session = None
        record = self.argument("id")
        try:
            record = None if record is None else check_id(record, "record id")
        except LimpetError:
            record = None
        return user, agent, session, record


def _check_owner_names(find: Callable[[str], Any]) -> tuple[str | None, str | None, str | None]:
    user, agent, session = find("user"), find("agent"), find("session")
    session = find("session_id") if session is None else session
    return (
        None if user is None else check_name(user, "user"),
        None if agent is None else check_name(agent, "agent"),
        None if session is None else check_id(session, "session id"),
    )


def _applies(when: ExtraPermission, given: Any) -> bool:
    if when.value is ANY_VALUE:
        return given is not None
    if when.value is True:
        return given is not None and given is not False
    return given is when.value or (isinstance(given, str) and given == when.value)
