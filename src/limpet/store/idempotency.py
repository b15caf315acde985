"""What was made under idempotency keys, in named queries."""

from __future__ import annotations

from datetime import datetime

from limpet.model.idempotency import Asked, Made
from limpet.model.scope import Scope, Space
from limpet.model.times import from_micros, to_micros
from limpet.store import jobs
from limpet.store.encrypted_columns import ONCE
from limpet.store.encryption import Shape
from limpet.store.tx import Tx

_MADE = Shape(ONCE, "made_id digest made_at")


class IdempotencyKeys:
    """What was made under idempotency keys."""

    def __init__(self, tx: Tx) -> None:
        self._db = tx.db
        self._seals = tx.seals

    def get(self, space: Space, asked: Asked) -> Made | None:
        box = self._seals.of(space.tenant)
        stored = box.same(ONCE["key_hash"], asked.key_hash)
        row = self._db.one("once.get", {**_whose(space), "kind": asked.thing.value, "key_hash": stored})
        if row is None:
            return None
        made_id, digest, at = box.opened(_MADE, stored, row)
        return Made(made_id, digest, from_micros(at))

    def put(self, space: Space, asked: Asked, made_id: str, now: datetime) -> None:
        params = {
            **_whose(space),
            "kind": asked.thing.value,
            "key_hash": asked.key_hash,
            "digest": asked.digest,
            "made_id": made_id,
            "made_at": to_micros(now),
        }
        self._db.run("once.add", self._seals.of(space.tenant).params(ONCE, None, params))

    def trim(self, scope: Scope, before: datetime, limit: int) -> int:
        """Remove what is older. Answers how many."""
        return self._db.run("once.trim", {"tenant": scope.tenant, "before": to_micros(before), "limit": limit})


def _whose(space: Space) -> dict[str, str]:
    return {"tenant": space.tenant, "owner": jobs.owner_of(space)}
