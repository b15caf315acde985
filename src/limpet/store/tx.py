"""A transaction: one connection, the encryption its rows need, and what this process has cached.

Repositories are made from it where they are used: ``Records(tx).get(…)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from limpet.store.cache import Caches
from limpet.store.db import Db
from limpet.store.encryption_state import EncryptionRegistry, TxEncryption


class Tx:
    def __init__(self, db: Db, caches: Caches | None = None, seals: EncryptionRegistry | None = None) -> None:
        self.db = db
        self.caches = caches or Caches()
        self.seals = TxEncryption(db, seals)
        self.seen: dict[Any, Any] | None = None  # rows looked up already; None while anything may change

    @contextmanager
    def cache_lookups(self) -> Iterator[None]:
        """While a transaction only reads, a row is looked up once: a search asks for its partition at every step."""
        self.seen = {}
        try:
            yield
        finally:
            self.seen = None
