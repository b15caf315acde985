"""Jobs: asked for in the transaction that needs them, leased to one worker at a time.

A job that is leased has its ``leased_until``; one that nobody holds has 0 there. Who settles a job says which lease
it holds, so that one who lost it changes nothing. While a job is leased its ``run_at`` is when it runs next if nobody
settles it: the end of the lease, or sooner if it is asked for meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import Any

from limpet.errors import InvalidInput, LeaseLost
from limpet.model.dataclass import dataclass, replace
from limpet.model.job import Job, JobInfo, JobQuery, JobState
from limpet.model.scope import BUCKETS, STORE_PARTITION, Level, Partition, Scope
from limpet.model.values import Clock, from_micros, to_micros
from limpet.store.encryption import RowLayout
from limpet.store.store import Store
from limpet.store.tables import JOBS
from limpet.store.tx import NO_ENCRYPTION, Db, Params, Repository, Row, Tx, partition_params

JobFilter = tuple[str, str]  # a kind of job, and its detail where only jobs with that one are meant

_MAX_ERROR = 500
_JOB = RowLayout(JOBS, "id tenant level owner kind detail run_at attempts leased_until error dead created_at")
# What clocks may differ by, and no less than any lease. What lies further ahead was written by a clock that was wrong.
_CLOCK_TOLERANCE = timedelta(hours=1)
_MAX_KNOWN_AGE = timedelta(seconds=1)  # of where there is work, while there is some: other kinds may have come

_STATES = {
    JobState.WAITING: "dead = 0 AND leased_until <= :now",
    JobState.RUNNING: "dead = 0 AND leased_until > :now",
    JobState.DEAD: "dead = 1",
}


class Jobs(Repository):
    def enqueue(
        self, partition: Partition, kind: str, detail: str, now: datetime, run_at: datetime | None = None
    ) -> None:
        """Enter work to be done once this transaction is committed, at once or not before ``run_at``.

        Asked for twice it is done once, or once more if it is being done; at the earliest of the times asked for.
        """
        self._db.run_later("jobs.enqueue", _enqueue_params(partition, kind, detail, now, run_at))

    def cancel(self, partition: Partition, kind: str, detail: str) -> None:
        """What it was about is gone, and nobody has to do it."""
        self._db.run("jobs.cancel", _job_params(partition, kind, detail))

    def is_waiting(self, partition: Partition, kind: str, detail: str) -> bool:
        return self._db.one("jobs.is_waiting", _job_params(partition, kind, detail)) is not None

    def finish(self, job: Job, again: datetime | None = None) -> None:
        """The job's effect is in this transaction: with it the job is done, or comes again. Raises LeaseLost."""
        if not _finish(self._db, job, again):
            raise _lease_lost(job)

    def find(self, scope: Scope, query: JobQuery, now: datetime) -> list[JobInfo]:
        """A whole tenant's, here and below: a narrower scope is refused."""
        where = [] if query.state is None else [_STATES[query.state]]
        where += [] if query.kind is None else ["kind = :kind"]
        params = {"tenant": _require_tenant_scope(scope), "kind": query.kind, "now": to_micros(now)}
        page = {"limit": query.limit, "offset": query.offset}
        rows = self._db.all("jobs.find", {**params, **page}, where=" AND ".join(where))
        cipher = self._cipher(scope)
        return [_parse_job_info(cipher.decrypt_row(_JOB, row[0], row), now) for row in rows]

    def retry(self, scope: Scope, ids: Sequence[int] | None, kind: str | None, now: datetime) -> int:
        """Let dead jobs be tried again."""
        params = {
            "tenant": _require_tenant_scope(scope),
            "ids": self._db.to_array(ids or ()),
            "any_id": int(ids is None),
            "kind": kind or "",
            "any_kind": int(kind is None),
            "now": to_micros(now),
        }
        return self._db.run("jobs.retry", params)

    def drop(self, scope: Scope, ids: Sequence[int]) -> int:
        """Remove dead jobs."""
        return self._db.run("jobs.drop", {"tenant": _require_tenant_scope(scope), "ids": self._db.to_array(ids)})


