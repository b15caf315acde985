"""The one place every public call comes through: is it allowed, and who made it?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from limpet.errors import LimpetError, PermissionDenied
from limpet.model.access import AccessRequest, AuditEntry, AuditOutcome, Grant, Principal, Reach, Right
from limpet.model.scope import Level, Partition, Scope
from limpet.model.telemetry import Activity, ActivityKind
from limpet.security.audit import AuditLine, AuditLog, log_line
from limpet.security.call import OperationCall
from limpet.security.operation import On, Operation
from limpet.security.permissions import can_grant, find_missing_grant
from limpet.security.telemetry import Observers, count_results
from limpet.store.store import Store

_DONE = AuditOutcome.DONE.value
_REACHES = {Level.AGENT: Reach.AGENT, Level.GLOBAL: Reach.GLOBAL}

GrantLoader = Callable[[Principal], tuple[Grant, ...]]


class GrantAuthorizer:
    """For one principal and one store. What is stored about them is asked for only where their own is not enough."""

    def __init__(
        self,
        principal: Principal,
        store: Store,
        ledger: AuditLog | None,
        stored: GrantLoader,
        observers: Observers,
        default_user: str,
    ) -> None:
        self.principal = principal
        self._store = store
        self._ledger = ledger
        self._stored = stored
        self._observers = observers
        self._default_user = default_user
        self._checks = not principal.is_operator

    def call(self, operation: Operation, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = OperationCall(operation, subject, args, kwargs)
        if not self._observers.on or operation.silent:
            return self._run(call)
        with self._observers.measure(self._describe_activity(call)) as seen:
            answer = self._run(call)
            seen.count = count_results(answer)
            return answer

    def _run(self, call: OperationCall) -> Any:
        operation, ledger = call.operation, self._ledger
        logs = ledger is not None and not operation.silent and (operation.writes or operation.audited)
        logs = logs or (ledger is not None and not operation.silent and ledger.config.reads)
        try:
            call.check_arguments()
            if not self._checks:
                self._fill_default_user(call)
            elif not self._is_own(operation, call.subject):
                self._authorize(call)
        except LimpetError as error:
            if logs or isinstance(error, PermissionDenied):
                self._audit_failure(call, error)
            raise
        if ledger is None or not logs:
            return call.invoke()
        if operation.audited or (operation.writes and ledger.is_due):
            return self._run_with_audit(ledger, call)
        try:
            answer = call.invoke()
        except Exception as error:  # why: whatever it was, who tried is noted; it goes on as it came
            self._audit_failure(call, error)
            raise
        ledger.count_call(self._build_line(call, answer))
        if not operation.writes and ledger.is_overdue:
            ledger.flush()
        return answer

    def filter_visible(self, spaces: Sequence[Partition]) -> tuple[Partition, ...]:
        """Those of them whose memory belongs into what this caller reads: of what is shared, only what was granted."""
        if not self._checks:
            return tuple(spaces)
        needs = {
            space: AccessRequest(Right.READ, _REACHES[space.level], agent=space.owner or None)
            for space in spaces
            if space.level in _REACHES
        }
        lacking = {space for space, need in needs.items() if find_missing_grant(self.principal, need) is not None}
        stored = self._stored(self.principal) if lacking else ()
        hidden = {space for space in lacking if find_missing_grant(self.principal, needs[space], stored) is not None}
        return tuple(space for space in spaces if space not in hidden)

    def check_can_grant(self, grant: Grant) -> None:
        """Nobody hands out more than they have."""
        if self._checks and not can_grant(self.principal, grant, self._stored(self.principal)):
            me = self.principal.name
            raise PermissionDenied(f"{me} does not have {grant}, and so can neither give nor take it", str(grant))

    def check_access(self, needs: Iterable[AccessRequest]) -> None:
        """Nobody lets a key do what they may not do themselves."""
        for need in needs if self._checks else ():
            lacks = self._find_missing_grant(need)
            if lacks is not None:
                raise PermissionDenied(_denial_message(self.principal, "a key that may do this", lacks), str(lacks))

    # Is it allowed?

    def _is_own(self, operation: Operation, subject: Any) -> bool:
        """The usual case, quickly: a handle of one's own session."""
        me = self.principal
        if operation.on is not On.HANDLE or operation.when or me.session is not None or me.user is None:
            return False
        scope: Scope = subject._scope  # noqa: SLF001  # what every object with a gate of its own has
        return scope.user == me.user and scope.tenant == me.tenant

    def _fill_default_user(self, call: OperationCall) -> None:
        """The operator may leave out whose memory it is, too: then it is the default user's."""
        if call.needs_default_user:
            call.set_argument("user", self._default_user)

    def _authorize(self, call: OperationCall) -> None:
        """Fills in one's own user, or agent, where nobody was named. Raises PermissionDenied."""
        if call.operation.name == "tenant" and call.argument("name") == self.principal.tenant:
            return
        place, filled = self._resolve_target(call)
        for need in call.list_requests(place):
            lacks = self._find_missing_grant(need)
            if lacks is not None:
                raise PermissionDenied(_denial_message(self.principal, call.operation.name, lacks), str(lacks))
        if filled is not None:
            call.set_argument(filled, getattr(place, filled))

    def _find_missing_grant(self, need: AccessRequest) -> Grant | None:
        me = self.principal
        return None if find_missing_grant(me, need) is None else find_missing_grant(me, need, self._stored(me))

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
        if me.agent is not None and call.can_target_agent:
            return replace(place, reach=Reach.AGENT, agent=me.agent), "agent"
        return place, None

    def _has_access(self, call: OperationCall, place: AccessRequest) -> bool:
        return all(self._find_missing_grant(replace(place, right=each.right)) is None for each in call.operation.needs)

    # Who made it?

    def _describe_activity(self, call: OperationCall) -> Activity:
        """What observers are told: names only if they are wanted, and none of whom this call wants forgotten."""
        name, me = call.operation.name, self.principal
        if not self._observers.names or call.operation.anonymizes:
            return Activity(kind=ActivityKind.VERB, name=name, tenant=me.tenant)
        user, agent, session, record = call.audit_target()
        return Activity(
            kind=ActivityKind.VERB,
            name=name,
            tenant=me.tenant,
            principal=me.name,
            user=user,
            agent=agent,
            session=session,
            record=record,
        )

    def _run_with_audit(self, ledger: AuditLog, call: OperationCall) -> Any:
        """Beside the deed, in its transaction: its own row if it is grave, and all that was counted so far."""
        grave, line = call.operation.audited, self._build_line(call)
        counted: list[AuditEntry] = ledger.drain_counts() if ledger.config.enabled else []
        own = [ledger.new_entry(line)] if grave and ledger.config.enabled else []
        done = False
        try:
            with self._store.prepend_to_next_write(lambda tx: ledger.insert(tx, [*counted, *own])) as written:
                try:
                    answer = call.invoke()
                finally:
                    done = written()
        except BaseException as error:  # why: an interrupt must not lose what was counted; it goes on as it came
            if not done:
                ledger.restore_counts(counted)
            if isinstance(error, Exception):
                self._audit_failure(call, error)
            raise
        if not done:
            ledger.write([*counted, *own])
        if not grave:
            ledger.count_call(self._build_line(call, answer))
        elif ledger.config.log:
            log_line(_anonymize(line, answer, self.principal) if call.operation.anonymizes else line)
        return answer

    def _audit_failure(self, call: OperationCall, error: Exception) -> None:
        """Written before it is answered if it is grave or was refused; and none is the reason of another error."""
        ledger, line = self._ledger, self._build_line(call, error=error)
        if ledger is None:
            return
        if not call.operation.audited and line.outcome != AuditOutcome.REFUSED:
            ledger.count_call(line)
            return
        if ledger.config.log:
            log_line(line)
        if not ledger.config.enabled:
            return
        if line.outcome == AuditOutcome.REFUSED:
            ledger.write_refusal(line)
        else:
            ledger.write([ledger.new_entry(line)])

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


def _denial_message(me: Principal, name: str, lacks: Grant) -> str:
    way = f"act with grants=['{lacks}']" if me.user is None else f"memory.access.grant({me.user!r}, '{lacks}') gives it"
    return f"{name} needs {lacks}, which {me.name} does not have; {way}"
