"""The one place every public call comes through: whose memory it names, is it allowed, and who made it?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from limpet.errors import LimpetError, PermissionDenied, explain_descriptors
from limpet.model.access import AccessRequest, AuditEntry, AuditOutcome, Grant, Principal, Reach, Right
from limpet.model.dataclass import dataclass, replace
from limpet.model.record import Record
from limpet.model.scope import Level, Partition, Scope
from limpet.model.values import check_id, check_name
from limpet.security.audit import AuditLine, AuditLog, log_line
from limpet.security.operation import ANY_VALUE, ExtraPermission, On, Operation, Permission
from limpet.security.telemetry import Activity, ActivityKind, Observers, count_results
from limpet.store.store import Store

OPERATOR = tuple(Grant(right, Reach.STORE) for right in Right)
_NAME_FIELDS = {Reach.SESSION: "session", Reach.USER: "user", Reach.AGENT: "agent"}
_DONE = AuditOutcome.DONE.value
_REACHES = {Level.AGENT: Reach.AGENT, Level.GLOBAL: Reach.GLOBAL}
_OWNED_RULES = (On.OWNER, On.USER, On.ID_OR_OWNER)
_OPEN_RULES = (On.REACH, On.FILTER, On.ID)

AuditTarget = tuple[str | None, str | None, str | None, str | None]  # user, agent, session, record
GrantLoader = Callable[[Principal], tuple[Grant, ...]]


@dataclass(eq=False)
class GrantAuthorizer:
    """For one principal and one store. What is stored about them is asked for only where their own is not enough."""

    principal: Principal
    store: Store
    audit_log: AuditLog | None
    load_grants: GrantLoader  # those that are stored
    observers: Observers
    default_user: str
    after_write: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._checks = not self.principal.is_operator

    def call(self, operation: Operation, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = OperationCall(operation, subject, args, kwargs)
        if not self.observers.on:
            return self._run(call)
        if operation.silent:
            return self._run_silently(call)
        with self.observers.measure(self._describe_activity(call)) as seen:
            answer = self._run(call)
            seen.count = count_results(answer)
            return answer

    def _run_silently(self, call: OperationCall) -> Any:
        """Observers see only that it was refused."""
        try:
            return self._run(call)
        except PermissionDenied:
            with self.observers.measure(self._describe_activity(call)):
                raise

    def _run(self, call: OperationCall) -> Any:
        answer = self._authorize_and_run(call)
        if call.operation.writes:
            self.after_write()
        return answer

    def _authorize_and_run(self, call: OperationCall) -> Any:
        operation = call.operation
        audit_log = None if operation.silent else self.audit_log
        logs = audit_log is not None and (operation.writes or operation.audited or audit_log.config.reads)
        try:
            call.check_arguments()
            if self._checks and not self._is_own(operation, call.subject):
                self._authorize(call)
            elif not self._checks and call.needs_default_user:  # the operator may leave it out, too
                call.set_argument("user", self.default_user)
        except LimpetError as error:
            if logs or isinstance(error, PermissionDenied):
                self._audit_failure(call, error)
            raise
        if audit_log is None or not logs:
            return call.invoke()
        if operation.audited or (operation.writes and audit_log.is_due):
            return self._run_in_audited_transaction(audit_log, call)
        try:
            answer = call.invoke()
        except Exception as error:  # why: whatever it was, who tried is noted; it goes on as it came
            self._audit_failure(call, error)
            raise
        audit_log.count_call(self._build_line(call, answer))
        if not operation.writes and audit_log.is_overdue:
            audit_log.flush()
        return answer

    def filter_visible(self, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
        """Those of them whose memory belongs into what this caller reads: of what is shared, only what was granted."""
        if not self._checks:
            return tuple(partitions)
        needs = {
            each: AccessRequest(Right.READ, _REACHES[each.level], agent=each.owner or None)
            for each in partitions
            if each.level in _REACHES
        }
        lacking = {each for each, need in needs.items() if find_missing_grant(self.principal, need) is not None}
        stored = self.load_grants(self.principal) if lacking else ()
        hidden = {each for each in lacking if find_missing_grant(self.principal, needs[each], stored) is not None}
        return tuple(each for each in partitions if each not in hidden)

    def check_can_grant(self, grant: Grant) -> None:
        """Nobody hands out more than they have."""
        if self._checks and not can_grant(self.principal, grant, self.load_grants(self.principal)):
            me = self.principal.name
            raise PermissionDenied(f"{me} does not have {grant}, and so cannot grant or revoke it", str(grant))

    def check_access(self, needs: Iterable[AccessRequest]) -> None:
        """Nobody lets a key do what they may not do themselves."""
        if self._checks:
            self._require("a key that may do this", needs)

    # Is it allowed?

    def _is_own(self, operation: Operation, subject: Any) -> bool:
        """The usual case, quickly: a handle of one's own session."""
        me = self.principal
        if operation.on is not On.HANDLE or operation.when or me.session is not None or me.user is None:
            return False
        scope: Scope = subject._scope  # noqa: SLF001  # what every object with operations on its session has
        return scope.user == me.user and scope.tenant == me.tenant

    def _authorize(self, call: OperationCall) -> None:
        """Fills in one's own user, or agent, where nobody was named. Raises PermissionDenied."""
        if call.operation.name == "tenant" and call.argument("name") == self.principal.tenant:
            return
        if not call.is_in_tenant(self.principal.tenant):
            raise self._deny(call.operation.name, Grant(Right.READ, Reach.STORE))
        place, filled = self._resolve_target(call)
        self._require(call.operation.name, call.list_requests(place))
        if filled is not None:
            call.set_argument(filled, getattr(place, filled))

    def _require(self, what: str, needs: Iterable[AccessRequest]) -> None:
        for need in needs:
            if (lacks := self._find_missing_grant(need)) is not None:
                raise self._deny(what, lacks)

    def _deny(self, what: str, lacks: Grant) -> PermissionDenied:
        me = self.principal
        way = f"memory.access.grant({me.user!r}, '{lacks}') gives it" if me.user else f"act with grants=['{lacks}']"
        return PermissionDenied(f"{what} needs {lacks}, which {me.name} does not have; {way}", str(lacks))

    def _find_missing_grant(self, need: AccessRequest) -> Grant | None:
        me = self.principal
        return None if find_missing_grant(me, need) is None else find_missing_grant(me, need, self.load_grants(me))

    def _resolve_target(self, call: OperationCall) -> tuple[AccessRequest, str | None]:
        """Whose memory is meant, and what of one's own has to be filled in: the user, or the agent who acts alone."""
        place, me = call.resolve_target(), self.principal
        if call.operation.on is On.HANDLE or place.user is not None:
            return place, None
        if me.user is not None and place.reach is Reach.SESSION:
            # Named without its user it is one's own, unless a grant reaches any session, or just that one.
            if place.session != me.session and self._has_access(call, place):
                return place, None
            return replace(place, user=me.user), "user"
        if place.reach is not Reach.GLOBAL or call.is_tenant_wide:
            return place, None
        if call.is_unscoped and self._has_access(call, place):
            return place, None
        if me.user is not None:
            return replace(place, reach=Reach.USER, user=me.user), "user"
        if me.agent is not None and "agent" in call.operation.owners:
            return replace(place, reach=Reach.AGENT, agent=me.agent), "agent"
        return place, None

    def _has_access(self, call: OperationCall, place: AccessRequest) -> bool:
        rights = {each.right for each in call.operation.permissions}
        return all(self._find_missing_grant(replace(place, right=right)) is None for right in rights)

    # Who made it?

    def _describe_activity(self, call: OperationCall) -> Activity:
        """What observers are told: names only if they are wanted, and none of whom this call wants forgotten."""
        work = Activity(kind=ActivityKind.OPERATION, name=call.operation.name, tenant=self.principal.tenant)
        if not self.observers.names or call.operation.anonymizes:
            return work
        user, agent, session, record = call.audit_target()
        principal = self.principal.name
        return replace(work, principal=principal, user=user, agent=agent, session=session, record=record)

    def _run_in_audited_transaction(self, audit_log: AuditLog, call: OperationCall) -> Any:
        """In the operation's transaction: its own row if it is audited, and all that was counted so far."""
        audited, line = call.operation.audited, self._build_line(call)
        counted: list[AuditEntry] = audit_log.drain_counts() if audit_log.config.enabled else []
        own = [audit_log.new_entry(line)] if audited and audit_log.config.enabled else []
        done = False
        try:
            with self.store.prepend_to_next_write(lambda tx: audit_log.insert(tx, [*counted, *own])) as written:
                try:
                    answer = call.invoke()
                finally:
                    done = written()
        except BaseException as error:  # why: an interrupt must not lose what was counted; it goes on as it came
            if not done:
                audit_log.restore_counts(counted)
            if isinstance(error, Exception):
                self._audit_failure(call, error)
            raise
        if not done:
            audit_log.write([*counted, *own])
        if not audited:
            audit_log.count_call(self._build_line(call, answer))
        elif audit_log.config.log:
            log_line(_anonymize(line, answer, self.principal) if call.operation.anonymizes else line)
        return answer

    def _audit_failure(self, call: OperationCall, error: Exception) -> None:
        """Written before it is answered if it is audited or was refused; and none is the reason of another error."""
        audit_log, line = self.audit_log, self._build_line(call, error=error)
        if audit_log is None:
            return
        if not call.operation.audited and line.outcome != AuditOutcome.REFUSED:
            audit_log.count_call(line)
            return
        if audit_log.config.log:
            log_line(line)
        if not audit_log.config.enabled:
            return
        if line.outcome == AuditOutcome.REFUSED:
            audit_log.write_refusal(line)
        else:
            audit_log.write([audit_log.new_entry(line)])

    def _build_line(self, call: OperationCall, answer: Any = None, error: Exception | None = None) -> AuditLine:
        me, outcome, lacks = self.principal, _DONE, None
        if isinstance(error, PermissionDenied):
            outcome, lacks = AuditOutcome.REFUSED.value, error.missing
        elif error is not None:
            outcome = AuditOutcome.FAILED.value
        user, agent, session, record = call.audit_target(answer)
        name, access = call.operation.name, call.operation.access
        return AuditLine(me.name, me.tenant, name, access, outcome, user, agent, session, record, lacks)


