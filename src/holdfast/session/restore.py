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
    found: list[Message] = []
    size, before = _PAGE, None
    while True:
        page = tx.messages.recent(scope, size, before)
        found = page + found
        if len(page) < size:
            return fit(found, max_tokens, max_messages)
        # Only from a user message on are turns read whole; when those are too much already, the rest does not matter.
        opening = next((at for at, message in enumerate(found) if message.role is Role.USER), None)
        whole = [] if opening is None else found[opening:]
        if not _Room(whole, max_tokens, max_messages).take(_steps(whole)):
            return fit(whole, max_tokens, max_messages)
        size, before = size * 2, page[0].sequence


def fit(history: Sequence[Message], max_tokens: int, max_messages: int | None = None) -> list[Message]:
    """Whole turns from the end while they fit; when not even the last one does, its user message and newest steps."""
    turns = _turns(history, _steps(history))
    room = _Room(history, max_tokens, max_messages)
    kept: list[Step] = []
    for turn in reversed(turns):
        if not room.take(turn):
            break
        kept += turn
    if turns and not kept:
        kept = _end_of_turn(history, turns[-1], room)
    return [history[at] for at in sorted(at for step in kept for at in step)]


# Positions of messages that must stay together: a message alone, or tool calls with their results.
Step = list[int]


class _Room:
    """What is left of a budget."""

    def __init__(self, history: Sequence[Message], tokens: int, messages: int | None) -> None:
        self._history = history
        self._tokens = tokens
        self._messages = len(history) if messages is None else messages

    def take(self, steps: Sequence[Step], *, always: bool = False) -> bool:
        tokens = sum(self._history[at].tokens for step in steps for at in step)
        messages = sum(map(len, steps))
        if not always and (tokens > self._tokens or messages > self._messages):
            return False
        self._tokens -= tokens
        self._messages -= messages
        return True


def _end_of_turn(history: Sequence[Message], turn: Sequence[Step], room: _Room) -> list[Step]:
    kept: list[Step] = []
    if history[turn[0][0]].role is Role.USER:
        opening, *turn = turn
        room.take([opening], always=True)
        kept.append(opening)
    for step in reversed(turn):
        if not room.take([step]):
            break
        kept.append(step)
    return kept


def _turns(history: Sequence[Message], steps: Iterable[Step]) -> list[list[Step]]:
    """A turn begins at each user message; what stands before the first is one too."""
    turns: list[list[Step]] = []
    for step in steps:
        if history[step[0]].role is Role.USER or not turns:
            turns.append([])
        turns[-1].append(step)
    return turns


def _steps(history: Sequence[Message]) -> list[Step]:
    """A result belongs to its call, also when the user spoke in between. One whose call is gone is left out."""
    steps: list[Step] = []
    calling: dict[str | None, Step] = {}
    for at, message in enumerate(history):
        if message.role is Role.TOOL:
            if (step := calling.get(message.tool_call_id)) is not None:
                step.append(at)
            continue
        steps.append([at])
        if message.tool_calls:
            # A result that names no call belongs to the latest one.
            calling |= dict.fromkeys((None, *(call.id for call in message.tool_calls)), steps[-1])
    return steps
