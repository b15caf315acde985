"""A store: what writes, a pool of readers, no use across a fork. SQLite and PostgreSQL are its subclasses."""

from __future__ import annotations

import copy
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock, get_ident
from time import monotonic
from typing import Any, TypeVar

from limpet.config import StorageSettings
from limpet.errors import StorageError, StoreUnavailable, Unsupported
from limpet.model.job import Finding
from limpet.model.privacy import ErasureState
from limpet.model.scope import Partition
from limpet.model.text_cache import clear_text_caches
from limpet.model.values import Clock
from limpet.security.telemetry import Progress
from limpet.store.encryption_keys import EncryptionKeys, EncryptionRegistry, EncryptionStateUnknown
from limpet.store.tx import Caches, Connection, Tx
from limpet.store.writer import Writer, block_forks

T = TypeVar("T")
Work = Callable[[Tx], T]

_MIN_TEXTS_S = 60.0
_ROW_COUNTS = ("sessions", "messages", "records", "documents", "chunks", "vectors", "users")


class _Rollback(Exception):
    """Ends a transaction that is not to stay, with its answer."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer


class Store:
    backend: str  # sqlite, memory or postgres
    location: str  # where it is, without a password

    def __init__(
        self,
        address: str,
        config: StorageSettings,
        clock: Clock,
        caches: Caches | None = None,
        keyring: EncryptionKeys | None = None,
    ) -> None:
        self._pid = os.getpid()
        self.location, self._config, self._clock = address, config, clock
        self.caches = caches or Caches()
        self.encryption = EncryptionRegistry(keyring)
        with block_forks():
            self._connection, self._readers = self._open(address)
        self._writer: Writer | WriterPool = self._make_writer()
        self._waiting = threading.local()  # what a thread's next write has to bring along
        self._rolls_back = False
        self._prepare: Work[None] | None = None

    def _open(self, address: str) -> tuple[Connection, ConnectionPool | None]:
        """The connection that writes, migrated, and those that read."""
        raise NotImplementedError

    def _make_writer(self) -> Writer | WriterPool:
        return Writer(self._connection, self._config.group_size)

    def with_rollback(self, prepare: Work[None] | None = None) -> Store:
        """The same store, for memory that is switched off: a write runs, answers, and is rolled back.

        ``prepare`` comes first in every transaction, reads included.
        """
        other = copy.copy(self)
        other._rolls_back, other._prepare = True, prepare  # noqa: SLF001 - its own class
        return other

    def rehearse(self, work: Work[T]) -> T:
        """What a write would answer. Nothing of it stays."""
        return self.with_rollback().write(work)

    def write(self, work: Work[T], *, exclusive: bool = False) -> T:
        """Run the work in a transaction; return once it is durable. It may run again; only one run stays.

        ``exclusive`` is for what concerns every partition: nobody else writes anything meanwhile.
        """
        if not self._rolls_back:
            return self._forget_purged(self._write(work, exclusive=exclusive))
        prepare = self._prepare

        def run_and_roll_back(tx: Tx) -> T:
            if prepare is not None:
                prepare(tx)
            raise _Rollback(work(tx))

        try:
            return self._write(run_and_roll_back, exclusive=exclusive)
        except _Rollback as done:
            answer: T = done.answer
            return answer

    def write_soon(self, work: Work[None]) -> None:
        """Run the work along with the next write, or before the store is closed. A process that is killed loses it."""
        self.write(work)

    def _write(self, work: Work[T], *, exclusive: bool) -> T:
        first: Work[None] | None = getattr(self._waiting, "work", None)
        if first is None:
            return self._write_with_known_state(work, exclusive=exclusive)

        def run_both(tx: Tx) -> T:
            first(tx)
            return work(tx)

        done = self._write_with_known_state(run_both, exclusive=exclusive)
        self._waiting.work = None
        return done

    def _write_with_known_state(self, work: Work[T], *, exclusive: bool) -> T:
        """The work, and again from its beginning once it is noted whether the tenant it met is encrypted."""
        self._refuse_fork()
        with block_forks():
            while True:
                try:
                    return self._writer.write(work, exclusive=exclusive)
                except EncryptionStateUnknown as found:
                    tenant = str(found)
                self._writer.write(partial(self._record_initial_state, tenant), exclusive=True)

    def _record_initial_state(self, tenant: str, tx: Tx) -> None:
        self.encryption.record_initial_state(tx.db, tenant)

    @contextmanager
    def prepend_to_next_write(self, work: Work[None]) -> Iterator[Callable[[], bool]]:
        """What this thread writes next is preceded by this work, in the same transaction.

        Inside the block; the function it gives tells whether that has happened.
        """
        before = getattr(self._waiting, "work", None)
        self._waiting.work = work
        try:
            yield lambda: getattr(self._waiting, "work", None) is not work
        finally:
            self._waiting.work = before

    def read(self, work: Work[T]) -> T:
        """Run the work on one consistent view of the store."""
        if self._prepare is not None:
            return self.write(work)
        self._refuse_fork()
        self._writer.refuse_nesting()
        with block_forks():
            if self._readers is None:
                assert isinstance(self._writer, Writer)
                return self._writer.run_exclusive(lambda: self._connection.snapshot(work))
            return self._forget_purged(self._readers.use(lambda connection: connection.snapshot(work)))

    def forget_texts(self) -> None:
        """Call after something was forgotten. Other processes empty their caches within a minute."""
        self.caches.has_purged_texts = False
        clear_text_caches()

    def _forget_purged(self, answer: T) -> T:
        """After a transaction, never in it: what a write needs was computed before it, for others wait meanwhile."""
        caches = self.caches
        if caches.has_purged_texts and (now := monotonic()) >= caches.texts_kept_until:
            caches.has_purged_texts, caches.texts_kept_until = False, now + _MIN_TEXTS_S
            clear_text_caches()
        return answer

    def read_recent(self, work: Work[T], partitions: Collection[Partition]) -> T:
        """Run the work on one consistent view, which may be some seconds old where the settings name a standby.

        It shows all that this process has written to the partitions.
        """
        return self.read(work)

    def count_rows(self) -> Mapping[str, int]:
        row = self.read(lambda tx: tx.db.one("store.count_rows", {}))
        assert row is not None
        return dict(zip(_ROW_COUNTS, row, strict=True))

    def list_tenants(self) -> list[str]:
        return self.read(lambda tx: [tenant for (tenant,) in tx.db.all("partitions.list_tenants", {})])

    def is_encrypted(self, tenant: str) -> bool:
        """Whether this program keeps the tenant's text encrypted."""
        return self.encryption.keyring is not None and self.read(lambda tx: self.encryption.is_encrypted(tx.db, tenant))

    def erase(self, *, whole: bool, vacuum: bool = False) -> ErasureState:
        """After something was purged: remove what the database still holds of it in unused places of its files.

        Without ``whole`` a large file is left to a job. With ``vacuum`` the files are written again, however large.
        """
        raise NotImplementedError

    def run_check(self, name: str, check: Work[Finding], *, repair: bool) -> Finding:
        """A check in a transaction of its own: what it compares is of one moment, and so is its repair."""
        try:
            return self.write(check, exclusive=True) if repair else self.read(check)
        except StorageError as error:  # a damaged table is a finding; the rest is looked at still
            return Finding(name, ok=False, detail=str(error))

    def check_files(self) -> Iterable[Finding]:
        """What the database itself says about its files."""
        return ()

    def backup(self, path: str, progress: Progress | None = None) -> None:
        """Copy the live store to a new SQLite file, which appears whole or not at all."""
        raise NotImplementedError

    def distribute(self) -> Mapping[str, list[str]]:
        """Spread the tables over several machines. Return those that were not yet, by how they are spread."""
        raise Unsupported("only PostgreSQL with the Citus extension is spread over machines; this store is one file")

    def close(self) -> None:
        if self._is_forked:
            return  # a forked child must not touch its parent's connections
        with block_forks():
            self._writer.close()
            if self._readers is not None:
                self._readers.close()
            self._connection.close()

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._pid

    def _refuse_fork(self) -> None:
        if self._is_forked:
            raise StorageError("this store was opened before the process forked; open it again in the child")


