"""Schedules and their runs: leased to one runner at a time, finished only by the lease holder.

Each lease has a number, higher than any before it on that schedule. Lease times are wall time, so that machines can
share them; the number identifies the holder even if clocks differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import count, islice
from typing import Any, NamedTuple

from limpet.errors import LeaseLost, ScheduleNotFound
from limpet.model.dataclass import replace
from limpet.model.schedule import LIVE_STATES, Run, Schedule, ScheduleLease, ScheduleQuery, ScheduleState
from limpet.model.scope import Level, Scope, hash_bucket
from limpet.model.values import from_micros, iter_pages, micros, to_micros
from limpet.search.chunk_repository import Chunks
from limpet.store.encryption import RowLayout
from limpet.store.tables import RUN_ROWS, SCHEDULE_ROWS, SCHEDULE_RUNS, SCHEDULES, build_keyset_clause
from limpet.store.tx import Encryption, Params, Repository, Row, Tx

# Tolerated clock difference. Times further ahead were written by a wrong clock.
_MAX_CLOCK_SKEW = timedelta(hours=1)
_LEASE, _TOKEN = -2, -1  # the columns of schedules.select that only leases are made of
_DUE = "s.state = 'active' AND s.next_run_at <= :now AND s.leased_until <= :now"
_DUE_ORDER = "ORDER BY s.next_run_at, s.id"
_PAGE = 200
_CANDIDATES = 8  # read without a lock: what is locked must be in one bucket, and others may have some already
_SCHEDULE = RowLayout(SCHEDULES, SCHEDULE_ROWS)
_RUN = RowLayout(SCHEDULE_RUNS, RUN_ROWS)
_OUTPUT = RowLayout(SCHEDULE_RUNS, "id output")
_NOTICE = RowLayout(SCHEDULE_RUNS, "id - - - output")


_RUNNER = "schedule_runner"  # the property that says when a runner last looked


class ScheduleClaim(NamedTuple):
    """A lease, and when it was taken."""

    lease: ScheduleLease
    claimed_at: datetime


class RunNotice(NamedTuple):
    """A run to notify about, with its whole output."""

    schedule: Schedule
    run: Run
    output: str


def list_goals(tx: Tx, scope: Scope) -> Iterator[tuple[str, str]]:
    """What each schedule of a user is called and is to do, with how an answer names it."""
    for each in iter_pages(_PAGE, lambda offset: Schedules(tx).find(scope, ScheduleQuery(limit=_PAGE, offset=offset))):
        yield f"schedule {each.id}", f"{each.name}\n{each.goal}"


class Schedules(Repository):
    """Schedules of a tenant's users, and their runs."""

    def count_live(self, scope: Scope) -> int:
        """Count a user's live schedules. No other transaction can add one until this one ends."""
        assert scope.user is not None
        # Otherwise two concurrent transactions would read the same count.
        Chunks(self._tx).lock(scope.partition)
        names = ", ".join(f"'{state}'" for state in LIVE_STATES)
        return self._count(scope, f"s.state IN ({names})", {})

    def insert(self, scope: Scope, schedule: Schedule) -> None:
        row = Chunks(self._tx).lock_partition(schedule.scope.partition)
        self._db.run("schedules.insert", {**self._params(schedule), **row.key})

    def get(self, scope: Scope, schedule_id: str) -> Schedule | None:
        return next(iter(self._select(scope, "s.id = :id", "", id=schedule_id)), None)

    def lock(self, scope: Scope, schedule_id: str) -> Schedule | None:
        row = self._lock_row(scope, schedule_id)
        return None if row is None else _decrypt_schedule(self._tx.encryption, row)

    def _lock_row(self, scope: Scope, schedule_id: str) -> Row | None:
        if scope.user is None:  # what is to be locked must be in one known bucket
            found = self.get(scope, schedule_id)
            if found is None:
                return None
            scope = found.scope
        return next(iter(self._select_rows(scope, "s.id = :id", self._db.for_update, id=schedule_id)), None)

    def _select(self, scope: Scope, where: str, order: str, **params: Any) -> list[Schedule]:
        return [_decrypt_schedule(self._tx.encryption, row) for row in self._select_rows(scope, where, order, **params)]

    def _select_rows(self, scope: Scope, where: str, order: str, **params: Any) -> list[Row]:
        within, owner = _build_scope_filter(scope)
        return self._db.all("schedules.select", {**owner, **params}, where=f"{within} AND {where}", order=order)

    def _params(self, schedule: Schedule) -> Params:
        params = SCHEDULE_ROWS.params(schedule) | _schedule_key(schedule) | {"text_folded": _fold_text(schedule)}
        return self._cipher(schedule.scope).encrypt_params(SCHEDULES, schedule.id, params)

    def replace(self, scope: Scope, schedule: Schedule) -> None:
        """Update everything but the lease."""
        self._db.run("schedules.update", self._params(schedule))

    def find(self, scope: Scope, query: ScheduleQuery) -> list[Schedule]:
        """Newest first."""
        if self._has_to_decrypt(scope, query):
            return list(islice(self._iter_matches(scope, query), query.offset, query.offset + query.limit))
        return self._select_page(scope, query)

    def _has_to_decrypt(self, scope: Scope, query: ScheduleQuery) -> bool:
        """The database cannot search the names and goals of an encrypted tenant."""
        return query.text is not None and self._cipher(scope).is_encrypted

    def _iter_matches(self, scope: Scope, query: ScheduleQuery) -> Iterator[Schedule]:
        """Decrypt and compare each name and goal here, a page at a time."""
        needle = (query.text or "").casefold()
        for offset in count(step=_PAGE):
            page = self._select_page(scope, replace(query, text=None, limit=_PAGE, offset=offset))
            yield from (schedule for schedule in page if needle in _fold_text(schedule))
            if len(page) < _PAGE:
                return

    def _select_page(self, scope: Scope, query: ScheduleQuery) -> list[Schedule]:
        where, params = _build_query_filter(query)
        more, place = build_keyset_clause(query.before, "s.created_at", "s.id")
        order = "ORDER BY s.created_at DESC, s.id DESC LIMIT :limit OFFSET :offset"
        return self._select(scope, where + more, order, limit=query.limit, offset=query.offset, **params, **place)

    def find_due(self, scope: Scope, now: datetime, limit: int) -> list[Schedule]:
        """Return those that wait for a runner, longest first."""
        return self._select(scope, _DUE, f"{_DUE_ORDER} LIMIT :limit", now=to_micros(now), limit=limit)

    def count(self, scope: Scope, query: ScheduleQuery) -> int:
        if self._has_to_decrypt(scope, query):
            return sum(1 for _ in self._iter_matches(scope, query))
        return self._count(scope, *_build_query_filter(query))

    def _count(self, scope: Scope, where: str, params: Mapping[str, Any]) -> int:
        within, owner = _build_scope_filter(scope)
        row = self._db.one("schedules.count", {**owner, **params}, where=f"{within} AND {where}")
        return 0 if row is None else int(row[0])

    def delete(self, scope: Scope, schedule_id: str) -> Mapping[str, int]:
        schedule = self.lock(scope, schedule_id)
        if schedule is None:
            return {"schedules": 0, "runs": 0}
        params = {**_schedule_key(schedule), "tenant": schedule.tenant, "user": schedule.user}
        runs = self._db.run("schedules.delete_runs", params)
        return {"schedules": self._db.run("schedules.delete", params), "runs": runs}

    def lock_leased(self, scope: Scope, schedule_id: str, token: int) -> Schedule:
        """Return it, locked until the transaction ends. Raises LeaseLost if another runner has it or it was deleted."""
        row = self._lock_row(scope, schedule_id)
        if row is None or row[_TOKEN] != token or not row[_LEASE]:
            raise LeaseLost(f"the firing of {schedule_id} now belongs to another runner, or the schedule was deleted")
        return _decrypt_schedule(self._tx.encryption, row)

    def load_claim(self, scope: Scope, schedule_id: str, token: int) -> ScheduleClaim:
        """Return what a runner claimed, locked. Raises ScheduleNotFound, or LeaseLost as ``lock_leased`` does."""
        if self.get(scope, schedule_id) is None:
            raise not_found(schedule_id)
        now = self.lock_leased(scope, schedule_id, token)
        row = self._db.one("schedules.claimed", _schedule_key(now))
        assert row is not None
        claimed_at, due_at = map(from_micros, row)
        # It may have been paused or changed since: the run is of the firing that was claimed.
        was = replace(now, state=ScheduleState.ACTIVE, due_at=due_at, attempts=max(1, now.attempts))
        return ScheduleClaim(ScheduleLease(was, token, now.running_until or claimed_at), claimed_at)

    def finish(
        self, scope: Scope, lease: ScheduleLease, schedule: Schedule, run: Run, output: str, keep: tuple[int, int]
    ) -> None:
        """Store the run and the updated schedule, and end the lease. Call ``lock_leased`` first in the transaction.

        ``keep``: how many of its runs to keep, and how many of the user's ended schedules.
        """
        self.replace(scope, schedule)
        self._db.run("schedules.release", _lease_params(lease))
        self.add_run(schedule, run, output)
        runs, ended = keep
        key = _schedule_key(schedule)
        self._db.run("schedules.trim_runs", {"bucket": key["bucket"], "schedule_id": schedule.id, "keep": runs})
        if schedule.state not in LIVE_STATES:
            _, owner = _build_scope_filter(schedule.scope)
            for (id_,) in self._db.all("schedules.ended", {**owner, "keep": ended}):
                self.delete(schedule.scope, id_)

    def clear_misdated_lease(self, scope: Scope, schedule_id: str, now: datetime) -> None:
        """End a lease set by a clock far ahead of this one."""
        _, owner = _build_scope_filter(scope)
        params = {"bucket": owner["bucket"], "id": schedule_id, "ahead": to_micros(now + _MAX_CLOCK_SKEW)}
        self._db.run("schedules.clear_lease", params)

    def add_run(self, schedule: Schedule, run: Run, output: str) -> None:
        notice = {"notice": 2 if run.notified else int(run.to_notify), "notice_until": 0}
        whose = {"bucket": _schedule_key(schedule)["bucket"], "tenant": schedule.tenant}
        params = {**RUN_ROWS.params(run), **whose, "output": output, "characters": len(output), **notice}
        encrypted = self._cipher(schedule.scope).encrypt_params(SCHEDULE_RUNS, run.id, params)
        self._db.run("schedules.insert_run", encrypted)

    def mark_notified(self, schedule: Schedule, run_id: str) -> None:
        self._db.run("schedules.mark_notified", {**_schedule_key(schedule), "id": run_id})

    def find_runs(self, scope: Scope, schedule_id: str, limit: int, offset: int) -> list[Run]:
        """Latest first."""
        order = "ORDER BY r.ended_at DESC, r.id DESC LIMIT :limit OFFSET :offset"
        return self._select_runs(scope, "r.schedule_id = :id", order, id=schedule_id, limit=limit, offset=offset)

    def get_run(self, scope: Scope, run_id: str) -> Run | None:
        return next(iter(self._select_runs(scope, "r.id = :id", "", id=run_id)), None)

    def _select_runs(self, scope: Scope, where: str, order: str, **params: Any) -> list[Run]:
        within, owner = _build_scope_filter(scope)
        rows = self._db.all("schedules.runs", {**owner, **params}, where=f"{within} AND {where}", order=order)
        cipher = self._cipher(scope)
        return [_parse_run(cipher.decrypt_row(_RUN, row[0], row)) for row in rows]

    def read_output(self, scope: Scope, run_id: str, offset: int, limit: int) -> tuple[str, int] | None:
        """Return a part of a run's output, and its length in characters."""
        where, params = _build_scope_filter(scope)
        where, params["id"] = f"{where} AND r.id = :id", run_id
        cipher = self._cipher(scope)
        if cipher.is_encrypted:  # no part of it can be read without the whole
            row = self._db.one("schedules.whole_output", params, where=where)
            whole = "" if row is None else cipher.decrypt_row(_OUTPUT, row[0], row)[1]
            return None if row is None else (whole[offset : offset + limit], len(whole))
        row = self._db.one("schedules.output", {**params, "first": offset + 1, "count": limit}, where=where)
        return None if row is None else (row[0], int(row[1]))

    def page(self, scope: Scope, after: str, limit: int) -> list[Schedule]:
        """In order of id."""
        return self._select(scope, "s.id > :after", "ORDER BY s.id LIMIT :limit", after=after, limit=limit)

    def run_ids(self, scope: Scope, after: str, limit: int) -> list[str]:
        """Return runs of all schedules, in order."""
        where, params = _build_scope_filter(scope)
        rows = self._db.all("transfers.run_ids", {**params, "after": after, "limit": limit}, where=where)
        return [id_ for (id_,) in rows]


