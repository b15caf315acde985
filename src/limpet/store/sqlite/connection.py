"""SQLite connections: one that writes, a pool that reads, and what their errors mean."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from limpet.config import StorageSettings
from limpet.errors import (
    ConstraintFailed,
    MigrationError,
    StorageError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from limpet.store.encryption_keys import EncryptionRegistry
from limpet.store.files import create_private_file, make_private_folders
from limpet.store.migrate import EXPORT_HINT
from limpet.store.sqlite.lock_queue import LockQueue
from limpet.store.tables import Statements, to_sqlite
from limpet.store.tx import NO_PARAMS, Caches, Connection, Db, Params, Query, Row, Tx

MEMORY = ":memory:"
_JOINS_BYTES = (3, 40)  # older ones may end a joined value at its first byte of 0
_JOINED = {"number": "group_concat({})", "text": "json_group_array({})", "bytes": "CAST(group_concat({}, '') AS BLOB)"}
MIN_SQLITE_VERSION = (3, 35, 0)  # RETURNING
APPLICATION_ID = 0x4C494D50  # "LIMP" in the file's header, so that `file` and we can tell whose it is
_OLD_APPLICATION_ID = 0x484F4C44  # of stores from before the first release

_ERROR_CLASSES: dict[int, tuple[type[StorageError], str]] = {
    sqlite3.SQLITE_BUSY: (StoreBusy, "is locked by another process; try again, or raise storage.busy_timeout_ms"),
    sqlite3.SQLITE_LOCKED: (StoreBusy, "is locked by another connection; try again"),
    sqlite3.SQLITE_FULL: (StoreFull, "cannot grow: the disk is full; free some space and repeat the call"),
    sqlite3.SQLITE_READONLY: (StoreReadOnly, "cannot be written; check the permissions of the file and its folder"),
    sqlite3.SQLITE_PERM: (StoreReadOnly, "cannot be written; check the permissions of the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: (StoreReadOnly, "cannot be opened; check that its folder exists and may be written"),
    sqlite3.SQLITE_NOTADB: (
        StoreCorrupt,
        "is not a SQLite database; give the folder of a Limpet store, or another one",
    ),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "is damaged; restore a backup, or try `limpet doctor`"),
    sqlite3.SQLITE_IOERR: (StorageError, "could not be read or written; check the disk"),
    sqlite3.SQLITE_CONSTRAINT: (ConstraintFailed, "refused a value that would break a constraint"),
}


def translate_error(error: sqlite3.Error, path: str) -> StorageError:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        closed = "closed" in str(error)
        return (StoreUnavailable if closed else StorageError)(f"{path}: {error}")
    kind, text = _ERROR_CLASSES.get(code & 0xFF, (StorageError, "failed"))
    return kind(f"{path} {text} ({error})")


@cache
def load_statements() -> Statements:
    return Statements("sqlite", to_sqlite)


class SqliteDb(Db):
    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        super().__init__(load_statements())
        self.raw = connection
        self.path = path

    def run(self, name: str, params: Params) -> int:
        try:
            return self.raw.execute(self._sql[name, "", ""], params).rowcount
        except sqlite3.Error as error:
            raise translate_error(error, self.path) from error

    def execute(self, sql: str, params: Any = NO_PARAMS) -> list[Row]:
        try:
            return self.raw.execute(sql, params).fetchall()
        except sqlite3.Error as error:
            raise translate_error(error, self.path) from error

    def execute_many(self, sql: str, rows: Sequence[Params]) -> None:
        try:
            self.raw.executemany(sql, rows)
        except sqlite3.Error as error:
            raise translate_error(error, self.path) from error

    def to_array(self, values: Sequence[int] | Sequence[str]) -> str:
        return json.dumps(list(values))

    def columns(self, query: Query, **kinds: str) -> list[Any]:
        """SQLite joins each column into one value: an object for each value of each row costs several times that.

        SQLite keeps the order of the inner query for what joins.
        """
        if sqlite3.sqlite_version_info < _JOINS_BYTES:
            return super().columns(query, **kinds)
        import numpy as np  # late: most commands never search

        joined = ", ".join(_JOINED[kind].format(name) for name, kind in kinds.items())
        inner = self._sql[query.name, query.where, query.order]
        [(count, *values)] = self.execute(f"SELECT count(*), {joined} FROM ({inner})", query.params)
        return [
            np.fromstring(value or "", "i8", sep=",")
            if kind == "number"
            else json.loads(value)
            if kind == "text"
            else np.frombuffer(value or b"", "u1").reshape(count, -1 if count else 0)
            for kind, value in zip(kinds.values(), values, strict=True)
        ]


class SqliteConnection(Connection):
    db: SqliteDb

    def __init__(
        self,
        path: str,
        config: StorageSettings,
        caches: Caches | None = None,
        encryption: EncryptionRegistry | None = None,
        *,
        reader: bool = False,
    ) -> None:
        self.path = path
        self._encryption = encryption or EncryptionRegistry()
        self.raw = _connect(path, config, reader=reader)
        self.db = SqliteDb(self.raw, path)
        self._busy_s = config.busy_timeout_ms / 1000
        self._queue: LockQueue | None = None
        self.tx = Tx(self.db, caches, self._encryption)

    def use_lock_queue(self) -> None:
        """From now on wait for other processes in the order in which they came, and not as SQLite does."""
        self.db.execute("PRAGMA busy_timeout = 0")
        self._queue = LockQueue(self.path)

    def begin(self, *, exclusive: bool = False) -> None:
        if self._queue is None:
            self._begin_write()
        else:
            self._queue.take_turn(self._begin_write, self._busy_s)
        self._load_encryption_state(writing=True)

    def _begin_write(self) -> None:
        self._begin("BEGIN IMMEDIATE")

    def _begin(self, statement: str) -> None:
        if self.raw.in_transaction:
            self.rollback()  # of what an interrupt left open
        self.tx.seen = None
        self.db.execute(statement)

    def _load_encryption_state(self, *, writing: bool) -> None:
        if self._encryption.is_ready:
            found = self.db.one("encryption.generation", {})
            self.tx.load_encryption(found[0] if found else 0, writing=writing)

    def has_committed(self) -> bool:
        return not self.raw.in_transaction

    def rollback(self) -> None:
        try:
            if self.raw.in_transaction:
                self.raw.execute("ROLLBACK")
        except sqlite3.Error:  # a full disk or an I/O error may have ended the transaction already
            pass

    def begin_read(self) -> None:
        self._begin("BEGIN")
        self._load_encryption_state(writing=False)

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self.raw.close()
        if self._queue is not None:
            self._queue.close()


def _connect(path: str, config: StorageSettings, *, reader: bool) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < MIN_SQLITE_VERSION:
        raise StorageError(
            f"SQLite {'.'.join(map(str, MIN_SQLITE_VERSION))} or newer is needed;"
            f" this Python has {sqlite3.sqlite_version}"
        )
    if path != MEMORY:
        create_private_file(path)
    try:
        raw = sqlite3.connect(
            path,
            timeout=config.busy_timeout_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
    except sqlite3.Error as error:
        raise translate_error(error, path) from error
    try:
        raw.execute("PRAGMA foreign_keys = ON")
        raw.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten; see scrub.py for what this misses
        raw.execute(f"PRAGMA synchronous = {config.synchronous}")
        raw.execute("PRAGMA cache_size = -8192")
        if path != MEMORY:
            _reject_foreign_database(raw, path)
            _set_journal(raw, config)
        if reader:
            raw.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raw.close()
        raise translate_error(error, path) from error
    return raw


def _reject_foreign_database(raw: sqlite3.Connection, path: str) -> None:
    """Somebody else's database is refused before anything is written to it, its journal mode included."""
    raw.execute("BEGIN")  # one view: another process may be making the store right now
    stamp = raw.execute("PRAGMA application_id").fetchone()[0]
    tables = raw.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    raw.execute("ROLLBACK")
    if tables and stamp == _OLD_APPLICATION_ID:
        raw.close()
        raise MigrationError(f"{path} has the layout of an earlier program; {EXPORT_HINT} (nothing was changed)")
    if tables and stamp != APPLICATION_ID:
        raw.close()
        raise StoreCorrupt(f"{path} is a SQLite database, but not a Limpet one; choose another (nothing was changed)")


def _set_journal(raw: sqlite3.Connection, config: StorageSettings) -> None:
    wanted = "wal" if config.wal else "delete"
    deadline = time.monotonic() + config.busy_timeout_ms / 1000
    while raw.execute("PRAGMA journal_mode").fetchone()[0] != wanted:
        try:
            raw.execute(f"PRAGMA journal_mode = {wanted}")
        except sqlite3.OperationalError as error:
            # The switch needs the file for itself for a moment, and SQLite does not wait for that.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    # 40 MB between checkpoints: an append touches a few pages again and again, and each is copied back once.
    raw.execute("PRAGMA wal_autocheckpoint = 10000")
    raw.execute("PRAGMA journal_size_limit = 67108864")


def prepare_folder(path: str) -> None:
    folder = Path(path).parent
    try:
        make_private_folders(folder)
    except OSError as error:
        raise StoreReadOnly(
            f"the folder {folder} cannot be made: {error.strerror}; choose another with --data"
        ) from error
