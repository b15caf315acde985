"""A runner whose clock does whatever it likes: no firing comes about twice, and each that did not is counted."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from limpet import Config, Firing, Limpet
from limpet.config import EmbeddingSettings, ScheduleSettings
from limpet.model.schedule import RunStatus, Schedule, ScheduleState
from limpet.schedules import decide
from limpet.schedules.repository import ScheduleQueue
from limpet.schedules.runner import RunHandlers, Runner
from limpet.testing import FakeClock
from tests.examples import examples

START = datetime(2026, 10, 24, 12, tzinfo=UTC)  # the night after it, clocks are put back in Lisbon
CADENCES = ("cron: 0 * * * *", "cron: 30 1 * * *", "every: 40m", "cron: 15,45 0-5 * * *", "once: 2026-10-25T01:30")


def nominal(schedule: Schedule, until: datetime) -> list[datetime]:
    cadence, at, found = decide.parse_schedule_cadence(schedule), schedule.created_at, []
    while (following := cadence.next_after(at)) is not None and following <= until:
        found.append(following)
        at = following
    return found


# A look at the clock, which shows that many minutes since the beginning; what becomes of the firing that is taken then;
# and what others do while it runs.
minutes = st.one_of(st.integers(-3 * 24 * 60, 5 * 24 * 60), st.sampled_from((-300, 5, 65, 130, 190, 400, 650, 3000)))
Look = tuple[int, str, list[Any]]
looks: st.SearchStrategy[Look] = st.recursive(
    st.tuples(minutes, st.sampled_from(("run", "run", "die")), st.just([])),
    lambda inner: st.tuples(minutes, st.just("run"), st.lists(inner, max_size=3)),
    max_leaves=4,
)


class World:
    """Runners that share a store; each look is another one's."""

    def __init__(self, memory: Limpet, clock: FakeClock) -> None:
        self.memory, self.clock = memory, clock

    def look(self, look: Look) -> None:
        offset, end, meanwhile = look
        self.clock.now = START + timedelta(minutes=offset)
        runtime = self.memory._runtime
        if end == "die":
            now = self.clock.now
            runtime.store.write(lambda tx: ScheduleQueue(tx).claim(now, now + timedelta(minutes=5)))
            return

        def callback(firing: Firing) -> str:
            for other in meanwhile:
                self.look(other)
            return firing.key

        runner = Runner(runtime.store, self.clock, RULES, runtime.new_id)
        runner.run(RunHandlers(callback, None, lambda schedule: None), until_idle=False)


RULES = ScheduleSettings(history=1000, attempts=1000)


@settings(max_examples=examples(300))
@given(st.sampled_from(CADENCES), st.lists(looks, min_size=1, max_size=20))
def test_schedule_fires_each_time_at_most_once_with_any_clock(cadence: str, row: list[Look]) -> None:
    clock = FakeClock(START)
    config = Config(embedding=EmbeddingSettings(model="none"), schedules=RULES)
    with Limpet.open(":memory:", clock=clock, config=config) as memory:
        made = memory.schedules.create("alice", goal="x", cadence=cadence, timezone="Europe/Lisbon")
        for look in row:
            World(memory, clock).look(look)
        runs = memory.schedules.runs(made.id, limit=1000)
    times = Counter(run.due_at for run in runs)
    assert set(times.values()) <= {1}, "twice"
    meant = nominal(made, START + timedelta(days=8))
    assert set(times) <= set(meant)
    counted: set[int] = set()
    for run in runs:
        at = bisect_left(meant, run.due_at)
        counted |= set(range(at + 1, at + 1 + run.missed))
    reached = max(times, default=START)
    lost = [due for at, due in enumerate(meant) if due not in times and due < reached and at not in counted]
    assert lost == []


@settings(max_examples=examples(200))
@given(
    st.sampled_from(CADENCES),
    st.lists(st.tuples(st.sampled_from(RunStatus), st.integers(0, 600), st.integers(0, 90)), max_size=25),
)
def test_schedule_has_next_run_exactly_while_active(cadence: str, runs: list[tuple[RunStatus, int, int]]) -> None:
    """After any row of runs: it has a next one exactly while it is active, and is switched off by the fifth failure."""
    schedule = decide.activate(
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
        ended = started + timedelta(minutes=took)
        schedule = decide.apply_run(held, status, started, ended, RULES).schedule
        is_retried = status is not RunStatus.OK and schedule.due_at == due
        row = 0 if status is RunStatus.OK else row + (not is_retried)
        assert schedule.failures == row
        assert (schedule.next_run_at is None) == (schedule.state is not ScheduleState.ACTIVE)
        if schedule.state is ScheduleState.ACTIVE and schedule.due_at != due:
            assert schedule.due_at is not None
            assert schedule.due_at > ended
            assert schedule.attempts == 0
        if status is RunStatus.OK:
            assert schedule.due_at != due
        if cadence.startswith("once") and schedule.state is not ScheduleState.ACTIVE:
            assert schedule.state == ("completed" if status is RunStatus.OK else "failed")
        elif row >= RULES.disable_after:
            assert schedule.state is ScheduleState.DISABLED
