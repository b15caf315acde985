"""A PostgreSQL that follows the primary, for reads that may be a little old.

How old is not guessed from clocks or from what the standby received: the primary is asked how far its log is, and a
standby that has replayed the log to there shows all that was committed when the question was sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from limpet.errors import StorageError, StoreUnavailable
from limpet.store.postgres.connection import PostgresConnection
from limpet.store.store import ConnectionPool

if TYPE_CHECKING:
    from limpet.model.scope import Partition
    from limpet.store.tx import Connection, Tx

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
