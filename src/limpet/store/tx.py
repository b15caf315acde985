"""A transaction: one connection, the encryption its rows need, and what this process has cached.

Repositories are made from it where they are used: ``Records(tx).get(…)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from limpet.store.cache import Caches
from limpet.store.db import Db
from limpet.store.encryption_state import EncryptionRegistry, TxEncryption

T = TypeVar("T")


class Tx:
    def __init__(self, db: Db, caches: Caches | None = None, encryption: EncryptionRegistry | None = None) -> None:
        self.db = db
        self.caches = caches or Caches()
        self.encryption = TxEncryption(db, encryption)
        self.seen: dict[Any, Any] | None = None  # rows looked up already; None while anything may change
        # Ids found by the work at hand, by partition and by session. An id is never used again.
        self.partition_ids: dict[Any, int] = {}

    def run(self, work: Callable[[Tx], T]) -> T:
        """Run work that knows nothing of the work before it, which may have been rolled back."""
        self.partition_ids.clear()
        return work(self)

    @contextmanager
    def cache_lookups(self) -> Iterator[None]:
        """While a transaction only reads, a row is looked up once: a search asks for its partition at every step."""
        self.seen = {}
        try:
            yield
        finally:
            self.seen = None
