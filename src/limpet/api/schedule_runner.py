"""Running schedules: what is due is handed to a function, now or in a thread."""

from __future__ import annotations

from limpet.api.base import BaseOperations
from limpet.api.schedules import ScheduleOperations
from limpet.errors import InvalidInput
from limpet.model.schedule import Schedule
from limpet.model.text import short_repr
from limpet.model.values import check_flag
from limpet.schedules.firing import Callback, Notifier
from limpet.schedules.runner import RunHandlers
from limpet.security.operation import operation


class ScheduleRunOperations(BaseOperations):
    """The verbs on what is due."""

    @property
    def schedules(self) -> ScheduleOperations:
        """Goals that come back: ``hf.schedules.create(user=…, goal=…, cadence="every: 1h")``."""
        return ScheduleOperations(self._runtime, self._scope, scheduled=self._scheduled)

    @operation("run_schedules")
    def run_schedules(self, callback: Callback, notify: Notifier | None = None, *, until_idle: bool = True) -> int:
        """Run what is due now, of every tenant. Answers how many firings were begun.

        The callback is given each ``Firing`` and gives back what came of it: text, an ``Outcome`` or None. When it
        raises, the run has failed and is tried again later. ``notify`` is given what somebody is to be told.
        """
        idle = check_flag(until_idle, "until_idle")
        return self._runtime.runner.run(self._make_callbacks(callback, notify), until_idle=idle)

    def _make_callbacks(self, callback: object, notify: object) -> RunHandlers:
        if not callable(callback):
            raise InvalidInput(f"callback must be a function that is given a Firing, not {short_repr(callback)}")
        if notify is not None and not callable(notify):
            raise InvalidInput(f"notify must be a function that is given a Notification, not {short_repr(notify)}")
        return RunHandlers(callback, notify, self._handle_for_turn)

    def _handle_for_turn(self, schedule: Schedule) -> ScheduleRunOperations:
        """Memory for a scheduled turn: it may do everything but make schedules, in whatever thread."""
        memory = type(self)(self._agents, schedule.tenant, schedule.agent, self._principal)
        memory._scheduled = True  # noqa: SLF001 - one of ours
        return memory
