"""The store on one SQLite file, or in memory."""

from __future__ import annotations

import copy
import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path

from limpet.config import StorageSettings
from limpet.errors import InvalidInput, StorageError
from limpet.model.job import Finding
from limpet.model.privacy import ErasureState
from limpet.model.values import system_clock
from limpet.security.telemetry import Progress
from limpet.store.files import create_database, create_private_file, find_readable_by_others
from limpet.store.migrate import Migration, Schema
from limpet.store.sqlite import scrub as scrubbing
from limpet.store.sqlite.connection import APPLICATION_ID, MEMORY, SqliteConnection, prepare_folder, translate_error
from limpet.store.store import ConnectionPool, Store, T, Work
from limpet.store.tx import Caches, Tx
from limpet.store.writer import Writer, block_forks, yield_to_fork

log = logging.getLogger("limpet.store")

_BACKUP_PAGES = 1024
_MAX_REHEARSED_BYTES = 512 << 20  # a file up to this size is copied into memory for a write that is not to stay
_MAX_INLINE_SCRUB_BYTES = 8 << 20  # a file up to this size is scrubbed while somebody waits for a purge


class SqliteSchema(Schema):
    dialect = "sqlite"
    _connection: SqliteConnection

    def list_applied(self) -> Mapping[int, tuple[str, str]]:
        is_new = not self._connection.db.execute("SELECT 1 FROM sqlite_master WHERE name = 'limpet_migrations'")
        return {} if is_new else super().list_applied()

    def apply(self, migration: Migration) -> None:
        """A store in memory is created again and again, and creating its tables took half of that time."""
        if migration.version > 1 or self._connection.path != MEMORY:
            return super().apply(migration)
        with _template_lock:
            _create_template(migration).backup(self._connection.raw)
        return self.record(migration)

    def create_tables(self, migration: Migration) -> None:
        if migration.version == 1:
            self._connection.db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        super().create_tables(migration)


_template_lock = threading.Lock()


@lru_cache(maxsize=1)
def _create_template(migration: Migration) -> sqlite3.Connection:
    connection = SqliteConnection(MEMORY, StorageSettings())
    try:
        SqliteSchema(connection, system_clock).create_tables(migration)
    except StorageError:
        connection.close()
        raise
    return connection.raw


