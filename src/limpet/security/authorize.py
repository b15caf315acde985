"""The one place every public call comes through: is it allowed, and who made it?"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, NamedTuple

from limpet.config import AuditSettings
from limpet.errors import LimpetError, PermissionDenied, StorageError, StoreReadOnly
from limpet.model.access import AccessRequest, AuditEntry, AuditOutcome, Grant, Principal, Reach, Right
from limpet.model.scope import Level, Partition, Scope
from limpet.model.telemetry import Activity, ActivityKind
from limpet.model.values import Clock, uuid7
from limpet.security.access_repository import AuditEntries
from limpet.security.call import OperationCall
from limpet.security.operation import On, Operation
from limpet.security.permissions import can_grant, find_missing_grant
from limpet.security.telemetry import Observers, count_results
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.audit")

_DONE = AuditOutcome.DONE.value
_REACHES = {Level.AGENT: Reach.AGENT, Level.GLOBAL: Reach.GLOBAL}

GrantLoader = Callable[[Principal], tuple[Grant, ...]]


class GrantAuthorizer:
    """For one principal and one store. What is stored about them is asked for only where their own is not enough."""

    def __init__(
        self,
        principal: Principal,
        store: Store,
        audit_log: AuditLog | None,
        stored: GrantLoader,
        observers: Observers,
        default_user: str,
        after_write: Callable[[], None] = lambda: None,
    ) -> None:
        self.principal = principal
        self._after_write = after_write
        self._store = store
        self._audit_log = audit_log
        self._stored = stored
        self._observers = observers
        self._default_user = default_user
        self._checks = not principal.is_operator

    def call(self, operation: Operation, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = OperationCall(operation, subject, args, kwargs)
        if not self._observers.on:
            return self._run(call)
        if operation.silent:
            return self._run_silently(call)
        with self._observers.measure(self._describe_activity(call)) as seen:
            answer = self._run(call)
            seen.count = count_results(answer)
            return answer

    def _run_silently(self, call: OperationCall) -> Any:
        """Observers see only that it was refused."""
        try:
            return self._run(call)
        except PermissionDenied:
            with self._observers.measure(self._describe_activity(call)):
                raise

    def _run(self, call: OperationCall) -> Any:
        answer = self._run_audited(call)
        if call.operation.writes:
            self._after_write()
        return answer

    def _run_audited(self, call: OperationCall) -> Any:
        operation, audit_log = call.operation, self._audit_log
        logs = audit_log is not None and not operation.silent and (operation.writes or operation.audited)
        logs = logs or (audit_log is not None and not operation.silent and audit_log.config.reads)
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
        if audit_log is None or not logs:
            return call.invoke()
        if operation.audited or (operation.writes and audit_log.is_due):
            return self._run_with_audit(audit_log, call)
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
        stored = self._stored(self.principal) if lacking else ()
        hidden = {each for each in lacking if find_missing_grant(self.principal, needs[each], stored) is not None}
        return tuple(each for each in partitions if each not in hidden)

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
        scope: Scope = subject._scope  # noqa: SLF001  # what every object with operations on its session has
        return scope.user == me.user and scope.tenant == me.tenant

    def _fill_default_user(self, call: OperationCall) -> None:
        """The operator may leave out whose memory it is, too: then it is the default user's."""
        if call.needs_default_user:
            call.set_argument("user", self._default_user)

    def _authorize(self, call: OperationCall) -> None:
        """Fills in one's own user, or agent, where nobody was named. Raises PermissionDenied."""
        if call.operation.name == "tenant" and call.argument("name") == self.principal.tenant:
            return
        if not call.is_in_tenant(self.principal.tenant):
            across = Grant(Right.READ, Reach.STORE)
            raise PermissionDenied(_denial_message(self.principal, call.operation.name, across), str(across))
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
            return Activity(kind=ActivityKind.OPERATION, name=name, tenant=me.tenant)
        user, agent, session, record = call.audit_target()
        return Activity(
            kind=ActivityKind.OPERATION,
            name=name,
            tenant=me.tenant,
            principal=me.name,
            user=user,
            agent=agent,
            session=session,
            record=record,
        )

    def _run_with_audit(self, audit_log: AuditLog, call: OperationCall) -> Any:
        """In the operation's transaction: its own row if it is audited, and all that was counted so far."""
        audited, line = call.operation.audited, self._build_line(call)
        counted: list[AuditEntry] = audit_log.drain_counts() if audit_log.config.enabled else []
        own = [audit_log.new_entry(line)] if audited and audit_log.config.enabled else []
        done = False
        try:
            with self._store.prepend_to_next_write(lambda tx: audit_log.insert(tx, [*counted, *own])) as written:
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
        audit_log, line = self._audit_log, self._build_line(call, error=error)
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


