"""Jobs: asked for in the transaction that needs them, leased to one worker at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from holdfast.domain.job import Job
from holdfast.domain.scope import Level, Space
from holdfast.domain.times import from_micros, to_micros
from holdfast.storage.sql.db import Db, Params, Row

_MAX_ERROR = 500


class SqlJobs:
    def __init__(self, db: Db) -> None:
        self._db = db

    def ask(self, space: Space, kind: str, detail: str, run_at: datetime) -> None:
        ask(self._db, space, kind, detail, run_at)


def ask(db: Db, space: Space, kind: str, detail: str, run_at: datetime) -> None:
    db.run("jobs.ask", _asked(space, kind, detail, run_at))


def ask_everywhere(db: Db, kind: str, detail: str, run_at: datetime) -> None:
    """The same of every space there is."""
    spaces = [Space(tenant, Level(level), owner) for tenant, level, owner in db.all("spaces.list", {})]
    db.many("jobs.ask", [_asked(space, kind, detail, run_at) for space in spaces])


def hurry(db: Db, kind: str) -> None:
    """Let those that are put off or laid aside be tried again now."""
    db.run("jobs.hurry", {"kind": kind})


def _asked(space: Space, kind: str, detail: str, run_at: datetime) -> Params:
    payload = json.dumps([detail, space.tenant, space.level.value, space.owner], ensure_ascii=False)
    return {"kind": kind, "key": payload, "tenant": space.tenant, "payload": payload, "run_at": to_micros(run_at)}


def take(db: Db, wanted: Sequence[tuple[str, str]], now: datetime, leased_until: datetime) -> Job | None:
    """The job that has waited longest of those of these kinds and details, leased."""
    where, params = _chosen(wanted)
    row = db.one("jobs.due", {**params, "now": to_micros(now)}, where=where, order=db.for_update)
    if row is None:
        return None
    db.run("jobs.lease", {"id": row[0], "leased_until": to_micros(leased_until)})
    return _job(row)


def next_due(db: Db, wanted: Sequence[tuple[str, str]]) -> datetime | None:
    where, params = _chosen(wanted)
    found = db.one("jobs.next", params, where=where)
    return None if found is None or found[0] is None else from_micros(found[0])


def count(db: Db, wanted: Sequence[tuple[str, str]]) -> int:
    where, params = _chosen(wanted)
    found = db.one("jobs.count", params, where=where)
    return 0 if found is None else int(found[0])


def finish(db: Db, job: Job, now: datetime) -> None:
    """Done, unless it was asked for again meanwhile."""
    if not db.run("jobs.finish", {"id": job.id, "asked": job.asked}):
        again(db, job, now)


def again(db: Db, job: Job, run_at: datetime) -> None:
    """There is more of it."""
    db.run("jobs.again", {"id": job.id, "run_at": to_micros(run_at)})


def fail(db: Db, job: Job, error: str, run_at: datetime, *, dead: bool) -> None:
    params = {"id": job.id, "error": error[:_MAX_ERROR], "run_at": to_micros(run_at), "dead": int(dead)}
    db.run("jobs.fail", params)


def _chosen(wanted: Sequence[tuple[str, str]]) -> tuple[str, dict[str, str]]:
    """Jobs of these kinds; of those whose detail is not empty, only the ones with that detail."""
    clauses, params = [], {}
    for at, (kind, detail) in enumerate(wanted):
        params[f"kind_{at}"] = kind
        clause = f"kind = :kind_{at}"
        if detail:
            params[f"begin_{at}"] = json.dumps([detail], ensure_ascii=False)[:-1] + ","
            clause += f" AND substr(key, 1, length(:begin_{at})) = :begin_{at}"
        clauses.append(f"({clause})")
    return f"({' OR '.join(clauses) or 'FALSE'})", params


def _job(row: Row) -> Job:
    id_, kind, _, _, payload, asked, attempts = row
    detail, tenant, level, owner = json.loads(payload)
    return Job(id_, kind, Space(tenant, Level(level), owner), detail, asked, attempts)
