"""Leases of jobs, attempts, and clocks that jump."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.errors import LeaseLost, ProviderError
from limpet.model.job import Job
from limpet.model.scope import Level, Partition
from limpet.store.jobs import JobLease, JobQueue, Jobs
from limpet.testing import FakeClock
from tests.contract.rows import sql
from tests.contract.test_jobs import HOUR, KIND, LEASE, Bench, bench
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend


__all__ = ["bench"]  # fixtures


# Leases


def test_job_with_lost_lease_cannot_finish_fail_or_renew(bench: Bench) -> None:
    bench.ask()
    hung = bench.taken()
    bench.clock.advance(seconds=LEASE.total_seconds())
    other = bench.taken()
    before = sql(bench.memory, "SELECT * FROM jobs")
    assert JobQueue(bench.store).finish(hung) is False
    assert JobQueue(bench.store).finish(hung, again=bench.clock.now) is False
    assert JobQueue(bench.store).fail(hung, "late", bench.clock.now, dead=True) is False
    assert JobQueue(bench.store).renew(hung, bench.clock.now + HOUR) is None
    assert sql(bench.memory, "SELECT * FROM jobs") == before
    assert JobQueue(bench.store).finish(other) is True
    assert bench.memory.jobs.list() == []
    assert JobQueue(bench.store).fail(hung, "later", bench.clock.now, dead=True) is False
    assert bench.memory.jobs.list() == []


def test_job_with_expired_lease_can_finish_until_claimed_again(bench: Bench) -> None:
    bench.ask()
    slow = bench.taken()
    bench.clock.advance(hours=1)
    assert JobQueue(bench.store).finish(slow) is True


def test_job_lease_renewal_keeps_job(bench: Bench) -> None:
    bench.ask()
    job = bench.taken()
    bench.clock.advance(minutes=4)
    renewed = JobQueue(bench.store).renew(job, bench.clock.now + LEASE)
    assert JobQueue(bench.store).finish(job) is False  # that lease is no more
    bench.clock.advance(minutes=4)
    assert bench.take() is None
    assert renewed is not None
    assert JobQueue(bench.store).finish(renewed) is True


def test_job_effect_and_finish_share_one_transaction(bench: Bench) -> None:
    bench.ask("x")
    hung = bench.taken()

    def do(job: Job) -> None:
        bench.do(job.detail, lambda tx: Jobs(tx).finish(job))

    bench.clock.advance(minutes=6)
    other = bench.taken()
    with pytest.raises(LeaseLost):
        do(hung)
    assert bench.effects() == {}
    do(other)
    with pytest.raises(LeaseLost):
        do(hung)
    with pytest.raises(LeaseLost):
        do(other)
    assert bench.effects() == {"x": 1}
    assert bench.memory.jobs.list() == []


def test_lost_lease_fails_only_its_caller_in_group_commit(bench: Bench) -> None:
    """In a commit shared by several callers the others' work stays."""
    bench.ask("x")
    hung = bench.taken()
    bench.clock.advance(minutes=6)
    bench.taken()

    def call(number: int) -> bool:
        def work(tx: Any) -> None:
            bench.note(tx, str(number))
            if number == 3:
                Jobs(tx).finish(hung)

        try:
            bench.store.write(work)
        except LeaseLost:
            return False
        return True

    assert at_once(call) == [number != 3 for number in range(8)]
    assert bench.effects() == {str(number): 1 for number in range(8) if number != 3}


def test_worker_finishes_job_in_transaction_of_handler(bench: Bench) -> None:
    for number in range(5):
        bench.ask(str(number))

    bench.worker.register(KIND, lambda claim: bench.do(claim.job.detail, claim.finish))
    assert bench.memory.jobs.run() == 5
    assert bench.effects() == {str(number): 1 for number in range(5)}
    assert bench.memory.jobs.list() == []


def test_job_stays_finished_when_handler_fails_afterwards(bench: Bench) -> None:
    bench.ask("x")

    def handler(lease: JobLease) -> None:
        bench.do("x", lease.finish)
        raise ProviderError("too late to fail")

    bench.worker.register(KIND, handler)
    assert bench.memory.jobs.run() == 1
    assert bench.memory.jobs.list() == []


def test_worker_with_lost_lease_has_no_effect(bench: Bench) -> None:
    """Through the worker: its job is done by another while it hangs."""
    bench.ask("x")

    def hang(lease: JobLease) -> None:
        bench.clock.advance(minutes=6)
        other = bench.taken()
        bench.do("x", lambda tx: Jobs(tx).finish(other))
        bench.ask("x")  # and asked for anew: not what the hung one was given
        bench.do("x", lease.finish)

    bench.worker.register(KIND, hang)
    assert bench.memory.jobs.run(until_idle=False) == 1
    assert bench.effects() == {"x": 1}
    assert [job.state for job in bench.memory.jobs.list()] == ["waiting"]


def test_claim_from_many_threads_gives_distinct_jobs(bench: Bench) -> None:
    for number in range(8):
        bench.ask(str(number))
    found = at_once(lambda _: bench.take())
    assert sorted(job.detail for job in found if job is not None) == [str(number) for number in range(8)]