def _denial_message(me: Principal, name: str, lacks: Grant) -> str:
    way = f"act with grants=['{lacks}']" if me.user is None else f"memory.access.grant({me.user!r}, '{lacks}') gives it"
    return f"{name} needs {lacks}, which {me.name} does not have; {way}"


# The audit log: who did what, counted by the minute until it is written, beside what is written anyway.
#
# An audited operation has a row of its own, in its transaction. A refusal is written at once; equal ones of a minute
# share a row, so that nobody fills the table with them. All else is counted here and written at most a minute later, so
# that an append costs no second commit. A process that is killed takes the counts of that minute with it.

_EVERY = timedelta(minutes=1)
_QUIET = timedelta(minutes=2)  # nothing was written meanwhile: a read has to write the counts itself
_FULL = 1000  # different lines that are counted before they are written
_MOST = 10 * _FULL  # that are kept while the store refuses them
_TRIM = timedelta(days=1)
_TARGETS = 100  # different refusals of one caller in a minute that are told apart


class AuditLine(NamedTuple):
    """What calls have in common that are counted together."""

    principal: str
    tenant: str
    operation: str
    access: str
    outcome: str  # plain text: an enum's hash takes longer than all the rest
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    record: str | None = None
    missing: str | None = None


class _CallCount:
    __slots__ = ("calls", "first", "last")

    def __init__(self, calls: int, first: datetime, last: datetime) -> None:
        self.calls = calls
        self.first = first
        self.last = last


class _Refusals:
    """Those of one minute, and the row each is counted in."""

    def __init__(self, began: datetime) -> None:
        self._began = began
        self._rows: dict[AuditLine, str] = {}
        self._of: Counter[tuple[str, str]] = Counter()  # different ones, by caller

    def is_current(self, now: datetime) -> bool:
        return self._began <= now < self._began + _EVERY and len(self._rows) < _MOST

    def coarsen(self, line: AuditLine) -> AuditLine:
        """Beyond so many different ones, a caller has a row for each operation, without whose memory it was."""
        if line in self._rows or self._of[line.tenant, line.principal] < _TARGETS:
            return line
        lacks = None if line.missing is None else ":".join(line.missing.split(":")[:2])
        return line._replace(user=None, agent=None, session=None, record=None, missing=lacks)

    def row_id(self, line: AuditLine, new_id: str) -> str:
        if line not in self._rows:
            self._rows[line] = new_id
            self._of[line.tenant, line.principal] += 1
        return self._rows[line]


