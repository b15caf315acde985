"""Schedules on every backend: made, changed, found, leased, run, told."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import AsyncLimpet, Config, Firing, Limpet, Notification, RunResult
from limpet.errors import InvalidInput, PermissionDenied, ScheduleNotFound, SessionNotFound
from limpet.model.schedule import NotifyPolicy, ScheduleState
from limpet.testing import FakeClock
from tests.contract.rows import sql
from tests.contract.schedule_bench import HOUR, Bench, moment

pytestmark = pytest.mark.every_backend

UNKNOWN = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def bench(timed: Limpet, clock: FakeClock) -> Bench:
    return Bench(timed, clock)


# Made and found


def test_schedule_create_keeps_every_field(bench: Bench) -> None:
    session = bench.memory.session("telegram", "12", "thread", user="alice")
    made = bench.make(
        "cron: 0 9 * * 1-5", timezone="Europe/Lisbon", session=session.id, notify="conditional", metadata={"a": [1]}
    )
    assert bench.now(made) == made
    assert (made.channel, made.chat, made.thread, made.session) == ("telegram", "12", "thread", session.id)
    assert (made.state, made.agent, made.run_count, made.failures) == ("active", "assistant", 0, 0)
    assert made.next_run_at == made.due_at == moment("2026-03-11T09:00")
    summer = bench.make("once: 2026-07-01T09:00", timezone="Europe/Lisbon")
    assert summer.next_run_at == moment("2026-07-01T08:00")
    assert summer.to_local(moment("2026-07-01T08:00")).strftime("%H:%M %Z") == "09:00 WEST"


@pytest.mark.parametrize(
    "wrong",
    [
        {"cadence": "sometimes"},
        {"cadence": "every: 59s"},
        {"cadence": "once: 2026-03-10T11:59"},
        {"timezone": "Europe/Atlantis"},
        {"goal": " "},
        {"goal": "x" * 20_000},
        {"notify": "loudly"},
        {"ends_at": "soon"},
        {"ends_at": "2026-03-10T12:30"},
        {"max_runs": -1},
        {"user": ""},
    ],
)
def test_schedule_create_rejects_invalid_arguments(bench: Bench, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        bench.make(**{"cadence": "every: 1h", **wrong})
    assert bench.schedules.count() == 0


def test_schedule_create_rejects_session_of_other_user(bench: Bench) -> None:
    session = bench.memory.session("telegram", "12", user="bob")
    with pytest.raises(SessionNotFound):
        bench.make(session=session.id)


def test_schedules_are_isolated_by_user_and_tenant(bench: Bench) -> None:
    made = bench.make()
    bench.clock.advance(hours=1)
    bench.run()
    [run] = bench.schedules.runs(made.id)
    elsewhere = bench.memory.tenant("elsewhere").schedules
    for verb in ("get", "edit", "delete", "pause", "resume", "runs"):
        with pytest.raises(ScheduleNotFound):
            getattr(bench.schedules, verb)(made.id, user="bob")
        with pytest.raises(ScheduleNotFound):
            getattr(elsewhere, verb)(made.id)
    with pytest.raises(ScheduleNotFound):
        bench.schedules.run_output(run.id, user="bob")
    with pytest.raises(ScheduleNotFound):
        elsewhere.run_output(run.id)
    assert elsewhere.search() == []
    assert bench.schedules.search(user="bob") == []
    assert elsewhere.due() == []
    assert bench.now(made).run_count == 1


def test_schedule_search_filters_and_pages(bench: Bench) -> None:
    plants = bench.make(goal="Water the PLANTS, 100% of them")
    bench.clock.advance(1)
    rain = bench.make(goal="look for Regenfälle", agent="weather", cadence="every: 3h")
    bench.clock.advance(1)
    other = bench.make(goal="plants_2", user="bob")
    bench.schedules.pause(rain.id)

    def found(**filters: Any) -> list[str]:
        ids = [one.id for one in bench.schedules.search(**filters)]
        assert len(ids) == bench.schedules.count(**filters)
        return ids

    assert found() == [other.id, rain.id, plants.id]
    assert found(user="alice") == [rain.id, plants.id]
    assert found(agent="weather") == [rain.id]
    assert found(state="paused") == [rain.id]
    assert found(text="plants") == [other.id, plants.id]
    assert found(text="REGENFÄLLE") == [rain.id]
    assert found(text="0%") == [plants.id]
    assert found(text="s_2") == [other.id]
    assert found(text="!") == []
    assert found(due_before=bench.clock.now + HOUR + timedelta(seconds=1)) == [other.id, plants.id]
    assert [one.id for one in bench.schedules.search(limit=1, offset=1)] == [rain.id]


def test_schedules_due_are_found_by_index(bench: Bench) -> None:
    late, later = bench.make("every: 1h"), bench.make("every: 2h", user="bob")
    assert bench.schedules.due() == []
    bench.clock.advance(hours=2)
    assert [one.id for one in bench.schedules.due()] == [late.id, later.id]
    assert [one.id for one in bench.schedules.due(user="bob")] == [later.id]
    bench.take()
    assert [one.id for one in bench.schedules.due()] == [later.id]
    if bench.memory.admin.stats()["backend"] in ("sqlite", "memory"):
        plan = sql(
            bench.memory,
            "EXPLAIN QUERY PLAN SELECT id FROM schedules s WHERE s.state = 'active' AND s.next_run_at <= 5"
            " AND s.leased_until <= 5 ORDER BY s.next_run_at, s.id LIMIT 1",
        )
        assert "schedules_due (state=? AND next_run_at<?)" in str(plan)


# Changed


def test_schedule_edit_changes_only_given_fields(bench: Bench) -> None:
    made = bench.make(max_runs=5, ends_at="2027-01-01T00:00", metadata={"a": 1})
    changed = bench.schedules.edit(made.id, goal="water the roses", notify="never")
    assert changed == replace(made, goal="water the roses", notify=NotifyPolicy.NEVER, updated_at=changed.updated_at)
    bench.clock.advance(minutes=30)
    hasty = bench.schedules.edit(made.id, cadence="every: 10m", max_runs=0, ends_at="never")
    assert (hasty.next_run_at, hasty.max_runs, hasty.ends_at) == (bench.clock.now + timedelta(minutes=10), None, None)
    assert bench.now(made) == hasty
    assert bench.schedules.search(text="roses") == [hasty]
    with pytest.raises(InvalidInput, match="at least 60"):
        bench.schedules.edit(made.id, cadence="every: 10s")
    with pytest.raises(InvalidInput, match="past"):
        bench.schedules.edit(made.id, cadence="once: 2020-01-01T00:00")
    assert bench.now(made) == hasty


def test_schedule_edit_of_timezone_moves_next_run(bench: Bench) -> None:
    made = bench.make("cron: 0 9 * * *", timezone="UTC")
    moved = bench.schedules.edit(made.id, timezone="America/New_York")
    assert moved.next_run_at == moment("2026-03-10T13:00")


def test_schedule_resume_does_not_make_up_missed_runs(bench: Bench) -> None:
    made = bench.make()
    assert bench.schedules.pause(made.id).next_run_at is None
    assert bench.schedules.pause(made.id).state == "paused"
    assert bench.schedules.edit(made.id, cadence="every: 2h").state == "paused"
    bench.clock.advance(hours=9, minutes=1)
    assert bench.run() == 0
    resumed = bench.schedules.resume(made.id)
    assert resumed.next_run_at == bench.clock.now + timedelta(minutes=59)
    bench.clock.advance(hours=1)
    assert bench.run() == 1
    assert bench.fired[0].missed == 0


def test_schedule_once_missed_while_paused_runs_on_resume(bench: Bench) -> None:
    made = bench.make("once: 2026-03-10T13:00")
    bench.schedules.pause(made.id)
    bench.clock.advance(hours=5)
    bench.schedules.resume(made.id)
    assert bench.run() == 1
    assert bench.now(made).state == "completed"
    with pytest.raises(InvalidInput, match="another cadence"):
        bench.schedules.resume(made.id)
    again = bench.schedules.edit(made.id, cadence="once: 2026-03-11T13:00")
    assert (again.state, again.next_run_at) == ("active", moment("2026-03-11T13:00"))


def test_schedule_delete_removes_its_runs(bench: Bench) -> None:
    made = bench.make()
    bench.clock.advance(hours=1)
    bench.run()
    bench.schedules.delete(made.id)
    assert sql(bench.memory, "SELECT count(*) FROM schedule_runs") == [(0,)]
    with pytest.raises(ScheduleNotFound):
        bench.schedules.delete(made.id)


# Run


def test_schedule_run_is_recorded_and_next_run_is_set(bench: Bench) -> None:
    made = bench.make()
    bench.clock.advance(hours=1, minutes=2)
    bench.answer = lambda firing: RunResult("watered", turns=3, cost=0.0125)
    assert bench.run() == 1
    [firing] = bench.fired
    assert (firing.goal, firing.due_at, firing.attempt, firing.missed) == (made.goal, made.next_run_at, 1, 0)
    [run] = bench.schedules.runs(made.id)
    assert (run.status, run.due_at, run.started_at) == ("ok", made.next_run_at, bench.clock.now)
    assert (run.summary, run.turns, run.cost, run.error) == ("watered", 3, 0.0125, None)
    after = bench.now(made)
    assert after.next_run_at == made.created_at + 2 * HOUR  # counted from where it began, not from when it ran
    assert (after.run_count, after.last_run_at, after.last_status) == (1, bench.clock.now, "ok")
    assert after.running_until is None
    assert bench.run() == 0


def test_schedule_missed_firings_are_merged_into_one_run(bench: Bench) -> None:
    made = bench.make()
    bench.clock.advance(hours=7, minutes=30)
    assert bench.run() == 1
    assert bench.fired[0].missed == 6
    assert bench.schedules.runs(made.id)[0].missed == 6
    assert bench.now(made).next_run_at == made.created_at + 8 * HOUR


def test_schedule_keeps_at_most_twenty_runs(bench: Bench) -> None:
    made = bench.make()
    for number in range(25):
        bench.answer = lambda firing, number=number: f"number {number}"  # type: ignore[misc]
        bench.go_to_next(made)
    runs = bench.schedules.runs(made.id, limit=100)
    assert [run.summary for run in runs] == [f"number {number}" for number in range(24, 4, -1)]
    assert [run.summary for run in bench.schedules.runs(made.id, limit=2, offset=3)] == ["number 21", "number 20"]
    assert bench.now(made).run_count == 25


def test_schedule_run_output_is_paged(bench: Bench) -> None:
    said = "".join(f"line {number} 👩‍👩‍👧‍👦 é\n" for number in range(2000))
    bench.answer = lambda firing: said
    made = bench.make()
    bench.go_to_next(made)
    [run] = bench.schedules.runs(made.id)
    assert run.output_characters == len(said)
    pages: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = bench.schedules.run_output(run.id, offset=offset, limit=777)
        assert (page.offset, page.total) == (offset, len(said))
        assert not page.text.startswith("\u200d")
        pages.append(page.text)
        offset = page.next_offset
    assert "".join(pages) == said
    assert len(bench.schedules.run_output(run.id).text) == pytest.approx(4000, abs=20)
    assert bench.schedules.run_output(run.id, offset=10**9) == ("", 10**9, None, len(said))
    with pytest.raises(ScheduleNotFound):
        bench.schedules.run_output(UNKNOWN)


def test_schedule_run_output_replaces_unstorable_characters(bench: Bench) -> None:
    bench.answer = lambda firing: "a\x00b\ud800c"
    made = bench.make()
    bench.go_to_next(made)
    [run] = bench.schedules.runs(made.id)
    assert run.summary == "a\ufffdb\ufffdc"


@pytest.mark.parametrize("answer", [5, ["x"], RunResult(turns=-1), RunResult(cost=float("nan")), RunResult(text=b"x")])  # type: ignore[arg-type]
def test_schedule_callback_with_invalid_result_fails_run(bench: Bench, answer: Any) -> None:
    bench.answer = lambda firing: answer
    made = bench.make()
    bench.go_to_next(made)
    [run] = bench.schedules.runs(made.id)
    assert run.status == "failed"
    assert run.error


def test_schedule_completes_after_max_runs_or_end_time(bench: Bench) -> None:
    thrice = bench.make("every: 1h", max_runs=3)
    until = bench.make("every: 1h", ends_at="2026-03-10T14:00", user="bob")
    for _ in range(6):
        bench.clock.advance(hours=1)
        bench.run()
    assert (bench.now(thrice).state, bench.now(thrice).run_count) == ("completed", 3)
    assert (bench.now(until).state, bench.now(until).run_count) == ("completed", 2)
    with pytest.raises(InvalidInput, match="max_runs"):
        bench.schedules.resume(thrice.id)
    assert bench.schedules.edit(thrice.id, max_runs=4).state == "active"


# The runner in a thread, and the other face


def test_worker_runs_schedules_in_background_thread(store_url: str) -> None:
    done, told = threading.Event(), threading.Event()
    overrides = {"schedules.smallest_gap_s": 1, "embedding.model": "none"}
    with Limpet.open(store_url, config=Config.load(overrides=overrides)) as memory:
        made = memory.schedules.create(user="alice", goal="tick", cadence="every: 1s", max_runs=1)

        def callback(firing: Firing) -> str:
            done.set()
            return firing.goal

        memory.jobs.start_worker(on_schedule=callback, notify=lambda notification: told.set())
        assert done.wait(60)
        assert told.wait(60)
    with pytest.raises(InvalidInput, match="on_schedule"), Limpet.open(":memory:") as memory:
        memory.jobs.start_worker(notify=print)
    assert made.state is ScheduleState.ACTIVE


def test_async_schedule_callback_runs_in_event_loop(store_url: str, clock: FakeClock) -> None:
    async def use() -> None:
        loop, told = asyncio.get_running_loop(), []
        async with await AsyncLimpet.open(store_url, clock=clock) as memory:
            made = await memory.schedules.create(user="alice", goal="remember it", cadence="every: 1h")
            clock.advance(hours=1)

            async def callback(firing: Firing) -> str:
                assert asyncio.get_running_loop() is loop
                await firing.memory.remember("it rained", user="alice")
                with pytest.raises(PermissionDenied):
                    await firing.memory.schedules.create(user="alice", goal="more", cadence="every: 1h")
                with pytest.raises(PermissionDenied):
                    await memory.schedules.create(user="alice", goal="more", cadence="every: 1h")
                return "remembered"

            async def notify(notification: Notification) -> None:
                told.append(notification.text)

            assert await memory.schedules.run(callback, notify) == 1
            [run] = await memory.schedules.runs(made.id)
            assert (run.summary, told) == ("remembered", ["remembered"])
            assert await memory.schedules.count() == 1

    asyncio.run(use())


def test_async_schedules_left_by_ended_loop_run_later(tmp_path: Path, clock: FakeClock) -> None:
    """As by Ctrl-C: every firing after the one at hand had failed for want of a loop, or waited for one for ever."""
    opened: list[AsyncLimpet] = []

    async def use() -> None:
        opened.append(memory := await AsyncLimpet.open(tmp_path, clock=clock))
        for goal in "abc":
            await memory.schedules.create(user="alice", goal=goal, cadence="every: 1h")
        clock.advance(hours=1)
        begun = asyncio.Event()

        async def callback(_: Firing) -> None:
            begun.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(memory.schedules.run(callback))
        await begun.wait()
        assert not running.done()

    others = set(threading.enumerate())  # of tests before this one
    asyncio.run(use())
    opened[0]._pool.shutdown(wait=False)
    for thread in set(threading.enumerate()) - others:
        thread.join(60)
        assert not thread.is_alive()
    with opened[0]._sync as memory:
        assert memory.schedules.run(lambda firing: "done") == 2
        runs = [run.status for each in memory.schedules.search() for run in memory.schedules.runs(each.id)]
        assert sorted(runs) == ["failed", "ok", "ok"]


def test_async_close_from_schedule_callback_waits_for_run(tmp_path: Path, clock: FakeClock) -> None:
    async def use() -> None:
        memory = await AsyncLimpet.open(tmp_path, clock=clock)
        await memory.schedules.create(user="alice", goal="close it", cadence="every: 1h")
        clock.advance(hours=1)
        closed = asyncio.Event()

        async def callback(_: Firing) -> str:
            await memory.close()
            closed.set()
            return "closed"

        await memory.jobs.start_worker(on_schedule=callback)
        await asyncio.wait_for(closed.wait(), 20)
        await memory.close()

    asyncio.run(use())
    with Limpet.open(tmp_path, clock=clock) as memory:
        [made] = memory.schedules.search()
        assert [run.summary for run in memory.schedules.runs(made.id)] == ["closed"]


def test_schedules_with_memory_disabled_do_nothing(tmp_path: Path) -> None:
    with Limpet.open(tmp_path, config=Config.load(overrides={"memory.enabled": False})) as memory:
        memory.schedules.create(user="alice", goal="x", cadence="every: 1h")
        assert memory.schedules.count() == 0
        assert memory.schedules.run(lambda firing: None) == 0


def test_agent_with_own_store_has_own_schedules(tmp_path: Path) -> None:
    config = Config.load(overrides={"agents.coder.memory.place": "own"})
    with Limpet.open(tmp_path, config=config) as memory:
        with pytest.raises(InvalidInput, match=r"memory\.agent"):
            memory.schedules.create(user="alice", goal="x", cadence="every: 1h", agent="coder")
        memory.agent("coder").schedules.create(user="alice", goal="x", cadence="every: 1h", agent="coder")
        assert (memory.schedules.count(), memory.agent("coder").schedules.count()) == (0, 1)
        own = memory.agent("coder").schedules.create(user="alice", goal="x", cadence="every: 1h")
        assert own.agent == "coder"  # without naming it again


@pytest.mark.parametrize("in_background", (False, True))
def test_schedules_in_the_own_store_of_an_agent_are_run(tmp_path: Path, in_background: bool) -> None:
    clock, ran, done = FakeClock(), list[tuple[str, str]](), threading.Event()

    def fire(firing: Firing) -> str:
        ran.append((firing.schedule.goal, firing.memory.session(user="alice").agent))
        if len(ran) == 2:
            done.set()
        return "done"

    config = Config.load(overrides={"agents.coder.memory.place": "own", "jobs.worker": False})
    with Limpet.open(tmp_path, config=config, clock=clock) as memory:
        memory.schedules.create(user="alice", goal="shared", cadence="every: 1h")
        memory.agent("coder").schedules.create(user="alice", goal="own", cadence="every: 1h")
        clock.advance(hours=2)
        if in_background:
            memory.jobs.start_worker(on_schedule=fire)
            assert done.wait(60)
        else:
            assert memory.schedules.run(fire) == 2
    assert sorted(ran) == [("own", "coder"), ("shared", "assistant")]


def test_creating_a_schedule_says_where_nothing_runs_them(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def create() -> bool:
        caplog.clear()
        bench.make("every: 1h")
        return "nothing has run schedules in this store" in caplog.text

    assert create()
    assert bench.run() == 0  # it looked
    assert not create()
    bench.clock.advance(hours=1)
    assert not create()
    bench.clock.advance(hours=2)
    assert create()
    assert bench.run() > 0
    assert not create()


def test_max_runs_above_its_limit_is_refused(memory: Limpet) -> None:
    made = memory.schedules.create("alice", goal="water the plants", cadence="every: 15m", max_runs=1_000_000)
    for call in (
        lambda: memory.schedules.edit(made.id, max_runs=1_000_001),
        lambda: memory.schedules.create("alice", goal="more", cadence="every: 15m", max_runs=1_000_001),
    ):
        with pytest.raises(InvalidInput, match="max_runs"):
            call()
