"""Turns that wait for their reply: a request began each, and another one ends it."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from time import monotonic
from typing import NamedTuple

from limpet import Turn

MAX_TURNS = 1000
MAX_AGE_S = 900.0


class TurnKey(NamedTuple):
    """Who began it, where, and under which Idempotency-Key."""

    caller: str
    session: str
    key: str


class OpenTurns:
    """The newest ones, for a quarter of an hour. A turn that is not here any more can be taken again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._turns: OrderedDict[TurnKey, tuple[float, Turn]] = OrderedDict()

    def put(self, key: TurnKey, turn: Turn) -> None:
        now = monotonic()
        with self._lock:
            self._turns.pop(key, None)
            self._turns[key] = now, turn
            while self._turns and (len(self._turns) > MAX_TURNS or self._oldest() < now - MAX_AGE_S):
                self._turns.popitem(last=False)

    def take(self, key: TurnKey) -> Turn | None:
        """The turn, for one request alone."""
        with self._lock:
            began, turn = self._turns.pop(key, (0.0, None))
            return turn if began >= monotonic() - MAX_AGE_S else None

    def _oldest(self) -> float:
        return next(iter(self._turns.values()))[0]
