"""How often callers recall a record: counted here, and written along with another write or a minute later.

So a recall costs no commit. A process that is killed loses the counts of that minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from threading import Lock

from limpet.knowledge.repository import Records
from limpet.model.scope import Partition
from limpet.store.tx import Tx

_MOST = 1000  # records counted before they are written
_WAIT = timedelta(minutes=1)


class UseCounter:
    """The uses that are not written yet. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[Partition, dict[str, tuple[int, datetime]]] = {}
        self._since: datetime | None = None

    def count(self, partition: Partition, ids: Iterable[str], now: datetime) -> None:
        with self._lock:
            counts = self._counts.setdefault(partition, {})
            for record_id in ids:
                counts[record_id] = counts.get(record_id, (0, now))[0] + 1, now
            if self._since is None and counts:
                self._since = now

    def is_due(self, now: datetime) -> bool:
        """Return whether the counts should be written without waiting for another write."""
        with self._lock:
            full = sum(map(len, self._counts.values())) >= _MOST
            return full or (self._since is not None and not timedelta() <= now - self._since < _WAIT)

    def list_partitions(self) -> list[Partition]:
        """Whose records have counts. Each is written in its own transaction: users do not wait for each other."""
        with self._lock:
            return sorted((partition for partition, counts in self._counts.items() if counts), key=str)

    def write(self, tx: Tx, partition: Partition) -> None:
        """Write the counts of a partition and start from zero."""
        with self._lock:
            counts = self._counts.pop(partition, {})
            if not self._counts:
                self._since = None
        if counts:
            Records(tx).mark_used(partition, counts)
