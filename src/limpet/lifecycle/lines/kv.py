"""Key-value entries of sessions, the oldest first. Working memory is one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from limpet.lifecycle.lines.kind import (
    ALREADY_PRESENT,
    ImportTarget,
    LineKind,
    LineOutcome,
    iter_session_scopes,
    require_fields,
)
from limpet.lifecycle.lines.times import format_time, parse_time
from limpet.model.ids import check_id
from limpet.model.scope import Scope
from limpet.model.session import KvEntry
from limpet.sessions import kv
from limpet.sessions.repository import KeyValueEntries, Sessions
from limpet.store.tx import Tx

_ALL = 1 << 31  # what a setting hides today, another one shows tomorrow
_FIELDS = {
    "session_id": "the session it belongs to",
    "key": "its name, such as `working_memory`",
    "value": "any JSON value",
    "updated_at": "when it was set",
}


class _KvLine(NamedTuple):
    session_id: str
    entry: KvEntry


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for one in iter_session_scopes(tx, scope):
        for entry in KeyValueEntries(tx).items(one, _ALL):
            yield {
                "session_id": one.session,
                "key": entry.key,
                "value": entry.value,
                "updated_at": format_time(entry.updated_at),
            }


def _read(value: dict[str, Any], into: ImportTarget) -> _KvLine:
    require_fields(value, "session_id", "key", "updated_at")
    entry = KvEntry(
        kv.checked_key(value["key"]),
        kv.checked_value(value.get("value")),
        parse_time(value["updated_at"], "updated_at"),
    )
    return _KvLine(into.map_id(check_id(value["session_id"], "session_id")), entry)


def _put(tx: Tx, items: Sequence[_KvLine], into: ImportTarget) -> list[LineOutcome]:
    outcomes: list[LineOutcome] = []
    for session_id, group in groupby(items, key=lambda item: item.session_id):
        entries = [item.entry for item in group]
        info = Sessions(tx).get(Scope(into.tenant, user=into.user, session=session_id))
        if info is None:
            outcomes += [LineOutcome(False, "its session is not here")] * len(entries)
            continue
        Sessions(tx).get_head(info.scope)
        known = {entry.key for entry in KeyValueEntries(tx).items(info.scope, _ALL)}
        for entry in entries:
            if entry.key not in known:
                KeyValueEntries(tx).set(info.scope, entry.key, entry.value, entry.updated_at, _ALL)
            outcomes.append(LineOutcome(False, ALREADY_PRESENT) if entry.key in known else LineOutcome(True))
    return outcomes


KV = LineKind("kv", "a key-value entry of a session", _FIELDS, _iter_lines, _read, _put)
