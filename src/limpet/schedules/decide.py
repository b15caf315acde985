"""State changes of a schedule: created, edited, run finished. Pure functions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from limpet.config import ScheduleSettings
from limpet.errors import InvalidInput, WrongState
from limpet.model.dataclass import replace
from limpet.model.schedule import LIVE_STATES, NOTIFY_MARK, NotifyPolicy, RunStatus, Schedule, ScheduleState
from limpet.model.tokens import truncate_text
from limpet.schedules.cadence import Cadence, OneTime, count_between, parse_cadence, smallest_gap


class ScheduleUpdate(NamedTuple):
    """The schedule after a run, and how many further firings that run covers."""

    schedule: Schedule
    missed: int = 0


class RunOutput(NamedTuple):
    """The output of a run without the mark, and whether it had one."""

    text: str
    marked: bool


def parse_schedule_cadence(schedule: Schedule) -> Cadence:
    return parse_cadence(schedule.cadence, schedule.timezone, schedule.anchor_at)


def check_min_gap(cadence: Cadence, now: datetime, rules: ScheduleSettings) -> None:
    """Raise InvalidInput if two of the next firings are too close together."""
    gap = smallest_gap(cadence, now, rules.gap_firings)
    least = timedelta(seconds=rules.smallest_gap_s)
    if gap is not None and gap < least:
        raise InvalidInput(
            f"{cadence.text!r} fires {gap.total_seconds():g} seconds apart; at least {rules.smallest_gap_s} must be"
            " between two firings (schedules.smallest_gap_s): choose a slower cadence"
        )


def activate(schedule: Schedule, now: datetime) -> Schedule:
    """Activate: compute the next firing and reset failures. Raises WrongState if no firing is left."""
    cadence = parse_schedule_cadence(schedule)
    due = _first_firing(schedule, cadence, now)
    reason = _end_reason(schedule, due)
    if reason:
        raise WrongState(f"{schedule.cadence!r} has no firing left: {reason}")
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


def pause(was: Schedule, now: datetime) -> Schedule:
    if was.state is ScheduleState.PAUSED:
        return was
    if was.state is not ScheduleState.ACTIVE:
        raise InvalidInput(f"only an active schedule can be paused; this one is {was.state}")
    return replace(was, state=ScheduleState.PAUSED, due_at=None, next_run_at=None, attempts=0, updated_at=now)


def reschedule(was: Schedule, edited: Schedule, now: datetime, *, restarts: bool) -> Schedule:
    """Compute the next firing of an edited schedule, from now if it restarts. A paused one stays paused."""
    if restarts:
        cadence = parse_cadence(edited.cadence, edited.timezone, now)
        edited = replace(edited, cadence=cadence.text, anchor_at=now, skipped_from=None, skipped_to=None)
        if isinstance(cadence, OneTime) and cadence.at <= now:
            raise WrongState(f"{cadence.text!r} is in the past; give a future time")
    on = activate(edited, now)
    if was.state is not ScheduleState.PAUSED:
        return on
    return replace(on, state=ScheduleState.PAUSED, due_at=None, next_run_at=None)


def _first_firing(schedule: Schedule, cadence: Cadence, now: datetime) -> datetime | None:
    if isinstance(cadence, OneTime) and schedule.anchor_at < cadence.at:
        done = schedule.last_due_at is not None and schedule.last_due_at >= cadence.at
        return None if done else cadence.at  # its time may have passed while it was paused; late is better than never
    return next_firing(schedule, cadence, now)


def next_firing(schedule: Schedule, cadence: Cadence, after: datetime) -> datetime | None:
    """Return the first firing after this that has not happened yet, regardless of clock changes."""
    firing, last = cadence.next_after(after), schedule.last_due_at
    if firing is None or last is None or firing > last:
        return firing
    begin, end = schedule.skipped_from, schedule.skipped_to
    if begin is not None and end is not None:
        firing = cadence.next_after(max(after, begin))
        if firing is not None and firing < end:
            return firing
    return cadence.next_after(max(after, last))


def _end_reason(schedule: Schedule, due: datetime | None) -> str:
    if schedule.max_runs is not None and schedule.run_count >= schedule.max_runs:
        return f"it has run {schedule.max_runs} times; raise max_runs"
    if due is None:
        return "its time has passed; set another cadence"
    if schedule.ends_at is not None and due > schedule.ends_at:
        return f"it ends at {schedule.to_local(schedule.ends_at).isoformat()}; set a later ends_at"
    return ""


def apply_run(
    was: Schedule, status: RunStatus, started: datetime, ended: datetime, rules: ScheduleSettings
) -> ScheduleUpdate:
    """Return the schedule after a run: done, to be retried, or ended.

    A firing that fails is one failure, however often it was tried: an outage of minutes must not switch it off.
    """
    assert was.due_at is not None
    ok = status is RunStatus.OK
    cadence, over = parse_schedule_cadence(was), _mark_firing_done(was)
    reached = _coverage_end(was, ended)
    following = next_firing(over, cadence, reached)
    again = ended + retry_delay(was.attempts, rules)
    ran: dict[str, Any] = {"last_run_at": started, "last_status": status, "updated_at": ended, "settled_at": ended}
    if not ok and was.attempts < rules.attempts and (following is None or again < following):
        return ScheduleUpdate(replace(was, next_run_at=again, **ran))
    failures = 0 if ok else was.failures + 1
    too_often = failures >= rules.disable_after
    missed = count_between(cadence, was.due_at, reached)
    over = replace(over, attempts=0, failures=failures, run_count=was.run_count + 1, **ran)
    over = _record_gap(was, over, following if missed else None)
    on = _schedule_next(over, following, ok=ok, too_often=too_often)
    if on.state is ScheduleState.FAILED and isinstance(cadence, OneTime):
        on = replace(on, last_due_at=was.last_due_at)  # it may run again, so its time is not done
    return ScheduleUpdate(on, missed)


def _mark_firing_done(was: Schedule) -> Schedule:
    assert was.due_at is not None
    return replace(was, last_due_at=was.due_at if was.last_due_at is None else max(was.last_due_at, was.due_at))


def _is_late(was: Schedule) -> bool:
    return was.last_due_at is not None and was.due_at is not None and was.due_at < was.last_due_at


def _coverage_end(was: Schedule, ended: datetime) -> datetime:
    """Return up to when this run covers later firings. A late run covers them to the end of its gap."""
    assert was.due_at is not None
    late = _is_late(was) and was.skipped_to is not None
    return max(was.due_at, min(ended, was.skipped_to - timedelta(microseconds=1)) if late and was.skipped_to else ended)


def _record_gap(was: Schedule, over: Schedule, following: datetime | None) -> Schedule:
    """Return what was skipped now. Nothing in the gap has happened, so it restarts with each firing in it.

    Only the last one is stored: earlier ones were already counted as missed.
    """
    begin, end, due = was.skipped_from, was.skipped_to, was.due_at
    if following is not None and not _is_late(was):
        return replace(over, skipped_from=due, skipped_to=following)
    inside = begin is not None and end is not None and due is not None and begin < due < end
    return replace(over, skipped_from=due) if inside else over


def _schedule_next(over: Schedule, following: datetime | None, *, ok: bool, too_often: bool) -> Schedule:
    if _end_reason(over, following):
        state = ScheduleState.COMPLETED if ok else ScheduleState.FAILED
        return replace(over, state=state, due_at=None, next_run_at=None)
    if too_often:
        return replace(over, state=ScheduleState.DISABLED, due_at=None, next_run_at=None)
    return replace(over, due_at=following, next_run_at=following)


def retry_delay(attempts: int, rules: ScheduleSettings) -> timedelta:
    return timedelta(seconds=min(rules.first_wait_s * 2 ** min(max(0, attempts - 1), 32), rules.longest_wait_s))


_TIMING_FIELDS = ("state", "cadence", "timezone", "due_at", "max_runs", "ends_at")
_EDITABLE_FIELDS = ("name", "goal", "notify", "agent", "metadata", "channel", "chat", "thread")


def merge_concurrent_edit(was: Schedule, now: Schedule, settled: Schedule) -> Schedule:
    """Merge the result of a run with edits made while it ran."""
    changed = {name for name in _TIMING_FIELDS if getattr(was, name) != getattr(now, name)}
    rested = now.state is ScheduleState.PAUSED and changed <= {"state", "due_at"}
    if not changed or (rested and settled.state not in LIVE_STATES):  # an ended schedule stays ended, paused or not
        edits: dict[str, Any] = {name: getattr(now, name) for name in _EDITABLE_FIELDS}
        return replace(settled, **edits)
    # Paused, edited, resumed or repaired during the run: keep the edits and add the run's counters.
    merged = replace(
        now,
        last_run_at=settled.last_run_at,
        last_status=settled.last_status,
        last_due_at=max(filter(None, (now.last_due_at, settled.last_due_at)), default=None),
        run_count=max(now.run_count, settled.run_count),
        attempts=0,
        settled_at=settled.settled_at,
    )
    return _skip_done_firing(merged, was.due_at) if settled.due_at != was.due_at else merged


def _skip_done_firing(merged: Schedule, done: datetime | None) -> Schedule:
    """A finished firing does not repeat because another process computed it too."""
    assert done is not None
    begin, end = merged.skipped_from, merged.skipped_to
    if begin is not None and end is not None and begin < done < end:
        merged = replace(merged, skipped_from=done)
    if merged.due_at != done or merged.settled_at is None:
        return merged
    due = next_firing(merged, parse_schedule_cadence(merged), max(done, merged.settled_at))
    return _schedule_next(merged, due, ok=merged.last_status is RunStatus.OK, too_often=False)


def reschedule_misdated(schedule: Schedule, now: datetime) -> Schedule:
    """Recompute the next firing if a clock far ahead of this one set it. Finished firings stay finished."""
    right = replace(schedule, settled_at=now)
    cadence = parse_schedule_cadence(right)
    # This clock may be the wrong one: nothing may fire before the schedule existed.
    due = right.due_at if isinstance(cadence, OneTime) else next_firing(right, cadence, max(now, right.anchor_at))
    if due is None or (right.due_at is not None and due >= right.due_at):
        return replace(right, next_run_at=right.due_at)
    return replace(right, due_at=due, next_run_at=due, attempts=0)


def parse_output(text: str) -> RunOutput:
    """Remove the mark: it is internal and never shown to people."""
    begins = text.lstrip()
    if begins[: len(NOTIFY_MARK)].upper() != NOTIFY_MARK:
        return RunOutput(text, marked=False)
    return RunOutput(begins[len(NOTIFY_MARK) :].lstrip(), marked=True)


def is_to_notify(
    schedule: Schedule, status: RunStatus, output: RunOutput, wished: bool | None, rules: ScheduleSettings
) -> bool:
    """Return whether to notify. Failed firings notify after enough of them, or if it was the last."""
    if schedule.notify is NotifyPolicy.NEVER:
        return False
    if status is RunStatus.FAILED:
        ended = schedule.state in (ScheduleState.FAILED, ScheduleState.DISABLED)
        is_given_up = not schedule.attempts
        return ended or (is_given_up and schedule.failures == rules.notify_after)
    if wished is not None:
        return wished
    return output.marked or (schedule.notify is NotifyPolicy.ALWAYS and bool(output.text.strip()))


def failure_text(schedule: Schedule, error: str | None) -> str:
    goal = truncate_text(" ".join(schedule.goal.split()), 80)
    state_text = {
        ScheduleState.FAILED: "It is not tried again; resume it to try once more.",
        ScheduleState.DISABLED: "It is switched off until it is resumed.",
    }.get(schedule.state, "It goes on.")
    times = "once" if schedule.failures == 1 else f"{schedule.failures} times in a row"
    return f"The schedule {goal!r} has failed {times}: {error or 'it did not say why'}. {state_text}"
