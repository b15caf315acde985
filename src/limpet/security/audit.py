"""The audit log: who did what, counted by the minute until it is written, beside what is written anyway.

An audited operation has a row of its own, in its transaction. A refusal is written at once; equal ones of a minute
share a row, so that nobody fills the table with them. All else is counted here and written at most a minute later, so
that an append costs no second commit. A process that is killed takes the counts of that minute with it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import NamedTuple

from limpet.config import AuditSettings
from limpet.errors import InvalidInput, StorageError, StoreReadOnly
from limpet.model.access import AuditEntry, AuditOutcome, AuditQuery
from limpet.model.dataclass import dataclass, replace
from limpet.model.scope import Level, Scope, hash_bucket
from limpet.model.values import Clock, to_micros, uuid7
from limpet.security.access_repository import list_user_grants, user_parameters
from limpet.store.store import Store
from limpet.store.tables import AUDIT_ROWS
from limpet.store.tx import Repository, Tx

log = logging.getLogger("limpet.audit")

_EVERY = timedelta(minutes=1)
_QUIET = timedelta(minutes=2)  # nothing was written meanwhile: a read has to write the counts itself
_FULL = 1000  # different lines that are counted before they are written
_MOST = 10 * _FULL  # that are kept while the store refuses them
_TRIM = timedelta(days=1)
_TARGETS = 100  # different refusals of one caller in a minute that are told apart
_FILTERS = {
    "user": "user_id = :user",
    "principal": "principal = :principal",
    "operation": "operation = :operation",
    "outcome": "outcome = :outcome",
    "since": "last_at >= :since",
    "until": "at < :until",
}


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


@dataclass(slots=True)
class _CallCount:
    calls: int
    first: datetime
    last: datetime


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


class AuditEntries(Repository):
    def add(self, scope: Scope, entries: Sequence[AuditEntry]) -> None:
        if any(entry.tenant != scope.tenant for entry in entries):
            raise InvalidInput("these audit entries belong to another tenant")
        self._db.run_many("audit.add", [AUDIT_ROWS.params(entry) for entry in entries])

    def find(self, scope: Scope, query: AuditQuery) -> list[AuditEntry]:
        """A tenant's, the newest first."""
        given = {name: _to_parameter(getattr(query, name)) for name in _FILTERS}
        where = " AND ".join(clause for name, clause in _FILTERS.items() if given[name] is not None)
        params = {**given, "tenant": scope.tenant, "limit": query.limit, "offset": query.offset}
        return [AUDIT_ROWS.read(row) for row in self._db.all("audit.find", params, where=where)]

    def erase(self, scope: Scope, instead: str) -> int:
        """Put another name in the user's place everywhere, and nothing in that of sessions and records."""
        params = {**user_parameters(scope), "instead": instead}
        changed = self._db.run("audit.erase_target", params) + self._db.run("audit.erase_principal", params)
        changed += self._erase_sessions(scope)
        return changed + self._db.run("audit.erase_grants", {"tenant": scope.tenant, **list_user_grants(scope)})

    def _erase_sessions(self, scope: Scope) -> int:
        assert scope.user is not None
        params = {**user_parameters(scope), "bucket": hash_bucket(scope.tenant, Level.USER.value, scope.user)}
        sessions = [id_ for (id_,) in self._db.all("audit.sessions_of", params)]
        named = {"tenant": scope.tenant, "sessions": self._db.to_array(sessions)}
        return self._db.run("audit.erase_sessions", named) if sessions else 0

    def trim(self, scope: Scope, before: datetime) -> int:
        """Remove what is older. Answers how many."""
        return self._db.run("audit.trim", {"tenant": scope.tenant, "before": to_micros(before)})


def _to_parameter(value: datetime | str | None) -> int | str | None:
    return to_micros(value) if isinstance(value, datetime) else value and str(value)
