"""The worker with a store that only keeps jobs."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest

from holdfast.domain.job import Job
from holdfast.domain.scope import Level, Space
from holdfast.errors import StorageError, StoreUnavailable
from holdfast.schedule.worker import Worker
from tests.conftest import FakeClock

SPACE = Space("default", Level.USER, "alice")
KIND = ("count", "")


class Jobs:
    """What a worker needs of a store."""

    def __init__(self, *details: str) -> None:
        self.waiting = [Job(at, "count", SPACE, detail, 1, 0) for at, detail in enumerate(details)]
        self.finished: list[tuple[str, bool]] = []
        self.failed: list[tuple[str, str, datetime, bool]] = []
        self.leases: list[timedelta] = []
        self.broken = 0

    def take_job(self, wanted: Any, now: datetime, lease: timedelta) -> Job | None:
        if self.broken:
            self.broken -= 1
            raise StorageError("gone for now")
        self.leases.append(lease)
        return self.waiting.pop(0) if self.waiting and wanted else None

    def finish_job(self, job: Job, now: datetime, *, more: bool = False) -> None:
        self.finished.append((job.detail, more))
        if more:
            self.waiting.append(job)

    def fail_job(self, job: Job, error: str, run_at: datetime, *, dead: bool) -> None:
        self.failed.append((job.detail, error, run_at, dead))

    def count_jobs(self, wanted: Any) -> int:
        return len(self.waiting)

    def next_job(self, wanted: Any) -> datetime | None:
        return FakeClock().now if self.waiting else None


def worker(jobs: Jobs, handler: Any, clock: FakeClock | None = None) -> Worker:
    return Worker(jobs, clock or FakeClock(), {KIND: handler})  # type: ignore[arg-type]


def test_one_job_or_all_that_are_due() -> None:
    jobs = Jobs("a", "b", "c")
    done: list[str] = []
    seen: list[tuple[str, int, int]] = []
    working = worker(jobs, lambda job: done.append(job.detail))
    assert working.run(until_idle=False) == 1
    assert working.run(until_idle=True, progress=lambda *step: seen.append(step)) == 2
    assert done == ["a", "b", "c"]
    assert seen == [("jobs", 1, 2), ("jobs", 2, 2)]
    assert working.run(until_idle=True) == 0


def test_a_job_with_more_to_do_comes_again() -> None:
    jobs = Jobs("a")
    left = [True, True, False]
    assert worker(jobs, lambda _: left.pop(0)).run(until_idle=True) == 3
    assert jobs.finished == [("a", True), ("a", True), ("a", False)]


@pytest.mark.parametrize(
    ("attempts", "wait", "dead"),
    [
        (0, timedelta(seconds=2), False),
        (4, timedelta(seconds=32), False),
        (9, timedelta(seconds=1024), False),
        (49, timedelta(hours=1), True),
    ],
)
def test_a_failed_job_comes_back_later_and_later_and_is_laid_aside_in_the_end(
    attempts: int, wait: timedelta, dead: bool, clock: FakeClock
) -> None:
    jobs = Jobs("a", "b")
    jobs.waiting[0] = Job(0, "count", SPACE, "a", 1, attempts)

    def handler(job: Job) -> bool:
        if job.detail == "a":
            raise ZeroDivisionError("told to")
        return False

    assert worker(jobs, handler, clock).run(until_idle=True) == 2
    assert jobs.failed == [("a", "told to", clock.now + wait, dead)]
    assert jobs.finished == [("b", False)]


def test_an_error_without_words_is_named() -> None:
    jobs = Jobs("a")

    def handler(_: Job) -> bool:
        raise KeyError

    worker(jobs, handler).run(until_idle=True)
    assert jobs.failed[0][1] == "KeyError"


def test_a_thread_works_until_it_is_stopped_and_finishes_the_job_at_hand() -> None:
    jobs = Jobs("a", "b")
    begun, go_on = threading.Event(), threading.Event()

    def handler(_: Job) -> bool:
        begun.set()
        assert go_on.wait(30)
        return False

    working = worker(jobs, handler)
    working.start()
    working.start()
    assert begun.wait(30)
    stopping = threading.Thread(target=working.stop)
    stopping.start()
    go_on.set()
    stopping.join(30)
    assert not stopping.is_alive()
    assert jobs.finished == [("a", False)]
    working.start()
    with pytest.raises(StoreUnavailable):
        working.run(until_idle=True)
    assert [job.detail for job in jobs.waiting] == ["b"]


def test_a_thread_and_a_caller_take_turns() -> None:
    jobs = Jobs(*"abcdefgh")
    busy, most = [0], [0]

    def handler(_: Job) -> bool:
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        threading.Event().wait(0.002)
        busy[0] -= 1
        return False

    working = worker(jobs, handler)
    working.start()
    working.run(until_idle=True)
    working.stop()
    assert len(jobs.finished) == 8
    assert most == [1]


def test_nothing_to_handle_starts_no_thread() -> None:
    working = Worker(Jobs("a"), FakeClock(), {})  # type: ignore[arg-type]
    working.start()
    assert working._thread is None
    assert working.run(until_idle=True) == 0
    working.stop()
