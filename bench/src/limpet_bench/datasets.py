"""Public conversations with labelled evidence, as the recall bench reads them.

A set is a folder with ``conversations.jsonl.gz`` (one turn a line) and ``queries.jsonl.gz`` (one question a line).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from limpet.errors import InvalidInput

SETS = ("locomo", "longmemeval", "beam")


@dataclass(frozen=True, slots=True)
class Turn:
    id: str
    session: str
    role: str
    name: str | None
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    text: str
    category: str
    at: datetime | None
    answerable: bool
    turns: frozenset[str]
    sessions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The whole history of one user, and the questions about it."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def load(folder: Path) -> list[Conversation]:
    turns: dict[str, list[Turn]] = {}
    for line in _lines(folder / "conversations.jsonl.gz"):
        turns.setdefault(line["conv_id"], []).append(_turn(line))
    questions: dict[str, list[Question]] = {}
    for line in _lines(folder / "queries.jsonl.gz"):
        questions.setdefault(line["conv_id"], []).append(_question(line))
    return [Conversation(id_, tuple(said), tuple(questions.get(id_, ()))) for id_, said in turns.items()]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror or error}; --data names the folder of the sets"
        ) from error


def _turn(line: dict[str, Any]) -> Turn:
    role = {"speaker_a": "user", "speaker_b": "assistant"}.get(line["role"], line["role"])
    return Turn(line["turn_id"], line["session_id"], role, line.get("speaker"), _time(line["timestamp"]), line["text"])


def _question(line: dict[str, Any]) -> Question:
    unanswerable = line.get("is_abstention") or line.get("is_adversarial")
    asked = line.get("question_date")
    return Question(
        line["query_id"],
        line["question"],
        line["category"],
        None if asked is None else _time(asked),
        not unanswerable and bool(line["evidence_turn_ids"]),
        frozenset(line["evidence_turn_ids"]),
        frozenset(line["evidence_session_ids"]),
    )


def _time(text: str) -> datetime:
    """The sets name no zone; any zone works if it is used throughout."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
