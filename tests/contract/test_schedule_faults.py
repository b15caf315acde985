"""Schedules that fail, hang, are too many, or make schedules themselves."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from limpet import AsyncLimpet, Config, Firing, Limpet
from limpet.config import ScheduleSettings
from limpet.errors import InvalidInput, PermissionDenied
from limpet.testing import FakeClock
from tests.contract.processes import run_together
from tests.contract.schedule_bench import HOUR, Bench
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend


@pytest.fixture
def bench(timed: Limpet, clock: FakeClock) -> Bench:
    return Bench(timed, clock)


def test_one_shot_schedule_that_fails_is_failed_until_resumed(bench: Bench) -> None:
    made = bench.make("once: 2026-03-10T13:00")
    bench.fail()
    states = [bench.go_to_next(made).state for _ in range(3)]
    assert states == ["active", "active", "failed"]
    after = bench.now(made)
    assert (after.next_run_at, after.run_count, after.failures) == (None, 1, 1)
    bench.clock.advance(days=9)
    assert bench.run() == 0
    assert "not tried again" in bench.told[-1].text
    # Begun anew it has its chance, and only then is it completed.
    bench.answer = lambda firing: "well"
    bench.schedules.resume(made.id)
    assert bench.run() == 1
    assert bench.now(made).state == "completed"


@pytest.mark.parametrize("how", ["resume", "edit"])
def test_schedule_counts_failures_again_after_reactivation(bench: Bench, how: str) -> None:
    made = bench.make("cron: 0 0 * * *")
    bench.fail()
    for _ in range(5 * 3):  # each firing is tried three times
        bench.go_to_next(made)
    assert bench.now(made).state == "disabled"
    if how == "resume":
        back = bench.schedules.resume(made.id)
    else:
        back = bench.schedules.edit(made.id, cadence="cron: 0 1 * * *")
    assert (back.state, back.failures, back.attempts) == ("active", 0, 0)
    assert back.next_run_at is not None
    told = len(bench.told)
    *_, after = [bench.go_to_next(made) for _ in range(3)]
    assert (after.state, after.failures) == ("active", 1)  # not switched off by one more
    assert len(bench.told) == told


_RUNNER = """
from datetime import datetime, UTC, timedelta
ran = []
memory = Limpet.open(given["url"], clock=lambda: datetime(2026, 3, 10, 14, tzinfo=UTC))
begin()
def callback(firing):
    ran.append(firing.schedule.id)
    return "done"
while memory.schedules.run(callback):
    pass