class SqliteStore(Store):
    _connection: SqliteConnection
    _writer: Writer
    _file: tuple[int, int] | None

    def _open(self, address: str) -> tuple[SqliteConnection, ConnectionPool | None]:
        self.path, self._file = address, None
        self._soon: deque[Work[None]] = deque()
        self.backend = "memory" if address == MEMORY else "sqlite"
        if address != MEMORY:
            prepare_folder(address)
        connection = SqliteConnection(address, self._config, self.caches, self.encryption)
        SqliteSchema(connection, self._clock).migrate_or_close()
        self.encryption.is_ready = True
        if address == MEMORY:  # it belongs to its one connection: reads take turns with the writer
            return connection, None
        if self._config.wal:
            connection.use_lock_queue()
        self._file = scrubbing.FILES.acquire(address)
        return connection, ConnectionPool(self._connect_reader, self._config.readers)

    def _connect_reader(self) -> SqliteConnection:
        return SqliteConnection(self.path, self._config, self.caches, self.encryption, reader=True)

    def write_soon(self, work: Work[None]) -> None:
        """Where one writer is the rule, no other transaction can wait for what this one brings along."""
        if self._rolls_back:
            super().write_soon(work)
        else:
            self._soon.append(work)

    def _write(self, work: Work[T], *, exclusive: bool) -> T:
        if self._rolls_back or not self._soon:
            return super()._write(work, exclusive=exclusive)
        soon = self._take_soon()

        def run_all(tx: Tx) -> T:
            for each in soon:
                each(tx)
            return work(tx)

        try:
            return super()._write(run_all, exclusive=exclusive)
        except BaseException:  # why: whatever it was, nothing of it stays; it goes on as it came
            self._soon += soon
            raise

    def _take_soon(self) -> list[Work[None]]:
        taken: list[Work[None]] = []
        with suppress(IndexError):  # each is taken by one thread only
            while True:
                taken.append(self._soon.popleft())
        return taken

    def close(self) -> None:
        if self._soon and not self._is_forked:
            with suppress(StorageError):
                self.write(lambda _: None)
        with block_forks():
            super().close()
            if self._file is not None and os.getpid() == self._pid:
                scrubbing.FILES.release(self._file)
                self._file = None

    def rehearse(self, work: Work[T]) -> T:
        """On a copy in memory: on the file itself nobody else could write meanwhile."""
        if self._rolls_back or self._readers is None or os.path.getsize(self.path) > _MAX_REHEARSED_BYTES:
            return super().rehearse(work)
        self._refuse_fork()
        with block_forks(), closing(self._copy_into_memory()) as connection:
            return self._with_connection(connection).write(work)

    def _copy_into_memory(self) -> SqliteConnection:
        with closing(self._connect_reader()) as source:
            target = SqliteConnection(MEMORY, self._config, Caches(), self.encryption)
            try:
                source.raw.backup(target.raw)
            except sqlite3.Error as error:
                target.close()
                raise translate_error(error, self.path) from error
            return target

    def _with_connection(self, connection: SqliteConnection) -> SqliteStore:
        """The same store on another connection alone. What waits for this thread's next write is not its concern."""
        other = copy.copy(self)
        other._connection, other._readers, other._writer = connection, None, Writer(connection, 1)  # noqa: SLF001
        other.caches, other._waiting = connection.tx.caches, threading.local()  # noqa: SLF001
        other._soon = deque()  # noqa: SLF001
        return other

    def erase(self, *, whole: bool, vacuum: bool = False) -> ErasureState:
        """The log is emptied in any case, as soon as nobody reads from it."""
        self._refuse_fork()
        if self._file is None:
            return ErasureState.GONE
        with block_forks():
            return self._erase(whole=whole, vacuum=vacuum)

    def _erase(self, *, whole: bool, vacuum: bool) -> ErasureState:
        timeout_s = self._config.busy_timeout_ms / 1000
        try:
            if vacuum:
                with closing(scrubbing.connect(self.path, timeout_s)) as raw:
                    scrubbing.execute_in_turn(raw, "VACUUM", self.path, timeout_s)
            elif (state := self._scrub(whole=whole)) is not ErasureState.GONE:
                return state
        except (sqlite3.Error, StorageError) as error:
            log.info("what was purged is still in unused places of %s: %s", self.path, error)
            return ErasureState.WAITING
        with closing(scrubbing.connect(self.path)) as raw:
            emptied = not scrubbing.is_wal_mode(raw) or scrubbing.truncate_wal(raw)
        return ErasureState.GONE if emptied else ErasureState.WAITING

    def _scrub(self, *, whole: bool) -> ErasureState:
        assert self._file is not None
        if not whole and os.path.getsize(self.path) > _MAX_INLINE_SCRUB_BYTES:
            with closing(scrubbing.connect(self.path)) as raw:
                scrubbing.truncate_wal(raw, 0)
            return ErasureState.WAITING
        done = scrubbing.scrub(self.path, self._file, self._config.busy_timeout_ms / 1000)
        return ErasureState.VACUUM if done is None else ErasureState.GONE

    def check_files(self) -> Iterator[Finding]:
        self._refuse_fork()
        for look in (self._check_integrity, self._check_foreign_keys):
            with block_forks():
                found = self._writer.run_exclusive(look)
            yield found
        yield self._check_permissions()

    def _check_permissions(self) -> Finding:
        found = list(find_readable_by_others([self.path, f"{self.path}-wal"]))
        files = " ".join(found)
        detail = f"other accounts can read {files}: chmod 600 {files}" if found else "other accounts cannot read it"
        return Finding("file permissions", not found, detail)

    def _check_integrity(self) -> Finding:
        try:
            answers = [row[0] for row in self._connection.raw.execute("PRAGMA integrity_check(20)")]
        except sqlite3.Error as error:
            answers = [str(error)]
        return Finding("file integrity", answers == ["ok"], "; ".join(answers))

    def _check_foreign_keys(self) -> Finding:
        try:
            broken = self._connection.raw.execute("PRAGMA foreign_key_check").fetchall()
        except sqlite3.Error as error:
            return Finding("references", ok=False, detail=str(error))
        detail = f"{len(broken)} rows point to nothing: {broken[:5]}" if broken else "every reference holds"
        return Finding("references", not broken, detail)

    def backup(self, path: str, progress: Progress | None = None) -> None:
        self._refuse_fork()
        prepare_folder(path)
        with block_forks(), create_database(path, "backup") as unfinished:
            if self._readers is None:
                self._writer.run_exclusive(lambda: _backup(self._connection, unfinished, progress))
                return
            with closing(self._connect_reader()) as source:
                _backup(source, unfinished, progress)


def copy_file(path: str, target: Path) -> None:
    """A checked copy of the SQLite file at a path, as it is now. Raises InvalidInput where there is none."""
    if not os.path.isfile(path):
        raise InvalidInput(f"{path} is not a file; name one that `limpet backup` made")
    # Without a log beside it nobody writes it, and then reading it leaves no files there either.
    options = "mode=ro" if os.path.exists(f"{path}-wal") else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?{options}", uri=True)) as source:
            if not source.execute("SELECT 1 FROM sqlite_master WHERE name = 'limpet_migrations'").fetchone():
                raise InvalidInput(f"{path} is not a store of Limpet; name a file that `limpet backup` made")
            _copy_database(source, target, None)
    except sqlite3.Error as error:
        raise translate_error(error, path) from error


def _backup(source: SqliteConnection, target: Path, progress: Progress | None) -> None:
    try:
        _copy_database(source.raw, target, progress)
    except sqlite3.Error as error:
        raise translate_error(error, str(target).removesuffix(".unfinished")) from error


def _copy_database(source: sqlite3.Connection, path: Path, progress: Progress | None) -> None:
    create_private_file(str(path))
    target = sqlite3.connect(path, isolation_level=None)
    try:

        def report(_: int, remaining: int, total: int) -> None:
            yield_to_fork()
            if progress is not None:
                progress("pages", total - remaining, total)

        source.backup(target, pages=_BACKUP_PAGES, progress=report)
        answer = target.execute("PRAGMA quick_check(1)").fetchone()[0]
    finally:
        target.close()
    if answer != "ok":
        raise StorageError(f"the copy is damaged ({answer}); check the disk and the source with `limpet doctor`")
    with path.open("rb") as file:
        os.fsync(file.fileno())
