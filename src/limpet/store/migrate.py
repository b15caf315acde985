"""Numbered migrations, each applied in one transaction together with its record."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from limpet.errors import MigrationError, StorageError
from limpet.model.dataclass import dataclass
from limpet.model.values import Clock, to_micros
from limpet.store.tables import choose_words
from limpet.store.tx import Connection

EXPORT_HINT = "export it with the program that made it, and import the export into a new store"
_FOLDER = Path(__file__).with_name("migrations")
_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


class Schema:
    """A database that can be brought forward. Each dialect has a subclass."""

    dialect: str

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection, self._clock = connection, clock

    def list_applied(self) -> Mapping[int, tuple[str, str]]:
        """version -> (name, checksum) of what was applied; empty for a new database."""
        rows = self._connection.db.execute("SELECT version, name, checksum FROM limpet_migrations")
        return {version: (name, checksum) for version, name, checksum in rows}

    def migrate_or_close(self) -> None:
        """Apply what is missing, in order, or leave nothing open."""
        try:
            applied, migrations = self.list_applied(), load_migrations(self.dialect)
            check_consistent_history(applied, migrations)
            missing = [migration for migration in migrations if migration.version not in applied]
            for migration in missing:
                self._apply_or_fail(migration)
            if missing:  # another process may have applied some of them meanwhile
                check_consistent_history(self.list_applied(), migrations)
        except BaseException:  # why: whatever stopped the opening, the connection must not stay open
            self._connection.close()
            raise

    def _apply_or_fail(self, migration: Migration) -> None:
        try:
            self.apply(migration)
        except StorageError as error:
            text = f"migration {migration.version} ({migration.name}) failed and was undone: {error}"
            raise MigrationError(text + self.advice(error)) from error

    def apply(self, migration: Migration) -> None:
        """In one transaction: check nobody else has applied it meanwhile, run it, record it."""
        self._connection.begin()
        try:
            self.lock()
            if migration.version in self.list_applied():
                return  # another process was quicker
            self.create_tables(migration)
            self.record(migration)
            self._connection.commit()
        finally:
            self._connection.rollback()

    def lock(self) -> None:
        """Where a transaction alone does not keep others from migrating."""

    def advice(self, error: StorageError) -> str:
        return ""

    def create_tables(self, migration: Migration) -> None:
        execute = self._connection.db.execute
        if migration.version == 1:
            execute(
                "CREATE TABLE limpet_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL,"
                " checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)"
            )
        for statement in split_statements(migration.sql):
            execute(statement)

    def record(self, migration: Migration) -> None:
        self._connection.db.execute_sql(
            "INSERT INTO limpet_migrations (version, name, checksum, applied_at) VALUES (:version, :name, :sum, :now)",
            {
                "version": migration.version,
                "name": migration.name,
                "sum": migration.checksum,
                "now": to_micros(self._clock()),
            },
        )


def load_migrations(dialect: str) -> list[Migration]:
    """All, as this dialect says them."""
    named = ((_FILE.fullmatch(file.name), file) for file in sorted(_FOLDER.iterdir()))
    found = [
        Migration(int(match[1]), match[2], choose_words(dialect, file.read_text(encoding="utf-8")))
        for match, file in named
        if match
    ]
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise MigrationError("the migrations are not numbered 1, 2, 3, …")
    return found


def check_consistent_history(applied: Mapping[int, tuple[str, str]], migrations: Iterable[Migration]) -> None:
    known = {migration.version: migration for migration in migrations}
    newest = max(applied, default=0)
    if newest > max(known, default=0):
        raise MigrationError(
            f"this database has schema {newest}, but this program knows only up to {max(known, default=0)}; "
            "upgrade limpet (nothing was changed)"
        )
    for version, (name, checksum) in sorted(applied.items()):
        migration = known[version]
        if migration.checksum != checksum:
            raise MigrationError(
                f"this database has another layout: its migration {version} ({name}) is not this program's;"
                f" {EXPORT_HINT} (nothing was changed)"
            )


def split_statements(sql: str) -> list[str]:
    """A migration's statements. Ours hold no semicolon but at a statement's end."""
    lines = (line for line in sql.splitlines() if not line.lstrip().startswith("--"))
    return [piece.strip() for piece in "\n".join(lines).split(";") if piece.strip()]
