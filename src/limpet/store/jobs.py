"""Jobs: asked for in the transaction that needs them, leased to one worker at a time.

A job that is leased has its ``leased_until``; one that nobody holds has 0 there. Who settles a job says which lease
it holds, so that one who lost it changes nothing. While a job is leased its ``run_at`` is when it runs next if nobody
settles it: the end of the lease, or sooner if it is asked for meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from limpet.errors import InvalidInput, LeaseLost
from limpet.model.job import Job, JobInfo, JobQuery, JobState
from limpet.model.scope import STORE_PARTITION, Level, Partition, Scope
from limpet.model.values import from_micros, to_micros
from limpet.store.db import Db, Params, Row
from limpet.store.encrypted_columns import JOBS
from limpet.store.encryption import RowLayout
from limpet.store.encryption_state import TxEncryption
from limpet.store.partitions import partition_params
from limpet.store.tx import Tx

JobFilter = tuple[str, str]  # a kind of job, and its detail where only jobs with that one are meant

_MAX_ERROR = 500
_JOB = RowLayout(JOBS, "id tenant level owner kind detail run_at attempts leased_until error dead created_at")
# What clocks may differ by, and no less than any lease. What lies further ahead was written by a clock that was wrong.
_CLOCK_TOLERANCE = timedelta(hours=1)

_STATES = {
    JobState.WAITING: "dead = 0 AND leased_until <= :now",
    JobState.RUNNING: "dead = 0 AND leased_until > :now",
    JobState.DEAD: "dead = 1",
}


class Jobs:
    def __init__(self, tx: Tx) -> None:
        self._db = tx.db
        self._encryption = tx.encryption

    def enqueue(self, space: Partition, kind: str, detail: str, now: datetime, run_at: datetime | None = None) -> None:
        """Enter work to be done once this transaction is committed, at once or not before ``run_at``.

        Asked for twice it is done once, or once more if it is being done; at the earliest of the times asked for.
        """
        enqueue(self._db, space, kind, detail, now, run_at)

    def finish(self, job: Job, again: datetime | None = None) -> None:
        """The job's effect is in this transaction: with it the job is done, or comes again. Raises LeaseLost."""
        if not finish_job(self._db, job, again):
            raise LeaseLost(f"the lease of the job {job.id} ({job.kind}) ran out and somebody else has taken it")

    def find(self, scope: Scope, query: JobQuery, now: datetime) -> list[JobInfo]:
        """A whole tenant's, here and below: a narrower scope is refused."""
        where = [] if query.state is None else [_STATES[query.state]]
        where += [] if query.kind is None else ["kind = :kind"]
        params = {"tenant": _require_tenant_scope(scope), "kind": query.kind, "now": to_micros(now)}
        page = {"limit": query.limit, "offset": query.offset}
        rows = self._db.all("jobs.find", {**params, **page}, where=" AND ".join(where))
        cipher = self._encryption.cipher_for(scope.tenant)
        return [_parse_job_info(cipher.decrypt_row(_JOB, row[0], row), now) for row in rows]

    def retry(self, scope: Scope, ids: Sequence[int] | None, kind: str | None, now: datetime) -> int:
        """Let dead jobs be tried again."""
        params = {
            "tenant": _require_tenant_scope(scope),
            "ids": self._db.to_int_array(ids or ()),
            "any_id": int(ids is None),
            "kind": kind or "",
            "any_kind": int(kind is None),
            "now": to_micros(now),
        }
        return self._db.run("jobs.retry", params)

    def drop(self, scope: Scope, ids: Sequence[int]) -> int:
        """Remove dead jobs."""
        return self._db.run("jobs.drop", {"tenant": _require_tenant_scope(scope), "ids": self._db.to_int_array(ids)})


def _require_tenant_scope(scope: Scope) -> str:
    """A row has no column for a user: narrowing must not be left out in silence."""
    if scope != Scope(scope.tenant):
        raise InvalidInput("jobs are looked at by tenant: leave out user, agent and session")
    return scope.tenant


def enqueue(db: Db, space: Partition, kind: str, detail: str, now: datetime, run_at: datetime | None = None) -> None:
    db.run("jobs.enqueue", _enqueue_params(space, kind, detail, now, run_at))


