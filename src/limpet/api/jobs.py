"""Background work: every kind of job and what runs it in this process; run jobs now or in a thread, list, retry, drop.

To add a kind: name it in ``model/job.py`` with what its detail is, and put its handler into ``KINDS``. The work is
enqueued inside the transaction that makes it necessary: ``Jobs(tx).enqueue(space, KIND, detail, now)``.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from limpet.api import parameters as arg
from limpet.api.handle import Handle
from limpet.api.runtime import Runtime
from limpet.api.schedules import make_run_handlers
from limpet.errors import InvalidInput, StoreBusy, StoreReadOnly
from limpet.knowledge.delete_session import SessionRemover
from limpet.model import job as kinds
from limpet.model.dataclass import replace
from limpet.model.job import JobInfo, JobQuery
from limpet.model.late import load_modules
from limpet.model.scope import STORE_PARTITION, Scope
from limpet.model.session import SessionInfo
from limpet.schedules.runner import Callback, Notifier
from limpet.search.embed import MAX_REFUSALS, embed_missing
from limpet.security.operation import IN_PROCESS, On, operation
from limpet.security.telemetry import Progress
from limpet.sessions.repository import Sessions
from limpet.store.jobs import JobLease, JobQueue, Jobs
from limpet.store.tx import Tx

_FIRST_RETENTION = timedelta(hours=1)
_FIRST_ITEMS = timedelta(minutes=5)
_SLICE = 512  # chunks embedded by one run of a job, so that other partitions get their turn


class JobKind(NamedTuple):
    run: Callable[[Runtime, JobLease], datetime | None]
    patient: bool = False  # a worker's thread does not stay only because such work is due one day


def run_embed(runtime: Runtime, lease: JobLease) -> datetime | None:
    assert runtime.embedding is not None
    # Each try passes over more texts that cannot be embedded, so that they do not hold up the others for good.
    done = embed_missing(
        runtime.store,
        runtime.embedding,
        lease.job.partition,
        _SLICE,
        MAX_REFUSALS * lease.job.attempts,
        stopping=lease.stopping,
        between=lease.renew,
        finish=lease.finish,
    )
    return lease.now() if done == _SLICE or lease.stopping() else None


def run_extract(runtime: Runtime, lease: JobLease) -> datetime | None:
    info = _find_session(runtime, lease)
    return None if info is None else runtime.for_agent(info.agent).learner.run_job(lease, info)


def run_compact(runtime: Runtime, lease: JobLease) -> datetime | None:
    """Without a model the next turn compacts as quickly."""
    info = _find_session(runtime, lease)
    if info is not None and (own := runtime.for_agent(info.agent)).llm is not None:
        own.compactor.compact_if_due(Scope(info.tenant, user=info.user, session=info.id))
    return None


def run_graph(runtime: Runtime, lease: JobLease) -> datetime | None:
    info = _find_session(runtime, lease)
    own = runtime if info is None else runtime.for_agent(info.agent)
    return own.graph.run_session_job(lease)


def _find_session(runtime: Runtime, lease: JobLease) -> SessionInfo | None:
    """The session of the job; None when it was deleted since."""
    space = lease.job.partition
    scope = Scope(space.tenant, user=space.owner, session=lease.job.detail)
    return runtime.store.read(lambda tx: Sessions(tx).get(scope))


def run_remove_session(runtime: Runtime, lease: JobLease) -> datetime | None:
    gone = SessionRemover(runtime.store, runtime.chunker, runtime.clock).run_job(lease)
    runtime.notes.delete_item_lines(lease.job.partition.tenant, lease.job.partition.owner, gone.records)
    return None


def run_items(runtime: Runtime, lease: JobLease) -> datetime | None:
    if not _mirrors_items(runtime):
        return None
    load_modules("limpet.lifecycle.item_sync")
    from limpet.lifecycle.item_sync import ItemMirror  # late: few jobs need it

    return ItemMirror(runtime.store, runtime.item_sync, runtime.can_write_files).run_job(lease)


# A session's work is done with the settings of its agent, an owner's or the store's with the shared ones.
KINDS: Mapping[str, JobKind] = {
    kinds.EMBED: JobKind(run_embed),
    kinds.COMPACT: JobKind(run_compact),
    kinds.EXTRACT: JobKind(run_extract),
    kinds.DECAY: JobKind(lambda runtime, lease: runtime.fader.run_job(lease), patient=True),
    kinds.CONSOLIDATE: JobKind(lambda runtime, lease: runtime.consolidator.run_job(lease), patient=True),
    kinds.GRAPH: JobKind(run_graph, patient=True),
    kinds.GRAPH_RECORD: JobKind(lambda runtime, lease: runtime.graph.run_record_job(lease), patient=True),
    kinds.PURGE: JobKind(lambda runtime, lease: runtime.purger.run_purge_job(lease)),
    kinds.REMOVE_DOCUMENT: JobKind(lambda runtime, lease: runtime.documents.run_remove_job(lease), patient=True),
    kinds.REMOVE_SESSION: JobKind(run_remove_session),
    kinds.SCRUB: JobKind(lambda runtime, lease: runtime.purger.run_scrub_job(lease)),
    kinds.ITEMS: JobKind(run_items, patient=True),
    kinds.RETENTION: JobKind(lambda runtime, lease: runtime.retention.run_job(lease), patient=True),
}


def register_handlers(runtime: Runtime) -> None:
    """Register every kind with the worker, and start it if there is work."""
    embedding = runtime.embedding
    for name, kind in KINDS.items():
        if name != kinds.EMBED:
            runtime.worker.register(name, partial(kind.run, runtime), patient=kind.patient)
        elif embedding is not None:  # other models' jobs are for other processes
            runtime.worker.register(name, partial(kind.run, runtime), embedding.model, patient=kind.patient)
    if runtime.upkeep is not None and runtime.config.jobs.worker:  # else jobs.run() looks for it
        runtime.upkeep.run = partial(begin_due_work, runtime)
    begin_due_work(runtime)


def begin_due_work(runtime: Runtime) -> None:
    """Start the worker if there is work: when the store is opened, and from time to time after a write."""
    ensure_periodic_jobs(runtime)
    runtime.notes.write_pending()
    settings, wanted = runtime.config, runtime.worker.job_kinds
    wanted = [each for each in wanted if each[0] != kinds.EMBED or settings.embedding.background]
    if settings.jobs.worker and runtime.worker.has_work(wanted):
        runtime.worker.start()


def ensure_periodic_jobs(runtime: Runtime, *, stays: bool = False) -> None:
    """Once, when a store with something in it is opened or a worker stays; from then on each job enqueues itself."""
    wanted = {kinds.RETENTION: _FIRST_RETENTION} if runtime.config.retention.enabled else {}
    wanted |= {kinds.ITEMS: _FIRST_ITEMS} if _mirrors_items(runtime) else {}
    missing = {kind: wait for kind, wait in wanted.items() if not JobQueue(runtime.store).count([(kind, "")])}
    if not missing or (not stays and not runtime.store.list_tenants()):
        return
    now = runtime.clock()

    def enqueue(tx: Tx) -> None:
        for kind, wait in missing.items():
            Jobs(tx).enqueue(STORE_PARTITION, kind, "", now, now + wait)

    with suppress(StoreReadOnly, StoreBusy):  # the next process to open the store does it
        runtime.store.write(enqueue)


def _mirrors_items(runtime: Runtime) -> bool:
    return runtime.folder is not None and runtime.config.notes.items


def _take_over(runtime: Runtime) -> None:
    """What a process that may be dead was to remove is not waited for, nor are the files of its notes."""
    for kind in (kinds.PURGE, kinds.REMOVE_SESSION):
        runtime.worker.take_over(kind)
    runtime.notes.write_pending()


class JobOperations(Handle):
    """Background work: ``memory.jobs``."""

    @operation("jobs.run", On.WHOLE, "write:store", "POST /v1/jobs/run", answer="begun", cli="jobs run")
    def run(self, until_idle: arg.UntilIdle = True, progress: Progress | None = None) -> int:
        """Run background jobs that are due now, such as missing vectors. Returns how many were started.

        Interrupted purges and the jobs of agents' own stores are due, too.
        """
        begun = 0
        for _, runtime in self._stores():
            ensure_periodic_jobs(runtime, stays=True)
            _take_over(runtime)
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
        """Run background jobs in a thread until the store is closed.

        With ``on_schedule``, a second thread calls it for due schedules, as ``schedules.run`` does. While ``busy()`` is
        true, each job waits up to a second, and jobs together get a tenth of the processor time, so that a program that
        answers requests does that first.
        """
        if on_schedule is None and notify is not None:
            raise InvalidInput("notify needs on_schedule, too")
        handlers = None if on_schedule is None else make_run_handlers(self._view, on_schedule, notify)
        for _, runtime in self._stores():
            ensure_periodic_jobs(runtime, stays=True)
            _take_over(runtime)
            runtime.worker.start(stay=True, busy=busy)
            if handlers is not None:
                runtime.runner.start(handlers)

    @operation("jobs.list", On.WHOLE, "read:global", "GET /v1/jobs", page="offset", cli="jobs list")
    def list(
        self,
        state: arg.JobStateName | None = None,
        kind: arg.JobKind | None = None,
        limit: arg.Limit = 50,
        offset: arg.Offset = 0,
    ) -> builtins.list[JobInfo]:
        """List jobs that wait, run or are dead, in the order in which they will run. A finished job is removed.

        Jobs of agents' own stores come last; ``agent`` names the agent.
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
        """Retry dead jobs: these ids, one kind, or all; also in agents' own stores. Returns how many."""
        chosen, now, total = None if ids is None else [*ids], self._now(), 0
        for _, runtime in self._stores():
            count = runtime.store.write(lambda tx: Jobs(tx).retry(self._scope(), chosen, kind, now))
            if count:
                runtime.wake_worker()
            total += count
        return total

    @operation(
        "jobs.drop", On.WHOLE, "write:global", "POST /v1/jobs/drop", audited=True, answer="dropped", cli="jobs drop"
    )
    def drop(self, ids: arg.JobIds) -> int:
        """Remove dead jobs, also in agents' own stores. Other jobs are not removed. Returns how many."""
        chosen = [*ids]
        return sum(
            runtime.store.write(lambda tx: Jobs(tx).drop(self._scope(), chosen)) for _, runtime in self._stores()
        )
