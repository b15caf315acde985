"""What a process remembers of its spaces, so that a search reads only what is new. Bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from limpet.knowledge.graph.communities import Communities
    from limpet.search.catalogue import Catalogue
    from limpet.search.vector_cache import PartitionVectors

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


class Caches:
    """Catalogues and communities by their space; vectors by their space and model."""

    def __init__(self, megabytes: int = 256) -> None:
        # A catalogue takes about a tenth of what its vectors take.
        self.catalogues: Cache[Catalogue] = Cache(megabytes * _MEGABYTE // 4)
        self.vectors: Cache[PartitionVectors] = Cache(megabytes * _MEGABYTE)
        self.communities: Cache[Communities] = Cache(megabytes * _MEGABYTE // 8)
        self.purges: str | None = None  # the store's count of purges when these were last compared with it

    def list_partitions(self) -> list[int]:
        """The numbers of the spaces that anything is remembered of."""
        return sorted({_partition_id(key) for cache in self._all_caches() for key in cache.list_keys()})

    def drop_partition(self, number: int) -> None:
        """Whatever is remembered of a space that was purged."""
        for cache in self._all_caches():
            for key in cache.list_keys():
                if _partition_id(key) == number:
                    cache.drop(key)

    def _all_caches(self) -> tuple[Cache[Any], ...]:
        return self.catalogues, self.vectors, self.communities


def _partition_id(key: Hashable) -> int:
    found = key[0] if isinstance(key, tuple) else key
    assert isinstance(found, int)
    return found
