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
from limpet.model.schedule import Held, Schedule
from limpet.schedules import repository
from limpet.store import doctor, forks, jobs, migrate, reencrypt
from limpet.store.base import Finding, Notice, Wanted
from limpet.store.encryption_state import Seals, Unsettled
from limpet.store.tx import Tx
from limpet.store.writer import Transactions, Writer

T = TypeVar("T")

_MODEL = "model"


class Connection(Transactions, Protocol):
    def snapshot(self, work: Callable[[Tx], T]) -> T:
        """Run the work on one consistent view."""

    def close(self) -> None: ...


class SqlStore:
    def __init__(self, connection: Connection, readers: Readers | None, group_size: int, seals: Seals) -> None:
        self._pid = os.getpid()
        self._connection = connection
        self._writer = Writer(connection, group_size)
        self._readers = readers
        self.seals = seals
        self._waiting = threading.local()  # what a thread's next write has to bring along

    def write(self, work: Callable[[Tx], T]) -> T:
        first: Callable[[Tx], None] | None = getattr(self._waiting, "work", None)
        if first is None:
            return self._settled(work)

        def both(tx: Tx) -> T:
            first(tx)
            return work(tx)

        done = self._settled(both)
        self._waiting.work = None
        return done

    def _settled(self, work: Callable[[Tx], T]) -> T:
        """The work, and again from its beginning once it is noted whether the tenant it met is sealed."""
        self._refuse_fork()
        with forks.inside():
            while True:
                try:
                    return self._writer.write(work)
                except Unsettled as found:
                    tenant = str(found)
                self._writer.write(partial(_settle, tenant=tenant))

    @contextmanager
    def beside(self, work: Callable[[Tx], None]) -> Iterator[Callable[[], bool]]:
        before = getattr(self._waiting, "work", None)
        self._waiting.work = work
        try:
            yield lambda: getattr(self._waiting, "work", None) is not work
        finally:
            self._waiting.work = before

    def read(self, work: Callable[[Tx], T]) -> T:
        self._refuse_fork()
        self._writer.refuse_nesting()
        with forks.inside():
            if self._readers is None:
                return self._writer.exclusive(lambda: self._connection.snapshot(work))
            return self._readers.read(work)

    def take_job(self, wanted: Sequence[Wanted], now: datetime, lease: timedelta) -> Job | None:
        return self.write(lambda tx: jobs.take(tx.db, wanted, now, now + lease))

    def renew_job(self, job: Job, until: datetime) -> Job | None:
        return self.write(lambda tx: jobs.renew(tx.db, job, until))

    def finish_job(self, job: Job, again: datetime | None = None) -> bool:
        return self.write(lambda tx: jobs.finish(tx.db, job, again))

    def fail_job(self, job: Job, error: str, run_at: datetime, *, dead: bool) -> bool:
        return self.write(lambda tx: jobs.fail(tx.db, tx.seals, job, error, run_at, dead=dead))

    def mend_jobs(self, now: datetime, longest_wait: timedelta) -> int:
        if not self.read(lambda tx: jobs.astray(tx.db, now, longest_wait)):
            return 0
        return self.write(lambda tx: jobs.mend(tx.db, now, longest_wait))

    def next_job(self, wanted: Sequence[Wanted]) -> datetime | None:
        return self.read(lambda tx: jobs.next_due(tx.db, wanted))

    def count_jobs(self, wanted: Sequence[Wanted]) -> int:
        return self.read(lambda tx: jobs.count(tx.db, wanted))

    def take_schedule(self, now: datetime, lease: timedelta) -> Held | None:
        return self.write(lambda tx: repository.take(tx.db, tx.seals, now, now + lease))

    def renew_schedule(self, held: Held, until: datetime) -> bool:
        return self.write(lambda tx: repository.renew(tx.db, held, until))

    def put_back_schedule(self, held: Held, until: datetime) -> bool:
        return self.write(lambda tx: repository.put_back(tx.db, held, until))

    def next_schedule(self) -> datetime | None:
        return self.read(lambda tx: repository.next_due(tx.db, tx.seals))

    def astray_schedules(self, now: datetime) -> list[Schedule]:
        return self.read(lambda tx: repository.astray(tx.db, tx.seals, now))

    def take_notice(self, now: datetime, oldest: datetime, until: datetime) -> Notice | None:
        return self.write(
            lambda tx: repository.take_notice(tx.db, tx.seals, repository.Schedules(tx), now, oldest, until)
        )

    def adopt(self, model: str, now: datetime) -> None:
        def change(tx: Tx) -> None:
            if _property(tx, _MODEL) != model:
                tx.db.run("properties.set", {"name": _MODEL, "value": model})
                jobs.ask_everywhere(tx.db, EMBED, model, now)

        if self.read(lambda tx: _property(tx, _MODEL)) != model:
            self.write(change)

    def counts(self) -> Mapping[str, int]:
        return self.read(doctor.counts)

    def tenants(self) -> list[str]:
        return self.read(lambda tx: [tenant for (tenant,) in tx.db.all("stats.tenants", {})])

    def is_sealed(self, tenant: str) -> bool:
        return self.seals.keyring is not None and self.read(lambda tx: tx.seals.is_sealed(tenant))

    def doctor(self, *, repair: bool) -> Iterator[Finding]:
        yield from doctor.examine(self, repair=repair)
        yield from reencrypt.examine(self)

    def close(self) -> None:
        if os.getpid() != self._pid:
            return  # a forked child must not touch its parent's connections
        with forks.inside():
            self._writer.close()
            if self._readers is not None:
                self._readers.close()
            self._part()
            self._connection.close()

    def _part(self) -> None:
        """Before the connection is closed, which nobody else uses any more."""

    def _refuse_fork(self) -> None:
        if os.getpid() != self._pid:
            raise StorageError("this store was opened before the process forked; open it again in the child")


def _settle(tx: Tx, tenant: str) -> None:
    tx.seals.settle(tenant)


def _property(tx: Tx, name: str) -> str | None:
    found = tx.db.one("properties.get", {"name": name})
    return None if found is None else str(found[0])


class Readers:
    """Read connections, made when needed and kept; each serves one thread at a time."""

    def __init__(self, make: Callable[[], Connection], places: int) -> None:
        self._make = make
        self._idle: list[Connection] = []
        self._places = threading.BoundedSemaphore(places)
        self._closed = False

    def read(self, work: Callable[[Tx], T]) -> T:
        with self._places:
            connection = self._take()
            try:
                return connection.snapshot(work)
            finally:
                self._give_back(connection)

    def _take(self) -> Connection:
        if self._closed:
            raise StoreUnavailable("this store is closed; open it again")
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()

    def _give_back(self, connection: Connection) -> None:
        self._idle.append(connection)
        if self._closed:  # looked at afterwards: whoever closes them meanwhile finds this one or is found here
            self.close()

    def close(self) -> None:
        self._closed = True
        with suppress(IndexError):  # each is taken by one thread only
            while True:
                self._idle.pop().close()


def bring_forward(connection: Connection, seals: Seals, target: migrate.Target, package: str) -> None:
    """Migrate, or leave nothing open."""
    try:
        migrate.bring_forward(target, migrate.load(package))
        seals.is_ready = True
        doctor.stamp_analysis(connection)
    except BaseException:  # why: whatever stopped the opening, the connection must not stay open
        connection.close()
        raise
