"""Running schedules: what is due is handed to a function, now or in a thread."""

from __future__ import annotations

from limpet.api.base import Face
from limpet.api.schedules import ScheduleOperations
from limpet.errors import InvalidInput
from limpet.model.schedule import Schedule
from limpet.model.text import shown
from limpet.model.values import checked_flag
from limpet.schedules.firing import Callback, Notifier
from limpet.schedules.runner import Hands
from limpet.security.operation import verb


class Scheduling(Face):
    """The verbs on what is due."""

    @property
    def schedules(self) -> ScheduleOperations:
        """Goals that come back: ``hf.schedules.create(user=…, goal=…, cadence="every: 1h")``."""
        return ScheduleOperations(self._runtime, self._scope, scheduled=self._scheduled)

    @verb("run_schedules")
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
        memory = type(self)(self._agents, schedule.tenant, schedule.agent, self._principal)
        memory._scheduled = True  # noqa: SLF001 - one of ours
        return memory
