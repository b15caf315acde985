"""A runner: takes schedules that are due, one after the other, and hands each to a callback.

Many runners, in one process or in many, share the schedules of a store. A firing is leased; while its callback runs, a
thread renews the lease. What came of it is recorded, the schedule goes on, and the lease ends, all in one transaction
that only the holder of the last lease can make: whoever was killed, held up or misled by its clock, a firing has one
recorded end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from limpet.config import ScheduleSettings
from limpet.errors import InvalidInput, LeaseLost, LimpetError, StorageError, StoreUnavailable
from limpet.model.schedule import Notification, Run, RunResult, RunStatus, Schedule, ScheduleLease
from limpet.model.telemetry import Activity, ActivityKind
from limpet.model.text import MAX_CONTENT_BYTES, short_repr, truncate_text
from limpet.model.times import Clock
from limpet.schedules import decide
from limpet.schedules.cadence import count_between
from limpet.schedules.firing import Callback, ConsumerGone, Firing, Notifier, firing_context
from limpet.schedules.repository import RunNotice, ScheduleQueue, Schedules
from limpet.security.telemetry import Measurement, Observers
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.schedules")

_POLL_S = 5.0  # another process may have made a schedule
_REPAIR_EVERY_S = 300.0  # how often times that a wrong clock wrote are looked for
_MAX_CLOCK_STEP_BACK = timedelta(minutes=1)  # a clock that goes back further was set right, or wrong


class RunHandlers(NamedTuple):
    """The callback for what is due, the one for notifications, and the memory a scheduled turn gets."""

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

    def run(self, hands: RunHandlers, *, until_idle: bool) -> int:
        """Run what is due now: one firing, or all. Answers how many were begun."""
        if self._stop.is_set():
            raise StoreUnavailable("this store is closed; open it again")
        begun = 0
        while self._run_next(hands):
            begun += 1
            if not until_idle:
                break
        self._deliver_notifications(hands)
        return begun

    def start(self, hands: RunHandlers) -> None:
        """Run what comes due in a thread, until the store is closed."""
        with self._starting:
            if self._stop.is_set():
                raise StoreUnavailable("this store is closed; open it again")
            thread = threading.Thread(target=self._loop, args=(hands,), name="limpet-schedules", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Finish the firing at hand and begin no other."""
        with self._starting:
            self._stop.set()
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

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
            except Exception as error:  # why: a clock that fails, say, must not end all schedules without a word
                log.warning("the runner failed and looks again: %s", error, exc_info=error)
                wait = _POLL_S
            self._stop.wait(wait)

    def _seconds_until_next(self) -> float:
        due = self._store.read(lambda tx: ScheduleQueue(tx).find_next_due())
        return _POLL_S if due is None else min(_POLL_S, max(0.05, (due - self._clock()).total_seconds()))

    def _run_next(self, hands: RunHandlers) -> bool:
        if self._stop.is_set():
            return False
        self._repair_misdated()
        now = self._clock()
        held = self._store.write(lambda tx: ScheduleQueue(tx).claim(now, now + self._lease))
        if held is None:
            return False
        try:
            decide.parse_schedule_cadence(held.schedule)
        except LimpetError as error:  # no zone database here, say: another machine may have one
            log.warning("the schedule %s cannot be run here: %s", held.schedule.id, error)
            self._release(held, self._clock() + self._lease)
            return True
        try:
            self._run_firing(held, hands)
        except ConsumerGone as error:
            log.warning("the schedule %s is left to the next runner: %s", held.schedule.id, error)
            self._release(held, self._clock())
            return False
        return True

    def _release(self, held: ScheduleLease, until: datetime) -> None:
        self._store.write(lambda tx: ScheduleQueue(tx).release(held, until))

    def _run_firing(self, held: ScheduleLease, hands: RunHandlers) -> None:
        started, began = self._clock(), monotonic()
        if held.schedule.attempts > self._rules.attempts:  # each run ended without a word
            tries = held.schedule.attempts - 1
            ended = _RunResult(RunStatus.FAILED, RunResult(turns=0), f"its runner ended before it did, {tries} times")
        else:
            work = Activity(kind=ActivityKind.SCHEDULE, name="schedule", tenant=held.schedule.scope.tenant)
            with self._observers.measure(work) as seen:
                ended = self._call_handler(held, hands, started, seen)
        now = max(self._clock(), started)
        settled = decide.apply_run(held.schedule, ended.status, started, now, self._rules)
        try:
            self._store.write(lambda tx: self._finish(tx, held, ended, settled))
        except LeaseLost as error:
            log.warning("%s", error)
            return
        seconds = monotonic() - began
        told = {"schedule": held.schedule.id, "status": str(ended.status), "seconds": round(seconds, 6)}
        extra = {"event": "schedule", "fields": told}
        log.info("the schedule %s ran for %.3f s: %s", held.schedule.id, seconds, ended.status, extra=extra)
        self._deliver_notifications(hands)

    def _call_handler(
        self, held: ScheduleLease, hands: RunHandlers, started: datetime, seen: Measurement
    ) -> _RunResult:
        """The callback, outside of any transaction."""
        schedule = held.schedule
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
            with self._keep_lease(held, lost), firing_context():
                outcome = checked_outcome(hands.callback(firing))
        except ConsumerGone:
            raise
        except Exception as error:  # why: a callback's failure is the run's outcome, and never the runner's end
            seen.error = error
            ours = isinstance(error, LimpetError)
            log.warning("the schedule %s failed: %s", schedule.id, error, exc_info=None if ours else error)
            return _RunResult(RunStatus.FAILED, RunResult(turns=0), _describe_error(error))
        return _RunResult(RunStatus.OK, outcome)

    @contextmanager
    def _keep_lease(self, held: ScheduleLease, lost: threading.Event) -> Iterator[None]:
        """The lease is renewed while the callback runs, for as long as a run may take."""
        done, until = threading.Event(), monotonic() + self._rules.longest_run_s

        def renew() -> None:
            while not done.wait(self._lease.total_seconds() / 3) and monotonic() < until:
                try:
                    if not self._store.write(partial(_renew_lease, held=held, until=self._clock() + self._lease)):
                        lost.set()
                        return
                except StorageError as error:
                    log.warning("the lease of %s could not be renewed: %s", held.schedule.id, error)

        thread = threading.Thread(target=renew, name="limpet-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _finish(self, tx: Tx, held: ScheduleLease, ended: _RunResult, settled: decide.ScheduleUpdate) -> None:
        """The run, its history, and the schedule as it goes on."""
        was, rules = held.schedule, self._rules
        assert was.due_at is not None
        after = decide.merge_concurrent_edit(was, Schedules(tx).lock_leased(was.scope, held), settled.schedule)
        said = decide.parse_output(ended.outcome.text)
        run = Run(
            id=self._new_id(),
            schedule_id=was.id,
            due_at=was.due_at,
            started_at=settled.started_at,
            ended_at=settled.ended_at,
            status=ended.status,
            attempt=was.attempts,
            missed=settled.missed,
            summary=truncate_text(said.text, rules.summary_characters),
            turns=ended.outcome.turns,
            cost=ended.outcome.cost,
            error=ended.error,
            to_notify=decide.is_to_notify(after, ended.status, said, ended.outcome.notify, rules),
        )
        Schedules(tx).finish(was.scope, held, after, run, said.text, (rules.history, rules.keep_ended))

    def _deliver_notifications(self, hands: RunHandlers) -> None:
        """Deliver notifications. Each is kept until it is delivered, so a process that dies leaves it to the next."""
        if hands.notify is None:
            return
        age = timedelta(hours=self._rules.notice_hours)
        while not self._stop.is_set():
            now = self._clock()
            notice = self._store.write(partial(_claim_notice, now=now, oldest=now - age, until=now + self._lease))
            if notice is None:
                return
            schedule, run = notice.schedule, notice.run
            failed = run.status is RunStatus.FAILED
            text = decide.failure_text(schedule, run.error) if failed else notice.output
            told = Notification(schedule, run, text, schedule.channel, schedule.chat, schedule.thread)
            try:
                with firing_context():
                    hands.notify(told)
            except ConsumerGone:
                return
            except Exception as error:  # why: a notification that fails is delivered later; the schedules go on
                log.warning("a notification of %s was not delivered: %s", schedule.id, error, exc_info=error)
                continue
            self._store.write(lambda tx, run=run, scope=schedule.scope: Schedules(tx).mark_notified(scope, run.id))  # type: ignore[misc]

    def _repair_misdated(self) -> None:
        now = self._clock()
        back = self._latest is not None and now < self._latest - _MAX_CLOCK_STEP_BACK
        self._latest = now
        if monotonic() < self._mend_at and not back:
            return
        self._mend_at = monotonic() + _REPAIR_EVERY_S
        for schedule in self._store.read(lambda tx: ScheduleQueue(tx).find_misdated(now)):
            log.warning("the schedule %s was put off by a clock that was ahead of this one", schedule.id)
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
            except InvalidInput as error:  # its zone is not known here
                log.warning("the schedule %s cannot be mended here: %s", schedule.id, error)


def _renew_lease(tx: Tx, held: ScheduleLease, until: datetime) -> bool:
    return ScheduleQueue(tx).renew_lease(held, until)


def _claim_notice(tx: Tx, now: datetime, oldest: datetime, until: datetime) -> RunNotice | None:
    return ScheduleQueue(tx).claim_notice(now, oldest, until)


def checked_outcome(value: object) -> RunResult:
    """What a callback gave back. Its text is stored as it can be."""
    if value is None or isinstance(value, str):
        value = RunResult(value or "")
    if not isinstance(value, RunResult):
        raise InvalidInput(f"a schedule's callback gives back text, an Outcome or None, not {short_repr(value)}")
    given: tuple[object, ...] = (value.text, value.turns, value.cost)
    if not isinstance(given[0], str) or not all(map(_is_number, given[1:])):
        raise InvalidInput(f"an Outcome has a text, a number of turns and a cost, not {short_repr(value)}")
    return replace(value, text=_sanitize_text(value.text), turns=int(value.turns), cost=float(value.cost))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9


def _sanitize_text(text: str) -> str:
    """Without the two things no database keeps, and no longer than any text may be."""
    clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    if len(clean.encode()) > MAX_CONTENT_BYTES:
        clean = truncate_text(clean, MAX_CONTENT_BYTES // 4)
    return clean


def _describe_error(error: Exception) -> str:
    """What is kept with the run. An error of other code may quote what a user will want forgotten."""
    name = type(error).__name__
    return (
        truncate_text(str(error) or name, 500) if isinstance(error, LimpetError) else f"{name}; the log has its words"
    )
