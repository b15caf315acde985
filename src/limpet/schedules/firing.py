"""A firing as passed to the callback, and the context variable set during one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from limpet.errors import PermissionDenied
from limpet.model.dataclass import dataclass
from limpet.model.schedule import Notification, RunResult, Schedule

# Inherited by tasks and by the threads behind AsyncLimpet. The memory of a firing does not need it.
_in_firing: ContextVar[bool] = ContextVar("limpet_firing", default=False)


@dataclass(frozen=True, slots=True)
class Firing:
    """The argument of a callback: a goal that is due, and the memory to use for it.

    ``memory`` has the schedule's tenant and agent; it refuses to create schedules, in every thread. ``key`` is the same
    for every run of this firing: use it as idempotency key for external effects.
    """

    schedule: Schedule
    due_at: datetime
    attempt: int
    missed: int  # later firings that have passed too and that this run covers
    memory: Any
    stopping: Callable[[], bool] = lambda: False  # the runner is stopping, or the lease was lost

    @property
    def goal(self) -> str:
        return self.schedule.goal

    @property
    def key(self) -> str:
        return f"{self.schedule.id}@{self.due_at.isoformat()}"


class ConsumerGone(Exception):
    """The receiver of a firing or a notification is gone; the next one takes it."""


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
    """Return whether a runner's callback is the caller."""
    return _in_firing.get()


def refuse_in_firing(what: str, *, scheduled: bool) -> None:
    """Raise PermissionDenied in a scheduled turn: schedules that create schedules would never end."""
    if scheduled or _in_firing.get():
        raise PermissionDenied(
            f"a scheduled turn may not {what} schedules, only list, pause and delete them; wait for a user to ask"
        )
