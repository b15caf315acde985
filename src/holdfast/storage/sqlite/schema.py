"""Bringing a SQLite file to this program's schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from holdfast.domain.times import Clock, to_micros
from holdfast.errors import MigrationError, StoreCorrupt
from holdfast.storage.sql.migrate import Migration, statements
from holdfast.storage.sqlite.connection import SqliteConnection, meaning

APPLICATION_ID = 0x484F4C44  # "HOLD" in the file's header, so that `file` and we can tell whose it is


class SqliteSchema:
    def __init__(self, connection: SqliteConnection, clock: Clock) -> None:
        self._connection = connection
        self._raw = connection.raw
        self._clock = clock

    def applied(self) -> Mapping[int, tuple[str, str]]:
        try:
            if not self._is_ours():
                return {}
            rows = self._raw.execute("SELECT version, name, checksum FROM holdfast_migrations").fetchall()
        except sqlite3.Error as error:
            raise meaning(error, self._connection.path) from error
        return {version: (name, checksum) for version, name, checksum in rows}

    def _is_ours(self) -> bool:
        """False for an empty file; a foreign database is refused before anything is written to it."""
        tables = {name for (name,) in self._raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return False
        stamp = self._raw.execute("PRAGMA application_id").fetchone()[0]
        if stamp != APPLICATION_ID or "holdfast_migrations" not in tables:
            raise StoreCorrupt(
                f"{self._connection.path} is a SQLite database, but not a Holdfast one; choose another file (nothing was changed)"
            )
        return True

    def apply(self, migration: Migration) -> None:
        self._connection.begin()
        try:
            if migration.version in self.applied():
                return  # another process was quicker
            if migration.version == 1:
                self._raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._raw.execute(
                    "CREATE TABLE holdfast_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,"
                    " applied_at BIGINT NOT NULL)"
                )
            for statement in statements(migration.sql):
                self._raw.execute(statement)
            row = (migration.version, migration.name, migration.checksum, to_micros(self._clock()))
            self._raw.execute(
                "INSERT INTO holdfast_migrations (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)", row
            )
            self._raw.execute("COMMIT")
        except sqlite3.Error as error:
            kind = meaning(error, self._connection.path)
            text = f"migration {migration.version} ({migration.name}) failed and was undone: {kind}"
            raise MigrationError(text) from error
        finally:
            self._connection.rollback()
