"""Running schedules: what is due is handed to a function, now or in a thread."""

from __future__ import annotations

from typing import TypeVar

from holdfast.domain.schedule import Schedule
from holdfast.domain.text import shown
from holdfast.domain.values import checked_flag
from holdfast.engine.face import Face
from holdfast.engine.schedules import Schedules
from holdfast.errors import InvalidInput
from holdfast.schedule.firing import Callback, Notifier
from holdfast.schedule.runner import Hands

M = TypeVar("M", bound="Scheduling")


class Scheduling(Face):
    """The verbs on what is due."""

    _scheduled = False  # whether this memory was handed to a scheduled turn

    @property
    def schedules(self) -> Schedules:
        """Goals that come back: ``hf.schedules.create(user=…, goal=…, cadence="every: 1h")``."""
        return Schedules(self._runtime, self._scope, scheduled=self._scheduled)

    def run_schedules(self, callback: Callback, notify: Notifier | None = None, *, until_idle: bool = True) -> int:
        """Run what is due now, of every tenant. Answers how many firings were begun.

        The callback is given each ``Firing`` and gives back what came of it: text, an ``Outcome`` or None. When it
        raises, the run has failed and is tried again later. ``notify`` is given what somebody is to be told.
        """
        idle = checked_flag(until_idle, "until_idle")
        return self._runtime.runner.run(self._hands(callback, notify), until_idle=idle)

    def _hands(self, callback: object, notify: object) -> Hands:
        if not callable(callback):
            raise InvalidInput(f"callback must be a function that is given a Firing, not {shown(callback)}")
        if notify is not None and not callable(notify):
            raise InvalidInput(f"notify must be a function that is given a Notification, not {shown(notify)}")
        return Hands(callback, notify, self._for_turn)

    def _for_turn(self, schedule: Schedule) -> Scheduling:
        """Memory for a scheduled turn: it may do everything but make schedules, in whatever thread."""
        return _marked(type(self)(self._agents, schedule.tenant, schedule.agent), scheduled=True)

    def _seen_as(self, memory: M) -> M:
        """Another view of the same memory is no way around that."""
        return _marked(memory, scheduled=self._scheduled)


def _marked(memory: M, *, scheduled: bool) -> M:
    memory._scheduled = scheduled  # noqa: SLF001 - of the class above
    return memory
