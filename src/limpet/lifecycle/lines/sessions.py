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
    check_list,
    check_object,
    checked_cost,
    drop_empty,
    iter_session_scopes,
    require_fields,
)
from limpet.lifecycle.lines.times import format_time, format_time_or_none, parse_time, parse_time_or_none
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.ids import check_id
from limpet.model.job import EXTRACT, GRAPH
from limpet.model.naming import SessionKey
from limpet.model.scope import Scope
from limpet.model.session import ModelUsage, SessionInfo, SessionStatus, Summary
from limpet.model.text import check_choice, check_name, check_text
from limpet.model.transfer import SessionState
from limpet.model.values import check_metadata, check_number
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

_FIELDS = {
    "id": "the session's id, a UUID",
    "user": "whose conversation it is",
    "agent": "the agent that holds it",
    "channel": "the first part of its key",
    "chat": "the second part",
    "thread": "the third, if it has one",
    "state": "`ACTIVE`, `PAUSED` or `TERMINATED`",
    "metadata": "any JSON object",
    "created_at": "when it began",
    "last_active_at": "when it was last used",
    "expires_at": "when it ends by itself, if ever",
    "last_sequence": "the last number a message was given, also one that is gone",
    "cleared_through": "messages up to this number were cleared",
    "summary_epoch": "the last epoch a summary had, also one that is gone",
    "summary": "the rolling summary: `text`, `epoch`, `upper_sequence`, `message_count`, `updated_at`",
    "usage": "a list with `model`, `calls`, `input_tokens`, `output_tokens`, `cached_tokens` and `cost` each",
    "cursors": "how far each kind of work has come: the last sequence number that is done, by name",
    "waiting": "work that is asked for and not done: `extract`, `graph`",
}
_JOBS = (EXTRACT, GRAPH)
_COUNTS = ("calls", "input_tokens", "output_tokens", "cached_tokens")
_ENDED = "its chat has a live session here, so it came in ended"


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    return (to_line(Transfers(tx).get_session(one)) for one in iter_session_scopes(tx, scope))


def to_line(state: SessionState) -> dict[str, Any]:
    info, summary = state.info, state.summary
    return drop_empty(
        {
            "id": info.id,
            "user": info.user,
            "agent": info.agent,
            "channel": info.key.channel,
            "chat": info.key.chat,
            "thread": info.key.thread,
            "state": info.state.value,
            "metadata": dict(info.metadata),
            "created_at": format_time(info.created_at),
            "last_active_at": format_time(info.last_active_at),
            "expires_at": format_time_or_none(info.expires_at),
            "last_sequence": info.last_sequence,
            "cleared_through": state.cleared_through,
            "summary_epoch": state.summary_epoch,
            "summary": None if summary is None else _summary_to_line(summary),
            "usage": [_usage_to_line(entry) for entry in state.usage],
            "cursors": dict(state.cursors),
            "waiting": list(state.waiting),
        }
    )


def _summary_to_line(summary: Summary) -> dict[str, Any]:
    return {
        "text": summary.text,
        "epoch": summary.epoch,
        "upper_sequence": summary.upper_sequence,
        "message_count": summary.message_count,
        "updated_at": format_time(summary.updated_at),
    }


def _usage_to_line(entry: ModelUsage) -> dict[str, Any]:
    return {"model": entry.model, **{name: getattr(entry, name) for name in _COUNTS}, "cost": entry.cost}


def _read(value: dict[str, Any], into: ImportTarget) -> SessionState:
    require_fields(value, "id", "user", "agent", "channel", "chat", "state", "created_at", "last_active_at")
    info = SessionInfo(
        id=into.map_id(check_id(value["id"], "id")),
        tenant=into.tenant,
        user=into.map_user(value["user"]),
        agent=check_name(value["agent"], "agent"),
        key=SessionKey.of(value["channel"], value["chat"], value.get("thread")),
        state=check_choice(SessionStatus, value["state"], "state"),
        metadata=check_metadata(value.get("metadata")),
        created_at=parse_time(value["created_at"], "created_at"),
        last_active_at=parse_time(value["last_active_at"], "last_active_at"),
        expires_at=parse_time_or_none(value.get("expires_at"), "expires_at"),
        last_sequence=check_number(value.get("last_sequence", 0), "last_sequence"),
    )
    summary = value.get("summary")
    return SessionState(
        info,
        check_number(value.get("cleared_through", 0), "cleared_through"),
        check_number(value.get("summary_epoch", 0), "summary_epoch"),
        None if summary is None else _parse_summary(check_object(summary, "summary")),
        tuple(
            _parse_usage(check_object(entry, "one of usage")) for entry in check_list(value.get("usage", []), "usage")
        ),
        _parse_cursors(check_object(value.get("cursors", {}), "cursors")),
        tuple(kind for kind in _JOBS if kind in check_list(value.get("waiting", []), "waiting")),
    )


def _parse_summary(value: dict[str, Any]) -> Summary:
    require_fields(value, "text", "epoch", "upper_sequence", "message_count", "updated_at")
    return Summary(
        check_text(value["text"], "summary.text"),
        check_number(value["epoch"], "summary.epoch"),
        check_number(value["upper_sequence"], "summary.upper_sequence"),
        check_number(value["message_count"], "summary.message_count"),
        parse_time(value["updated_at"], "summary.updated_at"),
    )


def _parse_usage(value: dict[str, Any]) -> ModelUsage:
    counts = {name: check_number(value.get(name, 0), f"usage.{name}") for name in _COUNTS}
    cost = checked_cost(value.get("cost", 0.0), "usage.cost")
    return ModelUsage(check_name(value.get("model"), "usage.model"), **counts, cost=cost)


def _parse_cursors(value: dict[str, Any]) -> dict[str, int]:
    return {check_name(name, "a cursor"): check_number(at, f"cursors.{name}") for name, at in value.items()}


def _put(tx: Tx, states: Sequence[SessionState], _: ImportTarget) -> list[LineOutcome]:
    return [_put_one(tx, state) for state in states]


def _put_one(tx: Tx, state: SessionState) -> LineOutcome:
    info = state.info
    scope, owner = info.scope, Scope(info.tenant, info.user, info.agent)
    if Sessions(tx).get(scope) is not None:
        return LineOutcome(False, ALREADY_PRESENT)
    taken = info.state is not SessionStatus.TERMINATED and Sessions(tx).find_live(owner, str(info.key)) is not None
    if taken:
        state = replace(state, info=replace(info, state=SessionStatus.TERMINATED))
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
    _FIELDS,
    _iter_lines,
    _read,
    _put,
    noun="sessions",
    owner=lambda state: (state.info.id, state.info.user),
)
# The same lines once more, when the messages are there that the summary and the cursors speak of.
SESSION_STATES = replace(SESSIONS, put=_put_state, noun=None, owner=None)
