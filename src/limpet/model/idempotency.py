"""Making something once, however often it is asked for: a request under a key that the caller chose."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from limpet.model.dataclass import dataclass
from limpet.model.values import check_name

KEY_LIFETIME = timedelta(hours=48)  # how long a key is remembered


class ResourceKind(StrEnum):
    RECORD = "record"
    SCHEDULE = "schedule"


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
        told = json.dumps([name, request], sort_keys=True, ensure_ascii=False, default=_encode_value)
        return cls(thing, _hash(name), _hash(told))


def _encode_value(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
