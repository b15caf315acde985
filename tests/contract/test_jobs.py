"""Background jobs on every backend: asked for, leased, settled, looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.errors import InvalidInput
from limpet.model.job import Job, JobQuery
from limpet.model.scope import Level, Partition, Scope
from limpet.model.values import from_micros
from limpet.store.jobs import JobLease, JobQueue, Jobs
from limpet.testing import FakeClock
from tests.contract.rows import sql

pytestmark = pytest.mark.every_backend

KIND = "count"
WANTED = [(KIND, "")]
LEASE = timedelta(minutes=5)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def no_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only jobs are those of a test."""
    monkeypatch.setenv("LIMPET_RETENTION_ENABLED", "false")
    monkeypatch.setenv("LIMPET_NOTES_ITEMS", "false")


class Bench:
    """A store with a clock, and jobs on it by their bare names."""

    def __init__(self, memory: Limpet, clock: FakeClock) -> None:
        self.memory, self.clock = memory, clock
        self.store: Any = memory._runtime.store
        self.worker = memory._runtime.worker

    def ask(self, detail: str = "", after: timedelta | None = None, kind: str = KIND, owner: str = "alice") -> None:
        run_at = None if after is None else self.clock.now + after
        space = Partition("default", Level.USER, owner)
        self.store.write(lambda tx: Jobs(tx).enqueue(space, kind, detail, self.clock.now, run_at))

    def take(self, *kinds: str) -> Job | None:
        wanted = [(kind, "") for kind in kinds] or WANTED
        taken: Job | None = JobQueue(self.store).claim(wanted, self.clock.now, LEASE)
        return taken

    def taken(self) -> Job:
        job = self.take()
        assert job is not None
        return job

    def note(self, tx: Any, text: str) -> None:
        """An effect that would show if it were made twice."""
        tx.db.execute_sql(
            "INSERT INTO properties (name, value) VALUES (:name, '1')"
            " ON CONFLICT (name) DO UPDATE SET value = properties.value || '1'",
            {"name": f"effect {text}"},
        )

    def do(self, text: str, finish: Callable[[Any], None]) -> None:
        """The effect and the end of its job in one transaction."""

        def work(tx: Any) -> None:
            self.note(tx, text)
            finish(tx)

        self.store.write(work)

    def effects(self) -> dict[str, int]:
        rows = sql(self.memory, "SELECT name, value FROM properties WHERE name LIKE 'effect %'")
        return {name.removeprefix("effect "): len(value) for name, value in rows}


@pytest.fixture
def bench(timed: Limpet, clock: FakeClock) -> Bench:
    return Bench(timed, clock)


# Asked for


def test_job_enqueued_twice_runs_once(bench: Bench) -> None:
    bench.ask()
    bench.ask()
    bench.ask("other")
    done: list[str] = []
    bench.worker.register(KIND, lambda claim: done.append(claim.job.detail))
    assert bench.memory.jobs.run() == 2
    assert done == ["", "other"]
    assert bench.memory.jobs.list() == []


def test_job_enqueued_while_running_runs_once_more(bench: Bench) -> None:
    bench.ask()
    done: list[int] = []

    def handler(lease: JobLease) -> None:
        done.append(lease.job.asked)
        if len(done) == 1:
            bench.ask()
            bench.ask()

    bench.worker.register(KIND, handler)
    assert bench.memory.jobs.run() == 2
    assert done == [1, 3]
    assert bench.memory.jobs.list() == []


def test_enqueue_is_rolled_back_with_its_transaction(bench: Bench) -> None:
    def work(tx: Any) -> None:
        Jobs(tx).enqueue(Partition("default", Level.USER, "alice"), KIND, "", bench.clock.now)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.store.write(work)
    assert bench.memory.jobs.list() == []


def test_enqueue_can_only_bring_run_time_forward(bench: Bench) -> None:
    bench.ask(after=HOUR)
    assert bench.take() is None
    bench.ask(after=2 * HOUR)  # no reason to delay it
    assert bench.memory.jobs.list()[0].run_at == bench.clock.now + HOUR
    bench.ask(after=timedelta(minutes=10))
    assert bench.memory.jobs.list()[0].run_at == bench.clock.now + timedelta(minutes=10)
    bench.ask()
    assert bench.take() is not None


