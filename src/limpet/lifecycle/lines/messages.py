"""Messages, in the order of their sessions and sequence numbers, which they keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from limpet.lifecycle.lines.kind import HERE, PAGE, Into, Kind, Outcome, lean, need, session_scopes
from limpet.lifecycle.lines.times import moment, stamp_or_none
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.ids import checked_id
from limpet.model.message import Message, part_to_json
from limpet.model.scope import Scope
from limpet.model.values import checked_number
from limpet.sessions import append
from limpet.sessions.repository import Messages, Sessions
from limpet.store.tx import Tx

_FIELDS = {
    "session_id": "the session it belongs to",
    "sequence": "its number there",
    "role": "`system`, `user`, `assistant` or `tool`",
    "content": "text, or parts by `type`: `text`, or `image` and `file` with `uri`, `media_type`, `alt`, `name`",
    "name": "who speaks, if that was said",
    "tool_calls": "a list with `id`, `name` and `arguments` each",
    "tool_call_id": "which call a tool's answer is for",
    "is_error": "there and true where a tool failed",
    "metadata": "any JSON object",
    "tokens": "the estimate of its length that is stored with it",
    "created_at": "when it was said",
    "idempotency_key": "what makes a repeated append a no-op",
}
_NO_SESSION = Outcome(False, "its session is not here")
_REMOVED = Outcome(False, "it was removed here since")


class _Said(NamedTuple):
    session_id: str
    entry: append.Entry


def _lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for one in session_scopes(tx, scope):
        after = 0
        while page := Messages(tx).range(one, after, None, PAGE):
            yield from (line_of(str(one.session), message) for message in page)
            after = page[-1].sequence


def line_of(session_id: str, message: Message) -> dict[str, Any]:
    content: Any = message.content
    if not isinstance(content, str):
        content = [lean(part_to_json(part)) for part in content]
    calls = [{"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in message.tool_calls]
    line = {
        "session_id": session_id,
        "sequence": message.sequence,
        "role": message.role.value,
        "content": content,
        "name": message.name,
        "tool_calls": calls,
        "tool_call_id": message.tool_call_id,
        "is_error": message.is_error or None,
        "metadata": dict(message.metadata),
        "tokens": message.tokens,
        "created_at": stamp_or_none(message.created_at),
        "idempotency_key": message.idempotency_key,
    }
    return lean(line) | {"content": content}


def _read(value: dict[str, Any], into: Into) -> _Said:
    need(value, "session_id", "sequence", "role", "content", "created_at")
    message = Message.new(
        value["role"],
        value["content"],
        name=value.get("name"),
        tool_calls=value.get("tool_calls", ()),
        tool_call_id=value.get("tool_call_id"),
        is_error=value.get("is_error", False),
        metadata=value.get("metadata"),
        created_at=moment(value["created_at"], "created_at"),
        sequence=value["sequence"],
        idempotency_key=value.get("idempotency_key"),
    )
    tokens = checked_number(value.get("tokens", message.tokens), "tokens")
    if tokens != message.tokens:
        message = replace(message, tokens=tokens)
    return _Said(into.id(checked_id(value["session_id"], "session_id")), append.Entry(message, ()))


def _prepare(said: _Said, into: Into) -> _Said:
    message = said.entry.message
    assert message.created_at is not None
    [entry] = append.prepare([message], into.config.chunks, message.created_at)
    return said._replace(entry=entry)


def _put(tx: Tx, items: Sequence[_Said], into: Into) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for session_id, said in groupby(items, key=lambda item: item.session_id):
        outcomes += _put_some(tx, into, session_id, [item.entry for item in said])
    return outcomes


def _put_some(tx: Tx, into: Into, session_id: str, entries: Sequence[append.Entry]) -> list[Outcome]:
    info = Sessions(tx).get(Scope(into.tenant, user=into.user, session=session_id))
    if info is None:
        return [_NO_SESSION] * len(entries)
    head = Sessions(tx).head(info.scope)
    last, outcomes = head.last_sequence, []
    for entry in entries:
        message = entry.message
        if message.sequence <= last:
            here = Transfers(tx).has_message(info.scope, message.sequence)
            outcomes.append(Outcome(False, HERE) if here else _REMOVED)
            continue
        key = message.idempotency_key
        if key is not None and Messages(tx).by_idempotency_key(info.scope, key) is not None:
            outcomes.append(Outcome(False, f"{HERE}, under another number"))
            continue
        Messages(tx).insert(info.scope, message)
        append.index(tx, info.scope, message, entry.chunks)
        last = message.sequence
        outcomes.append(Outcome(True))
    added = sum(outcome.added for outcome in outcomes)
    if added:
        oldest = min(entry.message.created_at or head.last_active_at for entry in entries)
        Sessions(tx).advance(info.scope, last, head.message_count + added, head.last_active_at, oldest)
    return outcomes


MESSAGES = Kind(
    "messages", "one entry of a conversation", _FIELDS, _lines, _read, _put, prepare=_prepare, noun="messages"
)
