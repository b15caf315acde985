"""A session's key-value entries: the newest ``cap`` of them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from limpet.model.scope import Scope
from limpet.model.session import MAX_VALUE_BYTES
from limpet.model.values import check_json, check_name
from limpet.sessions.repository import KeyValueEntries, Sessions
from limpet.store.tx import Tx

WORKING_MEMORY = "working_memory"


def get(tx: Tx, scope: Scope, key: str, cap: int) -> Any:
    entry = KeyValueEntries(tx).get(scope, key, cap)
    return None if entry is None else entry.value


def put(tx: Tx, scope: Scope, key: str, value: str, now: datetime, cap: int) -> None:
    Sessions(tx).lock(scope)
    KeyValueEntries(tx).set(scope, key, value, now, cap)


def remove(tx: Tx, scope: Scope, key: str, cap: int) -> bool:
    Sessions(tx).lock(scope)
    return KeyValueEntries(tx).delete(scope, key, cap)


def items(tx: Tx, scope: Scope, cap: int) -> dict[str, Any]:
    return {entry.key: entry.value for entry in KeyValueEntries(tx).items(scope, cap)}


def checked_key(key: object) -> str:
    return check_name(key, "a key")


def checked_value(value: object) -> str:
    return check_json(value, "a value", max_bytes=MAX_VALUE_BYTES)


def as_text(value: Any) -> str:
    """Return the value as text: None is empty, other types are JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