def test_enqueue_does_not_shorten_backoff_of_failed_job(bench: Bench) -> None:
    bench.ask()
    job = bench.taken()
    JobQueue(bench.store).fail(job, "no", bench.clock.now + HOUR, dead=False)
    bench.ask()
    assert bench.take() is None
    bench.clock.advance(hours=1)
    assert bench.taken().attempts == 2


@pytest.mark.parametrize(("delay", "due"), [(timedelta(seconds=-9), 0), (timedelta(minutes=2), 2), (10 * HOUR, 5)])
def test_job_enqueued_with_delay_while_running_runs_at_that_time(bench: Bench, delay: timedelta, due: int) -> None:
    """At the end of the lease at the latest: were its worker to die, it would be due then anyhow."""
    bench.ask()
    job = bench.taken()
    began = bench.clock.now
    bench.ask(after=delay)
    bench.ask(after=20 * HOUR)
    assert bench.take() is None
    bench.clock.advance(seconds=1)
    assert JobQueue(bench.store).finish(job)
    while (again := bench.take()) is None:
        bench.clock.advance(minutes=1)
    assert (bench.clock.now - began) // timedelta(minutes=1) == due
    assert again.attempts == 1


def test_job_handler_can_reschedule_itself(bench: Bench) -> None:
    bench.ask()
    runs: list[Any] = []

    def hourly(lease: JobLease) -> Any:
        runs.append(lease.now())
        return lease.now() + HOUR

    bench.worker.register(KIND, hourly)
    for _ in range(3):
        assert bench.memory.jobs.run() == 1
        bench.clock.advance(minutes=59)
        assert bench.memory.jobs.run() == 0
        bench.clock.advance(minutes=1)
    assert len(runs) == 3
    bench.ask()  # sooner than its own time
    assert bench.memory.jobs.run() == 1


def test_job_handler_reschedule_does_not_delay_earlier_enqueue(bench: Bench) -> None:
    bench.ask()
    job = bench.taken()
    bench.ask(after=timedelta(minutes=1))
    assert JobQueue(bench.store).finish(job, again=bench.clock.now + HOUR)
    assert bench.memory.jobs.list()[0].run_at == bench.clock.now + timedelta(minutes=1)


def test_job_success_resets_attempts_and_error(bench: Bench) -> None:
    bench.ask()
    JobQueue(bench.store).fail(bench.taken(), "no", bench.clock.now, dead=False)
    assert bench.memory.jobs.list()[0].error == "no"
    JobQueue(bench.store).finish(bench.taken(), again=bench.clock.now)
    [waiting] = bench.memory.jobs.list()
    assert (waiting.attempts, waiting.error) == (0, None)


# Kinds


def test_worker_leaves_unknown_job_kinds_to_others(bench: Bench) -> None:
    bench.ask(kind="of a later release")
    bench.ask()
    bench.worker.register(KIND, lambda _: None)
    assert bench.memory.jobs.run() == 1
    assert [(job.kind, job.attempts, job.state) for job in bench.memory.jobs.list()] == [
        ("of a later release", 0, "waiting")
    ]
    assert JobQueue(bench.store).next_time(bench.worker.job_kinds) is None


def test_worker_alternates_between_job_kinds(bench: Bench) -> None:
    for number in range(40):
        bench.ask(str(number), after=timedelta(days=-1))
    bench.ask(kind="rare")
    order: list[str] = []
    bench.worker.register(KIND, lambda claim: order.append(claim.job.kind))
    bench.worker.register("rare", lambda claim: order.append(claim.job.kind))
    bench.memory.jobs.run()
    assert order.index("rare") <= 1
    assert len(order) == 41


def test_worker_claims_longest_waiting_job_of_kind_first(bench: Bench) -> None:
    for minutes in (3, 1, 2):
        bench.ask(str(minutes), after=timedelta(minutes=-minutes))
    assert [bench.taken().detail for _ in range(3)] == ["3", "2", "1"]