memory.close()
answer(ran)
"""


def test_schedules_run_once_across_processes(durable_url: str, clock: FakeClock) -> None:
    with Limpet.open(durable_url, clock=clock) as memory:
        made = [Bench(memory, clock).make(user=f"user {number}").id for number in range(40)]
        answers = run_together(_RUNNER, {"url": durable_url}, count=3)
        ran = [id for answer in answers for id in answer]
        assert sorted(ran) == sorted(made)
        assert {memory.schedules.get(id).run_count for id in made} == {1}
        assert {len(memory.schedules.runs(id)) for id in made} == {1}


def test_run_summary_is_cut_between_characters(bench: Bench) -> None:
    family = "👩‍👩‍👧‍👦"
    for said, kept in (
        ("é" * 600, "é" * 500),
        ("a" * 498 + family + "z", "a" * 498),
        ("日本" * 300, "日本" * 250),
        ("a" * 499 + "e\N{COMBINING ACUTE ACCENT}" + "z", "a" * 499),
        ("a" * 499 + "🇵🇹🇵🇹", "a" * 499),
    ):
        bench.answer = lambda firing, said=said: said  # type: ignore[misc]
        made = bench.make(user="bob")
        bench.go_to_next(made)
        [run] = bench.schedules.runs(made.id)
        assert run.summary == kept
        assert bench.schedules.run_output(run.id).text == said
        bench.schedules.delete(made.id)


def test_scheduled_turn_creates_no_schedules_from_any_thread_or_task(bench: Bench) -> None:
    """Neither with the memory it is given nor with the one around it, in no thread and no task."""
    made = bench.make()
    outer = bench.memory
    refused: list[str] = []

    def attempts(memory: Any) -> dict[str, Any]:
        view = memory.tenant("default")
        return {
            "create": lambda: memory.schedules.create(user="alice", goal="more", cadence="every: 1h"),
            "edit": lambda: memory.schedules.edit(made.id, cadence="every: 1m"),
            "resume": lambda: memory.schedules.resume(made.id),
            "another view": lambda: view.schedules.create(user="alice", goal="more", cadence="every: 1h"),
            "an agent's": lambda: memory.agent("x").schedules.create(user="alice", goal="more", cadence="every: 1h"),
        }

    def attempt(where: str, memory: Any) -> None:
        for name, call in attempts(memory).items():
            with pytest.raises(PermissionDenied, match="scheduled turn"):
                call()
            refused.append(f"{where}: {name}")

    async def in_tasks() -> None:
        face = AsyncLimpet(outer, _pool())

        async def create() -> None:
            with pytest.raises(PermissionDenied):
                await face.schedules.create(user="alice", goal="more", cadence="every: 1h")
            refused.append("task: create")

        await asyncio.gather(create(), asyncio.create_task(create()), asyncio.to_thread(attempt, "to_thread", outer))

    def turn(firing: Firing) -> str:
        attempt("given", firing.memory)
        attempt("around", outer)
        with ThreadPoolExecutor(2) as pool:
            pool.submit(attempt, "given, in a thread", firing.memory).result()
            pool.submit(contextvars.copy_context().run, attempt, "around, in a thread", outer).result()
        asyncio.run(in_tasks())
        firing.memory.remember("what it learned", user="alice")  # all the rest it may do
        assert firing.memory.schedules.search(user="alice")[0].id == made.id
        firing.memory.schedules.pause(made.id)
        return "tried"

    bench.answer = turn
    bench.go_to_next(made)
    [run] = bench.schedules.runs(made.id)
    assert (run.status, run.error) == ("ok", None)
    assert len(refused) == 5 * 5 + 2
    assert bench.schedules.count() == 1
    bench.make(goal="afterwards it is allowed again")


def _pool() -> Any:
    from limpet.api.async_pool import Pool

    return Pool(2)


def test_schedules_of_a_user_are_limited_to_fifty(store_url: str, clock: FakeClock) -> None:
    with Limpet.open(store_url, clock=clock) as memory:
        bench = Bench(memory, clock)
        for number in range(45):
            bench.make(goal=f"number {number}")
        made: list[str] = []
        refused: list[str] = []

        def attempt(number: int) -> None:
            try:
                made.append(bench.make(goal=f"at once {number}").id)
            except InvalidInput as error:
                refused.append(str(error))

        at_once(attempt, 12)
        assert (len(made), len(refused)) == (5, 7)
        assert "50 is the limit (schedules.per_user): delete one first" in refused[0]
        assert memory.schedules.count(user="alice") == 50
        bench.make(user="bob")
        # One that has ended makes room, and needs room to come back.
        memory.schedules.delete(made[0])
        last = bench.make("once: 2026-03-10T12:30")
        clock.advance(minutes=30)
        bench.run()
        assert memory.schedules.get(last.id).state == "completed"
        bench.make(goal="in its place")
        with pytest.raises(InvalidInput, match="50 is the limit"):
            memory.schedules.edit(last.id, cadence="once: 2026-04-01T00:00")
        assert memory.schedules.get(last.id).state == "completed"


def test_ended_schedules_beyond_the_limit_are_removed(store_url: str, clock: FakeClock) -> None:
    with Limpet.open(store_url, clock=clock, config=Config(schedules=ScheduleSettings(keep_ended=3))) as memory:
        bench = Bench(memory, clock)
        running = bench.make("every: 10h")
        made = []
        for _ in range(6):
            made.append(bench.make(f"once: {(clock.now + HOUR).isoformat()}").id)
            clock.advance(hours=1)
            bench.run()
        assert [one.id for one in memory.schedules.search(state="completed")] == made[:-4:-1]
        assert memory.schedules.get(running.id).state == "active"


@pytest.mark.slow
def test_schedule_of_hung_runner_is_run_by_another(store_url: str) -> None:
    """The lease is renewed for as long as a run may take, and no longer."""
    overrides = {"schedules.lease_s": 1, "schedules.longest_run_s": 1, "schedules.smallest_gap_s": 1}
    with Limpet.open(store_url, config=Config.load(overrides={**overrides, "embedding.model": "none"})) as memory:
        memory.schedules.create(user="alice", goal="hang", cadence="every: 1s", max_runs=1)
        hung, rescued = threading.Event(), threading.Event()

        def hang(firing: Firing) -> str:
            hung.set()
            rescued.wait(60)
            return "too late"

        def rescue(firing: Firing) -> str:
            rescued.set()
            return "in time"

        thread = threading.Thread(target=lambda: _until(lambda: memory.schedules.run(hang)))
        thread.start()
        assert hung.wait(60)
        _until(lambda: memory.schedules.run(rescue))
        thread.join()
        [schedule] = memory.schedules.search()
        assert [run.summary for run in memory.schedules.runs(schedule.id)] == ["in time"]


def _until(done: Any) -> None:
    import time

    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)
