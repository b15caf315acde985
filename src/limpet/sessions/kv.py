"""A session's key-value entries: the newest ``cap`` of them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from limpet.model.scope import Scope
from limpet.model.text import checked_name
from limpet.model.values import checked_json
from limpet.store.base import Tx

WORKING_MEMORY = "working_memory"


def get(tx: Tx, scope: Scope, key: str, cap: int) -> Any:
    entry = tx.kv.get(scope, key, cap)
    return None if entry is None else entry.value


def put(tx: Tx, scope: Scope, key: str, value: str, now: datetime, cap: int) -> None:
    tx.sessions.lock(scope)
    tx.kv.set(scope, key, value, now, cap)


def remove(tx: Tx, scope: Scope, key: str, cap: int) -> bool:
    tx.sessions.lock(scope)
    return tx.kv.delete(scope, key, cap)


def items(tx: Tx, scope: Scope, cap: int) -> dict[str, Any]:
    return {entry.key: entry.value for entry in tx.kv.items(scope, cap)}


def checked_key(key: object) -> str:
    return checked_name(key, "a key")


def checked_value(value: object) -> str:
    return checked_json(value, "a value", max_bytes=1024 * 1024)


def as_text(value: Any) -> str:
    """What a value reads as where text is wanted: nothing is empty, another type is JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
