"""The store on a PostgreSQL database, and a standby for reads that may be a little old.

How old is not guessed from clocks or from what the standby received: the primary is asked how far its log is, and a
standby that has replayed the log to there shows all that was committed when the question was sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from time import monotonic
from typing import TypeVar

from limpet.config.setting import hide_password
from limpet.errors import MigrationError, StorageError, StoreReadOnly, StoreUnavailable, Unsupported
from limpet.model.privacy import ErasureState
from limpet.model.scope import Partition
from limpet.security.telemetry import Progress
from limpet.store.migrate import EXPORT_HINT, Schema
from limpet.store.postgres.connection import PostgresConnection
from limpet.store.postgres.db import PostgresDb
from limpet.store.store import ConnectionPool, Store, Work, WriterPool
from limpet.store.tables import TABLES
from limpet.store.tx import Connection, Tx
from limpet.store.writer import block_forks, yield_to_fork

log = logging.getLogger("limpet.store")

T = TypeVar("T")

_WRITTEN = "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint"
_REPLAYED = (
    "SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
    " ELSE pg_current_wal_flush_lsn() END, '0/0')::bigint"
)
_RETRY_S = 5.0  # after the standby could not be reached
_MAX_PARTITIONS = 10_000


class StandbyBehind(StorageError):
    """The standby has not replayed what the reader must see; the primary answers."""


class StandbyConnection(PostgresConnection):
    replayed = -1  # as far as is known of the server that this connection reached

    def connect(self) -> None:
        self.replayed = -1
        super().connect()

    def require(self, position: int) -> None:
        if self.replayed < position:
            self.replayed = self.read_value(_REPLAYED)
        if self.replayed < position:
            raise StandbyBehind(f"the standby is {position - self.replayed} bytes of the log behind")

    def read(self, work: Callable[[Tx], T], position: int) -> T:
        self.require(position)
        answer = self.snapshot(work)
        if self.replayed < position:
            raise StandbyBehind("the standby was connected again, and may be another one")
        return answer


class Standby:
    """Reads from it are at most ``max_age_s`` old, and show what this process wrote to the partitions they read."""

    def __init__(
        self, connect: Callable[[], StandbyConnection], places: int, primary: ConnectionPool, max_age_s: int
    ) -> None:
        self._pool, self._primary, self._max_age_s = ConnectionPool(connect, places), primary, max_age_s
        # When the primary was asked, and how far it was. Who needs no newer one uses the older one, which a standby
        # is more likely to have reached.
        self._older = self._newer = (float("-inf"), 0)
        self._written: dict[Partition, float] = {}
        self._written_elsewhere = float("-inf")
        self._retry_at = float("-inf")

    def read(self, work: Callable[[Tx], T], partitions: Collection[Partition]) -> T:
        """Raises StandbyBehind, or what the standby says; then the primary is to be asked."""
        if monotonic() < self._retry_at:
            raise StandbyBehind("the standby could not be reached a moment ago")
        position = self._find_position(self._find_oldest(partitions))
        try:
            return self._pool.use(lambda connection: _read(connection, work, position))
        except StoreUnavailable as error:
            self._retry_at = monotonic() + _RETRY_S
            log.warning("the standby of storage.read_url is not used for %g s: %s", _RETRY_S, error)
            raise

    def note_write(self, partitions: Collection[Partition]) -> None:
        """Remember that this process has written to these partitions, or to something that belongs to none."""
        now = monotonic()
        if not partitions:
            self._written_elsewhere = now
        self._written.update(dict.fromkeys(partitions, now))
        if len(self._written) > _MAX_PARTITIONS:  # no reader accepts what is that old
            oldest = now - self._max_age_s
            self._written = {each: when for each, when in list(self._written.items()) if when > oldest}

    def close(self) -> None:
        self._pool.close()

    def _find_oldest(self, partitions: Collection[Partition]) -> float:
        """The time whose state the reader must see, or a later one."""
        written = (self._written.get(partition, float("-inf")) for partition in partitions)
        return max(monotonic() - self._max_age_s, self._written_elsewhere, *written)

    def _find_position(self, oldest: float) -> int:
        when, position = self._older
        if when >= oldest:
            return position
        when, position = self._newer
        if when < oldest:
            when = monotonic()  # before it is asked: the answer is at least that new
            position = self._primary.use(_ask_position)
            self._newer = when, position
        if self._older[0] < monotonic() - self._max_age_s:
            self._older = when, position
        return position


def _ask_position(connection: Connection) -> int:
    assert isinstance(connection, PostgresConnection)
    return connection.read_value(_WRITTEN)


def _read(connection: Connection, work: Callable[[Tx], T], position: int) -> T:
    assert isinstance(connection, StandbyConnection)
    return connection.read(work, position)


# One number for everybody who migrates a Limpet database: programs that start together wait for each other. A new
# database has no table yet whose lock they could take.
_MIGRATION_LOCK = 0x4C494D50

_NO_CITUS = (
    "this database has no Citus: run CREATE EXTENSION citus in it on every machine, and citus_add_node for each worker"
    " on the coordinator; a store on one machine needs neither"
)
_FOREIGN_KEYS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE contype = 'f' AND conparentid = 0 AND connamespace = current_schema()::regnamespace ORDER BY oid
"""
# What every writer locks, and the log of migrations, stay on the coordinator.
_WRITERS = "limpet_writers"


