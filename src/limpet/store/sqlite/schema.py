"""Bringing a SQLite file to this program's schema."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping
from functools import lru_cache

from limpet.errors import MigrationError
from limpet.model.values import Clock, to_micros
from limpet.store.migrate import Migration, split_statements
from limpet.store.sqlite.connection import APPLICATION_ID, MEMORY, SqliteConnection, translate_error


class SqliteSchema:
    def __init__(self, connection: SqliteConnection, clock: Clock) -> None:
        self._connection = connection
        self._raw = connection.raw
        self._clock = clock

    def list_applied(self) -> Mapping[int, tuple[str, str]]:
        try:
            if not self._raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'limpet_migrations'").fetchone():
                return {}
            rows = self._raw.execute("SELECT version, name, checksum FROM limpet_migrations").fetchall()
        except sqlite3.Error as error:
            raise translate_error(error, self._connection.path) from error
        return {version: (name, checksum) for version, name, checksum in rows}

    def apply(self, migration: Migration) -> None:
        try:
            if migration.version == 1 and self._connection.path == MEMORY:
                _copy_first_tables(migration, self._raw)
                self._record(migration)
            else:
                self._apply(migration)
        except sqlite3.Error as error:
            kind = translate_error(error, self._connection.path)
            text = f"migration {migration.version} ({migration.name}) failed and was undone: {kind}"
            raise MigrationError(text) from error

    def _apply(self, migration: Migration) -> None:
        self._connection.begin()
        try:
            if migration.version in self.list_applied():
                return  # another process was quicker
            _create_tables(migration, self._raw)
            self._record(migration)
            self._raw.execute("COMMIT")
        finally:
            self._connection.rollback()

    def _record(self, migration: Migration) -> None:
        row = (migration.version, migration.name, migration.checksum, to_micros(self._clock()))
        self._raw.execute(
            "INSERT INTO limpet_migrations (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)", row
        )


def _create_tables(migration: Migration, raw: sqlite3.Connection) -> None:
    if migration.version == 1:
        raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        raw.execute(
            "CREATE TABLE limpet_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL,"
            " checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)"
        )
    for statement in split_statements(migration.sql):
        raw.execute(statement)


# A store in memory is created again and again, and creating its tables took half of that time.
_template_lock = threading.Lock()


def _copy_first_tables(migration: Migration, raw: sqlite3.Connection) -> None:
    with _template_lock:
        _create_template(migration).backup(raw)


@lru_cache(maxsize=1)
def _create_template(migration: Migration) -> sqlite3.Connection:
    raw = sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False)
    try:
        _create_tables(migration, raw)
    except sqlite3.Error:
        raw.close()
        raise
    return raw
