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
from limpet.errors import InvalidInput, LeaseLost, PermissionDenied, ScheduleNotFound, SessionNotFound
from limpet.model.schedule import NotifyPolicy, ScheduleState
from limpet.schedules.repository import ScheduleQueue, Schedules
from limpet.testing import FakeClock
from tests.contract.rows import sql
from tests.contract.schedule_bench import HOUR, LEASE, Bench, moment

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


# Failures


def test_schedule_failed_firing_is_retried_with_backoff_then_given_up(bench: Bench) -> None:
    made = bench.make("cron: 0 0 * * *")
    bench.fail()
    after = bench.go_to_next(made)
    due = moment("2026-03-11T00:00")
    assert (after.due_at, after.next_run_at) == (due, due + timedelta(minutes=1))
    assert bench.run() == 0
    after = bench.go_to_next(made)
    assert (after.due_at, after.next_run_at) == (due, due + timedelta(minutes=3))
    after = bench.go_to_next(made)
    assert (after.due_at, after.attempts, after.failures, after.run_count) == (moment("2026-03-12T00:00"), 0, 1, 1)
    assert [firing.attempt for firing in bench.fired] == [1, 2, 3]
    assert {firing.key for firing in bench.fired} == {bench.fired[0].key}
    runs = bench.schedules.runs(made.id)
    assert [(run.status, run.attempt) for run in runs] == [("failed", 3), ("failed", 2), ("failed", 1)]
    assert runs[0].error == "ZeroDivisionError; the log has its words"
    bench.answer = lambda firing: "better"
    assert bench.go_to_next(made).failures == 0


def test_schedule_next_firing_replaces_later_retry(bench: Bench) -> None:
    """Where the retry would come later than the next firing, that one takes its place."""
    made = bench.make("every: 1m")
    bench.fail()
    after = bench.go_to_next(made)
    assert after.due_at == after.next_run_at == made.created_at + timedelta(minutes=2)
    assert after.attempts == 0


def test_schedule_retries_of_one_firing_are_one_failure(bench: Bench) -> None:
    """An outage of minutes switched a schedule of every five minutes off: each retry counted."""
    made = bench.make("every: 5m")
    bench.fail()
    began = bench.clock.now
    while bench.clock.now < began + timedelta(minutes=24):
        assert bench.go_to_next(made).state == "active"
    assert len(bench.fired) > 10
    assert bench.now(made).failures < 5
    bench.answer = lambda firing: "better"
    assert bench.go_to_next(made).failures == 0


def test_schedule_notifies_after_three_failures_and_is_disabled_after_five(bench: Bench) -> None:
    made = bench.make("cron: 0 0 * * *", channel="telegram", chat="12")
    bench.fail(error=PermissionDenied)
    for told, state in [(0, "active"), (0, "active"), (1, "active"), (1, "active"), (2, "disabled")]:
        *_, after = [bench.go_to_next(made) for _ in range(3)]  # each firing is tried three times
        assert (len(bench.told), after.state) == (told, state)
    assert (bench.now(made).failures, bench.now(made).next_run_at) == (5, None)
    third, last = bench.told
    assert (third.channel, third.chat, third.run.status) == ("telegram", "12", "failed")
    assert "failed 3 times in a row: PermissionDenied. It goes on." in third.text
    assert "switched off" in last.text
    bench.clock.advance(days=3)
    assert bench.run() == 0


# Notifications


@pytest.mark.parametrize(
    ("policy", "said", "told"),
    [
        ("always", "all is well", "all is well"),
        ("always", "[NOTIFY] rain", "rain"),
        ("always", "  ", None),
        ("conditional", "all is well", None),
        ("conditional", "[NOTIFY] rain\nall day", "rain\nall day"),
        ("conditional", " \n[notify]rain", "rain"),
        ("conditional", "it said [NOTIFY]", None),
        ("never", "[NOTIFY] rain", None),
    ],
)
def test_schedule_notify_policy_decides_notification(bench: Bench, policy: str, said: str, told: str | None) -> None:
    made = bench.make(notify=policy, channel="telegram", chat="12", thread="3")
    bench.answer = lambda firing: said
    bench.go_to_next(made)
    assert [one.text for one in bench.told] == ([] if told is None else [told])
    [run] = bench.schedules.runs(made.id)
    assert (run.to_notify, run.notified) == (told is not None, told is not None)
    assert "[NOTIFY]" not in bench.schedules.run_output(run.id).text or "it said" in said
    for one in bench.told:
        assert (one.channel, one.chat, one.thread, one.schedule.id, one.run.id) == (
            *("telegram", "12", "3"),
            made.id,
            run.id,
        )


def test_schedule_callback_can_override_notification(bench: Bench) -> None:
    quiet, loud = bench.make(notify="always"), bench.make(notify="conditional", user="bob")
    bench.answer = lambda firing: RunResult("x", notify=firing.schedule.user == "bob")
    bench.clock.advance(hours=1)
    bench.run()
    assert [one.schedule.id for one in bench.told] == [loud.id]
    assert bench.schedules.runs(quiet.id)[0].to_notify is False


def test_schedule_failed_notification_is_retried(bench: Bench) -> None:
    made = bench.make("once: 2026-03-10T13:00")
    bench.clock.advance(hours=1)

    def deaf(_: Notification) -> None:
        raise OSError("no line")

    assert bench.memory.schedules.run(bench.callback, deaf) == 1
    assert bench.schedules.runs(made.id)[0].notified is False
    assert bench.run() == 0
    assert bench.told == []  # somebody may be at it still
    bench.clock.advance(seconds=LEASE.total_seconds())
    bench.run()
    bench.run()
    assert [one.text for one in bench.told] == ["done"]
    assert bench.schedules.runs(made.id)[0].notified is True


def test_schedule_notification_older_than_a_day_is_dropped(bench: Bench) -> None:
    bench.make("once: 2026-03-10T13:00")
    bench.clock.advance(hours=1)
    assert bench.memory.schedules.run(bench.callback) == 1  # nobody there to be told
    bench.clock.advance(hours=25)
    bench.run()
    assert bench.told == []


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

    asyncio.run(use())
    opened[0]._pool.shutdown()
    for thread in threading.enumerate():
        if thread.name.startswith("limpet"):
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
