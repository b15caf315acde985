"""Sessions: put back without messages first, and settled when those are there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from limpet.lifecycle.lines.kind import (
    ALREADY_PRESENT,
    ImportTarget,
    LineKind,
    LineOutcome,
    iter_session_scopes,
)
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.job import EXTRACT, GRAPH
from limpet.model.lines import LineCodec
from limpet.model.scope import Level, Partition, Scope, SessionKey
from limpet.model.session import SessionStatus
from limpet.model.transfer import SessionState
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

_LINE = LineCodec(SessionState)
_JOBS = (EXTRACT, GRAPH)
_ENDED = "its chat has a live session here, so it came in ended"


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    return (to_line(Transfers(tx).get_session(one)) for one in iter_session_scopes(tx, scope))


def to_line(state: SessionState) -> dict[str, Any]:
    return _LINE.write(state)


def _read(value: dict[str, Any], into: ImportTarget) -> SessionState:
    user = into.map_user(value.get("user"))
    into.register_id(value.get("id"), Partition(into.tenant, Level.USER, user))
    state = _LINE.read(value, {"tenant": into.tenant}, into.map_id)
    key = state.info.key
    info = replace(state.info, user=user, key=SessionKey.of(key.channel, key.chat, key.thread))
    return replace(
        state,
        info=info,
        waiting=tuple(kind for kind in _JOBS if kind in state.waiting),
        external_id=into.external_id(info.id, state.external_id),
    )


def _put(tx: Tx, states: Sequence[SessionState], _: ImportTarget) -> list[LineOutcome]:
    return [_put_one(tx, state) for state in states]


def _put_one(tx: Tx, state: SessionState) -> LineOutcome:
    info = state.info
    scope, owner = info.scope, Scope(info.tenant, info.user, info.agent)
    if Sessions(tx).get(scope) is not None:
        return LineOutcome(False, ALREADY_PRESENT)
    taken = info.state is not SessionStatus.TERMINATED and Sessions(tx).find_open(owner, str(info.key)) is not None
    if taken:
        state = replace(state, info=replace(info, state=SessionStatus.TERMINATED))
    if state.external_id is not None and Sessions(tx).get(replace(scope, session=state.external_id)) is not None:
        state = replace(state, external_id=None)  # another one of theirs is found by it
    if not Transfers(tx).put_session(scope, state):
        return LineOutcome(False, "its id belongs to somebody else's session here")
    return LineOutcome(True, _ENDED if taken else "")


def _put_state(tx: Tx, states: Sequence[SessionState], _: ImportTarget) -> list[LineOutcome]:
    for state in states:
        if Sessions(tx).get(state.info.scope) is not None:
            Transfers(tx).restore_session_state(state.info.scope, state)
    return [LineOutcome(False)] * len(states)


SESSIONS = LineKind(
    "sessions",
    "a conversation, with its summary and its bill",
    _LINE,
    _iter_lines,
    _read,
    _put,
    noun="sessions",
    owner=lambda state: (state.info.id, state.info.user),
)
# The same lines once more, when the messages are there that the summary and the cursors speak of.
SESSION_STATES = replace(SESSIONS, put=_put_state, noun=None, owner=None)