class ScheduleQueue(Repository):
    """Due schedules of all tenants, claimed by one runner at a time."""

    def note_runner(self, now: datetime) -> None:
        self._db.set_property(_RUNNER, str(to_micros(now)))

    def find_runner(self) -> datetime | None:
        """When a runner last looked, to about ten minutes; None: never."""
        found = self._db.get_property(_RUNNER)
        return None if found is None else from_micros(int(found))

    def claim(self, now: datetime, until: datetime, scope: Scope | None = None) -> ScheduleLease | None:
        """Claim the schedule that has been due longest, of a scope or of all, until the lease ends."""
        within, owner = ("TRUE", {}) if scope is None else _build_scope_filter(scope)

        def find_due(where: str, params: dict[str, Any]) -> list[Row]:
            due = {**owner, **params, "now": to_micros(now)}
            where = f"{_DUE} AND {within} AND {where}"
            return self._db.all("schedules.select", due, where=where, order=f"{_DUE_ORDER} LIMIT {_CANDIDATES}")

        def lock(row: Row) -> Row | None:
            params = {**_schedule_key(_decrypt_schedule(self._tx.encryption, row)), "now": to_micros(now)}
            where = f"s.bucket = :bucket AND s.id = :id AND {_DUE}"
            return self._db.one("schedules.select", params, where=where, order=self._db.skip_locked)

        row = next(filter(None, map(lock, self._find_usable(find_due, lambda row: str(row[1])))), None)
        if row is None:
            return None
        schedule = _decrypt_schedule(self._tx.encryption, row)
        times = {"now": to_micros(now), "until": to_micros(until)}
        self._db.run("schedules.lease", {**_schedule_key(schedule), **times})
        return ScheduleLease(
            replace(schedule, attempts=schedule.attempts + 1, running_until=until), row[_TOKEN] + 1, until
        )

    def renew_lease(self, lease: ScheduleLease, until: datetime) -> bool:
        """Return False if the lease was lost."""
        return bool(self._db.run("schedules.renew", {**_lease_params(lease), "until": to_micros(until)}))

    def release(self, lease: ScheduleLease, until: datetime) -> bool:
        """Release it without a run; it cannot be claimed before then."""
        return bool(self._db.run("schedules.give_back", {**_lease_params(lease), "until": to_micros(until)}))

    def find_next_due(self) -> datetime | None:
        rows = self._find_usable(
            lambda where, params: self._db.all("schedules.next", params, where=where), lambda row: str(row[1])
        )
        return from_micros(min(at for at, _ in rows)) if rows else None

    def find_misdated(self, now: datetime) -> list[Schedule]:
        """Return schedules whose next firing or lease was set by a clock far ahead of this one."""
        params = {"ahead": to_micros(now + _MAX_CLOCK_SKEW)}
        where = "(s.state = 'active' AND s.settled_at > :ahead) OR s.leased_until > :ahead"
        rows = self._db.all("schedules.select", params, where=where)
        return [_decrypt_schedule(self._tx.encryption, row) for row in rows if self._tx.encryption.can_use(row[1])]

    def claim_notice(self, now: datetime, oldest: datetime, until: datetime) -> RunNotice | None:
        """Claim a run to notify about, until then."""

        times = {"now": to_micros(now), "oldest": to_micros(oldest)}

        def find_pending(where: str, params: dict[str, Any]) -> list[Row]:
            return self._db.all("schedules.notice", {**params, **times, "limit": _CANDIDATES}, where=where)

        def lock(row: Row) -> Row | None:
            params = {"bucket": hash_bucket(row[2], Level.USER.value, row[3]), "id": row[0], **times, "limit": 1}
            where = "r.bucket = :bucket AND s.bucket = :bucket AND r.id = :id"
            return self._db.one("schedules.notice", params, where=where, order=self._db.skip_locked)

        row = next(filter(None, map(lock, self._find_usable(find_pending, lambda row: str(row[2])))), None)
        if row is None:
            return None
        scope = Scope(row[2], user=row[3])
        leased = {"bucket": scope.partition.bucket, "id": row[0], "until": to_micros(until)}
        self._db.run("schedules.lease_notice", leased)
        schedule, run = Schedules(self._tx).get(scope, row[1]), Schedules(self._tx).get_run(scope, row[0])
        assert schedule is not None
        assert run is not None
        return RunNotice(schedule, run, self._cipher(scope).decrypt_row(_NOTICE, row[0], row)[4])

    def _find_usable(self, find: Callable[[str, dict[str, Any]], list[Row]], tenant: Callable[[Row], str]) -> list[Row]:
        """Return rows of tenants whose keys are available. Others wait for a process with their key."""
        rows = find("TRUE", {})
        if all(self._tx.encryption.can_use(tenant(row)) for row in rows):
            return rows
        closed = [name for (name,) in self._db.all("schedules.tenants", {}) if not self._tx.encryption.can_use(name)]
        return find("NOT s.tenant IN :closed[]", {"closed": self._db.to_array(closed)})


