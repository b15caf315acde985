"""Runs of schedules that fail, and what people are told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from limpet import Notification, RunResult
from limpet.errors import PermissionDenied
from tests.contract.schedule_bench import LEASE, Bench, moment
from tests.contract.test_schedules import bench

pytestmark = pytest.mark.every_backend


__all__ = ["bench"]  # fixtures


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
