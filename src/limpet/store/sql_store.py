"""What a store does the same way on every SQL backend: one writer, a pool of readers, no use across a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol, TypeVar

from limpet.errors import StorageError, StoreUnavailable
from limpet.model.job import EMBED, Job
from limpet.model.schedule import Schedule, ScheduleLease
from limpet.schedules import repository
from limpet.store import doctor, forks, jobs, migrate, reencrypt
from limpet.store.base import Finding, Notice, Wanted
from limpet.store.encryption_state import EncryptionRegistry, EncryptionStateUnknown
from limpet.store.tx import Tx
from limpet.store.writer import TransactionConnection, Writer

T = TypeVar("T")

_MODEL = "model"


class Connection(TransactionConnection, Protocol):
    def snapshot(self, work: Callable[[Tx], T]) -> T:
        """Run the work on one consistent view."""

    def close(self) -> None: ...


class SqlStore:
    def __init__(
        self, connection: Connection, readers: ReaderPool | None, group_size: int, seals: EncryptionRegistry
    ) -> None:
        self._pid = os.getpid()
        self._connection = connection
        self._writer = Writer(connection, group_size)
        self._readers = readers
        self.seals = seals
        self._waiting = threading.local()  # what a thread's next write has to bring along

    def write(self, work: Callable[[Tx], T]) -> T:
        first: Callable[[Tx], None] | None = getattr(self._waiting, "work", None)
        if first is None:
            return self._write_with_known_state(work)

        def run_both(tx: Tx) -> T:
            first(tx)
            return work(tx)

        done = self._write_with_known_state(run_both)
        self._waiting.work = None
        return done

    def _write_with_known_state(self, work: Callable[[Tx], T]) -> T:
        """The work, and again from its beginning once it is noted whether the tenant it met is sealed."""
        self._refuse_fork()
        with forks.block_forks():
            while True:
                try:
                    return self._writer.write(work)
                except EncryptionStateUnknown as found:
                    tenant = str(found)
                self._writer.write(partial(_record_initial_state, tenant=tenant))

    @contextmanager
    def prepend_to_next_write(self, work: Callable[[Tx], None]) -> Iterator[Callable[[], bool]]:
        before = getattr(self._waiting, "work", None)
        self._waiting.work = work
        try:
            yield lambda: getattr(self._waiting, "work", None) is not work
        finally:
            self._waiting.work = before

    def read(self, work: Callable[[Tx], T]) -> T:
        self._refuse_fork()
        self._writer.refuse_nesting()
        with forks.block_forks():
            if self._readers is None:
                return self._writer.run_exclusive(lambda: self._connection.snapshot(work))
            return self._readers.read(work)

    def claim_job(self, wanted: Sequence[Wanted], now: datetime, lease: timedelta) -> Job | None:
        return self.write(lambda tx: jobs.claim_job(tx.db, wanted, now, now + lease))

    def renew_job(self, job: Job, until: datetime) -> Job | None:
        return self.write(lambda tx: jobs.renew_job(tx.db, job, until))

    def finish_job(self, job: Job, again: datetime | None = None) -> bool:
        return self.write(lambda tx: jobs.finish_job(tx.db, job, again))

    def fail_job(self, job: Job, error: str, run_at: datetime, *, dead: bool) -> bool:
        return self.write(lambda tx: jobs.fail_job(tx.db, tx.seals, job, error, run_at, dead=dead))

    def release_stuck_jobs(self, now: datetime, longest_wait: timedelta) -> int:
        if not self.read(lambda tx: jobs.has_misdated_jobs(tx.db, now, longest_wait)):
            return 0
        return self.write(lambda tx: jobs.release_stuck_jobs(tx.db, now, longest_wait))

    def next_job_time(self, wanted: Sequence[Wanted]) -> datetime | None:
        return self.read(lambda tx: jobs.next_job_time(tx.db, wanted))

    def count_jobs(self, wanted: Sequence[Wanted]) -> int:
        return self.read(lambda tx: jobs.count_jobs(tx.db, wanted))

    def claim_schedule(self, now: datetime, lease: timedelta) -> ScheduleLease | None:
        return self.write(lambda tx: repository.claim_schedule(tx.db, tx.seals, now, now + lease))

    def renew_schedule(self, held: ScheduleLease, until: datetime) -> bool:
        return self.write(lambda tx: repository.renew_lease(tx.db, held, until))

    def release_schedule(self, held: ScheduleLease, until: datetime) -> bool:
        return self.write(lambda tx: repository.release_schedule(tx.db, held, until))

    def next_schedule_time(self) -> datetime | None:
        return self.read(lambda tx: repository.find_next_due(tx.db, tx.seals))

    def find_misdated_schedules(self, now: datetime) -> list[Schedule]:
        return self.read(lambda tx: repository.find_misdated(tx.db, tx.seals, now))

    def claim_notification(self, now: datetime, oldest: datetime, until: datetime) -> Notice | None:
        return self.write(
            lambda tx: repository.claim_notification(tx.db, tx.seals, repository.Schedules(tx), now, oldest, until)
        )

    def set_embedding_model(self, model: str, now: datetime) -> None:
        def change(tx: Tx) -> None:
            if _get_property(tx, _MODEL) != model:
                tx.db.run("properties.set", {"name": _MODEL, "value": model})
                jobs.enqueue_for_all_partitions(tx.db, EMBED, model, now)

        if self.read(lambda tx: _get_property(tx, _MODEL)) != model:
            self.write(change)

    def count_rows(self) -> Mapping[str, int]:
        return self.read(doctor.count_rows)

    def list_tenants(self) -> list[str]:
        return self.read(lambda tx: [tenant for (tenant,) in tx.db.all("stats.tenants", {})])

    def is_encrypted(self, tenant: str) -> bool:
        return self.seals.keyring is not None and self.read(lambda tx: tx.seals.is_encrypted(tenant))

    def doctor(self, *, repair: bool) -> Iterator[Finding]:
        yield from doctor.run_checks(self, repair=repair)
        yield from reencrypt.check_encryption(self)

    def close(self) -> None:
        if os.getpid() != self._pid:
            return  # a forked child must not touch its parent's connections
        with forks.block_forks():
            self._writer.close()
            if self._readers is not None:
                self._readers.close()
            self._before_close()
            self._connection.close()

    def _before_close(self) -> None:
        """Before the connection is closed, which nobody else uses any more."""

    def _refuse_fork(self) -> None:
        if os.getpid() != self._pid:
            raise StorageError("this store was opened before the process forked; open it again in the child")


def _record_initial_state(tx: Tx, tenant: str) -> None:
    tx.seals.record_initial_state(tenant)


def _get_property(tx: Tx, name: str) -> str | None:
    found = tx.db.one("properties.get", {"name": name})
    return None if found is None else str(found[0])


class ReaderPool:
    """Read connections, made when needed and kept; each serves one thread at a time."""

    def __init__(self, make: Callable[[], Connection], places: int) -> None:
        self._make = make
        self._idle: list[Connection] = []
        self._places = threading.BoundedSemaphore(places)
        self._closed = False

    def read(self, work: Callable[[Tx], T]) -> T:
        with self._places:
            connection = self._acquire()
            try:
                return connection.snapshot(work)
            finally:
                self._release(connection)

    def _acquire(self) -> Connection:
        if self._closed:
            raise StoreUnavailable("this store is closed; open it again")
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()

    def _release(self, connection: Connection) -> None:
        self._idle.append(connection)
        if self._closed:  # looked at afterwards: whoever closes them meanwhile finds this one or is found here
            self.close()

    def close(self) -> None:
        self._closed = True
        with suppress(IndexError):  # each is taken by one thread only
            while True:
                self._idle.pop().close()


def migrate_or_close(
    connection: Connection, seals: EncryptionRegistry, target: migrate.MigrationTarget, package: str
) -> None:
    """Migrate, or leave nothing open."""
    try:
        migrate.apply_migrations(target, migrate.load_migrations(package))
        seals.is_ready = True
        doctor.record_analyzer(connection)
    except BaseException:  # why: whatever stopped the opening, the connection must not stay open
        connection.close()
        raise