def _anonymize(line: AuditLine, answer: Any, me: Principal) -> AuditLine:
    receipt = str(answer.id)
    by = receipt if line.user in (line.principal, me.user) else line.principal
    return line._replace(principal=by, user=None, session=None, record=receipt)


# A call


@dataclass(slots=True, eq=False)
class OperationCall:
    operation: Operation
    subject: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def invoke(self) -> Any:
        try:
            return self.operation.method(self.subject, *self.args, **self.kwargs)
        except (OSError, ImportError) as error:  # modules are loaded late, and that opens files
            if (explained := explain_descriptors(error)) is None:
                raise
            raise explained from error

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
        return self.operation.on is On.WHOLE or self.is_for_everybody

    @property
    def is_for_everybody(self) -> bool:
        return self.owner("scope") == "global" and not self._is_by_id

    @property
    def is_unscoped(self) -> bool:
        """Without a user it is about all that the caller may see."""
        return self.operation.on in _OPEN_RULES or self._is_by_id

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
        named = {Reach.SESSION: session, Reach.USER: user, Reach.AGENT: agent}
        reach = next((reach for reach, name in named.items() if name is not None), Reach.GLOBAL)
        return AccessRequest(Right.READ, Reach.GLOBAL if self.is_for_everybody else reach, user, agent, session)

    def list_requests(self, place: AccessRequest) -> list[AccessRequest]:
        extra = [when.needs for when in self.operation.when if _applies(when, self.argument(when.argument))]
        return [
            AccessRequest(each.right, each.reach or place.reach, place.user, place.agent, place.session)
            for each in (*self.operation.permissions, *map(Permission.parse, extra))
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
        if isinstance(found, Scope):
            return found.user, found.agent, found.session, None
        return self._target_from_arguments()

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


# May they? One question, answered from values alone.


def find_missing_grant(principal: Principal, need: AccessRequest, stored: Iterable[Grant] = ()) -> Grant | None:
    """The narrowest grant that would do, or None where nothing is missing."""
    if is_owner(principal, need) or any(covers(principal, grant, need) for grant in (*principal.grants, *stored)):
        return None
    return Grant(need.right, need.reach, _request_target(need))


def is_owner(principal: Principal, need: AccessRequest) -> bool:
    """What needs no grant: the session, all of the user, or the agent that acts."""
    if need.reach is Reach.SESSION and principal.session is not None:
        return need.session == principal.session and (principal.user is None or need.user in (None, principal.user))
    if need.reach in (Reach.SESSION, Reach.USER):
        return principal.session is None and principal.user is not None and need.user == principal.user
    if need.reach is Reach.AGENT:
        # What an agent knows is for all its users to be told, and for none of them to change.
        alone = principal.user is None
        return need.agent == principal.agent is not None and (alone or need.right is Right.READ)
    return False


def covers(principal: Principal, grant: Grant, need: AccessRequest) -> bool:
    if grant.right is not need.right:
        return False
    if grant.reach is Reach.STORE:
        return True
    if grant.reach is Reach.GLOBAL:
        return need.reach is not Reach.STORE
    if grant.reach is Reach.USER:
        of = principal.user if grant.of is None else grant.of
        return need.reach in (Reach.USER, Reach.SESSION) and of is not None and need.user == of
    return need.reach is grant.reach and _request_target(need) == _grant_target(principal, grant) is not None


def _grant_target(principal: Principal, grant: Grant) -> str | None:
    return grant.of if grant.of is not None else getattr(principal, _NAME_FIELDS[grant.reach])


def _request_target(need: AccessRequest) -> str | None:
    name: str | None = getattr(need, _NAME_FIELDS[need.reach]) if need.reach in _NAME_FIELDS else None
    return name


def can_grant(principal: Principal, grant: Grant, stored: Iterable[Grant] = ()) -> bool:
    """Whether one has what one gives: nobody hands out more than their own."""
    need = AccessRequest(
        grant.right, grant.reach, **({_NAME_FIELDS[grant.reach]: grant.of} if grant.reach in _NAME_FIELDS else {})
    )
    return any(covers(principal, each, need) for each in (*principal.grants, *stored))
