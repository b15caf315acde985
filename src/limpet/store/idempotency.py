"""What was made under idempotency keys, in named queries."""

from __future__ import annotations

from datetime import datetime

from limpet.model.idempotency import IdempotencyEntry, IdempotencyKey
from limpet.model.scope import Partition, Scope
from limpet.model.times import from_micros, to_micros
from limpet.store.encrypted_columns import IDEMPOTENCY_KEYS
from limpet.store.encryption import RowLayout
from limpet.store.partitions import partition_params
from limpet.store.tx import Tx

_ENTRY = RowLayout(IDEMPOTENCY_KEYS, "resource_id digest created_at")


class IdempotencyKeys:
    """What was made under idempotency keys."""

    def __init__(self, tx: Tx) -> None:
        self._db = tx.db
        self._seals = tx.seals

    def get(self, space: Partition, asked: IdempotencyKey) -> IdempotencyEntry | None:
        box = self._seals.cipher_for(space.tenant)
        stored = box.encrypt_deterministic(IDEMPOTENCY_KEYS["key_hash"], asked.key_hash)
        row = self._db.one(
            "idempotency_keys.get", {**partition_params(space), "kind": asked.thing.value, "key_hash": stored}
        )
        if row is None:
            return None
        made_id, digest, at = box.decrypt_row(_ENTRY, stored, row)
        return IdempotencyEntry(made_id, digest, from_micros(at))

    def put(self, space: Partition, asked: IdempotencyKey, made_id: str, now: datetime) -> None:
        params = {
            **partition_params(space),
            "kind": asked.thing.value,
            "key_hash": asked.key_hash,
            "digest": asked.digest,
            "resource_id": made_id,
            "created_at": to_micros(now),
        }
        self._db.run(
            "idempotency_keys.put", self._seals.cipher_for(space.tenant).encrypt_params(IDEMPOTENCY_KEYS, None, params)
        )

    def trim(self, scope: Scope, before: datetime, limit: int) -> int:
        """Remove what is older. Answers how many."""
        return self._db.run(
            "idempotency_keys.trim", {"tenant": scope.tenant, "before": to_micros(before), "limit": limit}
        )