class AuditLog:
    """Safe to share between threads."""

    def __init__(self, store: Store, config: AuditSettings, clock: Clock, noise: Callable[[], bytes]) -> None:
        self.config = config
        self._store = store
        self._clock = clock
        self._noise = noise
        self._lock = Lock()
        self._counts: dict[AuditLine, _CallCount] = {}
        self._began: datetime | None = None  # when the first of them was
        self._until = clock()
        self._trimmed: dict[str, datetime] = {}
        self._refusals = _Refusals(self._until)
        self.is_due = False  # what is counted should go along with the next write
        self.is_overdue = False  # nothing was written for so long that it will not wait any longer

    def count_call(self, line: AuditLine) -> None:
        """One more of these."""
        now = self._clock()
        if self.config.log and log.isEnabledFor(logging.INFO):
            log_line(line)
        if not self.config.enabled:
            return
        with self._lock:
            counted = self._counts.get(line)
            if counted is None:
                self._counts[line] = _CallCount(1, now, now)
            else:
                counted.calls += 1
                counted.last = now
            if self._began is None:
                self._began = now
                self._until = now + _EVERY
            elif len(self._counts) >= _FULL or not self._began <= now < self._until:
                self.is_due = True
                self.is_overdue = len(self._counts) >= 2 * _FULL or not timedelta() <= now - self._began < _QUIET

    def new_entry(self, line: AuditLine) -> AuditEntry:
        """A line that is not counted, for a transaction of its own."""
        now = self._clock()
        return self._build_entry(line, now, now)

    def write_refusal(self, line: AuditLine) -> None:
        """One more of these, on the disk when this returns: into the row that an equal one of this minute has."""
        now = self._clock()
        with self._lock:
            if not self._refusals.is_current(now):
                self._refusals = _Refusals(now)
            entry = self._build_entry(self._refusals.coarsen(line), now, now)
            entry = replace(entry, id=self._refusals.row_id(to_audit_line(entry), entry.id))
        self.write([entry])

    def drain_counts(self) -> list[AuditEntry]:
        """What is counted, which is not counted any more."""
        with self._lock:
            counts, self._counts, self._began = self._counts, {}, None
            self.is_due = self.is_overdue = False
        return [self._build_entry(line, each.first, each.last, each.calls) for line, each in counts.items()]

    def _build_entry(self, line: AuditLine, first: datetime, last: datetime, calls: int = 1) -> AuditEntry:
        values = {**line._asdict(), "outcome": AuditOutcome(line.outcome)}
        return AuditEntry(id=uuid7(first, self._noise()), at=first, last_at=last, calls=calls, **values)

    def restore_counts(self, entries: Iterable[AuditEntry]) -> None:
        """What could not be written is counted again, and waits as long as the first time."""
        now = self._clock()
        with self._lock:
            for entry in entries:
                line = to_audit_line(entry)
                counted = self._counts.setdefault(line, _CallCount(0, entry.at, entry.last_at))
                counted.calls += entry.calls
                counted.first = min(counted.first, entry.at)
            if len(self._counts) > _MOST:
                log.warning("%d lines of the audit could not be written and are lost", len(self._counts))
                self._counts = {}
            self._began, self._until = now if self._counts else None, now + _EVERY
            self.is_due = self.is_overdue = False

    def insert(self, tx: Tx, entries: Sequence[AuditEntry]) -> None:
        """In a transaction; and once a day, what is older than it is to be kept goes."""
        for tenant in dict.fromkeys(entry.tenant for entry in entries):
            scope, theirs = Scope(tenant), [entry for entry in entries if entry.tenant == tenant]
            AuditEntries(tx).add(scope, theirs)
            self._trim(tx, scope, max(entry.last_at for entry in theirs))

    def _trim(self, tx: Tx, scope: Scope, now: datetime) -> None:
        last = self._trimmed.get(scope.tenant)
        if self.config.keep_days and (last is None or now - last >= _TRIM):
            AuditEntries(tx).trim(scope, now - timedelta(days=self.config.keep_days))
            self._trimmed[scope.tenant] = now

    def write(self, entries: Sequence[AuditEntry]) -> None:
        """In a transaction of their own. What the store refuses is counted for the next time."""
        if not entries:
            return
        try:
            self._store.write(lambda tx: self.insert(tx, entries))
        except StoreReadOnly:
            log.debug("the store may not be written, so its audit is not")
        except StorageError as error:
            log.warning("the audit could not be written and waits: %s", error)
            self.restore_counts(entries)

    def flush(self) -> None:
        """Write all that is counted."""
        self.write(self.drain_counts())


def to_audit_line(entry: AuditEntry) -> AuditLine:
    return AuditLine(*(getattr(entry, name) for name in AuditLine._fields))._replace(outcome=entry.outcome.value)


def log_line(line: AuditLine) -> None:
    """A line in the ordinary log: names and ids, one ``name=value`` each."""
    named = [(name, value) for name, value in zip(AuditLine._fields, line, strict=True) if value is not None]
    extra = {"event": "call", "fields": dict(named)}
    log.info("%s", " ".join(f"{name}={_quote_value(str(value))}" for name, value in named), extra=extra)


def _quote_value(value: str) -> str:
    return value if value.isascii() and value.isprintable() and not set(value) & set(" \"'=") else repr(value)
