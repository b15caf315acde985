"""Schedules: goals that come back, made, changed, looked at and run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from limpet.api.handle import Handle, View
from limpet.errors import InvalidInput, ScheduleNotFound, WrongState
from limpet.model.idempotency import IdempotencyKey, ResourceKind
from limpet.model.ids import check_id
from limpet.model.paging import check_cursor
from limpet.model.schedule import END_STATES, NotifyPolicy, OutputPage, Run, Schedule, ScheduleQuery, ScheduleState
from limpet.model.scope import Level, Partition, Scope
from limpet.model.session import SessionInfo
from limpet.model.text import check_choice, check_name, check_optional_name, check_text, short_repr, truncate_text
from limpet.model.times import check_time, load_timezone
from limpet.model.values import check_flag, check_metadata, check_number, check_page
from limpet.schedules import decide
from limpet.schedules.cadence import OneTime, parse_cadence, resolve_local_time
from limpet.schedules.firing import Callback, Notifier, refuse_in_firing
from limpet.schedules.repository import Schedules
from limpet.schedules.runner import RunHandlers
from limpet.security.operation import operation
from limpet.store import once
from limpet.store.tx import Tx

_NEVER = ("", "never", "none")


class ScheduleOperations(Handle):
    """Goals that come back: ``memory.schedules.create(user=…, goal=…, cadence="every: 1h")``."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._rules = view.runtime.config.schedules

    @operation("schedules.create")
    def create(
        self,
        user: str,
        goal: str,
        cadence: str,
        timezone: str | None = None,
        notify: str = "always",
        *,
        agent: str | None = None,
        channel: str | None = None,
        chat: str | None = None,
        thread: str | None = None,
        session: str | None = None,
        max_runs: int | None = None,
        ends_at: datetime | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Schedule:
        """Let a goal come back: ``cron: 0 9 * * 1-5``, ``once: 2026-12-01T09:00`` or ``every: 15m``.

        Times without an offset are the zone's. ``notify`` says when a run is told: ``always``, ``conditional`` (when
        it begins with ``[NOTIFY]``) or ``never``. ``session`` is where it was asked for; its channel, chat and thread
        are where it reports to. Asked again with the same ``idempotency_key`` within two days, it answers with what was
        made the first time, as it is by then; with another request under that key it raises IdempotencyConflict.
        """
        refuse_in_firing("make", scheduled=self._view.scheduled)
        now, rules = self._runtime.clock(), self._rules
        zone = _validate_timezone(rules.timezone if timezone is None else timezone)
        name = self._runtime.config.session.default_agent if agent is None else agent
        scope = self._scope(user=check_name(user, "user"), agent=name)
        draft = Schedule(
            id=self._runtime.new_id(),
            tenant=scope.tenant,
            user=user,
            agent=name,
            goal=_validate_goal(goal, rules.goal_bytes),
            cadence=parse_cadence(cadence, zone, now).text,
            timezone=zone,
            created_at=now,
            updated_at=now,
            anchor_at=now,
            notify=check_choice(NotifyPolicy, notify, "notify"),
            channel=check_optional_name(channel, "channel"),
            chat=check_optional_name(chat, "chat"),
            thread=check_optional_name(thread, "thread"),
            session=None if session is None else check_id(session, "session id"),
            max_runs=_validate_max_runs(max_runs),
            ends_at=_parse_end(ends_at, zone),
            metadata=check_metadata(metadata),
        )
        asked = _build_request(idempotency_key, draft)
        known = (
            None if asked is None else self._runtime.store.read(lambda tx: _find_previous(tx, draft.scope, asked, now))
        )
        return known or self._insert(draft, asked, now)

    def _insert(self, draft: Schedule, asked: IdempotencyKey | None, now: datetime) -> Schedule:
        if draft.session is not None:
            draft = _apply_session_defaults(self._get_session(draft.session, draft.user), draft)
        made = decide.activate(draft, now)
        decide.check_min_gap(parse_cadence(draft.cadence, draft.timezone, now), now, self._rules)

        def add(tx: Tx) -> Schedule:
            before = _find_previous(tx, made.scope, asked, now)
            if before is not None:
                return before
            self._check_quota(tx, made.scope)
            Schedules(tx).insert(made.scope, made)
            once.save_key(tx, _user_partition(made.scope), asked, made.id, now)
            return made

        return self._runtime.store.write(add)

    @operation("schedules.get")
    def get(self, id: str, *, user: str | None = None) -> Schedule:
        """Raises ScheduleNotFound, for another user's too."""
        scope, wanted = self._scope(user=user), check_id(id, "schedule id")
        found = self._runtime.store.read(lambda tx: Schedules(tx).get(scope, wanted))
        if found is None:
            raise _not_found(wanted)
        return found

    @operation("schedules.edit")
    def edit(
        self,
        id: str,
        *,
        user: str | None = None,
        goal: str | None = None,
        cadence: str | None = None,
        timezone: str | None = None,
        notify: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        chat: str | None = None,
        thread: str | None = None,
        max_runs: int | None = None,
        ends_at: datetime | str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Schedule:
        """Change what is given; what is left out stays. ``max_runs=0`` and ``ends_at="never"`` take a limit away.

        Another cadence, zone or end begins it anew from now, and brings one that has ended, failed or was disabled
        back; one that is paused stays so.
        """
        refuse_in_firing("change", scheduled=self._view.scheduled)
        if agent is not None:
            self._scope(agent=agent)  # refused when it is kept apart
        changes: dict[str, Any] = {
            "goal": None if goal is None else _validate_goal(goal, self._rules.goal_bytes),
            "notify": None if notify is None else check_choice(NotifyPolicy, notify, "notify"),
            "agent": agent,
            "channel": check_optional_name(channel, "channel"),
            "chat": check_optional_name(chat, "chat"),
            "thread": check_optional_name(thread, "thread"),
            "metadata": None if metadata is None else check_metadata(metadata),
        }
        given = {name: value for name, value in changes.items() if value is not None}
        runs = _validate_max_runs(max_runs)
        zone = None if timezone is None else _validate_timezone(timezone)
        if cadence is not None or zone is not None:
            was = self.get(id, user=user)
            timed = parse_cadence(cadence or was.cadence, zone or was.timezone, self._runtime.clock())
            decide.check_min_gap(timed, self._runtime.clock(), self._rules)
        anew = not (cadence is None and zone is None and max_runs is None and ends_at is None)

        def change(was: Schedule, now: datetime) -> Schedule:
            edited: Schedule = replace(was, updated_at=now, **given)
            if not anew:
                return edited
            edited = replace(
                edited,
                timezone=zone or was.timezone,
                cadence=was.cadence if cadence is None else cadence,
                max_runs=was.max_runs if max_runs is None else runs,
                ends_at=was.ends_at if ends_at is None else _parse_end(ends_at, zone or was.timezone),
            )
            return self._reschedule(was, edited, now, again=cadence is not None or zone is not None)

        return self._change(id, user, change)

    def _reschedule(self, was: Schedule, edited: Schedule, now: datetime, *, again: bool) -> Schedule:
        """With its next firing worked out anew."""
        if again:
            found = parse_cadence(edited.cadence, edited.timezone, now)
            edited = replace(edited, cadence=found.text, anchor_at=now, skipped_from=None, skipped_to=None)
            if isinstance(found, OneTime) and found.at <= now:
                raise WrongState(f"{found.text!r} lies in the past; give a time to come")
        on = decide.activate(edited, now)
        if was.state is not ScheduleState.PAUSED:
            return on
        return replace(on, state=ScheduleState.PAUSED, due_at=None, next_run_at=None)

    @operation("schedules.delete")
    def delete(self, id: str, *, user: str | None = None) -> None:
        """With its runs, which it tells nobody of any more."""
        scope, wanted = self._scope(user=user), check_id(id, "schedule id")
        if not self._runtime.store.write(lambda tx: Schedules(tx).delete(scope, wanted))["schedules"]:
            raise _not_found(wanted)

    @operation("schedules.pause")
    def pause(self, id: str, *, user: str | None = None) -> Schedule:
        """Let it rest. Firings that pass meanwhile are not made up for, but for a ``once`` that has not come about."""

        def change(was: Schedule, now: datetime) -> Schedule:
            if was.state is ScheduleState.PAUSED:
                return was
            if was.state is not ScheduleState.ACTIVE:
                raise InvalidInput(f"only an active schedule can be paused; this one is {was.state}")
            return replace(was, state=ScheduleState.PAUSED, due_at=None, next_run_at=None, attempts=0, updated_at=now)

        return self._change(id, user, change)

    @operation("schedules.resume")
    def resume(self, id: str, *, user: str | None = None) -> Schedule:
        """Go on with one that was paused, disabled or failed, as if it had never failed."""
        refuse_in_firing("resume", scheduled=self._view.scheduled)

        def change(was: Schedule, now: datetime) -> Schedule:
            return was if was.state is ScheduleState.ACTIVE else decide.activate(was, now)

        return self._change(id, user, change)

    @operation("schedules.search")
    def search(
        self,
        user: str | None = None,
        agent: str | None = None,
        state: str | None = None,
        text: str | None = None,
        due_before: datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        before: tuple[datetime, str] | None = None,
    ) -> list[Schedule]:
        """The newest first. ``text`` is looked for in the goals; ``due_before`` is when they run next.

        ``before`` goes on where another page ended: its last schedule's ``created_at`` and ``id``.
        """
        scope = self._scope(user=user)
        query = _build_query(agent, state, text, due_before)
        first, place = check_number(offset, "offset"), check_cursor(before)
        query = replace(query, limit=check_page(limit), offset=first, before=place)
        return self._runtime.store.read(lambda tx: Schedules(tx).find(scope, query))

    @operation("schedules.count")
    def count(
        self,
        user: str | None = None,
        agent: str | None = None,
        state: str | None = None,
        text: str | None = None,
        due_before: datetime | None = None,
    ) -> int:
        """How many a search would find."""
        scope, query = self._scope(user=user), _build_query(agent, state, text, due_before)
        return self._runtime.store.read(lambda tx: Schedules(tx).count(scope, query))

    @operation("schedules.due")
    def due(self, user: str | None = None, limit: int = 50) -> list[Schedule]:
        """Those that wait for a runner now, the longest first."""
        scope, now, most = self._scope(user=user), self._runtime.clock(), check_page(limit)
        return self._runtime.store.read(lambda tx: Schedules(tx).find_due(scope, now, most))

    @operation("schedules.runs")
    def runs(self, id: str, *, user: str | None = None, limit: int = 20, offset: int = 0) -> list[Run]:
        """What came of it, the latest first. Only the last few are kept."""
        scope, wanted = self._scope(user=user), check_id(id, "schedule id")
        page = check_page(limit), check_number(offset, "offset")

        def read(tx: Tx) -> list[Run]:
            if Schedules(tx).get(scope, wanted) is None:
                raise _not_found(wanted)
            return Schedules(tx).find_runs(scope, wanted, *page)

        return self._runtime.store.read(read)

    @operation("schedules.run_output")
    def run_output(
        self, run_id: str, *, user: str | None = None, offset: int = 0, limit: int | None = None
    ) -> OutputPage:
        """All that a run said, a page at a time: ``offset`` is the ``next_offset`` of the page before."""
        scope, wanted = self._scope(user=user), check_id(run_id, "run id")
        start = check_number(offset, "offset")
        most = self._rules.page_characters if limit is None else check_number(limit, "limit")
        if not 1 <= most <= 1_000_000:
            raise InvalidInput(f"limit is between 1 and 1,000,000 characters, not {most}")
        # A little more than is wanted, to see where a character ends.
        found = self._runtime.store.read(
            lambda tx: Schedules(tx).read_output(scope, wanted, min(start, 2**40), most + 8)
        )
        if found is None:
            raise ScheduleNotFound(f"no run {wanted} here; runs(schedule id) lists those that are kept")
        text, total = found
        page = truncate_text(text, most)
        end = start + len(page)
        return OutputPage(page, start, end if page and end < total else None, total)

    @operation("schedules.run")
    def run(self, callback: Callback, notify: Notifier | None = None, *, until_idle: bool = True) -> int:
        """Run what is due now, of every tenant. Answers how many firings were begun.

        The callback is given each ``Firing`` and returns its result: text, a ``RunResult`` or None. When it raises,
        the run has failed and is tried again later. ``notify`` is given each ``Notification``.
        """
        idle = check_flag(until_idle, "until_idle")
        return self._runtime.runner.run(make_run_handlers(self._view, callback, notify), until_idle=idle)

    def _change(self, id: object, user: str | None, change: Any) -> Schedule:
        scope, wanted, now = self._scope(user=user), check_id(id, "schedule id"), self._runtime.clock()

        def work(tx: Tx) -> Schedule:
            was = Schedules(tx).get(scope, wanted)
            if was is None:
                raise _not_found(wanted)
            # Whoever brings one back needs room for it. Counted before the row is held, as create does.
            live = Schedules(tx).count_live(was.scope) if was.state in END_STATES else 0
            was = Schedules(tx).lock(scope, wanted)
            if was is None:
                raise _not_found(wanted)
            changed: Schedule = change(was, now)
            if was.state in END_STATES and changed.state not in END_STATES:
                self._check_limit(live, was.user)
            Schedules(tx).replace(was.scope, changed)
            return changed

        return self._runtime.store.write(work)

    def _check_quota(self, tx: Tx, scope: Scope) -> None:
        self._check_limit(Schedules(tx).count_live(scope), scope.user or "")

    def _check_limit(self, live: int, user: str) -> None:
        most = self._rules.per_user
        if live >= most:
            raise InvalidInput(
                f"{user} has {live} schedules, and {most} is the limit (schedules.per_user): delete one first"
            )


def make_run_handlers(view: View, callback: object, notify: object) -> RunHandlers:
    from limpet.api.limpet import Limpet

    if not callable(callback):
        raise InvalidInput(f"callback must be a function that is given a Firing, not {short_repr(callback)}")
    if notify is not None and not callable(notify):
        raise InvalidInput(f"notify must be a function that is given a Notification, not {short_repr(notify)}")

    def memory_for(schedule: Schedule) -> Limpet:
        """Memory for a scheduled turn: it may do everything but create schedules, in any thread."""
        return Limpet(view.derive(tenant=schedule.tenant, agent=schedule.agent, scheduled=True))

    return RunHandlers(callback, notify, memory_for)


def _build_query(agent: str | None, state: str | None, text: str | None, due_before: datetime | None) -> ScheduleQuery:
    words = None if text is None else check_text(text, "text", max_bytes=1024)
    return ScheduleQuery(
        agent=check_optional_name(agent, "agent"),
        state=None if state is None else check_choice(ScheduleState, state, "state"),
        text=words or None,
        due_before=None if due_before is None else check_time(due_before, "due_before"),
    )


def _validate_goal(value: object, most: int) -> str:
    text = check_text(value, "goal", max_bytes=most)
    if not text.strip():
        raise InvalidInput("goal is empty; say what is to be done")
    return text


def _validate_timezone(value: object) -> str:
    name = check_name(value, "timezone")
    load_timezone(name)
    return name


def _validate_max_runs(value: object) -> int | None:
    """0 stands for no limit."""
    return None if value is None else check_number(value, "max_runs") or None


def _parse_end(value: object, zone: str) -> datetime | None:
    """A moment, or text: in the zone if it says nothing else."""
    if value is None or (isinstance(value, str) and value.strip().lower() in _NEVER):
        return None
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InvalidInput(f"ends_at must be a time such as 2026-12-01T09:00, not {short_repr(value)}") from None
        return (
            resolve_local_time(moment, load_timezone(zone)) if moment.tzinfo is None else check_time(moment, "ends_at")
        )
    return check_time(value, "ends_at")


def _apply_session_defaults(session: SessionInfo, draft: Schedule) -> Schedule:
    """What is reported goes where it was asked for, if nothing else was said."""
    key = session.key
    return replace(
        draft,
        session=session.id,
        channel=draft.channel or key.channel,
        chat=draft.chat or key.chat,
        thread=draft.thread or key.thread,
    )


_REQUEST_FIELDS = (
    "user agent goal cadence timezone notify channel chat thread session max_runs ends_at metadata".split()
)


def _build_request(key: str | None, draft: Schedule) -> IdempotencyKey | None:
    if key is None:
        return None
    return IdempotencyKey.from_request(
        ResourceKind.SCHEDULE, key, {name: getattr(draft, name) for name in _REQUEST_FIELDS}
    )


def _find_previous(tx: Tx, scope: Scope, asked: IdempotencyKey | None, now: datetime) -> Schedule | None:
    def find(tx: Tx, schedule_id: str) -> Schedule:
        found = Schedules(tx).get(scope, schedule_id)
        if found is None:
            raise ScheduleNotFound(f"schedule {schedule_id} was made under this idempotency_key, and is gone since")
        return found

    return once.find_existing(tx, _user_partition(scope), asked, find, now)


def _user_partition(scope: Scope) -> Partition:
    assert scope.user is not None
    return Partition(scope.tenant, Level.USER, scope.user)


def _not_found(schedule_id: str) -> ScheduleNotFound:
    return ScheduleNotFound(f"no schedule {schedule_id} here; search() lists those there are")
