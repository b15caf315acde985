"""A worker: takes jobs that are due, one after the other, until it is told to stop.

Many workers, in one process or in many, share the jobs of a store. A job that fails comes back later and later, and is
laid aside in the end. Every job is safe to run twice: a worker that dies leaves its job to the next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta

from holdfast.domain.job import Job
from holdfast.domain.times import Clock
from holdfast.errors import HoldfastError, StorageError, StoreUnavailable
from holdfast.storage.base import Progress, Store, Wanted

log = logging.getLogger("holdfast.jobs")

Handler = Callable[[Job], bool]  # True when there is more of it to do

_LEASE = timedelta(minutes=5)
_ATTEMPTS = 50  # nearly two days: an outage passes
_LONGEST_WAIT_S = 3600
_LOOK_AGAIN_S = 5.0  # another process may have asked for work


class Worker:
    """``stop`` is set when it is to end: a handler that takes long looks there."""

    def __init__(
        self, store: Store, clock: Clock, handlers: Mapping[Wanted, Handler], stop: threading.Event | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._handlers = handlers
        self._turn = threading.Lock()  # one job at a time, whether by the thread or by a caller
        self._starting = threading.Lock()
        self._wake = threading.Event()
        self._stop = stop or threading.Event()
        self._stays = False
        self._thread: threading.Thread | None = None

    def run(self, *, until_idle: bool, progress: Progress | None = None) -> int:
        """Do what is due now: one job, or all of them. Answers how many were begun."""
        if self._stop.is_set():
            raise StoreUnavailable("this store is closed; open it again")
        begun = 0
        while self._one():
            begun += 1
            if progress is not None:
                progress("jobs", begun, begun + self._store.count_jobs(list(self._handlers)))
            if not until_idle:
                break
        return begun

    def start(self, *, stay: bool = False) -> None:
        """Work in a thread: until nothing is left to do, or to ``stay`` for what others will ask for."""
        with self._starting:
            self._stays = self._stays or stay
            self._wake.set()
            if self._handlers and not self._stop.is_set() and self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="holdfast-worker", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Finish the job at hand and no other."""
        with self._starting:
            self._stop.set()
            thread = self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                wait = 0.0 if self._one() else self._until_next()
            except StorageError as error:
                log.warning("the worker cannot reach the store: %s", error)
                wait = _LOOK_AGAIN_S if self._stays else None
            if wait is None and self._leave():
                return
            if wait:
                self._wake.wait(wait)

    def _until_next(self) -> float | None:
        """Seconds until there may be something to do; None when nothing is left and nobody wants it to stay."""
        if self._stays:
            return _LOOK_AGAIN_S
        due = self._store.next_job(list(self._handlers))
        return None if due is None else min(_LOOK_AGAIN_S, max(0.05, (due - self._clock()).total_seconds()))

    def _leave(self) -> bool:
        with self._starting:
            if self._wake.is_set():  # somebody asked for it meanwhile
                return False
            self._thread = None
            return True

    def _one(self) -> bool:
        with self._turn:
            job = None if self._stop.is_set() else self._store.take_job(list(self._handlers), self._clock(), _LEASE)
            if job is None:
                return False
            self._do(job)
            return True

    def _do(self, job: Job) -> None:
        handler = self._handlers.get((job.kind, job.detail)) or self._handlers[job.kind, ""]
        try:
            more = handler(job)
        except Exception as error:  # why: a job's failure is noted with the job, and never the worker's end
            self._put_off(job, error)
        else:
            self._store.finish_job(job, self._clock(), more=more)

    def _put_off(self, job: Job, error: Exception) -> None:
        attempts = job.attempts + 1
        wait = timedelta(seconds=min(2**attempts, _LONGEST_WAIT_S))
        dead = attempts >= _ATTEMPTS
        log.warning(
            "the job %s failed %s: %s",
            job.kind,
            "for the last time" if dead else f"and is tried again in {wait}",
            error,
            exc_info=None if isinstance(error, HoldfastError) else error,
        )
        self._store.fail_job(job, str(error) or type(error).__name__, self._clock() + wait, dead=dead)