class JobQueue:
    """The jobs of a store for a worker: each call is a transaction of its own.

    Work is looked for bucket by bucket: what a worker locks lies on one machine, and the users of many buckets take
    turns. The buckets where there is work are read when the worker has done what it knew of. Who finds that another
    worker was quicker goes on elsewhere, at a place of its own, so that many workers do not follow each other.
    """

    def __init__(self, store: Store, chance: Callable[[], float] = lambda: 0.5) -> None:
        self._store = store
        self._chance = chance
        # The buckets that have work of a kind, and how many jobs, as far as is known.
        self._due: dict[JobFilter, deque[tuple[int, int]]] = {}
        self._read_at: datetime | None = None  # when they were read

    def claim(self, wanted: Sequence[JobFilter], now: datetime, lease: timedelta) -> Job | None:
        """Of the first of these kinds that has any due, the job that has waited longest; nobody else gets it meanwhile.

        Another may get it when the lease has ended. What the first one does to the job then has no effect.
        """
        is_known = self._read_at is not None and abs(now - self._read_at) <= _MAX_KNOWN_AGE
        job = self._claim_known(wanted, now, now + lease) if is_known else None
        if job is None:
            self._read_due(wanted, now)
            job = self._claim_known(wanted, now, now + lease)
        return job

    def _read_due(self, wanted: Sequence[JobFilter], now: datetime) -> None:
        where, params = _kind_filter(wanted)
        at = {**params, "now": to_micros(now)}
        rows = self._store.read(lambda tx: tx.db.all("jobs.due_buckets", at, where=where))
        self._due = {each: deque((bucket, jobs) for kind, bucket, jobs in rows if kind == each[0]) for each in wanted}
        self._read_at = now

    def _claim_known(self, wanted: Sequence[JobFilter], now: datetime, leased_until: datetime) -> Job | None:
        for each in wanted:
            buckets = self._due.get(each, deque())
            for _ in range(len(buckets)):
                bucket, jobs = buckets.popleft()
                job = self._store.write(partial(_claim, bucket=bucket, wanted=each, now=now, leased_until=leased_until))
                if job is not None:
                    if jobs > 1:
                        buckets.append((bucket, jobs - 1))  # the others come first
                    return job
                buckets.rotate(-int(self._chance() * len(buckets)))
        return None

    def renew(self, job: Job, until: datetime) -> Job | None:
        """The job under a longer lease; None when it was lost."""
        params = {**_lease_params(job), "until": to_micros(until)}
        renewed = self._store.write(lambda tx: tx.db.run("jobs.renew", params))
        return replace(job, leased_until=until) if renewed else None

    def finish(self, job: Job, again: datetime | None = None) -> bool:
        """Done, or to come again. False when the lease was lost."""
        return self._store.write(lambda tx: _finish(tx.db, job, again))

    def fail(self, job: Job, error: str, run_at: datetime, *, dead: bool) -> bool:
        """Put it off, or give it up. False when the lease was lost."""
        return self._store.write(lambda tx: _fail(tx, job, error, run_at, dead=dead))

    def release_stuck(self, now: datetime, longest_wait: timedelta) -> int:
        """Free what a clock that was ahead has put off further than anything is put off. Answers how many."""
        bounds = {
            "now": to_micros(now),
            "ahead": to_micros(now + _CLOCK_TOLERANCE),
            "latest": to_micros(now + longest_wait + _CLOCK_TOLERANCE),
        }
        if self._store.read(lambda tx: tx.db.one("jobs.find_misdated", bounds)) is None:
            return 0
        return self._store.write(
            lambda tx: tx.db.run("jobs.release_misdated", bounds) + tx.db.run("jobs.redate", bounds)
        )

    def take_over(self, kind: str, now: datetime) -> None:
        """Make all of the kind due, leased or not: who holds one may be dead."""
        self._store.write(lambda tx: tx.db.run("jobs.take_over", {"kind": kind, "now": to_micros(now)}))

    def next_time(self, wanted: Sequence[JobFilter]) -> datetime | None:
        """When there will be something to claim: exactly unless many are leased that were asked for again."""
        chosen = [_kind_filter([each]) for each in wanted]
        found = self._store.read(
            lambda tx: [row for where, each in chosen for row in tx.db.all("jobs.next", each, where=where)]
        )
        return from_micros(min(found)[0]) if found else None

    def count(self, wanted: Sequence[JobFilter]) -> int:
        return self._store.read(lambda tx: count_jobs(tx.db, wanted))


def _require_tenant_scope(scope: Scope) -> str:
    """A row has no column for a user: narrowing must not be left out in silence."""
    if scope != Scope(scope.tenant):
        raise InvalidInput("jobs are looked at by tenant: leave out user, agent and session")
    return scope.tenant


# Of every tenant


def enqueue_for_all_partitions(db: Db, kind: str, detail: str, now: datetime) -> None:
    partitions = [Partition(tenant, Level(level), owner) for tenant, level, owner in db.all("partitions.list", {})]
    db.run_many("jobs.enqueue", [_enqueue_params(each, kind, detail, now, None) for each in partitions])


def make_due(db: Db, kind: str) -> None:
    """Let those that are put off or dead be tried again now."""
    db.run("jobs.make_due", {"kind": kind})


def count_jobs(db: Db, wanted: Sequence[JobFilter]) -> int:
    """Those that are not dead."""
    where, params = _kind_filter(wanted)
    found = db.one("jobs.count", params, where=where)
    return 0 if found is None else int(found[0])


def _job_params(partition: Partition, kind: str, detail: str) -> dict[str, Any]:
    return {**partition_params(partition), "kind": kind, "detail": detail}


def _enqueue_params(partition: Partition, kind: str, detail: str, now: datetime, run_at: datetime | None) -> Params:
    times = {"run_at": to_micros(now if run_at is None else run_at), "now": to_micros(now)}
    return {**_job_params(partition, kind, detail), "id": _hash_id(partition, kind, detail), **times}


