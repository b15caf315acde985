"""Values to build contexts from, and a reader of the rendered text that shares no code with the writer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from limpet.config import ContextSettings
from limpet.context.compose import Composer
from limpet.context.select import ContextInputs
from limpet.model.chunk import Hit, Signal, Source, SourceKind
from limpet.model.context import Context
from limpet.model.message import Message, message_tokens
from limpet.model.record import Layer, Record, RecordType
from limpet.model.scope import Level, Owner, Scope
from limpet.model.tokens import TokenCounter, estimate_tokens

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
HERE, ELSEWHERE = "here", "elsewhere"


def said(*texts: str, role: str = "user") -> tuple[Message, ...]:
    return tuple(Message.new(role, text).with_sequence(at, NOW) for at, text in enumerate(texts, start=1))


def hit(
    text: str, sequence: int = 1, session: str = ELSEWHERE, score: float = 0.9, days: int = 0, **source: Any
) -> Hit:
    where: dict[str, Any] = {
        "kind": SourceKind.MESSAGE,
        "id": session,
        "role": "user",
        "first_sequence": sequence,
    } | source
    where.setdefault("last_sequence", where["first_sequence"])
    return Hit(
        text,
        score,
        {"words": Signal(1, score)},
        Source(created_at=NOW - timedelta(days=days), session_id=session, **where),
    )


def record(id: str, content: str, *, level: Level = Level.USER, session: str | None = None, **values: Any) -> Record:
    user = "alice" if level in (Level.USER, Level.SESSION) else None
    agent = "assistant" if level is Level.AGENT else None
    home = Owner(Scope("default", user=user, agent=agent, session=session), level)
    given: dict[str, Any] = {"layer": Layer.SEMANTIC, "type": RecordType.FACT, "created_at": NOW, "updated_at": NOW}
    return Record(id=id, home=home, content=content, **(given | values))


def record_hit(found: Record, score: float = 0.9) -> Hit:
    about = {"type": found.type.value} | ({"key": found.key} if found.key else {})
    source = Source(SourceKind.RECORD, found.id, NOW, session_id=found.session_id)
    return Hit(found.content, score, {}, source, about)


def built(
    budget: int = 4000, *, limits: ContextSettings | None = None, count: TokenCounter = estimate_tokens, **material: Any
) -> Context:
    history: Sequence[Message] = material.get("history", ())
    given: dict[str, Any] = {"session": HERE, "now": NOW, "message_count": len(history)} | material
    cost = message_tokens if count is estimate_tokens else (lambda message: count(message.searchable))
    settings = limits or ContextSettings(layout="golemcore")
    return Composer(ContextInputs(**given), settings, budget, count, cost).assemble()


def headings(text: str) -> list[str]:
    """What any Markdown reader could take for a heading: at any depth, underlined ones too."""
    lines = re.split(r"[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+", text)
    atx = [line.strip() for line in lines if re.match(r"\s*(?:[-*+>]\s+)*#", line)]
    underlined = [line for line in lines if re.fullmatch(r"\s*(?:=+|-+)\s*", line)]
    return atx + underlined


def items(body: str) -> list[str]:
    return [line for line in body.split("\n") if re.match(r"\s*(?:[-*+]|\d+[.)])\s", line)]
