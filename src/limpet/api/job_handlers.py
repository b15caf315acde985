"""Every kind of job, and what runs it in this process.

To add a kind: name it in ``model/job.py`` with what its detail is, and put its handler into ``KINDS``. The work is
enqueued inside the transaction that makes it necessary: ``Jobs(tx).enqueue(space, KIND, detail, now)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from limpet.api.runtime import Runtime
from limpet.errors import StoreBusy, StoreReadOnly
from limpet.knowledge.delete_session import SessionRemover
from limpet.model.job import (
    COMPACT,
    CONSOLIDATE,
    DECAY,
    EMBED,
    EXTRACT,
    GRAPH,
    GRAPH_RECORD,
    PURGE,
    REMOVE_DOCUMENT,
    REMOVE_SESSION,
    RETENTION,
    SCRUB,
)
from limpet.model.scope import STORE_PARTITION, Scope
from limpet.model.session import SessionInfo
from limpet.search.embed import MAX_REFUSALS, embed_missing
from limpet.sessions.repository import Sessions
from limpet.store.jobs import JobLease, JobQueue, Jobs

_FIRST_RETENTION = timedelta(hours=1)
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


# A session's work is done with the settings of its agent, an owner's or the store's with the shared ones.
KINDS: Mapping[str, JobKind] = {
    EMBED: JobKind(run_embed),
    COMPACT: JobKind(run_compact),
    EXTRACT: JobKind(run_extract),
    DECAY: JobKind(lambda runtime, lease: runtime.fader.run_job(lease), patient=True),
    CONSOLIDATE: JobKind(lambda runtime, lease: runtime.consolidator.run_job(lease), patient=True),
    GRAPH: JobKind(run_graph, patient=True),
    GRAPH_RECORD: JobKind(lambda runtime, lease: runtime.graph.run_record_job(lease), patient=True),
    PURGE: JobKind(lambda runtime, lease: runtime.purger.run_purge_job(lease)),
    REMOVE_DOCUMENT: JobKind(lambda runtime, lease: runtime.documents.run_remove_job(lease), patient=True),
    REMOVE_SESSION: JobKind(run_remove_session),
    SCRUB: JobKind(lambda runtime, lease: runtime.purger.run_scrub_job(lease)),
    RETENTION: JobKind(lambda runtime, lease: runtime.retention.run_job(lease), patient=True),
}


def register_handlers(runtime: Runtime) -> None:
    """Register every kind with the worker, and start it if there is work."""
    embedding = runtime.embedding
    for name, kind in KINDS.items():
        if name != EMBED:
            runtime.worker.register(name, partial(kind.run, runtime), patient=kind.patient)
        elif embedding is not None:  # other models' jobs are for other processes
            runtime.worker.register(name, partial(kind.run, runtime), embedding.model, patient=kind.patient)
    if runtime.upkeep is not None and runtime.config.jobs.worker:  # else jobs.run() looks for it
        runtime.upkeep.run = partial(begin_due_work, runtime)
    begin_due_work(runtime)


def begin_due_work(runtime: Runtime) -> None:
    """Start the worker if there is work: when the store is opened, and from time to time after a write."""
    ensure_retention_job(runtime)
    runtime.notes.write_pending()
    settings, wanted = runtime.config, runtime.worker.job_kinds
    wanted = [each for each in wanted if each[0] != EMBED or settings.embedding.background]
    if settings.jobs.worker and runtime.worker.has_work(wanted):
        runtime.worker.start()


def ensure_retention_job(runtime: Runtime, *, stays: bool = False) -> None:
    """Once, when a store with something in it is opened or a worker stays; from then on the job enqueues itself."""
    if not runtime.config.retention.enabled or JobQueue(runtime.store).count([(RETENTION, "")]):
        return
    if not stays and not runtime.store.list_tenants():
        return
    now = runtime.clock()
    with suppress(StoreReadOnly, StoreBusy):  # the next process to open the store does it
        runtime.store.write(lambda tx: Jobs(tx).enqueue(STORE_PARTITION, RETENTION, "", now, now + _FIRST_RETENTION))