def _hash_id(partition: Partition, kind: str, detail: str) -> int:
    """The bucket in its last 12 bits, 40 others before them: every JSON reader takes such a number as it is."""
    digest = blake2b("\0".join((*partition, kind, detail)).encode(), digest_size=5).digest()
    return int.from_bytes(digest, "big") * BUCKETS + partition.bucket


def _claim(tx: Tx, bucket: int, wanted: JobFilter, now: datetime, leased_until: datetime) -> Job | None:
    """Of the jobs of the kind that are due in the bucket, the one that has waited longest."""
    where, params = _kind_filter([wanted])
    at = {**params, "bucket": bucket, "now": to_micros(now)}
    row = tx.db.one("jobs.due", at, where=where, order=tx.db.skip_locked)
    if row is None:
        return None
    job = _parse_job(row, leased_until)
    tx.db.run("jobs.lease", _lease_params(job))
    return job


def _finish(db: Db, job: Job, again: datetime | None) -> bool:
    """Done, unless it was asked for again meanwhile or is to come again. False when the lease was lost."""
    held = {**_lease_params(job), "requests": job.asked}
    if again is not None:
        return bool(db.run("jobs.run_again", {**held, "run_at": to_micros(again)}))
    return bool(db.run("jobs.finish", held) or db.run("jobs.release", _lease_params(job)))


def _fail(tx: Tx, job: Job, error: str, run_at: datetime, *, dead: bool) -> bool:
    params = {"requests": job.asked, "error": error[:_MAX_ERROR], "run_at": to_micros(run_at), "dead": int(dead)}
    stored: Params = {**_lease_params(job), **params}
    # What went wrong may quote anything. Work on the whole store has no key of its own.
    tenant, encryption = job.partition.tenant, tx.encryption
    if (job.partition == STORE_PARTITION and encryption is not NO_ENCRYPTION) or not encryption.can_use(tenant):
        stored = {**stored, "error": None}
    else:
        stored = encryption.cipher_for(tenant).encrypt_params(JOBS, job.id, stored)
    return bool(tx.db.run("jobs.fail", stored))


def _lease_lost(job: Job) -> LeaseLost:
    return LeaseLost(f"the lease of job {job.id} ({job.kind}) has ended, and another worker has claimed it")


def _lease_params(job: Job) -> dict[str, Any]:
    params = _job_params(job.partition, job.kind, job.detail)
    return {**params, "id": job.id, "leased_until": to_micros(job.leased_until)}


def _kind_filter(wanted: Sequence[JobFilter]) -> tuple[str, dict[str, str]]:
    """Jobs of these kinds; of those whose detail is not empty, only the ones with that detail."""
    clauses, params = [], {}
    for at, (kind, detail) in enumerate(wanted):
        params[f"kind_{at}"] = kind
        clause = f"kind = :kind_{at}"
        if detail:
            params[f"detail_{at}"] = detail
            clause += f" AND detail = :detail_{at}"
        clauses.append(f"({clause})")
    return f"({' OR '.join(clauses) or 'FALSE'})", params


def _parse_job(row: Row, leased_until: datetime) -> Job:
    id_, tenant, level, owner, kind, detail, requests, attempts = row
    return Job(id_, kind, Partition(tenant, Level(level), owner), detail, requests, attempts + 1, leased_until)


def _parse_job_info(row: Row, now: datetime) -> JobInfo:
    id_, tenant, level, owner, kind, detail, run_at, attempts, leased_until, error, dead, created_at = row
    held = leased_until > to_micros(now) and not dead
    return JobInfo(
        id=id_,
        kind=kind,
        tenant=tenant,
        level=Level(level),
        owner=owner,
        detail=detail,
        state=JobState.DEAD if dead else JobState.RUNNING if held else JobState.WAITING,
        attempts=attempts,
        run_at=_optional_time(run_at),
        leased_until=_optional_time(leased_until) if held else None,
        error=error,
        created_at=_optional_time(created_at),
    )


def _optional_time(micros: int) -> datetime | None:
    return from_micros(micros) if micros else None


# Done, or when there is more of it to do: now, or at a later time.
JobHandler = Callable[["JobLease"], datetime | None]


@dataclass(slots=True)
class JobLease:
    """A handler that takes long renews the lease between its steps, and looks whether it is to stop.

    Where its effect is a write to the store, it finishes the job in the same transaction: then a job is never done
    twice, no matter which process is killed or stalls, and when.
    """

    job: Job
    _queue: JobQueue
    now: Clock
    _lease: timedelta
    stopping: Callable[[], bool] = lambda: False
    _give_way: Callable[[], None] = lambda: None
    finished: bool = False

    def renew(self) -> None:
        """Let callers go first who wait for an answer, then keep the job for as long again.

        Cheap: the store is asked when a third of the lease is gone.
        """
        self._give_way()
        now = self.now()
        if self.job.leased_until - now > self._lease * 2 / 3:
            return
        renewed = self._queue.renew(self.job, now + self._lease)
        if renewed is None:
            raise _lease_lost(self.job)
        self.job = renewed

    def finish(self, tx: Tx, again: datetime | None = None) -> None:
        """The effect is in this transaction. When the lease was lost it raises, and nothing of the effect stays."""
        Jobs(tx).finish(self.job, again)
        self.finished = True
