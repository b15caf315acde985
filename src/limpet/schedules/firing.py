"""A firing as the callback gets it, and the mark on everything that happens inside one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from limpet.errors import PermissionDenied
from limpet.model.schedule import Notification, RunResult, Schedule

# Goes along into tasks, and into the threads behind AsyncLimpet. A memory that a firing hands out needs no such help.
_in_firing: ContextVar[bool] = ContextVar("limpet_firing", default=False)


@dataclass(frozen=True, slots=True)
class Firing:
    """What a callback is given: a goal that is due, and the memory to reach it with.

    ``hf`` is the schedule's tenant and agent; in every thread it refuses to make schedules. ``key`` is the same for
    every run of this firing: give it along where an effect outside of Limpet must not happen twice.
    """

    schedule: Schedule
    due_at: datetime
    attempt: int
    missed: int  # later firings that are past as well: this run stands for them, too
    hf: Any
    stopping: Callable[[], bool] = lambda: False  # the runner is to end, or the lease was lost

    @property
    def goal(self) -> str:
        return self.schedule.goal

    @property
    def key(self) -> str:
        return f"{self.schedule.id}@{self.due_at.isoformat()}"


class ConsumerGone(Exception):
    """Whoever a firing or a notification was meant for has gone, and it is left to the next who comes."""


Callback = Callable[[Firing], RunResult | str | None]
Notifier = Callable[[Notification], object]


@contextmanager
def firing_context() -> Iterator[None]:
    before = _in_firing.set(True)
    try:
        yield
    finally:
        _in_firing.reset(before)


def is_in_firing() -> bool:
    """Whether this is called by what a runner called, which waits for it."""
    return _in_firing.get()


def refuse_in_firing(what: str, *, scheduled: bool) -> None:
    """A turn that was scheduled may not schedule: it would never end."""
    if scheduled or _in_firing.get():
        raise PermissionDenied(
            f"a scheduled turn may not {what} schedules, only list, pause and delete them; wait for a user to ask"
        )
