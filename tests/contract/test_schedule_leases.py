"""Leases of schedules, and clocks that jump."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from limpet import Config, Firing, Limpet
from limpet.errors import LeaseLost
from limpet.schedules.repository import ScheduleQueue, Schedules
from limpet.testing import FakeClock
from tests.contract.rows import sql
from tests.contract.schedule_bench import HOUR, LEASE, Bench
from tests.contract.test_schedules import bench

pytestmark = pytest.mark.every_backend


__all__ = ["bench"]  # fixtures


# Leases


def test_schedule_runner_with_lost_lease_changes_nothing(bench: Bench) -> None:
    made = bench.make()
    bench.clock.advance(hours=1)

    def hang(firing: Firing) -> str:
        """Somebody else takes it over and is done before this one is."""
        if len(bench.fired) == 1:
            bench.clock.advance(seconds=LEASE.total_seconds() + 1)
            assert bench.run() == 1
            assert firing.stopping() is False
            return "too late"
        return "in time"

    bench.answer = hang
    assert bench.run() == 1
    assert [firing.key for firing in bench.fired] == [bench.fired[0].key] * 2
    [run] = bench.schedules.runs(made.id)
    assert (run.summary, run.attempt) == ("in time", 2)
    assert bench.now(made).run_count == 1
    assert [told.text for told in bench.told] == ["in time"]


def test_schedule_runner_with_expired_lease_finishes_unless_claimed(bench: Bench) -> None:
    made = bench.make()
    bench.clock.advance(hours=1)

    def slow(_: Firing) -> str:
        bench.clock.advance(hours=3)
        return "slow"

    bench.answer = slow
    assert bench.run() == 1
    [run] = bench.schedules.runs(made.id)
    assert (run.summary, run.missed) == ("slow", 3)
    assert bench.now(made).next_run_at == made.created_at + 5 * HOUR


def test_schedule_claim_increments_lease_token(bench: Bench) -> None:
    bench.make()
    bench.clock.advance(hours=1)
    first = bench.taken()
    assert bench.take() is None
    bench.clock.advance(seconds=LEASE.total_seconds())
    second = bench.taken()
    assert second.token == first.token + 1
    assert second.schedule.attempts == 2
    assert bench.store.write(lambda tx: ScheduleQueue(tx).renew_lease(first, bench.clock.now + HOUR)) is False
    with pytest.raises(LeaseLost):
        bench.store.write(lambda tx: Schedules(tx).lock_leased(first.schedule.scope, first.schedule.id, first.token))
    assert bench.store.write(lambda tx: ScheduleQueue(tx).renew_lease(second, bench.clock.now + HOUR)) is True
    bench.clock.advance(minutes=30)
    assert bench.take() is None


def test_schedule_lease_is_renewed_during_long_run(
    durable_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds a lease of three seconds for six, and nobody else may take it. The clock waits for a busy machine."""
    config = Config.load(overrides={"schedules.lease_s": 3, "embedding.model": "none"})
    with Limpet.open(durable_url, config=config, clock=clock) as memory:
        made = memory.schedules.create(user="alice", goal="long", cadence="every: 1h", max_runs=1)
        clock.advance(hours=1)
        store: Any = memory._runtime.store
        taken: list[Any] = []
        renewed, renew = threading.Event(), ScheduleQueue.renew_lease

        def told(*args: Any) -> bool:
            done: bool = renew(*args)
            renewed.set()
            return done

        def long(firing: Firing) -> str:
            for _ in range(3):
                clock.advance(seconds=2)
                renewed.clear()
                assert renewed.wait(60), "the lease was not renewed"
                taken.append(store.write(lambda tx: ScheduleQueue(tx).claim(clock.now, clock.now + LEASE)))
            return "held"

        monkeypatch.setattr(ScheduleQueue, "renew_lease", told)
        assert memory.schedules.run(long) == 1
        assert taken == [None, None, None]
        assert memory.schedules.get(made.id).state == "completed"


def test_schedule_firing_is_given_up_when_runner_dies_each_time(bench: Bench) -> None:
    made = bench.make()
    bench.clock.advance(hours=1)
    for _ in range(3):
        bench.taken()
        bench.clock.advance(seconds=LEASE.total_seconds())
    assert bench.run() == 1
    assert bench.fired == []
    [run] = bench.schedules.runs(made.id)
    assert run.error == "its runner ended before it did, 3 times"
    assert (bench.now(made).next_run_at, bench.now(made).failures) == (made.created_at + 2 * HOUR, 1)


