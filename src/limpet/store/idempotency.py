"""Idempotency keys: something is made once, looked up and noted in the transaction that makes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from limpet.errors import IdempotencyConflict, RecordNotFound, ScheduleNotFound
from limpet.model.dataclass import dataclass
from limpet.model.scope import Partition, Scope
from limpet.model.values import check_name, from_micros, to_micros
from limpet.store.encryption import RowLayout
from limpet.store.tables import IDEMPOTENCY_KEYS
from limpet.store.tx import Partitions, Repository, Tx, partition_params

_ENTRY = RowLayout(IDEMPOTENCY_KEYS, "resource_id digest created_at")

T = TypeVar("T")

_TRIM_LIMIT = 10
KEY_LIFETIME = timedelta(hours=48)  # how long a key is remembered


class ResourceKind(StrEnum):
    RECORD = "record"
    SCHEDULE = "schedule"


_NOT_FOUND = {ResourceKind.RECORD: RecordNotFound, ResourceKind.SCHEDULE: ScheduleNotFound}


class IdempotencyEntry(NamedTuple):
    """What a key stands for."""

    id: str
    digest: str
    at: datetime


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A request as the store knows it: two hashes."""

    thing: ResourceKind
    key_hash: str
    digest: str

    @classmethod
    def from_request(cls, thing: ResourceKind, key: object, request: Mapping[str, Any]) -> IdempotencyKey:
        """``request`` is what was asked for, checked, and without what differs when it is asked again."""
        name = check_name(key, "idempotency_key")
        told = json.dumps(
            [name, request],
            sort_keys=True,
            ensure_ascii=False,
            default=lambda each: each.isoformat() if isinstance(each, datetime) else str(each),
        )
        return cls(thing, _hash(name), _hash(told))


class IdempotencyKeys(Repository):
    """What was made under idempotency keys."""

    def get(self, partition: Partition, asked: IdempotencyKey) -> IdempotencyEntry | None:
        cipher = self._cipher(partition)
        stored = cipher.encrypt_deterministic(IDEMPOTENCY_KEYS["key_hash"], asked.key_hash)
        row = self._db.one("idempotency_keys.get", {**_key_params(partition, asked), "key_hash": stored})
        if row is None:
            return None
        made_id, digest, at = cipher.decrypt_row(_ENTRY, stored, row)
        return IdempotencyEntry(made_id, digest, from_micros(at))

    def put(self, partition: Partition, asked: IdempotencyKey, made_id: str, now: datetime) -> None:
        made = {"digest": asked.digest, "resource_id": made_id, "created_at": to_micros(now)}
        params = {**_key_params(partition, asked), **made}
        self._db.run("idempotency_keys.put", self._cipher(partition).encrypt_params(IDEMPOTENCY_KEYS, None, params))

    def trim(self, scope: Scope, before: datetime, limit: int) -> int:
        """Remove what is older. Answers how many."""
        params = {"tenant": scope.tenant, "before": to_micros(before), "limit": limit}
        return self._db.run("idempotency_keys.trim", params)


def find_existing(
    tx: Tx, partition: Partition, asked: IdempotencyKey | None, get: Callable[[str], T | None], now: datetime
) -> T | None:
    """What was made when the same was asked for under this key; None where it is new.

    Raises IdempotencyConflict for another request, and NotFound where ``get`` does not find it any more. A concurrent
    request with the same key waits here until this transaction ends.
    """
    if asked is None:
        return None
    Partitions(tx).ensure_locked(partition)
    made = IdempotencyKeys(tx).get(partition, asked)
    if made is None or now - made.at > KEY_LIFETIME:
        return None
    if made.digest != asked.digest:
        raise IdempotencyConflict(
            f"this idempotency_key was used for another {asked.thing}; use a new key for each request"
        )
    if (found := get(made.id)) is None:
        raise _NOT_FOUND[asked.thing](f"{asked.thing} {made.id} of this idempotency_key was deleted; use a new key")
    return found


def save_key(tx: Tx, partition: Partition, asked: IdempotencyKey | None, made_id: str, now: datetime) -> None:
    """And clears away a few that are over, so that there are never many, also where retention is switched off."""
    if asked is not None:
        IdempotencyKeys(tx).put(partition, asked, made_id, now)
        IdempotencyKeys(tx).trim(Scope(partition.tenant), now - KEY_LIFETIME, _TRIM_LIMIT)


def _key_params(partition: Partition, asked: IdempotencyKey) -> dict[str, Any]:
    return {**partition_params(partition), "kind": asked.thing.value, "key_hash": asked.key_hash}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