def not_found(schedule_id: str) -> ScheduleNotFound:
    return ScheduleNotFound(f"no schedule {schedule_id} here; schedules.search lists those there are")


def _build_scope_filter(scope: Scope) -> tuple[str, dict[str, Any]]:
    """Schedules belong to users, and runs to their schedules."""
    bucket = None if scope.user is None else hash_bucket(scope.tenant, Level.USER.value, scope.user)
    given = {"bucket": bucket, "tenant": scope.tenant, "user": scope.user, "agent": scope.agent}
    columns = {"bucket": "s.bucket", "tenant": "s.tenant", "user": "s.user_id", "agent": "s.agent"}
    params: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return " AND ".join(f"{columns[name]} = :{name}" for name in params), params


_CONDITIONS = {
    "of_agent": "s.agent = :of_agent",
    "state": "s.state = :state",
    "text": "s.text_folded LIKE :text ESCAPE '!'",
    "due_before": "s.state = 'active' AND s.next_run_at < :due_before",
}


def _build_query_filter(query: ScheduleQuery) -> tuple[str, dict[str, Any]]:
    text = None if query.text is None else query.text.casefold()
    for sign in "!%_":
        text = None if text is None else text.replace(sign, f"!{sign}")
    given = {
        "of_agent": query.agent,
        "state": query.state and query.state.value,
        "text": None if text is None else f"%{text}%",
        "due_before": micros(query.due_before),
    }
    params: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return " AND ".join(["TRUE", *(_CONDITIONS[name] for name in params)]), params


def _lease_params(lease: ScheduleLease) -> dict[str, Any]:
    return {**_schedule_key(lease.schedule), "token": lease.token}


def _schedule_key(schedule: Schedule) -> dict[str, Any]:
    return {"bucket": hash_bucket(schedule.tenant, Level.USER.value, schedule.user), "id": schedule.id}


def _fold_text(schedule: Schedule) -> str:
    """What a search looks at: the name and the goal."""
    return f"{schedule.name or ''}\n{schedule.goal}".casefold()


def _decrypt_schedule(encryption: Encryption, row: Row) -> Schedule:
    *values, leased_until, _ = encryption.cipher_for(row[1]).decrypt_row(_SCHEDULE, row[0], row)
    schedule = SCHEDULE_ROWS.read(values)
    return replace(schedule, running_until=from_micros(leased_until)) if leased_until else schedule


def _parse_run(row: Row) -> Run:
    *values, characters, notice = row
    run = RUN_ROWS.read(values)
    return replace(run, output_characters=int(characters), to_notify=notice > 0, notified=notice == 2)