# Connections that several threads use, each serving one at a time: to read, and on a server to write.


class _Place:
    """The right to use one connection. One that is dropped, by an interrupt at any line, comes back as a new one.

    So the queue has as many as it began with, whatever happens between taking one and giving it back.
    """

    __slots__ = ("_free",)

    def __init__(self, free: weakref.ref[SimpleQueue[_Place]]) -> None:
        self._free = free

    def __del__(self) -> None:
        free = self._free() if hasattr(self, "_free") else None  # an interrupt may come while one is made
        if free is not None:
            free.put(_Place(self._free))


class ConnectionPool:
    """Connections, made when needed and kept."""

    def __init__(self, make: Callable[[], Connection], places: int) -> None:
        self._make = make
        self._idle: list[Connection] = []
        self._places = places
        # Its methods are C: an interrupt cannot leave it half changed, as it can a lock that is written in Python.
        self._free: SimpleQueue[_Place] = SimpleQueue()
        for _ in range(places):
            self._free.put(_Place(weakref.ref(self._free)))
        self._closed = False

    def use(self, action: Callable[[Connection], T]) -> T:
        place = self._free.get()
        try:
            answer = self._use(action)
        except BaseException:  # why: whatever it was, the place is free again; it goes on as it came
            self._free.put(place)
            raise
        self._free.put(place)
        return answer

    def _use(self, action: Callable[[Connection], T]) -> T:
        connection = self._acquire()
        try:
            answer = action(connection)
        except Exception:  # why: whatever the work raised, its connection is sound and serves the next one
            self._release(connection)
            raise
        except BaseException:  # why: an interrupt may come at any line: nobody knows what the connection is at
            connection.close()
            raise
        self._release(connection)
        return answer

    def _acquire(self) -> Connection:
        if self._closed:
            raise StoreUnavailable("this store is closed; open it again")
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()

    def _release(self, connection: Connection) -> None:
        self._idle.append(connection)
        if self._closed:  # checked afterwards: a thread that closes them meanwhile finds this one or is found here
            self.close()

    def close(self) -> None:
        self._closed = True
        with suppress(IndexError):  # each is taken by one thread only
            while True:
                self._idle.pop().close()


