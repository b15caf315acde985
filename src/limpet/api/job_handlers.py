"""Every kind of job there is, and what does it in this process.

To add a kind: name it in ``domain/job.py`` with what its detail is, write a function here that gives its handler, or
None where this process cannot do it, and put it into ``KINDS``. Whoever needs the work asks for it inside the
transaction that makes it necessary: ``Jobs(tx).ask(space, KIND, detail, now)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

from limpet.api.runtime import Runtime
from limpet.errors import StoreBusy, StoreReadOnly
from limpet.knowledge import learn
from limpet.knowledge.graph import jobs
from limpet.model.job import COMPACT, CONSOLIDATE, DECAY, EMBED, EXTRACT, GRAPH, GRAPH_RECORD, PURGE, RETENTION, SCRUB
from limpet.model.scope import STORE_PARTITION
from limpet.search.embed import MAX_REFUSALS, embed_missing
from limpet.sessions import compaction
from limpet.store.claim import JobHandler, JobLease
from limpet.store.jobs import Jobs

_FIRST_RETENTION = timedelta(hours=1)
_SLICE = 512  # chunks embedded by one run of a job, so that the spaces of others get their turn


class JobRegistration(NamedTuple):
    """A handler, and the detail of the jobs it does; all of the kind when that is empty."""

    handler: JobHandler
    detail: str = ""
    patient: bool = False  # a thread does not stay only because there will be such work one day


def make_embed_handler(runtime: Runtime) -> JobRegistration | None:
    if runtime.embedding is None:
        return None
    store, model = runtime.store, runtime.embedding

    def run(claim: JobLease) -> datetime | None:
        # Each try passes over more texts that cannot be embedded, so that they do not hold up the others for good.
        patience = MAX_REFUSALS * claim.job.attempts
        done = embed_missing(
            store,
            model,
            claim.job.space,
            _SLICE,
            patience,
            stopping=claim.stopping,
            between=claim.renew,
            finish=claim.finish,
        )
        return claim.now() if done == _SLICE or claim.stopping() else None

    return JobRegistration(run, model.model)


def make_extract_handler(runtime: Runtime) -> JobRegistration | None:
    return JobRegistration(learn.learn_job(runtime))


def make_decay_handler(runtime: Runtime) -> JobRegistration:
    def run(claim: JobLease) -> datetime | None:
        from limpet.knowledge.fade import decay_job  # late: few programs live to see it

        return decay_job(runtime)(claim)

    return JobRegistration(run, patient=True)


def make_consolidate_handler(runtime: Runtime) -> JobRegistration:
    def run(claim: JobLease) -> datetime | None:
        from limpet.knowledge.consolidate import consolidate_job  # late, as above

        return consolidate_job(runtime)(claim)

    return JobRegistration(run, patient=True)


def make_purge_handler(runtime: Runtime) -> JobRegistration:
    def run(claim: JobLease) -> datetime | None:
        from limpet.lifecycle.purge import make_purge_handler  # late: few purges are interrupted

        return make_purge_handler(runtime)(claim)

    return JobRegistration(run)


def make_scrub_handler(runtime: Runtime) -> JobRegistration:
    def run(claim: JobLease) -> datetime | None:
        from limpet.lifecycle.purge import make_scrub_handler

        return make_scrub_handler(runtime)(claim)

    return JobRegistration(run)


def make_retention_handler(runtime: Runtime) -> JobRegistration:
    def run(claim: JobLease) -> datetime | None:
        from limpet.lifecycle.retention import make_retention_handler

        return make_retention_handler(runtime)(claim)

    return JobRegistration(run, patient=True)


KINDS: Mapping[str, Callable[[Runtime], JobRegistration | None]] = {
    EMBED: make_embed_handler,
    COMPACT: lambda runtime: JobRegistration(compaction.make_compaction_handler(runtime)),
    EXTRACT: make_extract_handler,
    DECAY: make_decay_handler,
    CONSOLIDATE: make_consolidate_handler,
    GRAPH: lambda runtime: JobRegistration(jobs.session_job(runtime), patient=True),
    GRAPH_RECORD: lambda runtime: JobRegistration(jobs.record_job(runtime), patient=True),
    PURGE: make_purge_handler,
    SCRUB: make_scrub_handler,
    RETENTION: make_retention_handler,
}


def register_handlers(runtime: Runtime) -> None:
    """Let the worker know what it can do, and do what was left over."""
    for kind, make in KINDS.items():
        doing = make(runtime)
        if doing is not None:
            runtime.worker.register(kind, doing.handler, doing.detail, patient=doing.patient)
    ensure_retention_job(runtime)
    settings, wanted = runtime.config, runtime.worker.job_kinds
    wanted = [each for each in wanted if each[0] != EMBED or settings.embedding.background]
    if settings.jobs.worker and runtime.worker.has_work(wanted):
        runtime.worker.start()


def ensure_retention_job(runtime: Runtime, *, stays: bool = False) -> None:
    """Once, when a store with something in it is opened or a worker stays; from then on the job asks for itself."""
    if not runtime.config.retention.enabled or runtime.store.count_jobs([(RETENTION, "")]):
        return
    if not stays and not runtime.store.list_tenants():
        return
    now = runtime.clock()
    with suppress(StoreReadOnly, StoreBusy):  # whoever may not write now leaves it to the next
        runtime.store.write(lambda tx: Jobs(tx).enqueue(STORE_PARTITION, RETENTION, "", now, now + _FIRST_RETENTION))
