"""The store on one SQLite file, or in memory."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from limpet.config import StorageSettings
from limpet.errors import InvalidInput, StorageError
from limpet.model.receipt import Bytes
from limpet.model.times import Clock
from limpet.search.cache import Caches
from limpet.store import forks
from limpet.store.base import Features, Finding, Progress
from limpet.store.encryption import Keyring
from limpet.store.encryption_state import Seals
from limpet.store.sql_store import Readers, SqlStore, bring_forward
from limpet.store.sqlite import scrub as scrubbing
from limpet.store.sqlite.connection import MEMORY, SqliteConnection, meaning, prepare_folder
from limpet.store.sqlite.schema import SqliteSchema

log = logging.getLogger("limpet.store")

_BACKUP_PAGES = 1024
_AT_ONCE_BYTES = 8 << 20  # a file up to this size is scrubbed while somebody waits for a purge


class SqliteStore(SqlStore):
    def __init__(
        self,
        path: str,
        config: StorageSettings,
        clock: Clock,
        caches: Caches | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self.path = path
        self._config = config
        if path != MEMORY:
            prepare_folder(path)
        self.caches = caches or Caches()
        self._seals = Seals(keyring)
        with forks.inside():
            self._sqlite = SqliteConnection(path, config, self.caches, self._seals)
            bring_forward(self._sqlite, self._seals, SqliteSchema(self._sqlite, clock), "limpet.store.sqlite")
            # A database in memory belongs to its one connection: reads take turns with the writer.
            readers = None if path == MEMORY else Readers(self._reader, config.readers)
            super().__init__(self._sqlite, readers, config.group_size, self._seals)
            self._file = None if path == MEMORY else scrubbing.FILES.enter(path)

    def _reader(self) -> SqliteConnection:
        return SqliteConnection(self.path, self._config, self.caches, self._seals, reader=True)

    @property
    def features(self) -> Features:
        on_disk = self.path != MEMORY
        return Features("sqlite" if on_disk else "memory", on_disk, on_disk, self.path)

    def close(self) -> None:
        with forks.inside():
            super().close()
            if self._file is not None and os.getpid() == self._pid:
                scrubbing.FILES.leave(self._file)
                self._file = None

    def erase(self, *, whole: bool, vacuum: bool = False) -> Bytes:
        """The log is emptied in any case, as soon as nobody reads from it."""
        self._refuse_fork()
        if self._file is None:
            return Bytes.GONE
        with forks.inside():
            return self._erase(whole=whole, vacuum=vacuum)

    def _erase(self, *, whole: bool, vacuum: bool) -> Bytes:
        try:
            if vacuum:
                with closing(scrubbing.connect(self.path, self._config.busy_timeout_ms / 1000)) as raw:
                    raw.execute("VACUUM")
            elif (state := self._scrub(whole=whole)) is not Bytes.GONE:
                return state
        except (sqlite3.Error, StorageError) as error:
            log.info("what was purged is still in unused places of %s: %s", self.path, error)
            return Bytes.WAITING
        with closing(scrubbing.connect(self.path)) as raw:
            emptied = not scrubbing.is_logging(raw) or scrubbing.truncate_log(raw)
        return Bytes.GONE if emptied else Bytes.WAITING

    def _scrub(self, *, whole: bool) -> Bytes:
        assert self._file is not None
        if not whole and os.path.getsize(self.path) > _AT_ONCE_BYTES:
            with closing(scrubbing.connect(self.path)) as raw:
                scrubbing.truncate_log(raw, 0)
            return Bytes.WAITING
        done = scrubbing.scrub(self.path, self._file, self._config.busy_timeout_ms / 1000)
        return Bytes.VACUUM if done is None else Bytes.GONE

    def doctor(self, *, repair: bool) -> Iterator[Finding]:
        self._refuse_fork()
        for look in (self._integrity, self._foreign_keys):
            with forks.inside():
                found = self._writer.exclusive(look)
            yield found
        yield from super().doctor(repair=repair)

    def _integrity(self) -> Finding:
        try:
            answers = [row[0] for row in self._sqlite.raw.execute("PRAGMA integrity_check(20)")]
        except sqlite3.Error as error:
            answers = [str(error)]
        return Finding("file integrity", answers == ["ok"], "; ".join(answers))

    def _foreign_keys(self) -> Finding:
        try:
            broken = self._sqlite.raw.execute("PRAGMA foreign_key_check").fetchall()
        except sqlite3.Error as error:
            return Finding("references", ok=False, detail=str(error))
        detail = f"{len(broken)} rows point to nothing: {broken[:5]}" if broken else "every reference holds"
        return Finding("references", not broken, detail)

    def backup(self, path: str, progress: Progress | None = None) -> None:
        """Copy the live database to a new file, which appears whole or not at all."""
        self._refuse_fork()
        target = Path(path)
        if os.path.exists(target):  # not Path.exists, which raises for a name that is too long
            raise InvalidInput(f"{target} exists already; name a new file for the backup")
        with forks.inside():
            if self._readers is None:
                self._writer.exclusive(lambda: _backup(self._sqlite, target, progress))
                return
            source = self._reader()
            try:
                _backup(source, target, progress)
            finally:
                source.close()


def _backup(source: SqliteConnection, target: Path, progress: Progress | None) -> None:
    unfinished = target.with_name(target.name + ".unfinished")
    try:
        prepare_folder(str(target))
        unfinished.unlink(missing_ok=True)
        _copy_database(source.raw, unfinished, progress)
        os.replace(unfinished, target)
    except sqlite3.Error as error:
        raise meaning(error, str(target)) from error
    except OSError as error:
        raise StorageError(f"the backup to {target} failed: {error.strerror}; nothing was left there") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _copy_database(source: sqlite3.Connection, path: Path, progress: Progress | None) -> None:
    target = sqlite3.connect(path, isolation_level=None)
    try:

        def report(_: int, remaining: int, total: int) -> None:
            forks.give_way()
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
