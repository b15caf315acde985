"""Where a conversation can be cut: before a user's message, and never between a call and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from limpet.model.message import Message, Role

# Positions of messages that must stay together: a message alone, or tool calls with their results.
Step = list[int]
Cost = Callable[[Message], int]


def message_tokens(message: Message) -> int:
    return message.tokens


def fit_history(
    history: Sequence[Message], max_tokens: int, max_messages: int | None = None, cost: Cost = message_tokens
) -> list[Message]:
    """Whole turns from the end while they fit; when not even the last one does, its user message and newest steps."""
    turns = group_turns(history)
    room = HistoryBudget(history, max_tokens, max_messages, cost)
    kept: list[Step] = []
    for turn in reversed(turns):
        if not room.take(turn):
            break
        kept += turn
    if turns and not kept:
        kept = _fit_last_turn(history, turns[-1], room)
    return [history[at] for at in sorted(at for step in kept for at in step)]


class HistoryBudget:
    """What is left of a budget."""

    def __init__(
        self, history: Sequence[Message], tokens: int, messages: int | None, cost: Cost = message_tokens
    ) -> None:
        self._history = history
        self._cost = cost
        self._tokens = tokens
        self._messages = len(history) if messages is None else messages

    def take(self, steps: Sequence[Step], *, always: bool = False) -> bool:
        tokens = sum(self._cost(self._history[at]) for step in steps for at in step)
        messages = sum(map(len, steps))
        if not always and (tokens > self._tokens or messages > self._messages):
            return False
        self._tokens -= tokens
        self._messages -= messages
        return True


def _fit_last_turn(history: Sequence[Message], turn: Sequence[Step], room: HistoryBudget) -> list[Step]:
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


def find_cuts(history: Sequence[Message]) -> list[int]:
    """How many of the oldest messages can be told apart from the rest: whole steps, and none that may still go on.

    A call of the newest turn whose result is not there yet may get it with the next message.
    """
    steps = group_steps(history)
    inside = {at for step in steps for at in range(step[0] + 1, step[-1] + 1)}
    newest = max((at for at, message in enumerate(history) if message.role is Role.USER), default=0)
    waiting = (step[0] for step in steps if step[-1] >= newest and len(history[step[0]].tool_calls) > len(step) - 1)
    end = min(waiting, default=len(history))
    return [at for at in range(1, end + 1) if at not in inside]


def is_turn_start(history: Sequence[Message], at: int) -> bool:
    return at >= len(history) or history[at].role is Role.USER


def group_turns(history: Sequence[Message]) -> list[list[Step]]:
    """A turn begins at each user message; what stands before the first is one too."""
    return _group_by_turn(history, group_steps(history))


def _group_by_turn(history: Sequence[Message], steps: Iterable[Step]) -> list[list[Step]]:
    turns: list[list[Step]] = []
    for step in steps:
        if history[step[0]].role is Role.USER or not turns:
            turns.append([])
        turns[-1].append(step)
    return turns


def group_steps(history: Sequence[Message]) -> list[Step]:
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
