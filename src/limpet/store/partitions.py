"""Partitions as rows: the parameters that name them, and their ids."""

from __future__ import annotations

from limpet.model.scope import BUCKETS, Partition
from limpet.store.tx import Tx


def partition_params(partition: Partition) -> dict[str, str | int]:
    """The partition by its name."""
    return {
        "bucket": partition.bucket,
        "tenant": partition.tenant,
        "level": partition.level.value,
        "owner": partition.owner,
    }


def partition_key(partition_id: int) -> dict[str, int]:
    """The first columns of every key in the partition. An id ends with its bucket."""
    return {"bucket": partition_id % BUCKETS, "partition_id": partition_id}


class Partitions:
    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def find_id(self, partition: Partition) -> int | None:
        known = self._tx.partition_ids.get(partition)
        if known is None:
            row = self._tx.db.one("partitions.find_id", partition_params(partition))
            if row is None:
                return None
            known = self._tx.partition_ids[partition] = int(row[0])
        return known

    def find_key(self, partition: Partition) -> dict[str, int]:
        """Of a partition that is not there, a key that nothing has."""
        return partition_key(self.find_id(partition) or -1)
