"""Key-value entries of sessions, the oldest first. Working memory is one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from limpet.lifecycle.lines.kind import HERE, Into, Kind, Outcome, need, session_scopes
from limpet.lifecycle.lines.times import moment, stamp
from limpet.model.ids import checked_id
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


class _Entry(NamedTuple):
    session_id: str
    entry: KvEntry


def _lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for one in session_scopes(tx, scope):
        for entry in KeyValueEntries(tx).items(one, _ALL):
            yield {
                "session_id": one.session,
                "key": entry.key,
                "value": entry.value,
                "updated_at": stamp(entry.updated_at),
            }


def _read(value: dict[str, Any], into: Into) -> _Entry:
    need(value, "session_id", "key", "updated_at")
    entry = KvEntry(
        kv.checked_key(value["key"]), kv.checked_value(value.get("value")), moment(value["updated_at"], "updated_at")
    )
    return _Entry(into.id(checked_id(value["session_id"], "session_id")), entry)


def _put(tx: Tx, items: Sequence[_Entry], into: Into) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for session_id, group in groupby(items, key=lambda item: item.session_id):
        entries = [item.entry for item in group]
        info = Sessions(tx).get(Scope(into.tenant, user=into.user, session=session_id))
        if info is None:
            outcomes += [Outcome(False, "its session is not here")] * len(entries)
            continue
        Sessions(tx).head(info.scope)
        known = {entry.key for entry in KeyValueEntries(tx).items(info.scope, _ALL)}
        for entry in entries:
            if entry.key not in known:
                KeyValueEntries(tx).set(info.scope, entry.key, entry.value, entry.updated_at, _ALL)
            outcomes.append(Outcome(False, HERE) if entry.key in known else Outcome(True))
    return outcomes


KV = Kind("kv", "a key-value entry of a session", _FIELDS, _lines, _read, _put)