@pytest.mark.postgres
def test_claim_skips_locked_row_on_postgres(postgres_url: str, clock: FakeClock) -> None:
    import psycopg

    with Limpet.open(postgres_url, clock=clock) as memory, psycopg.connect(postgres_url) as outside:
        bench = Bench(memory, clock)
        bench.ask("first")
        bench.ask("second")
        bucket = Partition("default", Level.USER, "alice").bucket
        outside.execute("SELECT 1 FROM jobs WHERE bucket = %s AND detail = 'first' FOR UPDATE", [bucket])
        assert bench.taken().detail == "second"
        outside.rollback()
        assert bench.taken().detail == "first"


# Failing


def test_job_that_kills_its_worker_is_dead_after_last_attempt(bench: Bench) -> None:
    bench.ask("poison")
    bench.ask("good")
    done: list[str] = []

    def handler(lease: JobLease) -> None:
        if lease.job.detail == "poison":
            raise KeyboardInterrupt  # as a kill does: nobody notes anything
        done.append(lease.job.detail)

    bench.worker.register(KIND, handler)
    deaths = 0
    for _ in range(60):
        try:
            bench.memory.jobs.run()
        except KeyboardInterrupt:
            deaths += 1
        bench.clock.advance(minutes=6)
    assert (deaths, done) == (50, ["good"])
    [dead] = bench.memory.jobs.list()
    assert (dead.state, dead.detail) == ("dead", "poison")
    assert "its worker ended before the job did, 50 times" in (dead.error or "")


def test_job_attempts_and_lease_come_from_settings(store_url: str, clock: FakeClock) -> None:
    config = Config.load(overrides={"jobs.attempts": 2, "jobs.lease_s": 10, "jobs.worker": False})
    with Limpet.open(store_url, config=config, clock=clock) as memory:
        bench = Bench(memory, clock)
        bench.ask()

        def handler(lease: JobLease) -> None:
            assert lease.job.leased_until == clock.now + timedelta(seconds=10)
            raise ProviderError("down")

        bench.worker.register(KIND, handler)
        for _ in range(3):
            memory.jobs.run()
            clock.advance(minutes=1)
        [dead] = memory.jobs.list(state="dead")
        assert (dead.attempts, dead.error) == (2, "down")


def test_job_enqueued_during_last_attempt_is_not_dead(bench: Bench) -> None:
    bench.ask()
    job = bench.taken()
    bench.ask()
    assert JobQueue(bench.store).fail(job, "no", bench.clock.now, dead=True)
    [waiting] = bench.memory.jobs.list()
    assert (waiting.state, waiting.attempts) == ("waiting", 0)


# Clocks


def test_job_lease_from_clock_far_ahead_is_released(bench: Bench) -> None:
    bench.ask()
    ahead = bench.clock.now
    bench.clock.advance(days=9)
    lost = bench.taken()
    bench.clock.now = ahead
    assert bench.take() is None
    done: list[str] = []
    bench.worker.register(KIND, lambda claim: done.append(claim.job.kind))
    assert bench.memory.jobs.run() == 1  # a worker looks for such when it begins, and every few minutes
    assert done == [KIND]
    assert JobQueue(bench.store).finish(lost) is False


def test_job_lease_slightly_ahead_of_clock_is_kept(bench: Bench) -> None:
    bench.ask()
    now = bench.clock.now
    bench.clock.advance(minutes=40)
    held = bench.taken()
    bench.clock.now = now
    assert JobQueue(bench.store).release_stuck(now, HOUR) == 0
    assert JobQueue(bench.store).finish(held) is True


def test_release_stuck_jobs_resets_run_time_from_clock_far_ahead(bench: Bench) -> None:
    now = bench.clock.now
    bench.ask("failed")
    bench.clock.advance(days=9)
    JobQueue(bench.store).fail(bench.taken(), "no", bench.clock.now + HOUR, dead=False)
    bench.ask("asked")
    bench.ask("in an hour", after=HOUR)
    bench.clock.now = now
    bench.ask("next month", after=timedelta(days=30))
    assert JobQueue(bench.store).release_stuck(now, HOUR) == 3
    assert JobQueue(bench.store).release_stuck(now, HOUR) == 0
    assert {job.detail: job.run_at for job in bench.memory.jobs.list()} == {
        "failed": now,
        "asked": now,
        "in an hour": now + HOUR,
        "next month": now + timedelta(days=30),
    }


def test_clock_jump_runs_job_twice_but_commits_once(bench: Bench) -> None:
    bench.ask("x")
    running = bench.taken()
    now = bench.clock.now
    bench.clock.advance(days=400)
    other = bench.taken()
    bench.do("x", lambda tx: Jobs(tx).finish(other))
    bench.clock.now = now
    with pytest.raises(LeaseLost):
        bench.do("x", lambda tx: Jobs(tx).finish(running))
    assert bench.effects() == {"x": 1}
