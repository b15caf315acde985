"""Background work: done now or in a thread, looked at, tried again, dropped."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable

from limpet.api.handle import Handle
from limpet.api.job_handlers import ensure_retention_job
from limpet.api.schedules import make_run_handlers
from limpet.errors import InvalidInput
from limpet.model.job import JobInfo, JobQuery, JobState
from limpet.model.telemetry import Progress
from limpet.model.text import check_choice, check_optional_name, short_repr
from limpet.model.values import MAX_PAGE, check_flag, check_number, check_page, check_progress, take_at_most
from limpet.schedules.firing import Callback, Notifier
from limpet.security.operation import operation
from limpet.store.jobs import Jobs


class JobOperations(Handle):
    """Background work: ``memory.jobs``."""

    @operation("jobs.run")
    def run(self, until_idle: bool = True, progress: Progress | None = None) -> int:
        """Do background work that is due now, such as missing vectors. Answers how many jobs were begun."""
        report = check_progress(progress)
        return self._runtime.worker.run(until_idle=check_flag(until_idle, "until_idle"), progress=report)

    @operation("jobs.start_worker")
    def start_worker(
        self,
        *,
        on_schedule: Callback | None = None,
        notify: Notifier | None = None,
        busy: Callable[[], bool] | None = None,
    ) -> None:
        """Do background work in a thread from now on, until the store is closed.

        With ``on_schedule``, a second thread hands it what schedules bring, as ``schedules.run`` does. While ``busy()``
        is true, each job waits up to a second, so that a program that answers somebody does that first.
        """
        if busy is not None and not callable(busy):
            raise InvalidInput(f"busy must be a function, not {type(busy).__name__}")
        if on_schedule is None and notify is not None:
            raise InvalidInput("notify tells what schedules bring: give on_schedule, too")
        hands = None if on_schedule is None else make_run_handlers(self._view, on_schedule, notify)
        ensure_retention_job(self._runtime, stays=True)
        self._runtime.worker.start(stay=True, busy=busy)
        if hands is not None:
            self._runtime.runner.start(hands)

    @operation("jobs.list")
    def list(
        self, state: str | None = None, kind: str | None = None, limit: int = 50, offset: int = 0
    ) -> builtins.list[JobInfo]:
        """Jobs that wait, run or were laid aside (``dead``), the next to run first. A job that is done is gone."""
        query = JobQuery(
            state=None if state is None else check_choice(JobState, state, "state"),
            kind=check_optional_name(kind, "kind"),
            limit=check_page(limit),
            offset=check_number(offset, "offset"),
        )
        now = self._now()
        return self._read(lambda tx: Jobs(tx).find(self._scope(), query, now))

    @operation("jobs.retry")
    def retry(self, ids: Iterable[int] | None = None, kind: str | None = None) -> int:
        """Let jobs that were laid aside be tried anew: these, those of a kind, or all. Answers how many."""
        chosen, name, now = None if ids is None else _validate_ids(ids), check_optional_name(kind, "kind"), self._now()
        count = self._write(lambda tx: Jobs(tx).retry(self._scope(), chosen, name, now))
        if count:
            self._runtime.wake_worker()
        return count

    @operation("jobs.drop")
    def drop(self, ids: Iterable[int]) -> int:
        """Remove jobs that were laid aside; any other is left alone. Answers how many."""
        chosen = _validate_ids(ids)
        return self._write(lambda tx: Jobs(tx).drop(self._scope(), chosen))


def _validate_ids(values: Iterable[int]) -> list[int]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidInput(f"ids must be a list of the numbers of jobs, not {short_repr(values)}")
    return [check_number(value, "a job's id") for value in take_at_most(MAX_PAGE, values, "these are too many ids")]