def test_schedule_changes_during_run_are_kept(bench: Bench) -> None:
    made = bench.make()

    def meddle(_: Firing) -> str:
        # As somebody else does, in another thread.
        thread = threading.Thread(target=lambda: bench.schedules.edit(made.id, cadence="every: 5h", goal="new"))
        thread.start()
        thread.join()
        return "done"

    bench.answer = meddle
    after = bench.go_to_next(made)
    assert (after.cadence, after.goal, after.run_count) == ("every: 5h", "new", 1)
    assert after.next_run_at == bench.clock.now + 5 * HOUR
    assert len(bench.schedules.runs(made.id)) == 1
    bench.answer = lambda firing: bench.schedules.pause(made.id).id
    after = bench.go_to_next(made)
    assert (after.state, after.next_run_at, after.run_count) == ("paused", None, 2)

    once = bench.make("once: 2026-03-11T13:00")
    bench.answer = lambda firing: bench.schedules.pause(once.id).id
    assert bench.go_to_next(once).state == "completed"

    def remove(_: Firing) -> None:
        bench.schedules.delete(made.id)

    bench.answer = remove
    bench.schedules.resume(made.id)
    bench.clock.advance(hours=5)
    assert bench.run() == 1
    assert [one.id for one in bench.schedules.search()] == [once.id]
    assert sql(bench.memory, "SELECT schedule_id FROM schedule_runs") == [(once.id,)]


# Clocks


def test_schedule_does_not_fire_again_when_clock_moves_back(bench: Bench) -> None:
    made = bench.make("cron: 0 * * * *")
    for _ in range(3):
        bench.go_to_next(made)
    before = bench.now(made).next_run_at
    assert before is not None
    bench.clock.advance(days=-2)
    while bench.clock.now < before:
        assert bench.run() == 0
        assert bench.now(made).next_run_at == before
        bench.clock.advance(minutes=45)
    assert bench.run() == 1
    assert [firing.due_at.hour for firing in bench.fired] == [13, 14, 15, 16]


def test_schedule_fires_once_when_clock_moves_forward(bench: Bench) -> None:
    made = bench.make("cron: 0 * * * *")
    bench.clock.advance(days=3, minutes=30)
    assert bench.run() == 1
    assert bench.run() == 0
    assert bench.schedules.runs(made.id)[0].missed == 71


@pytest.mark.parametrize("cadence", ["cron: 0 * * * *", "every: 1h"])
def test_schedule_recovers_firings_after_clock_was_far_ahead(bench: Bench, cadence: str) -> None:
    """What fired while the clock was wrong does not fire again when its time comes, and nothing else is lost."""
    made = bench.make(cadence)
    right = bench.clock.now
    bench.clock.now = right + timedelta(hours=5, minutes=30)
    assert bench.run() == 1  # for 13:00, which is yet to come; it stands for four more
    bench.clock.advance(hours=1)
    assert bench.run() == 1  # for 18:00
    bench.clock.now = right + timedelta(minutes=5)
    assert bench.run() == 0
    assert bench.now(made).next_run_at == right + 2 * HOUR
    while bench.clock.now < right + 8 * HOUR:
        bench.clock.advance(minutes=5)
        bench.run()
    dues = [(firing.due_at - right) // HOUR for firing in bench.fired]
    assert dues == [1, 6, 2, 3, 4, 5, 7, 8]
    assert bench.now(made).next_run_at == right + 9 * HOUR


def test_schedule_never_fires_twice_for_same_time_when_clock_jumps(bench: Bench) -> None:
    """The clock goes ahead, back, and ahead again: what is in between is counted once each, and fires at most once."""
    made = bench.make("cron: 0 * * * *")
    right = bench.clock.now
    for hours in (10.5, 0.5, 4.5, 2.5, 7.5, 30.5, 12.5, 48.5):
        bench.clock.now = right + hours * HOUR
        bench.run()
    dues = [firing.due_at for firing in bench.fired]
    assert len(dues) == len(set(dues))
    assert bench.now(made).next_run_at == right + 49 * HOUR


def test_schedule_lease_from_clock_far_ahead_is_released(bench: Bench) -> None:
    bench.make()
    bench.clock.advance(days=30)
    bench.taken()
    bench.clock.advance(days=-29)
    assert bench.run() == 1


def test_schedule_with_unknown_timezone_is_left_to_other_runners(bench: Bench) -> None:
    made = bench.make()
    sql(bench.memory, "UPDATE schedules SET timezone = 'Mars/Olympus'")
    bench.clock.advance(hours=1)
    assert bench.run() == 1
    assert bench.fired == []
    sql(bench.memory, "UPDATE schedules SET timezone = 'UTC'")
    assert bench.run() == 0
    bench.clock.advance(seconds=LEASE.total_seconds())
    assert bench.run() == 1
    assert bench.fired[0].attempt == 1
    assert bench.now(made).run_count == 1
