"""Bringing a SQLite file to this program's schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from limpet.errors import MigrationError
from limpet.model.values import Clock, to_micros
from limpet.store.migrate import Migration, split_statements
from limpet.store.sqlite.connection import APPLICATION_ID, SqliteConnection, translate_error


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
        self._connection.begin()
        try:
            if migration.version in self.list_applied():
                return  # another process was quicker
            if migration.version == 1:
                self._raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._raw.execute(
                    "CREATE TABLE limpet_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL,"
                    " checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)"
                )
            for statement in split_statements(migration.sql):
                self._raw.execute(statement)
            row = (migration.version, migration.name, migration.checksum, to_micros(self._clock()))
            self._raw.execute(
                "INSERT INTO limpet_migrations (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)", row
            )
            self._raw.execute("COMMIT")
        except sqlite3.Error as error:
            kind = translate_error(error, self._connection.path)
            text = f"migration {migration.version} ({migration.name}) failed and was undone: {kind}"
            raise MigrationError(text) from error
        finally:
            self._connection.rollback()
