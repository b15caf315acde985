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
from limpet.model.session import CompactionResult, Summary
from limpet.model.times import Clock
from limpet.model.turns import Cost
from limpet.sessions.compaction_due import Load, Plan, Reason
from limpet.sessions.repository import Messages, Sessions, Summaries
from limpet.sessions.summarize import Summariser, SummaryDraft
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.sessions")

Planner = Callable[[Load], Plan | None]


class SwapSummary(Protocol):
    def __call__(
        self, tx: Tx, scope: Scope, text: str, upper_sequence: int, expected_epoch: int | None, now: datetime
    ) -> bool: ...


Bill = Callable[[Tx, Scope, SummaryDraft], None]


@dataclass(frozen=True, slots=True)
class SummaryState:
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
class Compactor:
    """``swap`` and ``bill`` are verbs of a session, run in one transaction."""

    store: Store
    scope: Scope
    summariser: Summariser
    cost: Cost
    clock: Clock
    swap: SwapSummary
    bill: Bill

    def compact(self, plan: Planner, idle: Reason) -> CompactionResult:
        """Condense what the plan says, asked again after a lost race. ``idle`` is the reason where it says nothing."""
        done = self._compact_once(plan, idle)
        return self._compact_once(plan, idle) if done.reason == Reason.OVERTAKEN else done

    def _compact_once(self, plan: Planner, idle: Reason) -> CompactionResult:
        reading = self.store.read(self._read)
        load = Load.of(reading.messages, reading.text, self.summariser.count, self.cost)
        planned = plan(load)
        if planned is None or not planned.messages:
            return _report_unchanged(load, idle)
        covered = reading.messages[: planned.messages]
        written = self.summariser.write(reading.text, covered)
        try:
            swapped = self._store_summary(reading, covered, written)
        except StorageError as error:  # a turn goes on with the summary that is there
            log.warning("the summary of session %s could not be stored: %s", self.scope.session, error)
            return _report_unchanged(load, Reason.UNWRITABLE)
        if not swapped:
            return _report_unchanged(load, Reason.OVERTAKEN)
        after = self.summariser.count(written.text) + sum(load.tokens[planned.messages :])
        return CompactionResult(True, len(covered), load.total_tokens, after, str(written.author), str(planned.reason))

    def _read(self, tx: Tx) -> SummaryState:
        if Sessions(tx).get(self.scope) is None:
            raise SessionNotFound(f"session {self.scope.session} is gone; it was deleted")
        summary = Summaries(tx).get(self.scope)
        after = summary.upper_sequence if summary else None
        return SummaryState(summary, tuple(Messages(tx).range(self.scope, after, None, None)))

    def _store_summary(self, reading: SummaryState, covered: tuple[Message, ...], written: SummaryDraft) -> bool:
        """The model is paid whoever wins the race."""

        def work(tx: Tx) -> bool:
            self.bill(tx, self.scope, written)
            upper = covered[-1].sequence
            return self.swap(tx, self.scope, written.text, upper, reading.epoch, self.clock())

        return self.store.write(work)


def _report_unchanged(load: Load, reason: Reason) -> CompactionResult:
    return CompactionResult(False, 0, load.total_tokens, load.total_tokens, None, str(reason))
