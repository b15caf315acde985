"""How a check of the store is run. The checks themselves stand beside what they check; ``api`` puts them together."""

from __future__ import annotations

from collections.abc import Callable

from limpet.errors import KeyMissing, StorageError
from limpet.model.job import Finding
from limpet.store.encryption import Cipher
from limpet.store.store import Store
from limpet.store.tx import Tx


def run_check(store: Store, name: str, check: Callable[[Tx], Finding], *, repair: bool) -> Finding:
    """A check in a transaction of its own: what it compares is of one moment, and so is its repair."""
    try:
        return (store.write if repair else store.read)(check)
    except StorageError as error:  # a damaged table is a finding; the rest is looked at still
        return Finding(name, ok=False, detail=str(error))


def find_cipher(tx: Tx, tenant: str) -> Cipher | None:
    """None where the tenant's key is not there: that may be on purpose, and is not a fault of the store."""
    try:
        return tx.encryption.cipher_for(tenant)
    except KeyMissing:
        return None
