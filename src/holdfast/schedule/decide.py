"""What becomes of a schedule when it is made or changed, and when a run has ended. Pure: values in, values out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.config import Schedules as Rules
from holdfast.domain.schedule import MARK, Notify, RunStatus, Schedule, ScheduleState
from holdfast.domain.text import cut_text
from holdfast.errors import InvalidInput
from holdfast.schedule.cadence import Cadence, Once, count_between, parsed, smallest_gap


class Settled(NamedTuple):
    """The schedule after a run, and how many further firings that run stands for."""

    schedule: Schedule
    missed: int


class Said(NamedTuple):
    """What a run said, without the mark, and whether it bore one."""

    text: str
    marked: bool


def cadence_of(schedule: Schedule) -> Cadence:
    return parsed(schedule.cadence, schedule.timezone, schedule.anchor_at)


def refuse_haste(cadence: Cadence, now: datetime, rules: Rules) -> None:
    """No two of the next firings may be too close to each other."""
    gap = smallest_gap(cadence, now, rules.gap_firings)
    least = timedelta(seconds=rules.smallest_gap_s)
    if gap is not None and gap < least:
        raise InvalidInput(
            f"{cadence.text!r} fires {gap.total_seconds():g} seconds apart; at least {rules.smallest_gap_s} must lie"
            " between two firings (schedules.smallest_gap_s): choose a slower cadence"
        )


def begun(schedule: Schedule, now: datetime) -> Schedule:
    """Active, with its next firing worked out and every failure forgotten. Raises InvalidInput when none is left."""
    cadence = cadence_of(schedule)
    due = _first(schedule, cadence, now)
    reason = _over(schedule, due)
    if reason:
        raise InvalidInput(f"{schedule.cadence!r} has nothing left to fire: {reason}")
    return replace(
        schedule,
        state=ScheduleState.ACTIVE,
        due_at=due,
        next_run_at=due,
        attempts=0,
        failures=0,
        updated_at=now,
        settled_at=now,
    )


def _first(schedule: Schedule, cadence: Cadence, now: datetime) -> datetime | None:
    if isinstance(cadence, Once) and schedule.last_due_at is None and schedule.created_at < cadence.at:
        return cadence.at  # its time may have passed while it was paused: late is better than never
    return cadence.after(_reached(schedule, now))


def _reached(schedule: Schedule, now: datetime) -> datetime:
    """Nothing up to here fires again, whatever the clock says now."""
    return now if schedule.last_due_at is None else max(now, schedule.last_due_at)


def _over(schedule: Schedule, due: datetime | None) -> str:
    if schedule.max_runs is not None and schedule.run_count >= schedule.max_runs:
        return f"it has had its {schedule.max_runs} runs; raise max_runs"
    if due is None:
        return "its time has passed; give it another cadence"
    if schedule.ends_at is not None and due > schedule.ends_at:
        return f"it ends at {schedule.local(schedule.ends_at).isoformat()}; give it a later ends_at"
    return ""


def after_run(was: Schedule, status: RunStatus, started: datetime, ended: datetime, rules: Rules) -> Settled:
    """The schedule once its firing has run: over, to be tried again, or at its end."""
    assert was.due_at is not None
    ok, failures = status is RunStatus.OK, 0 if status is RunStatus.OK else was.failures + 1
    cadence, reached = cadence_of(was), max(_reached(was, ended), was.due_at)
    following = cadence.after(reached)
    ran = replace(was, failures=failures, last_run_at=started, last_status=status, updated_at=ended, settled_at=ended)
    too_often = failures >= rules.disable_after
    again = ended + wait_after(was.attempts, rules)
    if not ok and not too_often and was.attempts < rules.attempts and (following is None or again < following):
        return Settled(replace(ran, next_run_at=again), 0)
    over = replace(ran, attempts=0, run_count=was.run_count + 1)
    missed = count_between(cadence, was.due_at, reached)
    if _over(over, following):
        state = ScheduleState.COMPLETED if ok else ScheduleState.FAILED
        # One that failed may be begun anew, so its time is not taken for done.
        done = was.due_at if ok or not isinstance(cadence, Once) else was.last_due_at
        return Settled(replace(over, state=state, due_at=None, next_run_at=None, last_due_at=done), missed)
    over = replace(over, last_due_at=was.due_at)
    if too_often:
        return Settled(replace(over, state=ScheduleState.DISABLED, due_at=None, next_run_at=None), missed)
    return Settled(replace(over, due_at=following, next_run_at=following), missed)


def wait_after(attempts: int, rules: Rules) -> timedelta:
    """Twice as long each time."""
    return timedelta(seconds=min(rules.first_wait_s * 2 ** min(max(0, attempts - 1), 32), rules.longest_wait_s))


def skipped(schedule: Schedule, now: datetime) -> Schedule:
    """The firing at hand is over already: on to the next."""
    if schedule.due_at is None:
        return replace(schedule, attempts=0)
    following = cadence_of(schedule).after(max(_reached(schedule, now), schedule.due_at))
    on = replace(schedule, attempts=0, last_due_at=schedule.due_at, due_at=following, next_run_at=following)
    return replace(on, settled_at=now, state=ScheduleState.COMPLETED if following is None else schedule.state)


_TIMING = ("state", "cadence", "timezone", "due_at", "max_runs", "ends_at")
_TOLD = ("goal", "notify", "agent", "metadata", "channel", "chat", "thread")


def joined(was: Schedule, now: Schedule, settled: Schedule) -> Schedule:
    """What a run made of the schedule it was given, with what somebody else has made of it meanwhile."""
    if all(getattr(was, name) == getattr(now, name) for name in _TIMING):
        told: dict[str, Any] = {name: getattr(now, name) for name in _TOLD}
        return replace(settled, **told)
    # Paused, edited or resumed while it ran: what was set stands, what the run counted is added.
    done = settled.last_due_at
    later = done is not None and (now.due_at is None or done < now.due_at)
    return replace(
        now,
        last_run_at=settled.last_run_at,
        last_status=settled.last_status,
        last_due_at=done if later else now.last_due_at,
        run_count=max(now.run_count, settled.run_count),
        attempts=0,
        settled_at=settled.settled_at,
    )


def mended(schedule: Schedule, now: datetime) -> Schedule:
    """Its next firing was worked out by a clock far ahead of this one: it is worked out anew.

    Firings that are still to come may have come about already. The runs tell: each is looked up before it is run.
    """
    last = schedule.last_due_at
    right = replace(
        schedule,
        anchor_at=min(schedule.anchor_at, now),
        last_due_at=last if last is None else min(last, now),
        settled_at=now,
    )
    cadence = cadence_of(right)
    due = right.due_at if isinstance(cadence, Once) else cadence.after(now)
    if due is None or (right.due_at is not None and due >= right.due_at):
        return replace(right, next_run_at=right.due_at)
    return replace(right, due_at=due, next_run_at=due, attempts=0)


def said_by(text: str) -> Said:
    """The mark is for us; people do not see it, whatever the policy."""
    begins = text.lstrip()
    if begins[: len(MARK)].upper() != MARK:
        return Said(text, marked=False)
    return Said(begins[len(MARK) :].lstrip(), marked=True)


def is_to_notify(schedule: Schedule, status: RunStatus, said: Said, wished: bool | None, rules: Rules) -> bool:
    """Whether a run is told. A failure is, when it has come often enough, or was the last straw."""
    if schedule.notify is Notify.NEVER:
        return False
    if status is RunStatus.FAILED:
        ended = schedule.state in (ScheduleState.FAILED, ScheduleState.DISABLED)
        return ended or schedule.failures == rules.notify_after
    if wished is not None:
        return wished
    return said.marked or (schedule.notify is Notify.ALWAYS and bool(said.text.strip()))


def failure_text(schedule: Schedule, error: str | None) -> str:
    goal = cut_text(" ".join(schedule.goal.split()), 80)
    told = {
        ScheduleState.FAILED: "It is not tried again; resume it to try once more.",
        ScheduleState.DISABLED: "It is switched off until it is resumed.",
    }.get(schedule.state, "It goes on.")
    times = "once" if schedule.failures == 1 else f"{schedule.failures} times in a row"
    return f"The schedule {goal!r} has failed {times}: {error or 'it did not say why'}. {told}"
