"""Schedules: create, change, list and run goals with a cadence."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from limpet.api import parameters as arg
from limpet.api.handle import Handle, View, to_cursor
from limpet.config import ScheduleSettings
from limpet.errors import InvalidInput, ScheduleNotFound
from limpet.model.dataclass import replace
from limpet.model.schedule import (
    END_STATES,
    NotifyPolicy,
    OutputPage,
    Run,
    RunResult,
    Schedule,
    ScheduleLease,
    ScheduleQuery,
    ScheduleState,
)
from limpet.model.scope import Scope, resolve_owner
from limpet.model.tokens import truncate_text
from limpet.model.values import check_text, check_time, load_timezone, short_repr
from limpet.schedules import decide
from limpet.schedules.cadence import parse_cadence, resolve_local_time
from limpet.schedules.repository import ScheduleQueue, Schedules, not_found
from limpet.schedules.runner import Callback, Notifier, RunHandlers, refuse_in_firing
from limpet.security.operation import ANY_VALUE, IN_PROCESS, ExtraPermission, On, operation
from limpet.store import idempotency
from limpet.store.idempotency import IdempotencyKey, ResourceKind
from limpet.store.tx import Tx

if TYPE_CHECKING:
    from limpet.api.runtime import Runtime


log = logging.getLogger("limpet.schedules")

_RUNNER_SILENCE = timedelta(hours=2)  # one that is started every hour counts
_NEVER = ("", "never", "none")
_REQUEST_FIELDS = (
    "user agent name goal cadence timezone notify channel chat thread session max_runs ends_at metadata".split()
)


class ScheduleOperations(Handle):
    """Goals that come back: ``memory.schedules.create(user=…, goal=…, cadence="every: 1h")``."""

    @property
    def _rules(self) -> ScheduleSettings:
        return self._runtime.config.schedules

    @operation(
        "schedules.create",
        On.USER,
        "write:user",
        "POST /v1/schedules",
        values=("agent", "session"),
        when=(ExtraPermission("idempotency_key", ANY_VALUE, "read:user"),),
        status=201,
        tool="schedule_create",
        cli="schedule create",
    )
    def create(
        self,
        user: arg.User | None = None,
        *,
        goal: arg.Goal,
        cadence: arg.Cadence,
        name: arg.ScheduleName | None = None,
        timezone: arg.TimeZone | None = None,
        notify: arg.Notify = "always",
        agent: arg.ThroughAgent | None = None,
        channel: arg.Channel | None = None,
        chat: arg.Chat | None = None,
        thread: arg.Thread | None = None,
        session: arg.SessionId | None = None,
        max_runs: arg.MaxRuns | None = None,
        ends_at: arg.EndsAt | None = None,
        metadata: arg.Metadata | None = None,
        idempotency_key: arg.IdempotencyName | None = None,
    ) -> Schedule:
        """Create a schedule: ``cron: 0 9 * * 1-5``, ``once: 2026-12-01T09:00`` or ``every: 15m``.

        Times without an offset are in the schedule's zone. ``notify`` says when a run is reported: ``always``,
        ``conditional`` (if its text begins with ``[NOTIFY]``) or ``never``. Runs are reported to ``channel``, ``chat``
        and ``thread``, by default those of ``session``. Repeated with its ``idempotency_key`` within two days, it
        returns the schedule created first, as it is now; another request under that key raises IdempotencyConflict.
        """
        refuse_in_firing("make", scheduled=self._view.scheduled)
        assert user is not None
        now, rules = self._now(), self._rules
        zone = timezone or self._runtime.config.notes.find_zone(user, rules.timezone)
        load_timezone(zone)
        scope = self._scope(user=user, agent=agent or self._default_agent)
        assert scope.agent is not None
        draft = Schedule(
            id=self._runtime.new_id(),
            tenant=scope.tenant,
            user=user,
            agent=scope.agent,
            name=name or None,
            goal=check_text(goal, "goal", max_bytes=rules.goal_bytes),
            cadence=parse_cadence(cadence, zone, now).text,
            timezone=zone,
            created_at=now,
            updated_at=now,
            anchor_at=now,
            notify=NotifyPolicy(notify),
            channel=channel,
            chat=chat,
            thread=thread,
            session=session,
            max_runs=max_runs or None,
            ends_at=_parse_end(ends_at, zone),
            metadata=metadata or {},
        )
        asked = None
        if idempotency_key is not None:
            request = {name: getattr(draft, name) for name in _REQUEST_FIELDS}
            asked = IdempotencyKey.from_request(ResourceKind.SCHEDULE, idempotency_key, request)
        known = None if asked is None else self._read(lambda tx: _find_previous(tx, draft.scope, asked, now))
        return known or self._insert(draft, asked, now)

    def _insert(self, draft: Schedule, asked: IdempotencyKey | None, now: datetime) -> Schedule:
        if draft.session is not None:
            # What is reported goes where it was asked for, if nothing else was said.
            key = self._get_session(draft.session, draft.user).key
            places = {name: getattr(draft, name) or getattr(key, name) for name in ("channel", "chat", "thread")}
            draft = replace(draft, **places)
        made = decide.activate(draft, now)
        decide.check_min_gap(parse_cadence(draft.cadence, draft.timezone, now), now, self._rules)

        def add(tx: Tx) -> Schedule:
            before = _find_previous(tx, made.scope, asked, now)
            if before is not None:
                return before
            self._check_limit(Schedules(tx).count_live(made.scope), made.user)
            Schedules(tx).insert(made.scope, made)
            idempotency.save_key(tx, resolve_owner(made.scope).space, asked, made.id, now)
            return made

        stored = self._write(add)
        if (missing := describe_missing_runner(self._runtime)) is not None:
            log.warning("the schedule %s waits: %s", stored.id, missing)
        return replace(stored, note=missing)

    @operation("schedules.get", On.ID, "read", "GET /v1/schedules/{id}", cli="schedule show")
    def get(self, id: arg.ScheduleId, *, user: arg.OfUser | None = None) -> Schedule:
        """Return the schedule with this id. Raises ScheduleNotFound, also for another user's."""
        scope = self._scope(user=user)
        found = self._read(lambda tx: Schedules(tx).get(scope, id))
        if found is None:
            raise not_found(id)
        return found

    @operation(
        "schedules.edit",
        On.ID,
        "read write",
        "PATCH /v1/schedules/{id}",
        values=("agent",),
        tool="schedule_edit",
        cli="schedule edit",
    )
    def edit(
        self,
        id: arg.ScheduleId,
        *,
        user: arg.OfUser | None = None,
        name: arg.ScheduleName | None = None,
        goal: arg.Goal | None = None,
        cadence: arg.Cadence | None = None,
        timezone: arg.TimeZone | None = None,
        notify: arg.Notify | None = None,
        agent: arg.ThroughAgent | None = None,
        channel: arg.Channel | None = None,
        chat: arg.Chat | None = None,
        thread: arg.Thread | None = None,
        max_runs: arg.MaxRuns | None = None,
        ends_at: arg.EndsAt | None = None,
        metadata: arg.Metadata | None = None,
    ) -> Schedule:
        """Change the given fields. ``max_runs=0`` and ``ends_at="never"`` remove a limit.

        A new cadence, zone or end restarts the schedule from now and reactivates one that has ended, failed or was
        disabled. A paused one stays paused.
        """
        refuse_in_firing("change", scheduled=self._view.scheduled)
        if agent is not None:
            self._scope(agent=agent)  # refused when it is kept apart
        changes: dict[str, Any] = {
            "name": name,
            "goal": None if goal is None else check_text(goal, "goal", max_bytes=self._rules.goal_bytes),
            "notify": notify,
            "agent": agent,
            "channel": channel,
            "chat": chat,
            "thread": thread,
            "metadata": metadata,
        }
        changed = {name: value for name, value in changes.items() if value is not None}
        if timezone is not None:
            load_timezone(timezone)
        if cadence is not None or timezone is not None:
            was = self.get(id, user=user)
            timed = parse_cadence(cadence or was.cadence, timezone or was.timezone, self._now())
            decide.check_min_gap(timed, self._now(), self._rules)
        restarts = not (cadence is None and timezone is None and max_runs is None and ends_at is None)

        def change(was: Schedule, now: datetime) -> Schedule:
            edited: Schedule = replace(was, updated_at=now, **changed)
            if not restarts:
                return edited
            edited = replace(
                edited,
                timezone=timezone or was.timezone,
                cadence=was.cadence if cadence is None else cadence,
                max_runs=was.max_runs if max_runs is None else max_runs or None,
                ends_at=was.ends_at if ends_at is None else _parse_end(ends_at, timezone or was.timezone),
            )
            return decide.reschedule(was, edited, now, restarts=cadence is not None or timezone is not None)

        return self._change(id, user, change)

    @operation(
        "schedules.delete",
        On.ID,
        "write",
        "DELETE /v1/schedules/{id}",
        audited=True,
        answer="deleted",
        tool="schedule_delete",
        cli="schedule delete",
    )
    def delete(self, id: arg.ScheduleId, *, user: arg.OfUser | None = None) -> None:
        """Delete the schedule and its runs. Nothing of it is reported any more."""
        scope = self._scope(user=user)
        if not self._write(lambda tx: Schedules(tx).delete(scope, id))["schedules"]:
            raise not_found(id)

    @operation(
        "schedules.pause",
        On.ID,
        "read write",
        "POST /v1/schedules/{id}/pause",
        tool="schedule_edit",
        cli="schedule pause",
    )
    def pause(self, id: arg.ScheduleId, *, user: arg.OfUser | None = None) -> Schedule:
        """Pause the schedule. Firings missed meanwhile are not made up for, except a ``once`` that has not run."""
        return self._change(id, user, decide.pause)

    @operation(
        "schedules.resume",
        On.ID,
        "read write",
        "POST /v1/schedules/{id}/resume",
        tool="schedule_edit",
        cli="schedule resume",
    )
    def resume(self, id: arg.ScheduleId, *, user: arg.OfUser | None = None) -> Schedule:
        """Resume a schedule that was paused, disabled or failed, with its failures reset."""
        refuse_in_firing("resume", scheduled=self._view.scheduled)

        def change(was: Schedule, now: datetime) -> Schedule:
            return was if was.state is ScheduleState.ACTIVE else decide.activate(was, now)

        return self._change(id, user, change)

    @operation(
        "schedules.search",
        On.FILTER,
        "read",
        "GET /v1/schedules",
        page="created_at",
        tool="schedule_search",
        cli="schedule list",
    )
    def search(
        self,
        user: arg.OfUser | None = None,
        agent: arg.OfAgent | None = None,
        state: arg.ScheduleStateName | None = None,
        text: arg.GoalText | None = None,
        due_before: arg.DueBefore | None = None,
        limit: arg.Limit = 50,
        offset: arg.Offset = 0,
        *,
        before: arg.Before | None = None,
    ) -> list[Schedule]:
        """List schedules, newest first. ``text`` searches names and goals; ``due_before`` limits the next run.

        ``before`` continues after another page: the ``created_at`` and ``id`` of its last schedule.
        """
        scope = self._scope(user=user)
        query = _build_query(agent, state, text, due_before, limit=limit, offset=offset, before=to_cursor(before))
        return self._read(lambda tx: Schedules(tx).find(scope, query))

    @operation("schedules.count", On.FILTER, "read", "GET /v1/schedules/count", answer="count", cli="schedule count")
    def count(
        self,
        user: arg.OfUser | None = None,
        agent: arg.OfAgent | None = None,
        state: arg.ScheduleStateName | None = None,
        text: arg.GoalText | None = None,
        due_before: arg.DueBefore | None = None,
    ) -> int:
        """Count what a search would find."""
        scope, query = self._scope(user=user), _build_query(agent, state, text, due_before)
        return self._read(lambda tx: Schedules(tx).count(scope, query))

    @operation("schedules.due", On.REACH, "read", "GET /v1/schedules/due", cli="schedule due")
    def due(self, user: arg.OfUser | None = None, limit: arg.Limit = 50) -> list[Schedule]:
        """List the schedules that are due now, the longest overdue first."""
        scope, now = self._scope(user=user), self._now()
        return self._read(lambda tx: Schedules(tx).find_due(scope, now, limit))

    @operation("schedules.claim", On.REACH, "read write", "POST /v1/schedules/claim", cli="schedule claim")
    def claim(
        self, user: arg.OfUser | None = None, limit: arg.ClaimCount = 1, *, lease_s: arg.LeaseSeconds | None = None
    ) -> list[ScheduleLease]:
        """Claim due schedules, the longest overdue first, so that no other runner gets them until the lease ends.

        For a runner of your own, in any process: run each goal, then call ``finish`` with its id and its token. If the
        lease ends before that, the next runner gets it, as one more attempt.
        """
        return self._runtime.runner.claim(self._scope(user=user), limit, lease_s)

    @operation("schedules.finish", On.ID, "read write", "POST /v1/schedules/{id}/finish", cli="schedule finish")
    def finish(
        self,
        id: arg.ScheduleId,
        token: arg.LeaseToken,
        *,
        user: arg.OfUser | None = None,
        text: arg.RunText = "",
        error: arg.RunError | None = None,
        turns: arg.RunTurns = 1,
        cost: arg.RunCost = 0.0,
        notify: arg.RunNotify | None = None,
    ) -> Run:
        """Store the result of a claim and compute the next run. With an ``error`` the run has failed.

        Raises LeaseLost, and stores nothing, if the lease has ended and another runner has claimed it. The run's
        ``to_notify`` says whether to report it.
        """
        outcome = RunResult(text, turns, cost, notify)
        return self._runtime.runner.finish(self._scope(user=user), id, token, outcome, error)

    @operation(
        "schedules.runs",
        On.ID,
        "read",
        "GET /v1/schedules/{id}/runs",
        page="offset",
        tool="schedule_runs",
        cli="schedule runs",
    )
    def runs(
        self, id: arg.ScheduleId, *, user: arg.OfUser | None = None, limit: arg.Limit = 20, offset: arg.Offset = 0
    ) -> list[Run]:
        """List the results of a schedule, latest first. Only the last few are kept."""
        scope = self._scope(user=user)

        def read(tx: Tx) -> list[Run]:
            if Schedules(tx).get(scope, id) is None:
                raise not_found(id)
            return Schedules(tx).find_runs(scope, id, limit, offset)

        return self._read(read)

    @operation(
        "schedules.run_output",
        On.ID,
        "read",
        "GET /v1/runs/{run_id}/output",
        tool="schedule_runs",
        cli="schedule output",
    )
    def run_output(
        self,
        run_id: arg.RunId,
        *,
        user: arg.OfUser | None = None,
        offset: arg.OutputOffset = 0,
        limit: arg.OutputLimit | None = None,
    ) -> OutputPage:
        """Return the whole output of a run, page by page: ``offset`` is ``next_offset`` of the previous page."""
        scope, most = self._scope(user=user), limit or self._rules.page_characters
        # A little more than is wanted, to see where a character ends.
        found = self._read(lambda tx: Schedules(tx).read_output(scope, run_id, min(offset, 2**40), most + 8))
        if found is None:
            raise ScheduleNotFound(f"no run {run_id} here; schedules.runs lists those that are kept")
        text, total = found
        page = truncate_text(text, most)
        end = offset + len(page)
        return OutputPage(page, offset, end if page and end < total else None, total)

    @operation(
        "schedules.run",
        On.WHOLE,
        "write:store",
        left_out={**IN_PROCESS, "cli": "the command worker --schedules runs them"},
    )
    def run(self, callback: Callback, notify: Notifier | None = None, *, until_idle: arg.UntilIdle = True) -> int:
        """Run what is due now, in every tenant and in agents' own stores. Returns how many runs were started.

        The callback receives each ``Firing`` and returns its result: text, a ``RunResult`` or None. If it raises, the
        run has failed and is retried later. ``notify`` receives each ``Notification``.
        """
        handlers, begun = make_run_handlers(self._view, callback, notify), 0
        for _, runtime in self._stores():
            if until_idle or not begun:
                begun += runtime.runner.run(handlers, until_idle=until_idle)
        return begun

    def _change(self, id: str, user: str | None, change: Any) -> Schedule:
        scope, now = self._scope(user=user), self._now()

        def work(tx: Tx) -> Schedule:
            was = Schedules(tx).get(scope, id)
            if was is None:
                raise not_found(id)
            # Bringing one back needs room for it. Counted before the row is locked, as in create.
            live = Schedules(tx).count_live(was.scope) if was.state in END_STATES else 0
            was = Schedules(tx).lock(scope, id)
            if was is None:
                raise not_found(id)
            changed: Schedule = change(was, now)
            if was.state in END_STATES and changed.state not in END_STATES:
                self._check_limit(live, was.user)
            Schedules(tx).replace(was.scope, changed)
            return changed

        return self._write(work)

    def _check_limit(self, live: int, user: str) -> None:
        most = self._rules.per_user
        if live >= most:
            raise InvalidInput(
                f"{user} has {live} schedules, and {most} is the limit (schedules.per_user): delete one first"
            )


