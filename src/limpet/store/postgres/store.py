"""The store on a PostgreSQL database."""

from __future__ import annotations

import re
from collections.abc import Mapping

from limpet.config import StorageSettings
from limpet.errors import MigrationError, StorageError
from limpet.model.privacy import ErasureState
from limpet.model.telemetry import Progress
from limpet.model.values import Clock
from limpet.store.encryption_keys import EncryptionKeys, EncryptionRegistry
from limpet.store.migrate import EXPORT_HINT, Schema
from limpet.store.postgres.connection import PostgresConnection
from limpet.store.store import ReaderPool, Store
from limpet.store.tables import TABLES
from limpet.store.tx import Caches
from limpet.store.writer import block_forks, yield_to_fork

_PASSWORD = re.compile(r"(//[^:/@]*):[^@/]*@")


# One number for everybody who migrates a Limpet database: programs that start together wait for each other.
_MIGRATION_LOCK = 0x4C494D50


class PostgresSchema(Schema):
    package = "limpet.store.postgres"

    def list_applied(self) -> Mapping[int, tuple[str, str]]:
        # One statement, so that tables another process makes meanwhile are not taken for somebody else's.
        ours, foreign = self._connection.db.execute(
            "SELECT to_regclass('limpet_migrations'), (SELECT min(tablename) FROM pg_tables"
            " WHERE schemaname = current_schema() AND tablename IN ('sessions', 'messages'))"
        )[0]
        if ours is None:
            _reject_foreign_table(foreign)
            return {}
        return super().list_applied()

    def lock(self) -> None:
        self._connection.db.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATION_LOCK])

    def advice(self, error: StorageError) -> str:
        return "; Limpet needs the pgvector extension on the server" if "extension" in str(error) else ""


def _reject_foreign_table(table: str | None) -> None:
    """Our table names are plain words: somebody else's ``sessions`` must not be built upon."""
    if table is not None:
        raise MigrationError(
            f"this database has a table {table!r} that is not Limpet's; "
            "use an empty database, or a schema of its own (…?options=-csearch_path%3Dlimpet). "
            f"If an earlier program made it: {EXPORT_HINT}"
        )


class PostgresStore(Store):
    backend = "postgres"

    def __init__(
        self,
        url: str,
        config: StorageSettings,
        clock: Clock,
        caches: Caches | None = None,
        keyring: EncryptionKeys | None = None,
    ) -> None:
        self._url = url
        self.location = _PASSWORD.sub(r"\1:***@", url)
        self._config = config
        self._clock = clock
        self.caches = caches or Caches()
        self._encryption = EncryptionRegistry(keyring)
        with block_forks():
            connection = PostgresConnection(url, config, self.caches, self._encryption)
            PostgresSchema(connection, clock).migrate_or_close()
            self._encryption.is_ready = True
            try:
                connection.register()
            except BaseException:  # why: whatever stopped the opening, the connection must not stay open
                connection.close()
                raise
        self._postgres = connection
        readers = ReaderPool(self._connect_reader, max(1, config.postgres_connections - 1))
        super().__init__(connection, readers, config.group_size, self._encryption)

    def _connect_reader(self) -> PostgresConnection:
        return PostgresConnection(self._url, self._config, self.caches, self._encryption, reader=True)

    def _before_close(self) -> None:
        self._postgres.unregister()

    def erase(self, *, whole: bool, vacuum: bool = False) -> ErasureState:
        """PostgreSQL keeps dead rows until a vacuum, and their bytes until the table's files are written again."""
        if not vacuum:
            return ErasureState.VACUUM
        self._refuse_fork()
        with block_forks():
            connection = PostgresConnection(self._url, self._config, self.caches)
            try:
                for table in TABLES:
                    connection.db.execute(f"VACUUM FULL {table.name}")
                    yield_to_fork()
            finally:
                connection.close()
        return ErasureState.GONE

    def backup(self, path: str, progress: Progress | None = None) -> None:
        """A backup of PostgreSQL is a SQLite file: it can be opened anywhere, and copied back."""
        from limpet.store.copy import copy_to_file  # late: copying knows both backends

        copy_to_file(self, path, self._config, self._clock, progress)
