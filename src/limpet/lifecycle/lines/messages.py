"""Messages, in the order of their sessions and sequence numbers, which they keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from limpet.errors import InvalidInput
from limpet.lifecycle.lines.kind import (
    ALREADY_PRESENT,
    PAGE,
    ImportTarget,
    LineKind,
    LineOutcome,
    iter_session_scopes,
    require_fields,
)
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.lines import LineCodec
from limpet.model.message import Message
from limpet.model.scope import Scope
from limpet.model.tokens import estimate_tokens
from limpet.model.transfer import MessageState
from limpet.sessions.messages import MessageWithChunks, index_message, prepare_entries
from limpet.sessions.repository import Messages, Sessions
from limpet.store.tx import Tx

_LINE = LineCodec(MessageState)
_NO_SESSION = LineOutcome(False, "its session is not here")
_REMOVED = LineOutcome(False, "it was removed here since")


class _MessageLine(NamedTuple):
    session_id: str
    entry: MessageWithChunks


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for one in iter_session_scopes(tx, scope):
        after = 0
        while page := Messages(tx).range(one, after, None, PAGE):
            yield from (to_line(str(one.session), message) for message in page)
            after = page[-1].sequence


def to_line(session_id: str, message: Message) -> dict[str, Any]:
    line = _LINE.write(MessageState(session_id, message))
    if not isinstance(message.content, str):
        parts: list[dict[str, Any]] = line["content"]
        line["content"] = [{name: value for name, value in part.items() if value is not None} for part in parts]
    return line


def _read(value: dict[str, Any], into: ImportTarget) -> _MessageLine:
    require_fields(value, "sequence", "created_at")
    state = _LINE.read(value, {}, into.map_id)
    message = state.message
    if message.sequence < 1:
        raise InvalidInput(f"sequence must be a whole number from 1 up, not {message.sequence}")
    if "tokens" not in value:
        message = replace(message, tokens=estimate_tokens(message.searchable))
    return _MessageLine(state.session_id, MessageWithChunks(message, ()))


def _prepare(said: _MessageLine, into: ImportTarget) -> _MessageLine:
    message = said.entry.message
    assert message.created_at is not None
    [entry] = prepare_entries([message], into.config.chunks, message.created_at)
    return said._replace(entry=entry)


def _put(tx: Tx, items: Sequence[_MessageLine], into: ImportTarget) -> list[LineOutcome]:
    outcomes: list[LineOutcome] = []
    for session_id, said in groupby(items, key=lambda item: item.session_id):
        outcomes += _put_messages(tx, into, session_id, [item.entry for item in said])
    return outcomes


def _put_messages(
    tx: Tx, into: ImportTarget, session_id: str, entries: Sequence[MessageWithChunks]
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
        index_message(tx, info.scope, message, entry.chunks)
        last = message.sequence
        outcomes.append(LineOutcome(True))
    added = sum(outcome.added for outcome in outcomes)
    if added:
        oldest = min(entry.message.created_at or head.last_active_at for entry in entries)
        Sessions(tx).advance(info.scope, last, head.message_count + added, head.last_active_at, oldest)
    return outcomes


MESSAGES = LineKind(
    "messages", "one entry of a conversation", _LINE, _iter_lines, _read, _put, prepare=_prepare, noun="messages"
)
