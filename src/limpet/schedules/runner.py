"""A runner: claims due schedules one at a time and passes each to a callback.

Many runners, in one or many processes, share the schedules of a store. A firing is leased, and a thread renews the
lease while the callback runs. One transaction records the result, updates the schedule and ends the lease; only the
holder of the last lease can commit it. So each firing has one recorded result, even if a runner is killed or its clock
is wrong.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from limpet.config import ScheduleSettings
from limpet.errors import InvalidInput, LeaseLost, LimpetError, PermissionDenied, StorageError, StoreUnavailable
from limpet.model.dataclass import dataclass, replace
from limpet.model.schedule import Notification, Run, RunResult, RunStatus, Schedule, ScheduleLease
from limpet.model.scope import Scope
from limpet.model.tokens import truncate_text
from limpet.model.values import MAX_CONTENT_BYTES, Clock, replace_unstorable, short_repr
from limpet.schedules import decide
from limpet.schedules.cadence import count_between
from limpet.schedules.repository import RunNotice, ScheduleQueue, Schedules
from limpet.security.telemetry import Activity, ActivityKind, Measurement, Observers, describe_error
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.schedules")

_NOTE_EVERY = timedelta(minutes=10)
_POLL_S = 5.0  # another process may have created a schedule
_REPAIR_EVERY_S = 300.0  # how often to look for times written by a wrong clock
_MAX_CLOCK_STEP_BACK = timedelta(minutes=1)  # a larger step back means that the clock was set


# Inherited by tasks and by the threads behind AsyncLimpet. The memory of a firing does not need it.
_in_firing: ContextVar[bool] = ContextVar("limpet_firing", default=False)


@dataclass(frozen=True, slots=True)
class Firing:
    """The argument of a callback: a goal that is due, and the memory to use for it.

    ``memory`` has the schedule's tenant and agent; it refuses to create schedules, in every thread. ``key`` is the same
    for every run of this firing: use it as idempotency key for external effects.
    """

    schedule: Schedule
    due_at: datetime
    attempt: int
    missed: int  # later firings that have passed too and that this run covers
    memory: Any
    stopping: Callable[[], bool] = lambda: False  # the runner is stopping, or the lease was lost

    @property
    def goal(self) -> str:
        return self.schedule.goal

    @property
    def key(self) -> str:
        return f"{self.schedule.id}@{self.due_at.isoformat()}"


class ConsumerGone(Exception):
    """The receiver of a firing or a notification is gone; the next one takes it."""


Callback = Callable[[Firing], RunResult | str | None]
Notifier = Callable[[Notification], object]


@contextmanager
def firing_context() -> Iterator[None]:
    before = _in_firing.set(True)
    try:
        yield
    finally:
        _in_firing.reset(before)


def is_in_firing() -> bool:
    """Return whether a runner's callback is the caller."""
    return _in_firing.get()


def refuse_in_firing(what: str, *, scheduled: bool) -> None:
    """Raise PermissionDenied in a scheduled turn: schedules that create schedules would never end."""
    if scheduled or _in_firing.get():
        raise PermissionDenied(
            f"a scheduled turn may not {what} schedules, only list, pause and delete them; wait for a user to ask"
        )


class RunHandlers(NamedTuple):
    """The callback for firings, the callback for notifications, and the memory of a scheduled turn."""

    callback: Callback
    notify: Notifier | None
    memory: Callable[[Schedule], Any]


class _RunResult(NamedTuple):
    status: RunStatus
    outcome: RunResult
    error: str | None = None


