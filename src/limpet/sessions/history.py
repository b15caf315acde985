"""Messages enter a session: cut and embedded before the transaction, stored in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from limpet.api.runtime import Runtime
from limpet.errors import IdempotencyConflict
from limpet.model.message import Message
from limpet.model.scope import Scope
from limpet.model.telemetry import Progress
from limpet.model.text import check_name
from limpet.sessions import append
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

# What belongs into the same transaction, told which of the messages are new: others were stored under their key before.
WithinTransaction = Callable[[Tx, list[Message]], None]


def extend(
    runtime: Runtime,
    scope: Scope,
    messages: Sequence[Message],
    progress: Progress | None = None,
    beside: WithinTransaction | None = None,
) -> list[Message]:
    """All of them or none, under the next sequence numbers."""
    now = runtime.clock()
    entries = append.prepare(messages, runtime.config.chunks, now)
    entries = append.embed_entries(runtime.store, runtime.embedding, append.partition_of(scope), entries, progress)

    def write(tx: Tx) -> list[Message]:
        if beside is None:
            return append.append(tx, scope, entries, now)
        last = Sessions(tx).get_head(scope).last_sequence
        stored = append.append(tx, scope, entries, now)
        beside(tx, [message for message in stored if message.sequence > last])
        return stored

    stored = runtime.store.write(write)
    runtime.request_embedding(chunk for entry in entries for chunk in entry.chunks)
    return stored


def extend_once(
    runtime: Runtime, scope: Scope, messages: Sequence[Message], key: str, progress: Progress | None = None
) -> list[Message]:
    """All under one key: new together, or kept together before."""
    check_name(key, "idempotency_key")
    numbered = [
        replace(message, idempotency_key=check_name(f"{key}/{number}", "idempotency_key"))
        for number, message in enumerate(messages)
    ]
    other = IdempotencyConflict("this idempotency_key stands for other messages of this session; choose a new one")

    def check_all_or_none(_tx: Tx, new: list[Message]) -> None:
        if 0 < len(new) < len(numbered):
            raise other

    stored = extend(runtime, scope, numbered, progress, check_all_or_none)
    if not all(kept.is_duplicate_of(meant) for kept, meant in zip(stored, numbered, strict=True)):
        raise other  # all were kept before, so nothing was written now
    return stored
