"""What a process caches of its partitions, so that a search reads only what is new. Bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

_MEGABYTE = 1 << 20


class CacheValue(Protocol):
    @property
    def nbytes(self) -> int: ...


V = TypeVar("V", bound=CacheValue)


class Cache(Generic[V]):
    """The longest unused go first when all together are too large; the latest stays whatever its size.

    One without any room remembers nothing at all.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, V] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._total = 0

    def get(self, key: Hashable) -> V | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: Hashable, value: V) -> None:
        """Also for one that has grown since."""
        if not self._max_bytes:
            return
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            self._count(key, value.nbytes)
            while len(self._kept) > 1 and self._total > self._max_bytes:
                gone, _ = self._kept.popitem(last=False)
                self._count(gone, 0)
                del self._sizes[gone]

    def setdefault(self, key: Hashable, fresh: V) -> V:
        """What is kept under the key, or else the fresh one, which is kept from now on: the same for every caller."""
        if not self._max_bytes:
            return fresh
        with self._lock:
            kept = self._kept.setdefault(key, fresh)
            self._count(key, kept.nbytes)
            return kept

    def list_keys(self) -> list[Hashable]:
        with self._lock:
            return list(self._kept)

    def drop(self, key: Hashable) -> None:
        with self._lock:
            if self._kept.pop(key, None) is not None:
                self._count(key, 0)
                del self._sizes[key]

    def _count(self, key: Hashable, size: int) -> None:
        self._total += size - self._sizes.get(key, 0)
        self._sizes[key] = size

    @property
    def nbytes(self) -> int:
        with self._lock:
            return self._total


class CacheKind(Generic[V]):
    """A kind of cached value, and its share of the memory for caches."""

    def __init__(self, name: str, share: float) -> None:
        self.name = name
        self.share = share


class Caches:
    """One cache of each kind. The key of a value is its partition's id, or a tuple that begins with it."""

    def __init__(self, megabytes: int = 256) -> None:
        self._max_bytes = megabytes * _MEGABYTE
        self._lock = threading.Lock()
        self._caches: dict[str, Cache[Any]] = {}
        self.purges: str | None = None  # the store's count of purges when these were last compared with it

    def get(self, kind: CacheKind[V]) -> Cache[V]:
        found = self._caches.get(kind.name)
        if found is None:
            with self._lock:
                found = self._caches.setdefault(kind.name, Cache(int(self._max_bytes * kind.share)))
        return found

    @property
    def nbytes(self) -> int:
        return sum(cache.nbytes for cache in self._all_caches())

    def list_partitions(self) -> list[int]:
        """The ids of the partitions that anything is cached of."""
        return sorted({_partition_id(key) for cache in self._all_caches() for key in cache.list_keys()})

    def drop_partition(self, partition_id: int) -> None:
        """Drop whatever is cached of a partition that was purged."""
        for cache in self._all_caches():
            for key in cache.list_keys():
                if _partition_id(key) == partition_id:
                    cache.drop(key)

    def _all_caches(self) -> tuple[Cache[Any], ...]:
        with self._lock:
            return tuple(self._caches.values())


def _partition_id(key: Hashable) -> int:
    found = key[0] if isinstance(key, tuple) else key
    assert isinstance(found, int)
    return found
