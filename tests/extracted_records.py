"""Records as extraction leaves them, without it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

from limpet import Limpet, Record, Session
from limpet.knowledge import remember
from limpet.model.record import Layer, Origin, RecordSource, RecordType, fingerprint
from limpet.model.scope import Level, Owner, Scope

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
_numbers = count(1)


def of_user(user: str = "alice", tenant: str = "default") -> Owner:
    return Owner(Scope(tenant, user=user), Level.USER)


def of_session(session: Session) -> Owner:
    return Owner(Scope("default", user=session.user, session=session.id), Level.SESSION)


def record(content: str = "The user lives in Lisbon", at: datetime = NOW, **fields: Any) -> Record:
    """One that was extracted from a conversation, if nothing else is said."""
    made = Record(
        id=fields.pop("id", f"01890000-0000-7000-8000-{next(_numbers):012x}"),
        home=fields.pop("home", of_user()),
        layer=Layer(fields.pop("layer", "semantic")),
        type=RecordType(fields.pop("type", "fact")),
        content=content,
        origin=Origin(fields.pop("origin", "extracted")),
        confidence=fields.pop("confidence", 0.8),
        source=fields.pop("source", RecordSource(sentence=content)),
        created_at=at,
        updated_at=fields.pop("updated_at", at),
        valid_from=fields.pop("valid_from", at),
        **fields,
    )
    return replace(made, fingerprint=fingerprint(made.type, made.content))


def learn(memory: Limpet, content: str, **fields: Any) -> Record:
    """The same, in the store, dated now."""
    made = record(content, at=fields.pop("at", memory._now()), id=memory._runtime.new_id(), **fields)
    return memory._runtime.store.write(lambda tx: remember.insert(tx, made, memory._runtime.chunker))


def turn(memory: Limpet, asked: str, answered: str, **fields: Any) -> Record:
    text = f"asked: {asked} | answered: {answered}"
    return learn(memory, text, type="task_state", layer="episodic", origin="turn", **fields)
