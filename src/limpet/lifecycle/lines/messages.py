"""Messages, in the order of their sessions and sequence numbers, which they keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from limpet.lifecycle.lines.kind import (
    ALREADY_PRESENT,
    PAGE,
    ImportTarget,
    LineKind,
    LineOutcome,
    drop_empty,
    iter_session_scopes,
    require_fields,
)
from limpet.lifecycle.lines.times import format_time_or_none, parse_time
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.ids import check_id
from limpet.model.message import Message, part_to_json
from limpet.model.scope import Scope
from limpet.model.values import check_number
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
_NO_SESSION = LineOutcome(False, "its session is not here")
_REMOVED = LineOutcome(False, "it was removed here since")


class _MessageLine(NamedTuple):
    session_id: str
    entry: append.MessageWithChunks


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for one in iter_session_scopes(tx, scope):
        after = 0
        while page := Messages(tx).range(one, after, None, PAGE):
            yield from (to_line(str(one.session), message) for message in page)
            after = page[-1].sequence


def to_line(session_id: str, message: Message) -> dict[str, Any]:
    content: Any = message.content
    if not isinstance(content, str):
        content = [drop_empty(part_to_json(part)) for part in content]
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
        "created_at": format_time_or_none(message.created_at),
        "idempotency_key": message.idempotency_key,
    }
    return drop_empty(line) | {"content": content}


def _read(value: dict[str, Any], into: ImportTarget) -> _MessageLine:
    require_fields(value, "session_id", "sequence", "role", "content", "created_at")
    message = Message.new(
        value["role"],
        value["content"],
        name=value.get("name"),
        tool_calls=value.get("tool_calls", ()),
        tool_call_id=value.get("tool_call_id"),
        is_error=value.get("is_error", False),
        metadata=value.get("metadata"),
        created_at=parse_time(value["created_at"], "created_at"),
        sequence=value["sequence"],
        idempotency_key=value.get("idempotency_key"),
    )
    tokens = check_number(value.get("tokens", message.tokens), "tokens")
    if tokens != message.tokens:
        message = replace(message, tokens=tokens)
    return _MessageLine(into.map_id(check_id(value["session_id"], "session_id")), append.MessageWithChunks(message, ()))


def _prepare(said: _MessageLine, into: ImportTarget) -> _MessageLine:
    message = said.entry.message
    assert message.created_at is not None
    [entry] = append.prepare([message], into.config.chunks, message.created_at)
    return said._replace(entry=entry)


def _put(tx: Tx, items: Sequence[_MessageLine], into: ImportTarget) -> list[LineOutcome]:
    outcomes: list[LineOutcome] = []
    for session_id, said in groupby(items, key=lambda item: item.session_id):
        outcomes += _put_messages(tx, into, session_id, [item.entry for item in said])
    return outcomes


def _put_messages(
    tx: Tx, into: ImportTarget, session_id: str, entries: Sequence[append.MessageWithChunks]
) -> list[LineOutcome]:
    info = Sessions(tx).get(Scope(into.tenant, user=into.user, session=session_id))
    if info is None:
        return [_NO_SESSION] * len(entries)
    head = Sessions(tx).get_head(info.scope)
    last, outcomes = head.last_sequence, []
    for entry in entries:
        message = entry.message
        if message.sequence <= last:
            here = Transfers(tx).has_message(info.scope, message.sequence)
            outcomes.append(LineOutcome(False, ALREADY_PRESENT) if here else _REMOVED)
            continue
        key = message.idempotency_key
        if key is not None and Messages(tx).find_by_idempotency_key(info.scope, key) is not None:
            outcomes.append(LineOutcome(False, f"{ALREADY_PRESENT}, under another number"))
            continue
        Messages(tx).insert(info.scope, message)
        append.index(tx, info.scope, message, entry.chunks)
        last = message.sequence
        outcomes.append(LineOutcome(True))
    added = sum(outcome.added for outcome in outcomes)
    if added:
        oldest = min(entry.message.created_at or head.last_active_at for entry in entries)
        Sessions(tx).advance(info.scope, last, head.message_count + added, head.last_active_at, oldest)
    return outcomes


MESSAGES = LineKind(
    "messages", "one entry of a conversation", _FIELDS, _iter_lines, _read, _put, prepare=_prepare, noun="messages"
)