def enqueue_for_all_partitions(db: Db, kind: str, detail: str, now: datetime) -> None:
    """The same of every partition there is."""
    spaces = [Partition(tenant, Level(level), owner) for tenant, level, owner in db.all("partitions.list", {})]
    db.run_many("jobs.enqueue", [_enqueue_params(space, kind, detail, now, None) for space in spaces])


def cancel_job(db: Db, space: Partition, kind: str, detail: str) -> None:
    """What it was about is gone, and nobody has to do it."""
    db.run("jobs.cancel", job_params(space, kind, detail))


def make_due_now(db: Db, kind: str) -> None:
    """Let those that are put off or dead be tried again now."""
    db.run("jobs.make_due", {"kind": kind})


def job_params(space: Partition, kind: str, detail: str) -> dict[str, Any]:
    return {**partition_params(space), "kind": kind, "detail": detail}


def _enqueue_params(space: Partition, kind: str, detail: str, now: datetime, run_at: datetime | None) -> Params:
    times = {"run_at": to_micros(now if run_at is None else run_at), "now": to_micros(now)}
    return {**job_params(space, kind, detail), **times}


def claim_job(db: Db, wanted: Sequence[JobFilter], now: datetime, leased_until: datetime) -> Job | None:
    """Of the first of these kinds and details that has a job due, the one that has waited longest."""
    for kind, detail in wanted:
        where, params = _kind_filter([(kind, detail)])
        row = db.one("jobs.due", {**params, "now": to_micros(now)}, where=where, order=db.skip_locked)
        if row is not None:
            job = _parse_job(row, leased_until)
            db.run("jobs.lease", _lease_params(job))
            return job
    return None


def renew_job(db: Db, job: Job, until: datetime) -> Job | None:
    if not db.run("jobs.renew", {**_lease_params(job), "until": to_micros(until)}):
        return None
    return replace(job, leased_until=until)


def next_job_time(db: Db, wanted: Sequence[JobFilter]) -> datetime | None:
    """About when: exactly unless many are leased that were asked for again."""
    chosen = [_kind_filter([each]) for each in wanted]
    found = [at for where, params in chosen for (at,) in db.all("jobs.next", params, where=where)]
    return from_micros(min(found)) if found else None


def count_jobs(db: Db, wanted: Sequence[JobFilter]) -> int:
    where, params = _kind_filter(wanted)
    found = db.one("jobs.count", params, where=where)
    return 0 if found is None else int(found[0])


def finish_job(db: Db, job: Job, again: datetime | None) -> bool:
    """Done, unless it was asked for again meanwhile or is to come again. False when the lease was lost."""
    held = {**_lease_params(job), "requests": job.asked}
    if again is not None:
        return bool(db.run("jobs.run_again", {**held, "run_at": to_micros(again)}))
    return bool(db.run("jobs.finish", held) or db.run("jobs.release", _lease_params(job)))


def fail_job(db: Db, encryption: TxEncryption, job: Job, error: str, run_at: datetime, *, dead: bool) -> bool:
    params = {"requests": job.asked, "error": error[:_MAX_ERROR], "run_at": to_micros(run_at), "dead": int(dead)}
    stored: Params = {**_lease_params(job), **params}
    # What went wrong may quote anything. Work on the whole store has no key of its own.
    if (job.space == STORE_PARTITION and not encryption.all_open) or not encryption.can_use(job.space.tenant):
        stored = {**stored, "error": None}
    else:
        stored = encryption.cipher_for(job.space.tenant).encrypt_params(JOBS, job.id, stored)
    return bool(db.run("jobs.fail", stored))


def has_misdated_jobs(db: Db, now: datetime, longest_wait: timedelta) -> bool:
    """Whether a clock that was ahead of ours has put anything off for too long."""
    found = db.one("jobs.find_misdated", _clock_bounds(now, longest_wait))
    return found is not None


def release_stuck_jobs(db: Db, now: datetime, longest_wait: timedelta) -> int:
    params = _clock_bounds(now, longest_wait)
    return db.run("jobs.release_misdated", params) + db.run("jobs.redate", params)


def _clock_bounds(now: datetime, longest_wait: timedelta) -> Params:
    return {
        "now": to_micros(now),
        "ahead": to_micros(now + _CLOCK_TOLERANCE),
        "latest": to_micros(now + longest_wait + _CLOCK_TOLERANCE),
    }


def _lease_params(job: Job) -> dict[str, Any]:
    params = job_params(job.space, job.kind, job.detail)
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
