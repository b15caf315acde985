"""A store with a clock, and schedules on it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from limpet import Firing, Limpet, Notification, RunResult, Schedule
from limpet.model.schedule import ScheduleLease
from limpet.schedules.repository import ScheduleQueue
from limpet.testing import FakeClock

LEASE = timedelta(minutes=5)
HOUR = timedelta(hours=1)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Bench:
    """``fired`` is every firing the callback was given, ``told`` every notification."""

    def __init__(self, memory: Limpet, clock: FakeClock) -> None:
        self.memory, self.clock = memory, clock
        self.store: Any = memory._runtime.store
        self.schedules = memory.schedules
        self.fired: list[Firing] = []
        self.told: list[Notification] = []
        self.answer: Callable[[Firing], RunResult | str | None] = lambda firing: "done"

    def make(self, cadence: str = "every: 1h", goal: str = "water the plants", **more: Any) -> Schedule:
        return self.schedules.create(user=more.pop("user", "alice"), goal=goal, cadence=cadence, **more)

    def callback(self, firing: Firing) -> RunResult | str | None:
        self.fired.append(firing)
        return self.answer(firing)

    def run(self) -> int:
        return self.memory.schedules.run(self.callback, self.told.append)

    def fail(self, *, error: type[Exception] = ZeroDivisionError) -> None:
        def failing(_: Firing) -> str:
            raise error

        self.answer = failing

    def take(self) -> ScheduleLease | None:
        held: ScheduleLease | None = self.store.write(
            lambda tx: ScheduleQueue(tx).claim(self.clock.now, self.clock.now + LEASE)
        )
        return held

    def taken(self) -> ScheduleLease:
        held = self.take()
        assert held is not None
        return held

    def now(self, schedule: Schedule) -> Schedule:
        return self.schedules.get(schedule.id)

    def go_to_next(self, schedule: Schedule) -> Schedule:
        at = self.now(schedule).next_run_at
        assert at is not None
        self.clock.now = max(at, self.clock.now)
        self.run()
        return self.now(schedule)
