"""Making something once, however often it is asked for: a request under a key that the caller chose."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from limpet.model.text import checked_name

KEPT = timedelta(hours=48)  # how long a key is remembered


class Thing(StrEnum):
    RECORD = "record"
    SCHEDULE = "schedule"


class Made(NamedTuple):
    """What a key stands for."""

    id: str
    digest: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the store knows it: two hashes."""

    thing: Thing
    key_hash: str
    digest: str

    @classmethod
    def of(cls, thing: Thing, key: object, request: Mapping[str, Any]) -> Asked:
        """``request`` is what was asked for, checked, and without what differs when it is asked again."""
        name = checked_name(key, "idempotency_key")
        told = json.dumps([name, request], sort_keys=True, ensure_ascii=False, default=_plain)
        return cls(thing, _hash(name), _hash(told))


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