class Runner:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        rules: ScheduleSettings,
        new_id: Callable[[], str],
        observers: Observers | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._rules = rules
        self._new_id = new_id
        self._observers = observers or Observers()
        self._lease = timedelta(seconds=rules.lease_s)
        self._starting = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._mend_at = 0.0
        self._latest: datetime | None = None
        self._noted: datetime | None = None  # when the store was told that there is a runner

    def run(self, hands: RunHandlers, *, until_idle: bool) -> int:
        """Run what is due now: one firing, or all. Return how many were started."""
        if self._stop.is_set():
            raise StoreUnavailable("this store is closed; open it again")
        started = 0
        while self._run_next(hands):
            started += 1
            if not until_idle:
                break
        self._deliver_notifications(hands)
        return started

    def start(self, hands: RunHandlers) -> None:
        """Run due schedules in a thread until the store is closed."""
        with self._starting:
            if self._stop.is_set():
                raise StoreUnavailable("this store is closed; open it again")
            thread = threading.Thread(target=self._loop, args=(hands,), name="limpet-schedules", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, wait_s: float | None = None) -> bool:
        """Finish the current firing and start no other. False when one took longer than ``wait_s`` and goes on."""
        with self._starting:
            self._stop.set()
            threads = list(self._threads)
        others = [thread for thread in threads if thread is not threading.current_thread()]
        for thread in others:
            thread.join(wait_s)
        return not any(thread.is_alive() for thread in others)

    def _loop(self, hands: RunHandlers) -> None:
        while not self._stop.is_set():
            try:
                self.run(hands, until_idle=True)
                wait = self._seconds_until_next()
            except StoreUnavailable:
                if self._stop.is_set():
                    return
                wait = _POLL_S
            except StorageError as error:
                log.warning("the runner cannot reach the store: %s", error)
                wait = _POLL_S
            except Exception as error:  # why: any failure, such as a broken clock, must not stop all schedules silently
                log.warning("the runner failed and tries again: %s", error, exc_info=error)
                wait = _POLL_S
            self._stop.wait(wait)

    def _seconds_until_next(self) -> float:
        due = self._store.read(lambda tx: ScheduleQueue(tx).find_next_due())
        return _POLL_S if due is None else min(_POLL_S, max(0.05, (due - self._clock()).total_seconds()))

    def _run_next(self, hands: RunHandlers) -> bool:
        if self._stop.is_set():
            return False
        lease = self._claim(self._lease)
        if lease is None:
            return False
        if not self._is_runnable(lease):
            return True
        try:
            self._run_firing(lease, hands)
        except ConsumerGone as error:
            log.warning("the schedule %s is left to the next runner: %s", lease.schedule.id, error)
            self._release(lease, self._clock())
            return False
        return True

    def claim(self, scope: Scope, limit: int, lease_s: float | None) -> list[ScheduleLease]:
        """Claim due firings for a runner outside this process, which calls ``finish`` for each."""
        span = self._lease if lease_s is None else timedelta(seconds=lease_s)
        found: list[ScheduleLease] = []
        while len(found) < limit and (lease := self._claim(span, scope)) is not None:
            if not self._is_runnable(lease):
                continue
            if (ended := self._find_exhaustion(lease)) is None:
                found.append(lease)
                continue
            started = self._clock()
            self._store.write(partial(self._finish, lease=lease, ended=ended, started=started, now=started))
        return found

    def finish(self, scope: Scope, schedule_id: str, token: int, outcome: RunResult, error: str | None) -> Run:
        """Store the result of a firing that was claimed. Raises LeaseLost if another runner has it now."""
        status = RunStatus.OK if error is None else RunStatus.FAILED
        ended, now = _RunResult(status, outcome, error), self._clock()

        def work(tx: Tx) -> Run:
            lease, started = Schedules(tx).load_claim(scope, schedule_id, token)
            return self._finish(tx, lease, ended, started, max(now, started))

        return self._store.write(work)

    def _claim(self, span: timedelta, scope: Scope | None = None) -> ScheduleLease | None:
        self._repair_misdated()
        now = self._clock()
        is_news = self._noted is None or not timedelta() <= now - self._noted < _NOTE_EVERY

        def work(tx: Tx) -> ScheduleLease | None:
            if is_news:
                ScheduleQueue(tx).note_runner(now)
            return ScheduleQueue(tx).claim(now, now + span, scope)

        lease = self._store.write(work)
        self._noted = now if is_news else self._noted
        return lease

    def _is_runnable(self, lease: ScheduleLease) -> bool:
        try:
            decide.parse_schedule_cadence(lease.schedule)
        except LimpetError as error:  # such as a missing zone database: another machine may have one
            log.warning("the schedule %s cannot be run here: %s", lease.schedule.id, error)
            self._release(lease, self._clock() + self._lease)
            return False
        return True

    def _find_exhaustion(self, lease: ScheduleLease) -> _RunResult | None:
        """Return a failure if each run of this firing ended without a result, as often as it may be tried."""
        if lease.schedule.attempts <= self._rules.attempts:
            return None
        tries = lease.schedule.attempts - 1
        return _RunResult(RunStatus.FAILED, RunResult(turns=0), f"its runner ended before it did, {tries} times")

    def _release(self, lease: ScheduleLease, until: datetime) -> None:
        self._store.write(lambda tx: ScheduleQueue(tx).release(lease, until))

    def _run_firing(self, lease: ScheduleLease, hands: RunHandlers) -> None:
        started, began = self._clock(), monotonic()
        ended = self._find_exhaustion(lease)
        if ended is None:
            work = Activity(kind=ActivityKind.SCHEDULE, name="schedule", tenant=lease.schedule.scope.tenant)
            with self._observers.measure(work) as measurement:
                ended = self._call_handler(lease, hands, started, measurement)
        now = max(self._clock(), started)
        try:
            self._store.write(partial(self._finish, lease=lease, ended=ended, started=started, now=now))
        except LeaseLost as error:
            log.warning("%s", error)
            return
        seconds = monotonic() - began
        fields = {"schedule": lease.schedule.id, "status": str(ended.status), "seconds": round(seconds, 6)}
        extra = {"event": "schedule", "fields": fields}
        log.info("the schedule %s ran for %.3f s: %s", lease.schedule.id, seconds, ended.status, extra=extra)
        self._deliver_notifications(hands)

    def _call_handler(
        self, lease: ScheduleLease, hands: RunHandlers, started: datetime, measurement: Measurement
    ) -> _RunResult:
        """Call the callback, outside any transaction."""
        schedule = lease.schedule
        assert schedule.due_at is not None
        lost = threading.Event()
        try:
            firing = Firing(
                schedule,
                schedule.due_at,
                schedule.attempts,
                count_between(decide.parse_schedule_cadence(schedule), schedule.due_at, started),
                hands.memory(schedule),
                lambda: self._stop.is_set() or lost.is_set(),
            )
            with self._keep_lease(lease, lost), firing_context():
                outcome = checked_outcome(hands.callback(firing))
        except ConsumerGone:
            raise
        except Exception as error:  # why: whatever a callback raises is the result of its run
            measurement.error = error
            ours = isinstance(error, LimpetError)
            log.warning("the schedule %s failed: %s", schedule.id, error, exc_info=None if ours else error)
            return _RunResult(RunStatus.FAILED, RunResult(turns=0), truncate_text(describe_error(error), 500))
        return _RunResult(RunStatus.OK, outcome)

    @contextmanager
    def _keep_lease(self, lease: ScheduleLease, lost: threading.Event) -> Iterator[None]:
        """Renew the lease while the callback runs, up to the longest run time."""
        done, until = threading.Event(), monotonic() + self._rules.longest_run_s

        def renew() -> None:
            while not done.wait(self._lease.total_seconds() / 3) and monotonic() < until:
                ends = self._clock() + self._lease
                try:
                    if not self._store.write(lambda tx: ScheduleQueue(tx).renew_lease(lease, ends)):  # noqa: B023
                        lost.set()
                        return
                except StorageError as error:
                    log.warning("the lease of %s could not be renewed: %s", lease.schedule.id, error)

        thread = threading.Thread(target=renew, name="limpet-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _finish(self, tx: Tx, lease: ScheduleLease, ended: _RunResult, started: datetime, now: datetime) -> Run:
        """Store the run, its history and the updated schedule."""
        was, rules = lease.schedule, self._rules
        assert was.due_at is not None
        settled = decide.apply_run(was, ended.status, started, now, rules)
        current = Schedules(tx).lock_leased(was.scope, was.id, lease.token)
        after = decide.merge_concurrent_edit(was, current, settled.schedule)
        output = decide.parse_output(ended.outcome.text)
        run = Run(
            id=self._new_id(),
            schedule_id=was.id,
            due_at=was.due_at,
            started_at=started,
            ended_at=now,
            status=ended.status,
            attempt=was.attempts,
            missed=settled.missed,
            summary=truncate_text(output.text, rules.summary_characters),
            turns=ended.outcome.turns,
            cost=ended.outcome.cost,
            error=ended.error,
            to_notify=decide.is_to_notify(after, ended.status, output, ended.outcome.notify, rules),
        )
        Schedules(tx).finish(was.scope, lease, after, run, output.text, (rules.history, rules.keep_ended))
        return run

    def _deliver_notifications(self, hands: RunHandlers) -> None:
        """Deliver notifications. Each is stored until it is delivered, so another process can take over."""
        if hands.notify is None:
            return
        while not self._stop.is_set() and (notice := self._claim_notice()) is not None:
            schedule, run = notice.schedule, notice.run
            failed = run.status is RunStatus.FAILED
            text = decide.failure_text(schedule, run.error) if failed else notice.output
            notification = Notification(schedule, run, text, schedule.channel, schedule.chat, schedule.thread)
            try:
                with firing_context():
                    hands.notify(notification)
            except ConsumerGone:
                return
            except Exception as error:  # why: a callback may raise anything; the notification is retried later
                log.warning("a notification of %s was not delivered: %s", schedule.id, error, exc_info=error)
                continue
            self._store.write(lambda tx: Schedules(tx).mark_notified(schedule, run.id))  # noqa: B023

    def _claim_notice(self) -> RunNotice | None:
        now, age = self._clock(), timedelta(hours=self._rules.notice_hours)
        return self._store.write(lambda tx: ScheduleQueue(tx).claim_notice(now, now - age, now + self._lease))

    def _repair_misdated(self) -> None:
        now = self._clock()
        back = self._latest is not None and now < self._latest - _MAX_CLOCK_STEP_BACK
        self._latest = now
        if monotonic() < self._mend_at and not back:
            return
        self._mend_at = monotonic() + _REPAIR_EVERY_S
        for schedule in self._store.read(lambda tx: ScheduleQueue(tx).find_misdated(now)):
            log.warning("the schedule %s was postponed by a clock ahead of this one", schedule.id)
            self._store.write(lambda tx, one=schedule: self._repair_schedule(tx, one, now))  # type: ignore[misc]

    @staticmethod
    def _repair_schedule(tx: Tx, schedule: Schedule, now: datetime) -> None:
        current = Schedules(tx).lock(schedule.scope, schedule.id)
        if current is None:
            return
        Schedules(tx).clear_misdated_lease(schedule.scope, schedule.id, now)
        if current.settled_at == schedule.settled_at and current.due_at is not None:
            try:
                Schedules(tx).replace(schedule.scope, decide.reschedule_misdated(current, now))
            except InvalidInput as error:  # its zone is unknown here
                log.warning("the schedule %s cannot be repaired here: %s", schedule.id, error)


def checked_outcome(value: object) -> RunResult:
    if value is None or isinstance(value, str):
        value = RunResult(value or "")
    if not isinstance(value, RunResult):
        raise InvalidInput(f"a schedule's callback must return text, a RunResult or None, not {short_repr(value)}")
    fields: tuple[object, ...] = (value.text, value.turns, value.cost)
    if not isinstance(fields[0], str) or not all(map(_is_number, fields[1:])):
        raise InvalidInput(f"a RunResult needs a text, a number of turns and a cost, not {short_repr(value)}")
    return replace(value, text=_sanitize_text(value.text), turns=int(value.turns), cost=float(value.cost))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9


def _sanitize_text(text: str) -> str:
    """Remove what databases reject, and truncate to the longest text allowed."""
    clean = replace_unstorable(text)
    if len(clean.encode()) > MAX_CONTENT_BYTES:
        clean = truncate_text(clean, MAX_CONTENT_BYTES // 4)
    return clean
