"""A worker: claims jobs that are due, one after the other, until it is stopped.

Many workers, in one process or in many, share the jobs of a store. The kinds of jobs take turns, so that many of one
kind do not keep another waiting. A job that fails comes back later and later, and is dead in the end; so is one
whose worker died each time. Every job is safe to run twice: a worker that dies leaves its job to the next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic, thread_time

from limpet.config import JobSettings
from limpet.errors import LeaseLost, LimpetError, StorageError, StoreUnavailable
from limpet.model.job import Job
from limpet.model.values import Clock, check_time
from limpet.security.telemetry import Activity, ActivityKind, Measurement, Observers, Progress, describe_error
from limpet.store.jobs import JobFilter, JobHandler, JobLease, JobQueue

log = logging.getLogger("limpet.jobs")

_POLL_S = 5.0  # another process may have asked for work
_MAX_YIELD_S = 1.0  # that a job waits for those who wait for an answer
_BUSY_SHARE = 0.1  # of the time, at most, that the thread's work takes while somebody waits
_BUSY_POLL_S = 0.02
_RELEASE_STUCK_S = 300.0  # how often times that a wrong clock wrote are looked for
_COUNT_S = 0.5  # how often what is left is counted to show progress


class Worker:
    """``chance`` gives numbers from 0 to 1: how much of the longest wait a failed job waits."""

    def __init__(
        self,
        queue: JobQueue,
        clock: Clock,
        config: JobSettings,
        chance: Callable[[], float],
        observers: Observers | None = None,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._config = config
        self._chance = chance
        self._observers = observers or Observers()
        self._lease = timedelta(seconds=config.lease_s)
        self._handlers: dict[JobFilter, JobHandler] = {}
        self._patient: set[JobFilter] = set()
        self._order: list[JobFilter] = []  # whose turn it is: the kind that was done last comes last
        self._turn = threading.Lock()  # one job at a time, whether by the thread or by a caller
        self._starting = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._stays = False
        self._busy: Callable[[], bool] | None = None
        self.owner: object = None  # what closes this worker's store: it stays as long as the thread does
        self._thread: threading.Thread | None = None
        self._release_stuck_at = 0.0
        self._worked_from = 0.0  # processor time of the thread when it last let callers go first

    def register(self, kind: str, handler: JobHandler, detail: str = "", *, patient: bool = False) -> None:
        """Do jobs of this kind, or only those with this detail. Kinds nobody registers are left to other processes.

        ``patient`` ones are done whenever somebody works; the thread does not stay for one that is not due yet.
        """
        self._handlers[kind, detail] = handler
        if patient:
            self._patient.add((kind, detail))
        self._order.append((kind, detail))

    @property
    def job_kinds(self) -> list[JobFilter]:
        return list(self._order)

    def has_work(self, kinds: Sequence[JobFilter]) -> bool:
        """Whether there is work of these kinds that a thread should be begun for."""
        due = self._queue.next_time([kind for kind in kinds if kind in self._patient])
        if due is not None and due <= self._clock():
            return True
        return self._queue.next_time([kind for kind in kinds if kind not in self._patient]) is not None

    def take_over(self, kind: str) -> None:
        """Make jobs of this kind due, also leased ones: for work that two may do at once, and that must not wait."""
        if self._queue.count([(kind, "")]):
            self._queue.take_over(kind, self._clock())

    def run(self, *, until_idle: bool, progress: Progress | None = None) -> int:
        """Do what is due now: one job, or all of them. Answers how many were begun."""
        if self._stop.is_set():
            raise StoreUnavailable("this store is closed; open it again")
        begun = total = 0
        count_at = 0.0
        while self._run_next():
            begun += 1
            if progress is not None:
                if monotonic() >= count_at or begun >= total:
                    total, count_at = begun + self._queue.count(self.job_kinds), monotonic() + _COUNT_S
                progress("jobs", begun, total)
            if not until_idle:
                break
        return begun

    def start(self, *, stay: bool = False, busy: Callable[[], bool] | None = None) -> None:
        """Work in a thread: until nothing is left to do, or to ``stay`` for what others will ask for.

        While it is ``busy`` elsewhere in this process, each job waits a moment for its turn, and all of them together
        get a tenth of the time.
        """
        with self._starting:
            self._stays = self._stays or stay
            self._busy = busy or self._busy
            self._wake.set()
            if self._handlers and not self._stop.is_set() and self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="limpet-worker", daemon=True)
                self._thread.start()

    def stop(self, wait_s: float | None = None) -> bool:
        """Finish the job at hand and no other. False when it took longer than ``wait_s`` and goes on."""
        with self._starting:
            self._stop.set()
            thread = self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(wait_s)
            return not thread.is_alive()
        return True

    def _loop(self) -> None:
        self._worked_from = thread_time()
        while not self._stop.is_set():
            self._wake.clear()
            self._yield_to_callers(_MAX_YIELD_S)
            try:
                wait = 0.0 if self._run_next(self._yield_to_callers) else self._seconds_until_next()
            except StorageError as error:
                log.warning("the worker cannot reach the store: %s", error)
                wait = _POLL_S if self._stays else None
            except Exception as error:  # why: a clock that fails, say, must not end all work without a word
                log.warning("the worker failed and looks again: %s", error, exc_info=error)
                wait = _POLL_S
            if wait is None and self._try_exit():
                return
            if wait and not self._stop.is_set():  # who stops it may have rung before the bell was reset above
                self._wake.wait(wait)

    def _yield_to_callers(self, least_s: float = 0.0) -> None:
        """A caller who waits for an answer comes first, but no work waits for ever: it gets a share of the time."""
        wait_s = (thread_time() - self._worked_from) * (1 / _BUSY_SHARE - 1)
        until = monotonic() + max(least_s, min(wait_s, self._lease.total_seconds() / 3))
        while self._is_busy() and monotonic() < until:
            if self._stop.wait(_BUSY_POLL_S):
                break
        self._worked_from = thread_time()

    def _is_busy(self) -> bool:
        if self._busy is None:
            return False
        try:
            return bool(self._busy())
        except Exception as error:  # why: a program's function that fails must not end its background work
            log.warning("busy() failed and is not asked again: %s", error)
            self._busy = None
            return False

    def _seconds_until_next(self) -> float | None:
        """Seconds until there may be something to do; None when nothing is left and nobody wants it to stay."""
        if self._stays:
            return _POLL_S
        due = self._queue.next_time([kind for kind in self.job_kinds if kind not in self._patient])
        return None if due is None else min(_POLL_S, max(0.05, (due - self._clock()).total_seconds()))

    def _try_exit(self) -> bool:
        with self._starting:
            if self._wake.is_set():  # somebody asked for it meanwhile
                return False
            self._thread = None
            return True

    def _run_next(self, give_way: Callable[[], None] = lambda: None) -> bool:
        with self._turn:
            job = None if self._stop.is_set() or not self._handlers else self._claim_next()
            if job is None:
                return False
            with self._observers.measure(
                Activity(kind=ActivityKind.JOB, name=job.kind, tenant=job.partition.tenant)
            ) as seen:
                self._run_job(job, seen, give_way)
            return True

    def _claim_next(self) -> Job | None:
        self._release_stuck()
        job = self._queue.claim(self._order, self._clock(), self._lease)
        if job is not None:
            done = self._handler_key(job)
            self._order.remove(done)
            self._order.append(done)
        return job

    def _release_stuck(self) -> None:
        if monotonic() < self._release_stuck_at:
            return
        self._release_stuck_at = monotonic() + _RELEASE_STUCK_S
        freed = self._queue.release_stuck(self._clock(), timedelta(seconds=self._config.longest_wait_s))
        if freed:
            log.warning("%d jobs were put off by a clock that was ahead of this one; they are due now", freed)

    def _handler_key(self, job: Job) -> JobFilter:
        exact = (job.kind, job.detail)
        return exact if exact in self._handlers else (job.kind, "")

    def _run_job(self, job: Job, seen: Measurement, give_way: Callable[[], None]) -> None:
        if job.attempts > self._config.attempts:  # each run ended without a word
            seen.error = LimpetError(f"its worker ended before the job did, {job.attempts - 1} times")
            self._record_failure(job, seen.error)
            return
        lease = JobLease(job, self._queue, self._clock, self._lease, self._stop.is_set, give_way)
        began = monotonic()
        try:
            again = self._handlers[self._handler_key(job)](lease)
            if again is not None:
                again = check_time(again, "when the job runs again")
        except LeaseLost as error:
            seen.error = error
            log.warning("%s", error)
        except Exception as error:  # why: a job's failure is noted with the job, and never the worker's end
            seen.error = error
            self._record_failure(lease.job, error)
        else:
            if not lease.finished and not self._queue.finish(lease.job, again):
                log.warning("the job %d (%s) took longer than its lease and is somebody else's now", job.id, job.kind)
            seconds = monotonic() - began
            told = {"job": job.id, "kind": job.kind, "outcome": "done", "seconds": round(seconds, 6)}
            extra = {"event": "job", "fields": told}
            log.info("the job %d (%s) ran for %.3f s", job.id, job.kind, seconds, extra=extra)

    def _record_failure(self, job: Job, error: Exception) -> None:
        """Full jitter: jobs that failed together, in one outage, do not all come back together."""
        longest = min(2**job.attempts, self._config.longest_wait_s)
        wait = timedelta(seconds=longest * self._chance())
        dead = job.attempts >= self._config.attempts
        log.warning(
            "the job %d (%s) failed %s: %s",
            job.id,
            job.kind,
            "for the last time" if dead else f"and is tried again in {wait.total_seconds():.0f} s",
            error or type(error).__name__,
            exc_info=None if isinstance(error, LimpetError) else error,
            extra={"event": "job", "fields": {"job": job.id, "kind": job.kind, "outcome": "failed", "reason": error}},
        )
        self._queue.fail(job, describe_error(error), self._clock() + wait, dead=dead)
