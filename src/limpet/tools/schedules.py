"""The tools on schedules: create, search, edit, delete, and what came of their runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from limpet import Schedule
from limpet.api import parameters as arg
from limpet.errors import InvalidInput
from limpet.model.dataclass import dataclass, replace
from limpet.model.schedule import ScheduleState
from limpet.model.types import Count, Id, PageLimit
from limpet.tools.tool import ToolContext, tool

_CADENCE = "cron: 0 9 * * 1-5 | once: 2026-12-01T09:00 | every: 2h"
_NOTIFY = "conditional: only if the result begins with [NOTIFY]"


@dataclass(frozen=True, slots=True)
class ScheduleSummary:
    """A schedule, its times as clocks in its own zone show them."""

    id: str
    name: str | None
    goal: str
    cadence: str
    timezone: str
    state: str
    notify: str
    next_run_at: str | None
    last_run_at: str | None
    failures: Annotated[int, "in a row"]
    note: Annotated[str | None, "what the user should know: such as that nothing runs schedules here"] = None


@tool("schedule_create", "Schedule a task", "Run a task later or repeatedly, when the user asks.")
def create(
    whose: ToolContext,
    goal: Annotated[arg.Goal, "What to do each time, complete in itself."],
    cadence: Annotated[arg.Cadence, _CADENCE],
    timezone: Annotated[arg.TimeZone | None, "Such as Europe/Lisbon."] = None,
    notify: Annotated[Literal["always", "conditional", "never"], _NOTIFY] = "always",
) -> ScheduleSummary:
    made = whose.memory.schedules.create(
        whose.user,
        goal=goal,
        cadence=cadence,
        timezone=timezone,
        notify=notify,
        agent=whose.agent,
        session=whose.session,
    )
    return replace(_to_summary(made), note=made.note)


@dataclass(frozen=True, slots=True)
class ScheduleSearchResult:
    schedules: tuple[ScheduleSummary, ...]
    total: int


@tool("schedule_search", "Find schedules", "The user's schedules.", reads_only=True)
def search(
    whose: ToolContext,
    text: Annotated[arg.GoalText | None, ""] = None,
    state: ScheduleState | None = None,
    limit: PageLimit = 20,
    offset: Count = 0,
) -> ScheduleSearchResult:
    schedules, user = whose.memory.schedules, whose.user
    found = schedules.search(user, text=text, state=state, limit=limit, offset=offset)
    return ScheduleSearchResult(tuple(map(_to_summary, found)), schedules.count(user, text=text, state=state))


@tool("schedule_edit", "Change a schedule", "Change, pause or resume a schedule.", repeatable=True)
def edit(
    whose: ToolContext,
    id: Id,
    goal: Annotated[arg.Goal | None, ""] = None,
    cadence: Annotated[arg.Cadence | None, ""] = None,
    timezone: Annotated[arg.TimeZone | None, ""] = None,
    notify: Literal["always", "conditional", "never"] | None = None,
    state: Literal["active", "paused"] | None = None,
) -> ScheduleSummary:
    given: dict[str, Any] = {"goal": goal, "cadence": cadence, "timezone": timezone, "notify": notify}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes and state is None:
        raise InvalidInput("nothing to change: give goal, cadence, timezone, notify or state")
    schedules = whose.memory.schedules
    if changes:
        schedules.edit(id, user=whose.user, **changes)
    if state == "paused":
        schedules.pause(id, user=whose.user)
    elif state == "active":
        schedules.resume(id, user=whose.user)
    return _to_summary(schedules.get(id, user=whose.user))


@dataclass(frozen=True, slots=True)
class ScheduleDeleteResult:
    id: str


@tool("schedule_delete", "Delete a schedule", "Delete a schedule and its runs.", destroys=True)
def delete(whose: ToolContext, id: Id) -> ScheduleDeleteResult:
    whose.memory.schedules.delete(id, user=whose.user)
    return ScheduleDeleteResult(id)


@dataclass(frozen=True, slots=True)
class RunSummary:
    id: str
    at: str
    status: str
    summary: str
    error: str | None


@dataclass(frozen=True, slots=True)
class ScheduleRunsResult:
    runs: tuple[RunSummary, ...]
    output: Annotated[str | None, "of the run that was asked for, from offset on"]
    next_offset: Annotated[int | None, "null at the end"]


@tool("schedule_runs", "What came of it", "The last runs of a schedule.", reads_only=True)
def runs(
    whose: ToolContext,
    id: Id,
    run: Annotated[Id | None, "A run's id: its whole output instead."] = None,
    offset: Count = 0,
) -> ScheduleRunsResult:
    schedules = whose.memory.schedules
    plan = schedules.get(id, user=whose.user)
    if run is not None:
        page = schedules.run_output(run, user=whose.user, offset=offset)
        return ScheduleRunsResult((), page.text, page.next_offset)
    done = (
        RunSummary(each.id, plan.to_local(each.started_at).isoformat(), each.status.value, each.summary, each.error)
        for each in schedules.runs(id, user=whose.user, offset=offset)
    )
    return ScheduleRunsResult(tuple(done), None, None)


def _to_summary(schedule: Schedule) -> ScheduleSummary:
    return ScheduleSummary(
        schedule.id,
        schedule.name,
        schedule.goal,
        schedule.cadence,
        schedule.timezone,
        schedule.state.value,
        schedule.notify.value,
        _local(schedule, schedule.next_run_at),
        _local(schedule, schedule.last_run_at),
        schedule.failures,
    )


def _local(schedule: Schedule, moment: datetime | None) -> str | None:
    return None if moment is None else schedule.to_local(moment).isoformat()
