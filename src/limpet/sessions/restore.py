"""The newest messages that fit a budget, read page by page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from limpet.errors import BudgetTooSmall
from limpet.model.message import Message, Role
from limpet.model.scope import Scope
from limpet.model.turns import Cost, HistoryBudget, fit_history, group_steps, message_tokens
from limpet.sessions.repository import Messages
from limpet.store.tx import Tx

ReadRecent = Callable[[int, int | None], list[Message]]

_PAGE = 64
_TURN = 12


def restore(
    tx: Tx, scope: Scope, max_tokens: int, max_messages: int | None = None, cost: Cost = message_tokens, after: int = 0
) -> list[Message]:
    """Only those ``after`` that sequence, and the latest user message all the same."""
    return read_newest(partial(Messages(tx).recent, scope), max_tokens, max_messages, cost, after)


def read_newest(
    recent: ReadRecent, max_tokens: int, max_messages: int | None = None, cost: Cost = message_tokens, after: int = 0
) -> list[Message]:
    """The same from whatever gives so many of the newest messages, or of those before a sequence."""
    if max_tokens < 1:
        raise BudgetTooSmall(f"max_tokens must be at least 1, not {max_tokens}")
    found: list[Message] = []
    # A little more than may be kept, so that the turn it begins in is mostly there.
    size, before = _PAGE if max_messages is None else min(_PAGE, max_messages + _TURN), None
    while True:
        page = recent(size, before)
        found = page + found
        crossed = bool(page) and page[0].sequence <= after and any(message.role is Role.USER for message in found)
        if len(page) < size or crossed:
            return fit_history(_messages_since(found, after), max_tokens, max_messages, cost)
        # Only from a user message on are turns read whole; when those are too much already, the rest does not matter.
        opening = next((at for at, message in enumerate(found) if message.role is Role.USER), None)
        whole = [] if opening is None else _messages_since(found[opening:], after)
        if not HistoryBudget(whole, max_tokens, max_messages, cost).take(group_steps(whole)):
            return fit_history(whole, max_tokens, max_messages, cost)
        size, before = size * 2, page[0].sequence


def _messages_since(history: list[Message], after: int) -> list[Message]:
    """What came after, and what it answers: the latest user message, or the whole last turn if nothing came."""
    latest = max((at for at, message in enumerate(history) if message.role is Role.USER), default=len(history))
    start = next((at for at, message in enumerate(history) if message.sequence > after), len(history))
    if start == len(history):
        return history[latest:]
    return [*history[latest : min(latest + 1, start)], *history[start:]]