class WriterPool(ConnectionPool):
    """For a server whose own locks keep writers apart, and which commits several of them at once."""

    def __init__(
        self,
        make: Callable[[], Connection],
        places: int,
        first: Connection | None = None,
        note_write: Callable[[Collection[Partition]], None] | None = None,
    ) -> None:
        super().__init__(make, places)
        self._idle += [] if first is None else [first]
        self._writers: dict[int, Writer] = {}  # by the thread that writes
        self._closing = Lock()
        self._note_write = note_write  # is given the partitions of each transaction that ended

    def write(self, work: Callable[[Tx], T], *, exclusive: bool = False) -> T:
        """As ``Writer.write``, without a group."""
        self.refuse_nesting()
        return self.use(lambda connection: self._write(connection, work, exclusive=exclusive))

    def _write(self, connection: Connection, work: Callable[[Tx], T], *, exclusive: bool) -> T:
        thread, writer = get_ident(), Writer(connection, 1)
        self._writers[thread] = writer
        try:
            return writer.write(work, exclusive=exclusive)
        finally:
            self._writers.pop(thread, None)
            if self._note_write is not None:
                self._note_write(connection.tx.locked)

    def refuse_nesting(self) -> None:
        writer = self._writers.get(get_ident())
        if writer is not None:
            writer.refuse_nesting()

    def close(self) -> None:
        """Finish what was begun, then refuse."""
        self.refuse_nesting()
        with self._closing:  # two that close at once would each hold some of the places, and wait for the others'
            held = [] if self._closed else [self._free.get() for _ in range(self._places)]
            super().close()
            for place in held:
                self._free.put(place)
