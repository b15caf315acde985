"""The worker with a queue that is a list."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from limpet.config import JobSettings
from limpet.errors import ProviderError, StoreUnavailable
from limpet.model.job import Job
from limpet.model.scope import Level, Partition
from limpet.model.values import Clock
from limpet.store import jobs as jobs_module
from limpet.store import worker as worker_module
from limpet.store.jobs import JobLease
from limpet.store.worker import Worker
from limpet.testing import FakeClock

SPACE = Partition("default", Level.USER, "alice")
LEASE = timedelta(seconds=300)


def job(number: int = 0, detail: str = "a", attempts: int = 1, kind: str = "count") -> Job:
    return Job(number, kind, SPACE, detail, 1, attempts, FakeClock().now + LEASE)


class Jobs:
    """What a worker needs of a queue."""

    def __init__(self, *details: str) -> None:
        self.waiting = [job(at, detail) for at, detail in enumerate(details)]
        self.finished: list[tuple[str, datetime | None]] = []
        self.failed: list[tuple[str, str, datetime, bool]] = []
        self.leases: list[timedelta] = []
        self.taken = False  # by somebody else, from whoever holds one
        self.mended = 0
        self.counted = 0

    def claim(self, wanted: Any, now: datetime, lease: timedelta) -> Job | None:
        self.leases.append(lease)
        for kind, detail in wanted:
            for at, found in enumerate(self.waiting):
                if found.kind == kind and detail in ("", found.detail):
                    return self.waiting.pop(at)
        return None

    def finish(self, job: Job, again: datetime | None = None) -> bool:
        self.finished.append((job.detail, again))
        if again is not None:
            self.waiting.append(job)
        return not self.taken

    def renew(self, job: Job, until: datetime) -> Job | None:
        return None if self.taken else replace(job, leased_until=until)

    def fail(self, job: Job, error: str, run_at: datetime, *, dead: bool) -> bool:
        self.failed.append((job.detail, error, run_at, dead))
        return True

    def release_stuck(self, now: datetime, longest_wait: timedelta) -> int:
        self.mended += 1
        return 0

    def count(self, wanted: Any) -> int:
        self.counted += 1
        return len(self.waiting)

    def next_time(self, wanted: Any) -> datetime | None:
        return FakeClock().now if self.waiting else None


def worker(jobs: Jobs, handler: Any, clock: Clock | None = None, chance: float = 1.0, **config: int) -> Worker:
    made = Worker(jobs, clock or FakeClock(), JobSettings(**config), lambda: chance)  # type: ignore[arg-type]
    made.register("count", handler)
    return made


def test_worker_runs_one_job_or_until_idle() -> None:
    jobs = Jobs("a", "b", "c")
    done: list[str] = []
    seen: list[tuple[str, int, int]] = []
    working = worker(jobs, lambda claim: done.append(claim.job.detail))
    assert working.run(until_idle=False) == 1
    assert working.run(until_idle=True, progress=lambda *step: seen.append(step)) == 2
    assert done == ["a", "b", "c"]
    assert seen == [("jobs", 1, 2), ("jobs", 2, 2)]
    assert working.run(until_idle=True) == 0


def test_worker_progress_does_not_count_queue_after_every_job() -> None:
    jobs = Jobs(*map(str, range(500)))
    seen: list[tuple[str, int, int]] = []
    worker(jobs, lambda _: None).run(until_idle=True, progress=lambda *step: seen.append(step))
    assert (seen[0], seen[-1], len(seen)) == (("jobs", 1, 500), ("jobs", 500, 500), 500)
    assert jobs.counted < 50


def test_job_that_returns_a_time_is_run_again(clock: FakeClock) -> None:
    jobs = Jobs("a")
    later = clock.now + timedelta(hours=1)
    left = [clock.now, later, None]
    assert worker(jobs, lambda _: left.pop(0)).run(until_idle=True) == 3
    assert jobs.finished == [("a", clock.now), ("a", later), ("a", None)]


def test_job_that_returns_naive_time_fails() -> None:
    jobs = Jobs("a")
    worker(jobs, lambda _: datetime(2026, 1, 1)).run(until_idle=True)
    assert "no time zone" in jobs.failed[0][1]
    assert jobs.finished == []


@pytest.mark.parametrize(
    ("attempts", "chance", "wait", "dead"),
    [
        (1, 1.0, timedelta(seconds=2), False),
        (1, 0.25, timedelta(seconds=0.5), False),
        (5, 1.0, timedelta(seconds=32), False),
        (10, 0.5, timedelta(seconds=512), False),
        (49, 0.5, timedelta(minutes=30), False),
        (50, 1.0, timedelta(hours=1), True),
    ],
)
def test_failed_job_is_retried_with_backoff_then_dead(
    attempts: int, chance: float, wait: timedelta, dead: bool, clock: FakeClock
) -> None:
    jobs = Jobs("a", "b")
    jobs.waiting[0] = job(attempts=attempts)

    def handler(lease: JobLease) -> None:
        if lease.job.detail == "a":
            raise ProviderError("told to")

    assert worker(jobs, handler, clock, chance).run(until_idle=True) == 2
    assert jobs.failed == [("a", "told to", clock.now + wait, dead)]
    assert jobs.finished == [("b", None)]


def test_job_settings_control_attempts_wait_and_lease(clock: FakeClock) -> None:
    jobs = Jobs("a", "b")
    jobs.waiting = [job(0, "a", 2), job(1, "b", 3)]

    def handler(_: JobLease) -> None:
        raise ProviderError("told to")

    worker(jobs, handler, clock, attempts=3, longest_wait_s=3, lease_s=7).run(until_idle=True)
    assert [(at, dead) for _, _, at, dead in jobs.failed] == [
        (clock.now + timedelta(seconds=3), False),
        (clock.now + timedelta(seconds=3), True),
    ]
    assert jobs.leases[0] == timedelta(seconds=7)


def test_job_whose_workers_all_died_is_dead_without_another_try() -> None:
    jobs = Jobs()
    jobs.waiting = [job(attempts=51)]
    assert worker(jobs, lambda _: pytest.fail("it was tried once more")).run(until_idle=True) == 1
    [(_, error, _, dead)] = jobs.failed
    assert (dead, "worker ended" in error, "50 times" in error) == (True, True, True)


def test_job_error_omits_text_of_foreign_exceptions(caplog: pytest.LogCaptureFixture) -> None:
    """They may quote what somebody wants forgotten; the log has them."""
    jobs = Jobs("a", "b")
    errors: list[Exception] = [KeyError("alice's secret"), LookupError()]

    def handler(_: JobLease) -> None:
        raise errors.pop(0)

    worker(jobs, handler).run(until_idle=True)
    assert [error for _, error, _, _ in jobs.failed] == [
        "KeyError; the log has its words",
        "LookupError; the log has its words",
    ]
    assert "alice's secret" in caplog.text


def test_worker_alternates_between_job_kinds() -> None:
    jobs = Jobs()
    jobs.waiting = [job(at, "many") for at in range(20)] + [job(at, "few", kind="other") for at in range(20, 23)]
    done: list[str] = []
    working = worker(jobs, lambda claim: done.append(claim.job.detail))
    working.register("other", lambda claim: done.append(claim.job.detail))
    working.run(until_idle=True)
    assert done[:7] == ["many", "few", "many", "few", "many", "few", "many"]
    assert len(done) == 23


def test_job_handler_is_selected_by_detail_then_kind() -> None:
    jobs = Jobs("special", "plain")
    done: list[str] = []
    working = worker(jobs, lambda _: done.append("any"))
    working.register("count", lambda _: done.append("special"), "special")
    working.run(until_idle=True)
    assert sorted(done) == ["any", "special"]


def test_worker_releases_misdated_jobs_only_occasionally() -> None:
    jobs = Jobs(*"abc")
    worker(jobs, lambda _: None).run(until_idle=True)
    assert jobs.mended == 1


# What a handler is given


def test_job_lease_is_renewed_after_a_third_of_its_time(clock: FakeClock) -> None:
    jobs = Jobs("a")
    seen: list[datetime] = []

    def handler(lease: JobLease) -> None:
        for _ in range(4):
            clock.advance(seconds=60)
            lease.renew()
            seen.append(lease.job.leased_until)

    began = clock.now
    worker(jobs, handler, clock).run(until_idle=True)
    minutes = [(until - began).total_seconds() / 60 for until in seen]
    assert minutes == [5, 7, 7, 9]


def test_worker_that_lost_its_lease_does_not_finish_or_fail_job(clock: FakeClock) -> None:
    jobs = Jobs("a")

    def handler(lease: JobLease) -> None:
        jobs.taken = True
        clock.advance(minutes=10)
        lease.renew()

    assert worker(jobs, handler, clock).run(until_idle=True) == 1
    assert (jobs.finished, jobs.failed) == ([], [])


def test_job_finished_in_its_own_transaction_is_not_finished_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = Jobs("a")
    finished: list[Job] = []

    class FinishOnly:
        def __init__(self, tx: object) -> None:
            pass

        def finish(self, job: Job, again: datetime | None) -> None:
            finished.append(job)

    monkeypatch.setattr(jobs_module, "Jobs", FinishOnly)
    worker(jobs, lambda claim: claim.finish(object())).run(until_idle=True)
    assert [one.detail for one in finished] == ["a"]
    assert jobs.finished == []


# In a thread


def test_worker_thread_stops_after_current_job() -> None:
    jobs = Jobs("a", "b")
    begun, go_on = threading.Event(), threading.Event()

    def handler(_: JobLease) -> None:
        begun.set()
        assert go_on.wait(30)

    working = worker(jobs, handler)
    working.start()
    working.start()
    assert begun.wait(30)
    stopping = threading.Thread(target=working.stop)
    stopping.start()
    assert working._stop.wait(30)
    go_on.set()
    stopping.join(30)
    assert not stopping.is_alive()
    assert jobs.finished == [("a", None)]
    working.start()
    with pytest.raises(StoreUnavailable):
        working.run(until_idle=True)
    assert [job.detail for job in jobs.waiting] == ["b"]


def test_worker_thread_and_caller_never_run_jobs_at_once() -> None:
    jobs = Jobs(*"abcdefgh")
    busy, most = [0], [0]

    def handler(_: JobLease) -> None:
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        threading.Event().wait(0.002)
        busy[0] -= 1

    working = worker(jobs, handler)
    working.start()
    working.run(until_idle=True)
    working.stop()
    assert len(jobs.finished) == 8
    assert most == [1]


def test_worker_thread_survives_clock_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_POLL_S", 0.01)
    done, right = threading.Event(), FakeClock()
    wrong = iter([True])

    def clock() -> datetime:
        if next(wrong, False):
            raise OSError("no clock today")
        return right.now

    working = worker(Jobs("a"), lambda _: done.set(), clock)
    working.start()
    assert done.wait(30)
    working.stop()


def test_worker_thread_stops_without_waiting_for_poll_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_POLL_S", 60.0)
    working = worker(Jobs(), None)
    clear = working._wake.clear

    def clear_after_the_bell() -> None:
        working._stop.set()
        working._wake.set()
        clear()

    monkeypatch.setattr(working._wake, "clear", clear_after_the_bell)
    working.start(stay=True)
    thread = working._thread
    assert thread is not None
    thread.join(50)
    still_there = thread.is_alive()
    working.stop()
    assert not still_there


def test_worker_without_handlers_starts_no_thread() -> None:
    working = Worker(Jobs("a"), FakeClock(), JobSettings(), lambda: 1.0)  # type: ignore[arg-type]
    working.start()
    assert working._thread is None
    assert working.run(until_idle=True) == 0
    working.stop()


class Dated(Jobs):
    """Every kind has one job, due at its time."""

    def __init__(self, **due: datetime) -> None:
        super().__init__()
        self.due = due

    def next_time(self, wanted: Any) -> datetime | None:
        return min((self.due[kind] for kind, _ in wanted if kind in self.due), default=None)


def test_worker_thread_ends_when_only_patient_jobs_remain(clock: FakeClock) -> None:
    """What is done daily must not keep a thread of every program awake."""
    tomorrow = clock.now + timedelta(days=1)
    working = worker(jobs := Dated(decay=tomorrow), None, clock)
    working.register("decay", lambda claim: None, patient=True)
    assert not working.has_work(working.job_kinds)
    working.start()
    thread = working._thread
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()
    jobs.due["decay"] = clock.now
    assert working.has_work(working.job_kinds)
    jobs.due = {"decay": tomorrow, "count": tomorrow}
    assert working.has_work(working.job_kinds)


def _renew_while_busy(monkeypatch: pytest.MonkeyPatch, worked_s: float, *, busy_for: int) -> int:
    """How often a job that has worked for so long looks for callers when it renews its lease."""
    spent = iter([0.0] * 3)  # when the thread begins, and around the wait before the job; then it has worked
    monkeypatch.setattr(worker_module, "thread_time", lambda: next(spent, worked_s))
    monkeypatch.setattr(worker_module, "_MAX_YIELD_S", 0.0)
    monkeypatch.setattr(worker_module, "_BUSY_POLL_S", 0.0)
    looks: list[bool] = []
    done: list[int] = []

    def handle(lease: JobLease) -> None:
        looks.clear()
        lease.renew()
        done.append(len(looks))

    def busy() -> bool:
        looks.append(len(looks) < busy_for)
        return looks[-1]

    working = worker(Jobs("a"), handle)
    working.start(busy=busy)
    thread = working._thread
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()
    return done[0]


def test_long_job_waits_between_its_steps_until_callers_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _renew_while_busy(monkeypatch, 10.0, busy_for=5) == 6


def test_job_that_has_hardly_worked_goes_on_while_callers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _renew_while_busy(monkeypatch, 0.0, busy_for=10**9) == 1


def test_job_run_by_a_caller_does_not_wait_for_other_callers() -> None:
    working = worker(Jobs("a"), lambda lease: lease.renew())
    working._busy = lambda: pytest.fail("it asked who waits")
    assert working.run(until_idle=True) == 1
