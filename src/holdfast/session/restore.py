"""The newest messages that fit a budget, cut where a conversation can be cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.domain.message import Message, Role
from holdfast.domain.scope import Scope
from holdfast.errors import BudgetTooSmall
from holdfast.storage.base import Tx

_PAGE = 64


def restore(tx: Tx, scope: Scope, max_tokens: int, max_messages: int | None = None) -> list[Message]:
    if max_tokens < 1:
        raise BudgetTooSmall(f"max_tokens must be at least 1, not {max_tokens}")
    return fit(_newest(tx, scope, max_tokens), max_tokens, max_messages)


def _newest(tx: Tx, scope: Scope, max_tokens: int) -> list[Message]:
    """Enough of the end of the history to fill the budget and to hold its last user message."""
    found: list[Message] = []
    before: int | None = None
    while True:
        page = tx.messages.recent(scope, _PAGE, before)
        found = page + found
        enough = sum(message.tokens for message in found) > max_tokens
        if len(page) < _PAGE or (enough and any(message.role is Role.USER for message in found)):
            return found
        before = page[0].sequence


def fit(history: Sequence[Message], max_tokens: int, max_messages: int | None = None) -> list[Message]:
    """Whole turns from the end while they fit. When not even the last one fits: its user message, and its newest steps."""
    turns = _turns(history)
    kept: list[Message] = []
    for turn in reversed(turns):
        whole = [message for step in _steps(turn) for message in step]
        if not _fits([*whole, *kept], max_tokens, max_messages):
            break
        kept = whole + kept
    if kept or not turns:
        return kept
    return _end_of_turn(turns[-1], max_tokens, max_messages)


def _end_of_turn(turn: Sequence[Message], max_tokens: int, max_messages: int | None) -> list[Message]:
    opening = [turn[0]] if turn[0].role is Role.USER else []
    kept: list[Message] = []
    for step in reversed(_steps(turn[len(opening) :])):
        if not _fits([*opening, *step, *kept], max_tokens, max_messages):
            break
        kept = [*step, *kept]
    return opening + kept


def _fits(messages: Sequence[Message], max_tokens: int, max_messages: int | None) -> bool:
    if max_messages is not None and len(messages) > max_messages:
        return False
    return sum(message.tokens for message in messages) <= max_tokens


def _turns(history: Iterable[Message]) -> list[list[Message]]:
    """A turn begins at each user message; what stands before the first is one too."""
    turns: list[list[Message]] = []
    for message in history:
        if message.role is Role.USER or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def _steps(turn: Iterable[Message]) -> list[list[Message]]:
    """What must stay together: a message, or tool calls with their results. A result whose call is gone is left out."""
    steps: list[list[Message]] = []
    for message in turn:
        if message.role is not Role.TOOL:
            steps.append([message])
        elif (call := _step_calling(steps, message)) is not None:
            call.append(message)
    return steps


def _step_calling(steps: list[list[Message]], result: Message) -> list[Message] | None:
    for step in reversed(steps):
        calls = step[0].tool_calls
        if calls and (result.tool_call_id is None or any(call.id == result.tool_call_id for call in calls)):
            return step
    return None
