"""Background work: run it now or in a thread, list it, retry it, drop it."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from limpet.api import parameters as arg
from limpet.api.handle import Handle
from limpet.api.job_handlers import ensure_retention_job
from limpet.api.runtime import Runtime
from limpet.api.schedules import make_run_handlers
from limpet.errors import InvalidInput
from limpet.model.job import PURGE, REMOVE_SESSION, JobInfo, JobQuery
from limpet.model.telemetry import Progress
from limpet.schedules.firing import Callback, Notifier
from limpet.security.operation import IN_PROCESS, On, operation
from limpet.store.jobs import Jobs


def _take_over_removals(runtime: Runtime) -> None:
    """What was to be removed, and whose process may be dead, is not waited for."""
    for kind in (PURGE, REMOVE_SESSION):
        runtime.worker.take_over(kind)


class JobOperations(Handle):
    """Background work: ``memory.jobs``."""

    @operation("jobs.run", On.WHOLE, "write:store", "POST /v1/jobs/run", answer="begun", cli="jobs run")
    def run(self, until_idle: arg.UntilIdle = True, progress: Progress | None = None) -> int:
        """Do background work that is due now, such as missing vectors. Returns how many jobs were begun.

        A purge that was interrupted is due now, and so is the work of agents with their own stores.
        """
        begun = 0
        for _, runtime in self._stores():
            ensure_retention_job(runtime, stays=True)
            _take_over_removals(runtime)
            begun += runtime.worker.run(until_idle=until_idle, progress=progress)
            if begun and not until_idle:
                break
        return begun

    @operation(
        "jobs.start_worker", On.WHOLE, "write:store", left_out={**IN_PROCESS, "cli": "the command worker runs one"}
    )
    def start_worker(
        self,
        *,
        on_schedule: Callback | None = None,
        notify: Notifier | None = None,
        busy: Callable[[], bool] | None = None,
    ) -> None:
        """Do background work in a thread from now on, until the store is closed.

        With ``on_schedule``, a second thread gives it what schedules bring, as ``schedules.run`` does. While ``busy()``
        is true, each job waits up to a second, so that a program that answers somebody does that first.
        """
        if on_schedule is None and notify is not None:
            raise InvalidInput("notify gets what schedules bring: give on_schedule, too")
        handlers = None if on_schedule is None else make_run_handlers(self._view, on_schedule, notify)
        for _, runtime in self._stores():
            ensure_retention_job(runtime, stays=True)
            _take_over_removals(runtime)
            runtime.worker.start(stay=True, busy=busy)
        if handlers is not None:
            self._runtime.runner.start(handlers)

    @operation("jobs.list", On.WHOLE, "read:global", "GET /v1/jobs", page="offset", cli="jobs list")
    def list(
        self,
        state: arg.JobStateName | None = None,
        kind: arg.JobKind | None = None,
        limit: arg.Limit = 50,
        offset: arg.Offset = 0,
    ) -> builtins.list[JobInfo]:
        """Jobs that wait, run or are dead, the next to run first. A job that is done is gone.

        Those of agents with their own stores come last; ``agent`` says whose.
        """
        checked: Any = state
        query, now, scope = JobQuery(state=checked, kind=kind, limit=offset + limit), self._now(), self._scope()
        found = [
            job if agent is None else replace(job, agent=agent)
            for agent, runtime in self._stores()
            for job in runtime.store.read(lambda tx: Jobs(tx).find(scope, query, now))
        ]
        return found[offset : offset + limit]

    @operation("jobs.retry", On.WHOLE, "write:global", "POST /v1/jobs/retry", answer="retried", cli="jobs retry")
    def retry(self, ids: arg.JobIds | None = None, kind: arg.JobKind | None = None) -> int:
        """Retry dead jobs: these, those of a kind, or all. Returns how many.

        Ids are those of this store; for those of an agent with its own, use ``memory.agent(name).jobs``.
        """
        chosen, now, total = None if ids is None else [*ids], self._now(), 0
        for _, runtime in self._stores() if chosen is None else [(None, self._runtime)]:
            count = runtime.store.write(lambda tx: Jobs(tx).retry(self._scope(), chosen, kind, now))
            if count:
                runtime.wake_worker()
            total += count
        return total

    @operation(
        "jobs.drop", On.WHOLE, "write:global", "POST /v1/jobs/drop", audited=True, answer="dropped", cli="jobs drop"
    )
    def drop(self, ids: arg.JobIds) -> int:
        """Remove dead jobs; any other is left alone. Returns how many."""
        chosen = [*ids]
        return self._write(lambda tx: Jobs(tx).drop(self._scope(), chosen))
