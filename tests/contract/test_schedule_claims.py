"""A runner of one's own: it claims due schedules with a lease and finishes them, in this process or over HTTP."""

from __future__ import annotations

import pytest

from limpet import Limpet, Schedule, ScheduleLease
from limpet.errors import InvalidInput, LeaseLost, ScheduleNotFound
from limpet.testing import FakeClock

pytestmark = pytest.mark.every_backend

UNKNOWN = "01890000-0000-7000-8000-000000000000"


def make(memory: Limpet, goal: str = "water the plants", user: str = "alice", cadence: str = "every: 1h") -> Schedule:
    return memory.schedules.create(user=user, goal=goal, cadence=cadence)


def claim_one(memory: Limpet) -> ScheduleLease:
    [lease] = memory.schedules.claim()
    return lease


def test_claim_takes_what_is_due_longest_first(timed: Limpet, clock: FakeClock) -> None:
    first = make(timed)
    clock.advance(minutes=1)
    second, _ = make(timed, user="bob"), make(timed, cadence="every: 2h")
    assert timed.schedules.claim() == []
    clock.advance(hours=1)
    leases = timed.schedules.claim(limit=10)
    assert [lease.schedule.id for lease in leases] == [first.id, second.id]
    assert leases[0].schedule.due_at == first.next_run_at
    assert leases[0].until > clock.now
    assert timed.schedules.claim(limit=10) == []
    assert timed.schedules.get(first.id).running_until == leases[0].until


def test_claim_of_a_user_leaves_the_others(timed: Limpet, clock: FakeClock) -> None:
    make(timed)
    bobs = make(timed, user="bob")
    clock.advance(hours=1)
    assert [lease.schedule.id for lease in timed.schedules.claim("bob", 10)] == [bobs.id]


def test_finish_stores_the_run_and_schedules_the_next(timed: Limpet, clock: FakeClock) -> None:
    made = make(timed)
    clock.advance(hours=1)
    lease = claim_one(timed)
    began = clock.now
    clock.advance(minutes=2)
    run = timed.schedules.finish(made.id, lease.token, text="All are wet.", turns=3, cost=0.25)
    assert (run.status, run.summary, run.turns, run.cost, run.attempt) == ("ok", "All are wet.", 3, 0.25, 1)
    assert (run.due_at, run.started_at, run.ended_at) == (made.next_run_at, began, clock.now)
    assert run.to_notify is True
    assert [each.id for each in timed.schedules.runs(made.id)] == [run.id]
    assert timed.schedules.run_output(run.id).text == "All are wet."
    after = timed.schedules.get(made.id)
    assert (after.run_count, after.running_until, after.last_status) == (1, None, "ok")
    assert after.next_run_at is not None
    assert after.next_run_at > clock.now


def test_finish_with_an_error_is_tried_again(timed: Limpet, clock: FakeClock) -> None:
    made = make(timed)
    clock.advance(hours=1)
    run = timed.schedules.finish(made.id, claim_one(timed).token, error="the hose leaks")
    assert (run.status, run.error) == ("failed", "the hose leaks")
    after = timed.schedules.get(made.id)
    assert (after.failures, after.last_status, after.due_at) == (0, "failed", made.next_run_at)
    assert after.next_run_at is not None
    clock.now = after.next_run_at
    assert claim_one(timed).schedule.attempts == 2


def test_finish_refuses_a_lost_lease(timed: Limpet, clock: FakeClock) -> None:
    made = make(timed)
    clock.advance(hours=1)
    [lost] = timed.schedules.claim(lease_s=30)
    clock.advance(seconds=31)
    kept = claim_one(timed)
    with pytest.raises(LeaseLost, match="another runner"):
        timed.schedules.finish(made.id, lost.token, text="too late")
    assert timed.schedules.runs(made.id) == []
    assert timed.schedules.finish(made.id, kept.token, text="in time").summary == "in time"
    with pytest.raises(LeaseLost):
        timed.schedules.finish(made.id, kept.token, text="twice")


def test_finish_refuses_another_users_schedule(timed: Limpet, clock: FakeClock) -> None:
    made = make(timed)
    clock.advance(hours=1)
    lease = claim_one(timed)
    for id_, user in ((made.id, "bob"), (UNKNOWN, None)):
        with pytest.raises(ScheduleNotFound):
            timed.schedules.finish(id_, lease.token, user=user, text="x")
    assert timed.schedules.finish(made.id, lease.token, user="alice").status == "ok"


def test_finish_keeps_a_change_made_while_it_ran(timed: Limpet, clock: FakeClock) -> None:
    made = make(timed)
    clock.advance(hours=1)
    lease = claim_one(timed)
    timed.schedules.edit(made.id, goal="water the roses", cadence="every: 3h")
    run = timed.schedules.finish(made.id, lease.token, text="done")
    assert run.due_at == made.next_run_at
    after = timed.schedules.get(made.id)
    assert (after.goal, after.cadence, after.run_count) == ("water the roses", "every: 3h", 1)
    assert after.next_run_at is not None
    assert (after.next_run_at - clock.now).total_seconds() == 3 * 3600


def test_finish_leaves_a_paused_schedule_paused(timed: Limpet, clock: FakeClock) -> None:
    made = make(timed)
    clock.advance(hours=1)
    lease = claim_one(timed)
    timed.schedules.pause(made.id)
    timed.schedules.finish(made.id, lease.token, text="done")
    after = timed.schedules.get(made.id)
    assert (after.state, after.next_run_at, after.run_count) == ("paused", None, 1)


def test_claim_gives_up_a_firing_whose_runners_all_ended(timed: Limpet, clock: FakeClock) -> None:
    made = make(timed, cadence="every: 30d")
    clock.advance(days=30)
    tries = timed.config.schedules.attempts
    for number in range(tries):
        assert claim_one(timed).schedule.attempts == number + 1
        clock.advance(hours=1)
    assert timed.schedules.claim() == []
    [run] = timed.schedules.runs(made.id)
    assert run.status == "failed"
    assert run.error == f"its runner ended before it did, {tries} times"


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": 101}, {"lease_s": 0}, {"lease_s": 1e6}])
def test_claim_refuses_wrong_limits(timed: Limpet, wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        timed.schedules.claim(**wrong)  # type: ignore[arg-type]


def test_schedule_name_is_kept_changed_and_searched(timed: Limpet) -> None:
    made = timed.schedules.create(user="alice", name="Garden Round", goal="water the plants", cadence="every: 1h")
    unnamed = make(timed)
    assert (made.name, unnamed.name) == ("Garden Round", None)
    assert [one.id for one in timed.schedules.search("alice", text="garden ROUND")] == [made.id]
    assert timed.schedules.count("alice", text="water") == 2
    assert timed.schedules.edit(made.id, name="Roses").name == "Roses"
    assert timed.schedules.search("alice", text="garden") == []
    assert [one.id for one in timed.schedules.search("alice", text="roses")] == [made.id]


def test_schedule_create_needs_goal_and_cadence(timed: Limpet) -> None:
    with pytest.raises(TypeError, match="goal"):
        timed.schedules.create(user="alice", cadence="every: 1h")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="cadence"):
        timed.schedules.create(user="alice", goal="x")  # type: ignore[call-arg]