class PostgresSchema(Schema):
    dialect = "postgres"

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
        return (
            "; the database has no store yet: open it on the primary first" if isinstance(error, StoreReadOnly) else ""
        )


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

    _connection: PostgresConnection
    _readers: ConnectionPool

    def _open(self, address: str) -> tuple[PostgresConnection, ConnectionPool]:
        self._url, self.location = address, hide_password(address)
        connection = PostgresConnection(self._url, self._config, self.caches, self.encryption)
        PostgresSchema(connection, self._clock).migrate_or_close()
        self.encryption.is_ready = True
        most = self._config.postgres_connections
        self._write_places = max(1, most // 2)
        readers = ConnectionPool(self._connect_reader, max(1, most - self._write_places))
        self._standby = self._find_standby(readers, most)
        return connection, readers

    def _find_standby(self, primary: ConnectionPool, places: int) -> Standby | None:
        if self._config.read_url == "none":
            return None
        return Standby(self._connect_standby, places, primary, self._config.read_max_age_s)

    def _make_writer(self) -> WriterPool:
        note_write = None if self._standby is None else self._standby.note_write
        return WriterPool(self._connect_writer, self._write_places, self._connection, note_write)

    def _connect_writer(self) -> PostgresConnection:
        return PostgresConnection(self._url, self._config, self.caches, self.encryption)

    def _connect_reader(self) -> PostgresConnection:
        return PostgresConnection(self._url, self._config, self.caches, self.encryption, reader=True)

    def _connect_standby(self) -> StandbyConnection:
        return StandbyConnection(self._config.read_url, self._config, self.caches, self.encryption, reader=True)

    def read_recent(self, work: Work[T], partitions: Collection[Partition]) -> T:
        if self._standby is None or self._prepare is not None:
            return self.read(work)
        self._refuse_fork()
        self._writer.refuse_nesting()
        try:
            with block_forks():
                return self._standby.read(work, partitions)
        except Exception as error:  # why: whatever the standby cannot do or has not yet, the primary answers
            log.debug("the primary answers instead of the standby: %s", error)
            return self.read(work)

    def close(self) -> None:
        super().close()
        if self._standby is not None and not self._is_forked:
            self._standby.close()

    def erase(self, *, whole: bool, vacuum: bool = False) -> ErasureState:
        """PostgreSQL keeps dead rows until a vacuum, and their bytes until the table's files are written again."""
        if not vacuum:
            return ErasureState.VACUUM
        self._refuse_fork()
        with block_forks(), closing(PostgresConnection(self._url, self._config, self.caches)) as connection:
            for table in TABLES:
                connection.db.execute(f"VACUUM FULL {table.name}")
                yield_to_fork()
        return ErasureState.GONE

    def distribute(self) -> Mapping[str, list[str]]:
        self._refuse_fork()
        with block_forks(), closing(self._connect_writer()) as connection:
            return _distribute_tables(connection)

    def backup(self, path: str, progress: Progress | None = None) -> None:
        """A backup of PostgreSQL is a SQLite file: it can be opened anywhere, and copied back."""
        from limpet.store.copy import copy_to_file  # late: copying knows both backends

        copy_to_file(self, path, self._config, self._clock, progress)


def _distribute_tables(connection: PostgresConnection) -> dict[str, list[str]]:
    """Return the tables that were not spread over the Citus cluster yet, by how they are now."""
    connection.begin(exclusive=True)
    try:
        done = _place_tables(connection.db)
        connection.commit()
    finally:
        connection.rollback()
    return done


def _place_tables(db: PostgresDb) -> dict[str, list[str]]:
    if not db.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'"):
        raise Unsupported(_NO_CITUS)
    known = {name for (name,) in db.execute("SELECT logicalrelid::text FROM pg_dist_partition")}
    wanted = [*((table.name, table.placement) for table in TABLES), (_WRITERS, "bucket")]
    missing = [(name, placement) for name, placement in wanted if name not in known]
    if missing:
        # Citus does not distribute a table that another one refers to.
        keys = db.execute(_FOREIGN_KEYS)
        for table, name, _ in keys:
            db.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        for name, placement in missing:
            _place_table(db, name, placement)
        for table, name, definition in keys:
            db.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
    return {
        placement: [name for name, of in missing if of == placement] for placement in ("bucket", "tenant", "reference")
    }


def _place_table(db: PostgresDb, name: str, placement: str) -> None:
    if placement == "reference":
        db.execute("SELECT create_reference_table(%s)", [name])
        return
    # All of one placement lie together: the rows of a bucket on one machine, whichever table they are in.
    first = {"bucket": "partitions", "tenant": "imports"}[placement]
    beside = "none" if name == first else first
    db.execute("SELECT create_distributed_table(%s, %s, colocate_with => %s)", [name, placement, beside])
    db.execute("SELECT truncate_local_data_after_distributing_table(%s)", [name])
