"""Schedules, and what came of their runs. Who runs one just now is not told: whoever takes it in is not at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from limpet.errors import InvalidInput
from limpet.lifecycle.lines.kind import (
    ALREADY_PRESENT,
    IDS,
    PAGE,
    ImportTarget,
    LineKind,
    LineOutcome,
    checked_cost,
    drop_empty,
    iter_pages,
    require_fields,
)
from limpet.lifecycle.lines.times import format_time, format_time_or_none, parse_time, parse_time_or_none
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.ids import check_id
from limpet.model.schedule import NotifyPolicy, Run, RunStatus, Schedule, ScheduleState
from limpet.model.scope import Level, Partition, Scope
from limpet.model.text import MAX_CONTENT_BYTES, check_choice, check_name, check_optional_name, check_text
from limpet.model.times import load_timezone
from limpet.model.transfer import RunState
from limpet.model.values import check_flag, check_metadata, check_number
from limpet.schedules.cadence import parse_cadence
from limpet.schedules.repository import Schedules
from limpet.search.chunk_repository import Chunks
from limpet.store.tx import Tx

_SCHEDULE = {
    "id": "the schedule's id, a UUID",
    "user": "whose it is",
    "agent": "the agent that does it",
    "goal": "what is to be done",
    "cadence": "when: `cron: …`, `once: …` or `every: …`",
    "timezone": "the zone that is meant in",
    "state": "`active`, `paused`, `completed`, `failed` or `disabled`",
    "notify": "when a run is told: `always`, `conditional` or `never`",
    "channel": "where it was asked for, which is where it reports to",
    "chat": "and there",
    "thread": "and there",
    "session_id": "and in which session",
    "next_run_at": "when it runs next",
    "due_at": "the firing that is run then",
    "last_due_at": "the latest firing that is over",
    "skipped_from": "firings between this one",
    "skipped_to": "and this one were passed over",
    "last_run_at": "when it last ran",
    "last_status": "what became of that: `ok` or `failed`",
    "attempts": "how often the firing that is due was tried",
    "failures": "how many runs in a row failed",
    "run_count": "how many firings are over",
    "max_runs": "after how many it ends",
    "ends_at": "when it ends",
    "anchor_at": "what intervals are counted from",
    "settled_at": "when the next firing was worked out",
    "metadata": "any JSON object",
    "created_at": "when it was made",
    "updated_at": "when it was last changed",
}
_TIMES = (
    *("next_run_at", "due_at", "last_due_at", "skipped_from", "skipped_to"),
    *("last_run_at", "ends_at", "settled_at"),
)
_COUNTS = ("attempts", "failures", "run_count")
_NAMES = ("channel", "chat", "thread")
_RUN = {
    "id": "the run's id, a UUID",
    "schedule_id": "the schedule it is of",
    "due_at": "the firing it is of",
    "started_at": "when it began",
    "ended_at": "when it ended",
    "status": "`ok` or `failed`",
    "attempt": "which try of the firing it was",
    "missed": "how many later firings it stands for, too",
    "summary": "how what it said begins",
    "output": "all that it said",
    "turns": "how many turns it took",
    "cost": "what they cost",
    "error": "why it failed",
    "to_notify": "whether somebody is to be told",
    "notified": "whether somebody was",
}


# Schedules


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    after = ""
    while page := Schedules(tx).page(scope, after, PAGE):
        yield from map(to_line, page)
        after = page[-1].id


def to_line(schedule: Schedule) -> dict[str, Any]:
    status = schedule.last_status
    return drop_empty(
        {
            "id": schedule.id,
            "user": schedule.user,
            "agent": schedule.agent,
            "goal": schedule.goal,
            "cadence": schedule.cadence,
            "timezone": schedule.timezone,
            "state": schedule.state.value,
            "notify": schedule.notify.value,
            **{name: getattr(schedule, name) for name in _NAMES},
            "session_id": schedule.session,
            **{name: format_time_or_none(getattr(schedule, name)) for name in _TIMES},
            "last_status": None if status is None else status.value,
            **{name: getattr(schedule, name) for name in _COUNTS},
            "max_runs": schedule.max_runs,
            "anchor_at": format_time(schedule.anchor_at),
            "metadata": dict(schedule.metadata),
            "created_at": format_time(schedule.created_at),
            "updated_at": format_time(schedule.updated_at),
        }
    )


def _read(value: dict[str, Any], into: ImportTarget) -> Schedule:
    require_fields(
        value, "id", "user", "agent", "goal", "cadence", "timezone", "created_at", "updated_at", "anchor_at", "state"
    )
    session, status, most = value.get("session_id"), value.get("last_status"), value.get("max_runs")
    rest: dict[str, Any] = {name: parse_time_or_none(value.get(name), name) for name in _TIMES}
    if (rest["due_at"] is None) != (rest["next_run_at"] is None):
        raise InvalidInput("due_at and next_run_at belong together: give both or none")
    rest |= {name: check_optional_name(value.get(name), name) for name in _NAMES}
    rest |= {name: check_number(value.get(name, 0), name) for name in _COUNTS}
    schedule = Schedule(
        id=into.map_id(check_id(value["id"], "id")),
        tenant=into.tenant,
        user=into.map_user(value["user"]),
        agent=check_name(value["agent"], "agent"),
        goal=check_text(value["goal"], "goal"),
        cadence=check_text(value["cadence"], "cadence"),
        timezone=check_name(value["timezone"], "timezone"),
        created_at=parse_time(value["created_at"], "created_at"),
        updated_at=parse_time(value["updated_at"], "updated_at"),
        anchor_at=parse_time(value["anchor_at"], "anchor_at"),
        state=check_choice(ScheduleState, value["state"], "state"),
        notify=check_choice(NotifyPolicy, value.get("notify", NotifyPolicy.ALWAYS.value), "notify"),
        session=None if session is None else into.map_id(check_id(session, "session_id")),
        last_status=None if status is None else check_choice(RunStatus, status, "last_status"),
        max_runs=None if most is None else check_number(most, "max_runs"),
        metadata=check_metadata(value.get("metadata")),
        **rest,
    )
    parse_cadence(schedule.cadence, _zone_or_utc(schedule.timezone), schedule.anchor_at)
    return schedule


def _zone_or_utc(name: str) -> str:
    """One that is unknown here is kept: whoever knows it runs the schedule. How a cadence is written needs none."""
    try:
        load_timezone(name)
    except InvalidInput:
        return "UTC"
    return name


def _put(tx: Tx, schedules: Sequence[Schedule], _: ImportTarget) -> list[LineOutcome]:
    return [_put_one(tx, schedule) for schedule in schedules]


def _put_one(tx: Tx, schedule: Schedule) -> LineOutcome:
    """However many the user has: a limit is for those who make one."""
    # A purge finds a user by their space; and two imports at the same time would else both find nothing here.
    Chunks(tx).lock(Partition(schedule.tenant, Level.USER, schedule.user))
    if Schedules(tx).get(schedule.scope, schedule.id) is not None:
        return LineOutcome(False, ALREADY_PRESENT)
    if Transfers(tx).find_conflicting_ids(schedule.scope, "schedules", {schedule.id: schedule.user}):
        return LineOutcome(False, "its id belongs to somebody else's schedule here")
    Schedules(tx).insert(schedule.scope, schedule)
    return LineOutcome(True)


# Runs


def _iter_run_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for page in iter_pages(lambda after: Schedules(tx).run_ids(scope, after, IDS)):
        for id_ in page:
            run = Schedules(tx).get_run(scope, id_)
            output = Schedules(tx).read_output(scope, id_, 0, MAX_CONTENT_BYTES)
            if run is not None and output is not None:
                yield run_to_line(RunState(run, output[0]))


def run_to_line(state: RunState) -> dict[str, Any]:
    run = state.run
    return drop_empty(
        {
            "id": run.id,
            "schedule_id": run.schedule_id,
            "due_at": format_time(run.due_at),
            "started_at": format_time(run.started_at),
            "ended_at": format_time(run.ended_at),
            "status": run.status.value,
            "attempt": run.attempt,
            "missed": run.missed,
            "summary": run.summary,
            "output": state.output,
            "turns": run.turns,
            "cost": run.cost,
            "error": run.error,
            "to_notify": run.to_notify,
            "notified": run.notified,
        }
    )


def _read_run(value: dict[str, Any], into: ImportTarget) -> RunState:
    require_fields(value, "id", "schedule_id", "due_at", "started_at", "ended_at", "status")
    output, error = check_text(value.get("output", ""), "output"), value.get("error")
    run = Run(
        id=into.map_id(check_id(value["id"], "id")),
        schedule_id=into.map_id(check_id(value["schedule_id"], "schedule_id")),
        due_at=parse_time(value["due_at"], "due_at"),
        started_at=parse_time(value["started_at"], "started_at"),
        ended_at=parse_time(value["ended_at"], "ended_at"),
        status=check_choice(RunStatus, value["status"], "status"),
        attempt=check_number(value.get("attempt", 1), "attempt"),
        missed=check_number(value.get("missed", 0), "missed"),
        summary=check_text(value.get("summary", ""), "summary"),
        output_characters=len(output),
        turns=check_number(value.get("turns", 0), "turns"),
        cost=checked_cost(value.get("cost", 0.0), "cost"),
        error=None if error is None else check_text(error, "error"),
        to_notify=check_flag(value.get("to_notify", False), "to_notify"),
        notified=check_flag(value.get("notified", False), "notified"),
    )
    return RunState(run, output)


def _put_runs(tx: Tx, states: Sequence[RunState], into: ImportTarget) -> list[LineOutcome]:
    return [_put_run(tx, state, into.scope) for state in states]


def _put_run(tx: Tx, state: RunState, scope: Scope) -> LineOutcome:
    run = state.run
    if Schedules(tx).lock(scope, run.schedule_id) is None:
        return LineOutcome(False, "its schedule is not here")
    if Transfers(tx).find_conflicting_ids(scope, "schedule_runs", {run.id: run.schedule_id}):
        return LineOutcome(False, "its id belongs to another schedule's run here")
    if Schedules(tx).get_run(scope, run.id) is not None:
        return LineOutcome(False, ALREADY_PRESENT)
    Schedules(tx).add_run(scope, run, state.output)
    return LineOutcome(True)


SCHEDULES = LineKind(
    "schedules",
    "a goal that comes back; whether it is being run just now is not told",
    _SCHEDULE,
    _iter_lines,
    _read,
    _put,
    noun="schedules",
    owner=lambda schedule: (schedule.id, schedule.user),
)
SCHEDULE_RUNS = LineKind(
    "schedule_runs",
    "what came of a schedule once",
    _RUN,
    _iter_run_lines,
    _read_run,
    _put_runs,
    owner=lambda state: (state.run.id, state.run.schedule_id),
)
