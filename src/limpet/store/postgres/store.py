"""The store on a PostgreSQL database."""

from __future__ import annotations

import re

from limpet.config import StorageSettings
from limpet.model.privacy import ErasureState
from limpet.model.telemetry import Progress
from limpet.model.values import Clock
from limpet.store.encryption_keys import EncryptionKeys, EncryptionRegistry
from limpet.store.postgres.connection import PostgresConnection
from limpet.store.postgres.schema import PostgresSchema
from limpet.store.store import ReaderPool, Store, migrate_or_close
from limpet.store.tables import TABLES
from limpet.store.tx import Caches
from limpet.store.writer import block_forks, yield_to_fork

_PASSWORD = re.compile(r"(//[^:/@]*):[^@/]*@")


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
            migrate_or_close(connection, self._encryption, PostgresSchema(connection, clock), "limpet.store.postgres")
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