def _build_query(
    agent: str | None, state: str | None, text: str | None, due_before: datetime | None, **page: Any
) -> ScheduleQuery:
    status = None if state is None else ScheduleState(state)
    return ScheduleQuery(agent=agent, state=status, text=text or None, due_before=due_before, **page)


def _parse_end(value: datetime | str | None, zone: str) -> datetime | None:
    """A moment, or text: in the zone if it says nothing else."""
    if not isinstance(value, str):
        return value
    if value.strip().lower() in _NEVER:
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        raise InvalidInput(f"ends_at must be a time such as 2026-12-01T09:00, not {short_repr(value)}") from None
    return resolve_local_time(moment, load_timezone(zone)) if moment.tzinfo is None else check_time(moment, "ends_at")


def _find_previous(tx: Tx, scope: Scope, asked: IdempotencyKey | None, now: datetime) -> Schedule | None:
    return idempotency.find_existing(tx, resolve_owner(scope).space, asked, partial(Schedules(tx).get, scope), now)


def make_run_handlers(view: View, callback: Callback, notify: Notifier | None) -> RunHandlers:
    from limpet.api.limpet import Limpet

    def memory_for(schedule: Schedule) -> Limpet:
        """Memory for a scheduled turn: it may do everything but create schedules, in any thread."""
        return Limpet(view.derive(tenant=schedule.tenant, agent=schedule.agent, scheduled=True))

    return RunHandlers(callback, notify, memory_for)


def describe_missing_runner(runtime: Runtime) -> str | None:
    """What to say where nothing has looked for due schedules lately; None where something has."""
    seen, now = runtime.store.read(lambda tx: ScheduleQueue(tx).find_runner()), runtime.clock()
    if seen is not None and now - seen < _RUNNER_SILENCE:
        return None
    since = "yet" if seen is None else f"since {seen.isoformat(timespec='minutes')}"
    return (
        f"nothing has run schedules in this store {since}: `limpet worker --schedules` does, or a program with"
        " memory.schedules.run or memory.schedules.claim"
    )
