"""Sessions: put back without messages first, and settled when those are there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from limpet.lifecycle.lines.kind import (
    HERE,
    Into,
    Kind,
    Outcome,
    checked_cost,
    lean,
    listed,
    mapped,
    need,
    session_scopes,
)
from limpet.lifecycle.lines.times import moment, moment_or_none, stamp, stamp_or_none
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.ids import checked_id
from limpet.model.job import EXTRACT, GRAPH
from limpet.model.naming import SessionKey
from limpet.model.scope import Scope
from limpet.model.session import ModelUsage, SessionInfo, State, Summary
from limpet.model.text import checked_choice, checked_name, checked_text
from limpet.model.transfer import SessionState
from limpet.model.values import checked_metadata, checked_number
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


def _lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    return (line_of(Transfers(tx).session(one)) for one in session_scopes(tx, scope))


def line_of(state: SessionState) -> dict[str, Any]:
    info, summary = state.info, state.summary
    return lean(
        {
            "id": info.id,
            "user": info.user,
            "agent": info.agent,
            "channel": info.key.channel,
            "chat": info.key.chat,
            "thread": info.key.thread,
            "state": info.state.value,
            "metadata": dict(info.metadata),
            "created_at": stamp(info.created_at),
            "last_active_at": stamp(info.last_active_at),
            "expires_at": stamp_or_none(info.expires_at),
            "last_sequence": info.last_sequence,
            "cleared_through": state.cleared_through,
            "summary_epoch": state.summary_epoch,
            "summary": None if summary is None else _summary_line(summary),
            "usage": [_usage_line(entry) for entry in state.usage],
            "cursors": dict(state.cursors),
            "waiting": list(state.waiting),
        }
    )


def _summary_line(summary: Summary) -> dict[str, Any]:
    return {
        "text": summary.text,
        "epoch": summary.epoch,
        "upper_sequence": summary.upper_sequence,
        "message_count": summary.message_count,
        "updated_at": stamp(summary.updated_at),
    }


def _usage_line(entry: ModelUsage) -> dict[str, Any]:
    return {"model": entry.model, **{name: getattr(entry, name) for name in _COUNTS}, "cost": entry.cost}


def _read(value: dict[str, Any], into: Into) -> SessionState:
    need(value, "id", "user", "agent", "channel", "chat", "state", "created_at", "last_active_at")
    info = SessionInfo(
        id=into.id(checked_id(value["id"], "id")),
        tenant=into.tenant,
        user=into.owner(value["user"]),
        agent=checked_name(value["agent"], "agent"),
        key=SessionKey.of(value["channel"], value["chat"], value.get("thread")),
        state=checked_choice(State, value["state"], "state"),
        metadata=checked_metadata(value.get("metadata")),
        created_at=moment(value["created_at"], "created_at"),
        last_active_at=moment(value["last_active_at"], "last_active_at"),
        expires_at=moment_or_none(value.get("expires_at"), "expires_at"),
        last_sequence=checked_number(value.get("last_sequence", 0), "last_sequence"),
    )
    summary = value.get("summary")
    return SessionState(
        info,
        checked_number(value.get("cleared_through", 0), "cleared_through"),
        checked_number(value.get("summary_epoch", 0), "summary_epoch"),
        None if summary is None else _summary(mapped(summary, "summary")),
        tuple(_usage(mapped(entry, "one of usage")) for entry in listed(value.get("usage", []), "usage")),
        _cursors(mapped(value.get("cursors", {}), "cursors")),
        tuple(kind for kind in _JOBS if kind in listed(value.get("waiting", []), "waiting")),
    )


def _summary(value: dict[str, Any]) -> Summary:
    need(value, "text", "epoch", "upper_sequence", "message_count", "updated_at")
    return Summary(
        checked_text(value["text"], "summary.text"),
        checked_number(value["epoch"], "summary.epoch"),
        checked_number(value["upper_sequence"], "summary.upper_sequence"),
        checked_number(value["message_count"], "summary.message_count"),
        moment(value["updated_at"], "summary.updated_at"),
    )


def _usage(value: dict[str, Any]) -> ModelUsage:
    counts = {name: checked_number(value.get(name, 0), f"usage.{name}") for name in _COUNTS}
    cost = checked_cost(value.get("cost", 0.0), "usage.cost")
    return ModelUsage(checked_name(value.get("model"), "usage.model"), **counts, cost=cost)


def _cursors(value: dict[str, Any]) -> dict[str, int]:
    return {checked_name(name, "a cursor"): checked_number(at, f"cursors.{name}") for name, at in value.items()}


def _put(tx: Tx, states: Sequence[SessionState], _: Into) -> list[Outcome]:
    return [_put_one(tx, state) for state in states]


def _put_one(tx: Tx, state: SessionState) -> Outcome:
    info = state.info
    scope, owner = info.scope, Scope(info.tenant, info.user, info.agent)
    if Sessions(tx).get(scope) is not None:
        return Outcome(False, HERE)
    taken = info.state is not State.TERMINATED and Sessions(tx).live(owner, str(info.key)) is not None
    if taken:
        state = replace(state, info=replace(info, state=State.TERMINATED))
    if not Transfers(tx).put_session(scope, state):
        return Outcome(False, "its id belongs to somebody else's session here")
    return Outcome(True, _ENDED if taken else "")


def _settle(tx: Tx, states: Sequence[SessionState], _: Into) -> list[Outcome]:
    for state in states:
        if Sessions(tx).get(state.info.scope) is not None:
            Transfers(tx).settle_session(state.info.scope, state)
    return [Outcome(False)] * len(states)


SESSIONS = Kind(
    "sessions",
    "a conversation, with its summary and its bill",
    _FIELDS,
    _lines,
    _read,
    _put,
    noun="sessions",
    owner=lambda state: (state.info.id, state.info.user),
)
# The same lines once more, when the messages are there that the summary and the cursors speak of.
SETTLED = replace(SESSIONS, put=_settle, noun=None, owner=None)
