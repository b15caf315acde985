"""Key-value entries of sessions, the oldest first. Working memory is one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from limpet.lifecycle.lines.kind import (
    ALREADY_PRESENT,
    ImportTarget,
    LineKind,
    LineOutcome,
    iter_session_scopes,
)
from limpet.model.lines import LineCodec
from limpet.model.scope import Scope
from limpet.model.session import MAX_VALUE_BYTES
from limpet.model.transfer import KvState
from limpet.model.values import check_json
from limpet.sessions.repository import KeyValueEntries, Sessions
from limpet.store.tx import Tx

_ALL = 1 << 31  # what a setting hides today, another one shows tomorrow
_LINE = LineCodec(KvState)


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for one in iter_session_scopes(tx, scope):
        for entry in KeyValueEntries(tx).items(one, _ALL):
            yield _LINE.write(KvState(str(one.session), entry))


def _read(value: dict[str, Any], into: ImportTarget) -> KvState:
    state = _LINE.read(value, {}, into.map_id)
    return replace(
        state, entry=replace(state.entry, value=check_json(state.entry.value, "a value", max_bytes=MAX_VALUE_BYTES))
    )


def _put(tx: Tx, items: Sequence[KvState], into: ImportTarget) -> list[LineOutcome]:
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


KV = LineKind("kv", "a key-value entry of a session", _LINE, _iter_lines, _read, _put)
