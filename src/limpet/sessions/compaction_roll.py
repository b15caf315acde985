"""Moving the summary on: read, write the new one outside every transaction, swap it in if nobody was faster."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from limpet.errors import SessionNotFound, StorageError
from limpet.model.message import Message
from limpet.model.scope import Scope
from limpet.model.session import Compacted, Summary
from limpet.model.times import Clock
from limpet.model.turns import Cost
from limpet.sessions.compaction_due import Load, Plan, Reason
from limpet.sessions.repository import Messages, Sessions, Summaries
from limpet.sessions.summarize import Summariser, Written
from limpet.store.base import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.sessions")

Planner = Callable[[Load], Plan | None]


class Swap(Protocol):
    def __call__(
        self, tx: Tx, scope: Scope, text: str, upper_sequence: int, expected_epoch: int | None, now: datetime
    ) -> bool: ...


Bill = Callable[[Tx, Scope, Written], None]


@dataclass(frozen=True, slots=True)
class Reading:
    """A session as it stood: its summary, and the messages after it."""

    summary: Summary | None
    messages: tuple[Message, ...]

    @property
    def text(self) -> str:
        return self.summary.text if self.summary else ""

    @property
    def epoch(self) -> int:
        return self.summary.epoch if self.summary else 0


@dataclass(frozen=True, slots=True)
class Roller:
    """``swap`` and ``bill`` are verbs of a session, run in one transaction."""

    store: Store
    scope: Scope
    summariser: Summariser
    cost: Cost
    clock: Clock
    swap: Swap
    bill: Bill

    def roll(self, plan: Planner, idle: Reason) -> Compacted:
        """Condense what the plan says, asked again after a lost race. ``idle`` is the reason where it says nothing."""
        done = self._once(plan, idle)
        return self._once(plan, idle) if done.reason == Reason.OVERTAKEN else done

    def _once(self, plan: Planner, idle: Reason) -> Compacted:
        reading = self.store.read(self._read)
        load = Load.of(reading.messages, reading.text, self.summariser.count, self.cost)
        planned = plan(load)
        if planned is None or not planned.messages:
            return _unchanged(load, idle)
        covered = reading.messages[: planned.messages]
        written = self.summariser.write(reading.text, covered)
        try:
            swapped = self._put(reading, covered, written)
        except StorageError as error:  # a turn goes on with the summary that is there
            log.warning("the summary of session %s could not be stored: %s", self.scope.session, error)
            return _unchanged(load, Reason.UNWRITABLE)
        if not swapped:
            return _unchanged(load, Reason.OVERTAKEN)
        after = self.summariser.count(written.text) + sum(load.tokens[planned.messages :])
        return Compacted(True, len(covered), load.use, after, str(written.author), str(planned.reason))

    def _read(self, tx: Tx) -> Reading:
        if Sessions(tx).get(self.scope) is None:
            raise SessionNotFound(f"session {self.scope.session} is gone; it was deleted")
        summary = Summaries(tx).get(self.scope)
        after = summary.upper_sequence if summary else None
        return Reading(summary, tuple(Messages(tx).range(self.scope, after, None, None)))

    def _put(self, reading: Reading, covered: tuple[Message, ...], written: Written) -> bool:
        """The model is paid whoever wins the race."""

        def work(tx: Tx) -> bool:
            self.bill(tx, self.scope, written)
            upper = covered[-1].sequence
            return self.swap(tx, self.scope, written.text, upper, reading.epoch, self.clock())

        return self.store.write(work)


def _unchanged(load: Load, reason: Reason) -> Compacted:
    return Compacted(False, 0, load.use, load.use, None, str(reason))
