"""Short ways to make a turn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from limpet.knowledge.candidate import Candidate, TurnMessage
from limpet.knowledge.read import extract_candidates as extract
from limpet.model.message import Role, ToolCall

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def said(text: str, role: str = "user", *, at: int = 1, **more: object) -> TurnMessage:
    return TurnMessage(at, Role(role), text, NOON + timedelta(minutes=at), **more)  # type: ignore[arg-type]


def learned(text: str, **more: object) -> list[Candidate]:
    return extract([said(text, **more)])  # type: ignore[arg-type]


def told(candidates: list[Candidate]) -> list[tuple[str, str | None, str | None, bool]]:
    return [(one.subject, one.attribute, one.value, one.polarity) for one in candidates]


def shell(command: str, output: str, *, failed: bool = False) -> list[TurnMessage]:
    call = ToolCall("c1", "bash", {"command": command})
    return [
        said("do it", at=1),
        said("", "assistant", at=2, tool_calls=(call,)),
        said(output, "tool", at=3, tool_call_id="c1", is_error=failed),
    ]
