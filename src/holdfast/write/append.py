"""Appending messages: prepared outside the transaction, stored inside one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.config import Chunks as ChunkConfig
from holdfast.domain.chunk import ChunkDraft, ChunkSource, SourceKind, Vector
from holdfast.domain.message import Message, Role
from holdfast.domain.scope import Level, Scope, Space
from holdfast.domain.text import checked_name
from holdfast.errors import ProviderError, SequenceConflict
from holdfast.providers.embedder import Embedder
from holdfast.storage.base import Tx
from holdfast.write.chunk import message_drafts

log = logging.getLogger("holdfast.write")

_MAX_FLOAT = 3.4e38


class Entry(NamedTuple):
    """A message with what search will find of it."""

    message: Message
    chunks: tuple[ChunkDraft, ...]


def prepare(messages: Sequence[Message], config: ChunkConfig, embedder: Embedder | None, now: datetime) -> list[Entry]:
    """Everything slow, before the transaction: cutting, word analysis, embedding."""
    return embedded([Entry(message, _chunks(message, config, now)) for message in messages], embedder)


def _chunks(message: Message, config: ChunkConfig, now: datetime) -> tuple[ChunkDraft, ...]:
    # A system prompt is an instruction, not something that happened: recalled, it would pass for a memory.
    if message.role is Role.SYSTEM:
        return ()
    return message_drafts(message, message.created_at or now, config.max_chars, config.overlap)


def embedded(entries: list[Entry], embedder: Embedder | None) -> list[Entry]:
    """The entries with a vector on each chunk, or as they were when the embedder fails: words find them still."""
    texts = [chunk.text for entry in entries for chunk in entry.chunks]
    if embedder is None or not texts:
        return entries
    try:
        model = checked_name(embedder.name, "the embedder's name")
        vectors = iter(_checked_vectors(embedder.embed(texts), len(texts)))
    except Exception as error:  # why: whatever an embedder does, the message itself must be stored
        log.warning("embedding failed, %d chunks are searchable by words only: %s", len(texts), error)
        return entries
    return [
        Entry(
            entry.message,
            tuple(chunk._replace(vector=Vector(model, next(vectors))) for chunk in entry.chunks),
        )
        for entry in entries
    ]


def _checked_vectors(given: Iterable[Iterable[float]], count: int) -> list[tuple[float, ...]]:
    """A vector a text, all of one length, of numbers that fit 32 bits: else some backend would refuse the message."""
    vectors = [tuple(map(float, vector)) for vector in given]
    if len(vectors) != count:
        raise ProviderError(f"{len(vectors)} vectors came for {count} texts")
    if len({len(vector) for vector in vectors}) != 1 or not vectors[0]:
        raise ProviderError("the vectors are empty or of different lengths")
    if not all(-_MAX_FLOAT < value < _MAX_FLOAT for vector in vectors for value in vector):
        raise ProviderError("a vector holds a value that is no number or too large")
    return vectors


def append(tx: Tx, scope: Scope, entries: Sequence[Entry], now: datetime) -> list[Message]:
    """Store the messages under the next sequence numbers; all of them or none."""
    head = tx.sessions.head(scope)
    last, count, active_at = head
    stored = []
    for entry in entries:
        message = entry.message
        if message.idempotency_key is not None:
            first = tx.messages.by_idempotency_key(scope, message.idempotency_key)
            if first is not None:
                stored.append(first)
                continue
        last = _next_sequence(message.sequence, last)
        message = message.stored_as(last, message.created_at or now)
        tx.messages.insert(scope, message)
        index(tx, scope, message, entry.chunks)
        stored.append(message)
        count += 1
        active_at = max(active_at, message.created_at or now)
    if count > head.message_count:
        tx.sessions.advance(scope, last, count, active_at)
    return stored


def _next_sequence(wanted: int, last: int) -> int:
    if not wanted:
        return last + 1
    if wanted <= last:
        raise SequenceConflict(
            f"sequence {wanted} is not above the session's last one, {last}; leave it out to get the next"
        )
    return wanted


def index(tx: Tx, scope: Scope, message: Message, chunks: Sequence[ChunkDraft]) -> None:
    """Store what search will find of a stored message."""
    assert scope.user is not None
    assert scope.session is not None
    assert message.created_at is not None
    source = ChunkSource(
        kind=SourceKind.MESSAGE,
        id=scope.session,
        created_at=message.created_at,
        session_id=scope.session,
        sequence=message.sequence,
        role=message.role.value,
        name=message.name,
    )
    tx.chunks.add(Space(scope.tenant, Level.USER, scope.user), source, chunks)
