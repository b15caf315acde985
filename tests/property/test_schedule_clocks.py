"""A runner whose clock does whatever it likes: no firing comes about twice, and each that did not is counted."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Config, Firing, Holdfast
from holdfast.config import Embedding, Schedules
from holdfast.domain.schedule import RunStatus, Schedule, ScheduleState
from holdfast.schedule import decide
from tests.conftest import FakeClock

START = datetime(2026, 10, 24, 12, tzinfo=UTC)  # the night after it, clocks are put back in Lisbon
CADENCES = ("cron: 0 * * * *", "cron: 30 1 * * *", "every: 40m", "cron: 15,45 0-5 * * *", "once: 2026-10-25T01:30")
RULES = Schedules()


def nominal(schedule: Schedule, until: datetime) -> list[datetime]:
    cadence, at, found = decide.cadence_of(schedule), schedule.created_at, []
    while (following := cadence.after(at)) is not None and following <= until:
        found.append(following)
        at = following
    return found


minutes = st.integers(-3 * 24 * 60, 5 * 24 * 60)


@settings(max_examples=150)
@given(st.sampled_from(CADENCES), st.lists(minutes, min_size=1, max_size=30), st.booleans())
def test_whatever_the_clock_does_each_firing_comes_about_once_at_most(
    cadence: str, looks: list[int], mends_late: bool
) -> None:
    clock = FakeClock(START)
    config = Config(embedding=Embedding(model="none"), schedules=Schedules(history=1000))
    fired: list[tuple[datetime, int]] = []

    def callback(firing: Firing) -> str:
        fired.append((firing.due_at, firing.missed))
        return "done"

    with Holdfast.open(":memory:", clock=clock, config=config) as hf:
        made = hf.schedules.create("alice", "x", cadence, "Europe/Lisbon")
        for look in looks:
            clock.now = START + timedelta(minutes=look)
            if not mends_late:
                hf._runtime.runner._mend_at = 0.0  # as another runner would, whose clock was like this all along
            hf.run_schedules(callback)
        runs = hf.schedules.runs(made.id, limit=1000)
    times = Counter(due for due, _ in fired)
    assert set(times.values()) <= {1}
    latest = START + timedelta(minutes=max(looks))
    meant = nominal(made, latest)
    assert set(times) <= set(meant)
    counted: set[int] = set()
    for run in runs:
        at = bisect_left(meant, run.due_at)
        counted |= set(range(at + 1, at + 1 + run.missed))
    reached = max(times, default=None)
    for at, due in enumerate(meant):
        if due not in times and reached is not None and due < reached:
            assert at in counted, f"{due} is lost"


@settings(max_examples=200)
@given(
    st.sampled_from(CADENCES),
    st.lists(st.tuples(st.sampled_from(RunStatus), st.integers(0, 600), st.integers(0, 90)), max_size=25),
)
def test_a_schedule_is_always_waiting_running_or_at_its_end(
    cadence: str, runs: list[tuple[RunStatus, int, int]]
) -> None:
    """After any row of runs: it has a next one exactly while it is active, and is switched off by the fifth failure."""
    schedule = decide.begun(
        Schedule("id", "t", "u", "a", "goal", cadence, "Europe/Lisbon", START, START, anchor_at=START), START
    )
    row = 0
    for status, late, took in runs:
        if schedule.state is not ScheduleState.ACTIVE:
            break
        assert schedule.next_run_at is not None
        assert schedule.due_at is not None
        due, started = schedule.due_at, schedule.next_run_at + timedelta(minutes=late)
        held = replace(schedule, attempts=schedule.attempts + 1)
        settled = decide.after_run(held, status, started, started + timedelta(minutes=took), RULES)
        schedule, row = settled.schedule, 0 if status is RunStatus.OK else row + 1
        assert schedule.failures == row
        assert (schedule.next_run_at is None) == (schedule.state is not ScheduleState.ACTIVE)
        if schedule.state is ScheduleState.ACTIVE and schedule.due_at != due:
            assert schedule.due_at is not None
            assert schedule.due_at > settled.ended_at
            assert schedule.attempts == 0
        if status is RunStatus.OK:
            assert schedule.due_at != due
        if cadence.startswith("once") and schedule.state is not ScheduleState.ACTIVE:
            assert schedule.state == ("completed" if status is RunStatus.OK else "failed")
        elif row >= RULES.disable_after:
            assert schedule.state is ScheduleState.DISABLED
