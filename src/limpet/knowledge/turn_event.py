"""A finished turn as a record: what was asked, what was answered, how its tools fared, and what it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from limpet.knowledge import english
from limpet.model.message import Message, Role
from limpet.model.record import Layer, Origin, Record, RecordSource, RecordType, fingerprint
from limpet.model.scope import Owner

Mask = Callable[[str], str]

MAX_REFERENCES = 12

_ENDINGS = (
    "py|js|ts|tsx|jsx|rs|go|java|kt|rb|c|h|cpp|cs|php|swift|sql|sh|toml|ya?ml|json|md|txt|html|css|lock|cfg|ini|env"
)
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"https?://[^\s<>\"')\]]{3,300}",
        r"\b[\w./-]{1,120}\.py::\w{1,100}(?:::\w{1,100})?",
        r"(?<![\w/])(?:[\w.@~-]{1,60}/){1,12}[\w.@-]{1,60}",
        rf"(?<![\w/.])[\w-]{{1,60}}\.(?:{_ENDINGS})\b",
        r"\btest_\w{2,80}\b",
        r"`([^`\n]{2,120})`",
    )
)

_ASKED, _ANSWERED, _TOOL = 200, 300, 80  # characters
_TOOLS = 20
_CONFIDENCE, _SALIENCE = 0.6, 0.3  # what happened, and not yet a lesson


class TurnToolOutcome(NamedTuple):
    tool: str
    failed: bool


def build_turn_event(
    id: str, home: Owner, session: str, turn: Sequence[Message], skill: str | None, mask: Mask, now: datetime
) -> Record | None:
    """None where nobody said a word, or the user asked not to have it remembered.

    ``turn`` begins with the user's message and ends with the reply.
    """
    if any(message.role is Role.USER and english.is_opt_out(message.text) for message in turn):
        return None
    asked = " ".join(message.text for message in turn if message.role is Role.USER)
    answered = turn[-1].text if turn and turn[-1].role is Role.ASSISTANT else ""
    parts = {"Asked": _clip_text(mask(asked), _ASKED), "Answered": _clip_text(mask(answered), _ANSWERED)}
    content = " | ".join(f"{name}: {text}" for name, text in parts.items() if text)
    if not content:
        return None
    outcomes = collect_outcomes(turn)
    return Record(
        id=id,
        home=home,
        layer=Layer.EPISODIC,
        type=RecordType.TASK_STATE,
        content=content,
        tags=("turn", *((skill,) if skill else ())),
        metadata=_build_metadata(outcomes, skill),
        confidence=_CONFIDENCE,
        salience=_SALIENCE,
        references=find_references(mask(f"{asked}\n{answered}")),
        fingerprint=fingerprint(RecordType.TASK_STATE, content),
        source=RecordSource(session, tuple(message.sequence for message in turn), turn[0].name),
        origin=Origin.TURN,
        created_at=now,
        updated_at=now,
        valid_from=now,
    )


def collect_outcomes(turn: Sequence[Message]) -> tuple[TurnToolOutcome, ...]:
    """Each call with whether its result was an error, or never came."""
    results = {message.tool_call_id: message for message in turn if message.role is Role.TOOL}
    calls = [call for message in turn for call in message.tool_calls]
    return tuple(TurnToolOutcome(call.name, call.id not in results or results[call.id].is_error) for call in calls)


def _build_metadata(outcomes: Sequence[TurnToolOutcome], skill: str | None) -> dict[str, str]:
    said: dict[str, str] = {"skill": skill} if skill else {}
    if outcomes:
        said["outcome"] = "failed" if any(outcome.failed for outcome in outcomes) else "done"
        named = dict.fromkeys(
            f"{outcome.tool[:_TOOL]} {'failed' if outcome.failed else 'done'}" for outcome in outcomes
        )
        said["tools"] = ", ".join(list(named)[:20])
    return said


def _clip_text(text: str, most: int) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1].rstrip()}…"


def find_references(text: str) -> tuple[str, ...]:
    """In the order they are found, each once. Dates and "and/or" are no paths."""
    found: dict[str, None] = {}
    for pattern in _PATTERNS:
        for match in pattern.finditer(text[:4000]):
            name = (match[1] if pattern.groups else match.group()).rstrip(".,;:")
            if _is_reference(name) and not any(name in longer for longer in found):
                found[name] = None
    return tuple(found)[:MAX_REFERENCES]


def _is_reference(name: str) -> bool:
    parts = name.split("/")
    if name.startswith("http") or "::" in name or "/" not in name or len(parts) > 2:
        return True
    return "." in parts[-1] or name.endswith("/") or any("_" in part or "-" in part for part in parts)
