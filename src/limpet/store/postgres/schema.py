"""Bringing a PostgreSQL database to this program's schema."""

from __future__ import annotations

from collections.abc import Mapping

from limpet.errors import MigrationError, StorageError
from limpet.model.values import Clock, to_micros
from limpet.store.migrate import EXPORT_HINT, Migration, split_statements
from limpet.store.postgres.connection import PostgresConnection

# One number for everybody who migrates a Limpet database: programs that start together wait for each other.
_MIGRATION_LOCK = 0x4C494D50


class PostgresSchema:
    def __init__(self, connection: PostgresConnection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def list_applied(self) -> Mapping[int, tuple[str, str]]:
        db = self._connection.db
        # One statement, so that tables another process makes meanwhile are not taken for somebody else's.
        ours, foreign = db.execute(
            "SELECT to_regclass('limpet_migrations'), (SELECT min(tablename) FROM pg_tables"
            " WHERE schemaname = current_schema() AND tablename IN ('sessions', 'messages'))"
        )[0]
        if ours is None:
            _reject_foreign_table(foreign)
            return {}
        rows = db.execute("SELECT version, name, checksum FROM limpet_migrations")
        return {version: (name, checksum) for version, name, checksum in rows}

    def apply(self, migration: Migration) -> None:
        db = self._connection.db
        self._connection.begin()
        try:
            db.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATION_LOCK])
            if migration.version in self.list_applied():
                return  # another process was quicker
            if migration.version == 1:
                db.execute(
                    "CREATE TABLE limpet_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL,"
                    " checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)"
                )
            for statement in split_statements(migration.sql):
                db.execute(statement)
            db.execute(
                "INSERT INTO limpet_migrations (version, name, checksum, applied_at) VALUES (%s, %s, %s, %s)",
                [migration.version, migration.name, migration.checksum, to_micros(self._clock())],
            )
            self._connection.commit()
        except StorageError as error:
            text = f"migration {migration.version} ({migration.name}) failed and was undone: {error}"
            if "extension" in str(error):
                text += "; Limpet needs the pgvector extension on the server"
            raise MigrationError(text) from error
        finally:
            self._connection.rollback()


def _reject_foreign_table(table: str | None) -> None:
    """Our table names are plain words: somebody else's ``sessions`` must not be built upon."""
    if table is not None:
        raise MigrationError(
            f"this database has a table {table!r} that is not Limpet's; "
            "use an empty database, or a schema of its own (…?options=-csearch_path%3Dlimpet). "
            f"If an earlier program made it: {EXPORT_HINT}"
        )