def test_worker_that_has_done_all_it_knew_of_begins_no_write(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.ask("first")
    bench.ask("second")
    queue, write = JobQueue(bench.store), bench.store.write
    taken: list[str] = []
    writes: list[object] = []

    def count_and_write(work: Callable[[Any], Any]) -> Any:
        writes.append(work)
        return write(work)

    monkeypatch.setattr(bench.store, "write", count_and_write)
    while (job := queue.claim(WANTED, bench.clock.now, LEASE)) is not None:
        taken.append(job.detail)
    assert (sorted(taken), len(writes)) == (["first", "second"], 2)


def test_users_with_many_jobs_let_others_go_first(bench: Bench) -> None:
    for number in range(5):
        bench.ask(str(number), owner="alice")
    bench.ask("only", owner="bob", after=timedelta(seconds=1))
    bench.clock.advance(seconds=2)
    queue = JobQueue(bench.store)
    claimed = [queue.claim(WANTED, bench.clock.now, LEASE) for _ in range(7)]
    assert [job.partition.owner for job in claimed if job is not None] == ["alice", "bob", *["alice"] * 4]
    assert claimed[-1] is None


def test_workers_of_several_machines_share_the_buckets(bench: Bench) -> None:
    for number in range(40):
        bench.ask(owner=f"user {number}")
    queues = [JobQueue(bench.store), JobQueue(bench.store)]
    claimed = [queue.claim(WANTED, bench.clock.now, LEASE) for _ in range(20) for queue in queues]
    assert sorted(job.partition.owner for job in claimed if job is not None) == sorted(f"user {at}" for at in range(40))
    assert [queue.claim(WANTED, bench.clock.now, LEASE) for queue in queues] == [None, None]


def test_claim_query_uses_index_without_sort(bench: Bench) -> None:
    if bench.memory.admin.stats()["backend"] == "postgres":
        pytest.skip("which plan is chosen there depends on the statistics")
    query = (
        "EXPLAIN QUERY PLAN SELECT id FROM jobs WHERE bucket = 1 AND dead = 0 AND run_at <= 5 AND leased_until <= 5"
        " AND (kind = 'x') ORDER BY run_at, created_at, id LIMIT 1"
    )
    plan = " ".join(str(row) for row in sql(bench.memory, query))
    assert "jobs_of_bucket" in plan
    assert "TEMP B-TREE" not in plan


# Looked at


def test_jobs_are_listed_with_state_attempts_and_error(bench: Bench) -> None:
    now = bench.clock.now
    for at, owner in enumerate(("dead", "running", "waiting")):
        bench.ask("session 1", timedelta(seconds=at - 3), owner=owner)
    bench.ask("x", HOUR, kind="other")
    JobQueue(bench.store).fail(bench.taken(), "the model said no", now, dead=True)
    running = bench.taken()
    found = {(job.owner if job.kind == KIND else job.kind): job for job in bench.memory.jobs.list()}
    assert {name: (job.state, job.attempts, job.error) for name, job in found.items()} == {
        "dead": ("dead", 1, "the model said no"),
        "running": ("running", 1, None),
        "waiting": ("waiting", 0, None),
        "other": ("waiting", 0, None),
    }
    assert found["running"].leased_until == running.leased_until == now + LEASE
    assert found["waiting"].leased_until is None
    assert (found["other"].run_at, found["other"].created_at) == (now + HOUR, now)
    assert (found["dead"].tenant, found["dead"].level, found["dead"].detail) == ("default", Level.USER, "session 1")
    assert [job.owner for job in bench.memory.jobs.list(state="dead")] == ["dead"]
    assert [job.owner for job in bench.memory.jobs.list(state="running")] == ["running"]
    assert [job.kind for job in bench.memory.jobs.list(state="waiting")] == [KIND, "other"]
    assert [job.kind for job in bench.memory.jobs.list(kind="other")] == ["other"]
    listed = [job.id for job in bench.memory.jobs.list()]
    assert [job.id for job in bench.memory.jobs.list(limit=2)] + [
        job.id for job in bench.memory.jobs.list(offset=2)
    ] == listed
    bench.clock.advance(minutes=6)
    assert [job.owner for job in bench.memory.jobs.list(state="waiting", kind=KIND)] == ["waiting", "running"]


def test_dead_jobs_can_be_retried_or_dropped(bench: Bench) -> None:
    for detail in "abcd":
        bench.ask(detail)
        JobQueue(bench.store).fail(bench.taken(), "no", bench.clock.now, dead=True)
    bench.ask("waiting", HOUR)
    a, b, c, d, waiting = (job.id for job in sorted(bench.memory.jobs.list(), key=lambda job: job.id))
    assert bench.memory.jobs.retry([a, waiting]) == 1
    assert bench.memory.jobs.retry([]) == 0
    assert bench.memory.jobs.retry(kind="other") == 0
    assert bench.memory.jobs.drop([a, b, waiting, 10**9]) == 1
    assert {job.id: job.state for job in bench.memory.jobs.list()} == {
        a: "waiting",
        c: "dead",
        d: "dead",
        waiting: "waiting",
    }
    assert bench.memory.jobs.retry([c], kind=KIND) == 1
    assert bench.memory.jobs.retry() == 1
    retried = [job for job in bench.memory.jobs.list() if job.id != waiting]
    assert {(job.state, job.attempts, job.run_at) for job in retried} == {("waiting", 0, bench.clock.now)}
    assert bench.memory.jobs.drop([]) == 0


def test_jobs_are_isolated_by_tenant(bench: Bench) -> None:
    space = Partition("acme", Level.GLOBAL, "")
    bench.store.write(lambda tx: Jobs(tx).enqueue(space, KIND, "", bench.clock.now))
    JobQueue(bench.store).fail(bench.taken(), "no", bench.clock.now, dead=True)
    [job] = bench.memory.tenant("acme").jobs.list()
    assert bench.memory.jobs.list() == []
    assert (bench.memory.jobs.retry([job.id]), bench.memory.jobs.retry(), bench.memory.jobs.drop([job.id])) == (0, 0, 0)
    assert bench.memory.tenant("acme").jobs.drop([job.id]) == 1


def test_job_operations_reject_scope_narrower_than_tenant(bench: Bench) -> None:
    narrow = Scope("default", user="alice")
    for call in (
        lambda tx: Jobs(tx).find(narrow, JobQuery(), bench.clock.now),
        lambda tx: Jobs(tx).retry(narrow, None, None, bench.clock.now),
        lambda tx: Jobs(tx).drop(narrow, [1]),
    ):
        with pytest.raises(InvalidInput, match="by tenant"):
            bench.store.write(call)


@pytest.mark.parametrize("ids", ["1", 5, [1.5], ["1"], [-1], [True], range(10_001), [2**70]])
def test_retry_and_drop_reject_invalid_job_ids(bench: Bench, ids: Any) -> None:
    with pytest.raises(InvalidInput):
        bench.memory.jobs.drop(ids)
    with pytest.raises(InvalidInput):
        bench.memory.jobs.retry(ids)


def test_jobs_reject_unknown_state(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="waiting, running, dead"):
        bench.memory.jobs.list(state="sleeping")


def test_job_enqueued_without_time_is_due_immediately(bench: Bench) -> None:
    bench.store.write(lambda tx: Jobs(tx).enqueue(Partition("default", Level.USER, "a"), KIND, "", from_micros(0)))
    [job] = bench.memory.jobs.list()
    assert (job.run_at, job.created_at) == (None, None)


# The thread of a process


def test_worker_disabled_by_setting_starts_no_thread(durable_url: str) -> None:
    overrides = {"embedding.model": "hashed", "embedding.when": "later", "jobs.worker": False, "graph.enabled": False}
    config = Config.load(overrides=overrides)
    for _ in range(2):
        with Limpet.open(durable_url, config=config) as memory:
            memory.session("t", "1", user="alice").append("user", "the puppy slept")
            assert memory._runtime.worker._thread is None
    with Limpet.open(durable_url, config=config) as memory:
        assert memory.jobs.run() == 1


def test_job_handler_sees_stopping_when_store_closes(durable_url: str, clock: FakeClock) -> None:
    begun, seen = threading.Event(), []

    def handler(lease: JobLease) -> Any:
        begun.set()
        while not lease.stopping():
            threading.Event().wait(0.005)
        seen.append(lease.stopping())
        return lease.now()

    with Limpet.open(durable_url, clock=clock) as memory:
        bench = Bench(memory, clock)
        bench.ask()
        bench.worker.register(KIND, handler)
        memory.jobs.start_worker()
        assert begun.wait(60)
    assert seen == [True]
    with Limpet.open(durable_url, clock=clock) as memory:
        assert [job.state for job in memory.jobs.list()] == ["waiting"]
