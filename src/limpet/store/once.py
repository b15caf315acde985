"""Making something once: looked up and noted in the transaction that makes it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from limpet.errors import IdempotencyConflict
from limpet.model.idempotency import KEY_LIFETIME, IdempotencyKey
from limpet.model.scope import Partition, Scope
from limpet.store.idempotency import IdempotencyKeys
from limpet.store.tx import Tx

T = TypeVar("T")
Lookup = Callable[[Tx, str], T]

_TRIM_LIMIT = 10


def find_existing(tx: Tx, space: Partition, asked: IdempotencyKey | None, find: Lookup[T], now: datetime) -> T | None:
    """What was made when the same was asked for under this key; None where it is new. Raises IdempotencyConflict."""
    made = None if asked is None else IdempotencyKeys(tx).get(space, asked)
    if asked is None or made is None or now - made.at > KEY_LIFETIME:
        return None
    if made.digest != asked.digest:
        raise IdempotencyConflict(
            f"this idempotency_key was used for another {asked.thing}; use a new key for each thing that is made"
        )
    return find(tx, made.id)


def save_key(tx: Tx, space: Partition, asked: IdempotencyKey | None, made_id: str, now: datetime) -> None:
    """And clears away a few that are over, so that there are never many, also where retention is switched off."""
    if asked is not None:
        IdempotencyKeys(tx).put(space, asked, made_id, now)
        IdempotencyKeys(tx).trim(Scope(space.tenant), now - KEY_LIFETIME, _TRIM_LIMIT)
