"""The tools on schedules: create, search, edit, delete, and what came of their runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from limpet import Schedule
from limpet.errors import InvalidInput
from limpet.tools.arguments import arg
from limpet.tools.tool import AnyTool, Tool, Whose

_LONGEST = 8_000
_CADENCE = "cron: 0 9 * * 1-5 | once: 2026-12-01T09:00 | every: 2h"
_NOTIFY = "conditional: only if the result begins with [NOTIFY]"


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule, its times as clocks in its own zone show them."""

    id: str
    goal: str
    cadence: str
    timezone: str
    state: str
    notify: str
    next_run_at: str | None
    last_run_at: str | None
    failures: int = arg("in a row")


@dataclass(frozen=True, slots=True)
class Create:
    goal: str = arg("What to do each time, complete in itself.", least=1, most=_LONGEST)
    cadence: str = arg(_CADENCE, least=1, most=200)
    timezone: str | None = arg("Such as Europe/Lisbon.", None, least=1, most=100)
    notify: Literal["always", "conditional", "never"] = arg(_NOTIFY, "always")


def create(whose: Whose, given: Create) -> Planned:
    made = whose.hf.schedules.create(
        whose.user,
        given.goal,
        given.cadence,
        given.timezone,
        given.notify,
        agent=whose.agent,
        session=whose.session,
    )
    return _planned(made)


@dataclass(frozen=True, slots=True)
class Search:
    text: str | None = arg("", None, least=1, most=_LONGEST)
    state: str | None = arg("active, paused, completed, failed or disabled", None, least=1, most=40)
    limit: int = arg("", 20, least=1, most=50)
    offset: int = arg("", 0, least=0, most=1_000_000)


@dataclass(frozen=True, slots=True)
class Plans:
    schedules: tuple[Planned, ...]
    total: int


def search(whose: Whose, asked: Search) -> Plans:
    wanted: dict[str, Any] = {"user": whose.user, "text": asked.text, "state": asked.state}
    found = whose.hf.schedules.search(**wanted, limit=asked.limit, offset=asked.offset)
    return Plans(tuple(map(_planned, found)), whose.hf.schedules.count(**wanted))


@dataclass(frozen=True, slots=True)
class Edit:
    id: str = arg("", least=1, most=200)
    goal: str | None = arg("", None, least=1, most=_LONGEST)
    cadence: str | None = arg("", None, least=1, most=200)
    timezone: str | None = arg("", None, least=1, most=100)
    notify: Literal["always", "conditional", "never"] | None = arg("", None)
    state: Literal["active", "paused"] | None = arg("", None)


def edit(whose: Whose, given: Edit) -> Planned:
    names = ("goal", "cadence", "timezone", "notify")
    changes: dict[str, Any] = {name: value for name in names if (value := getattr(given, name)) is not None}
    if not changes and given.state is None:
        raise InvalidInput("nothing to change: give goal, cadence, timezone, notify or state")
    schedules = whose.hf.schedules
    if changes:
        schedules.edit(given.id, user=whose.user, **changes)
    if given.state == "paused":
        schedules.pause(given.id, user=whose.user)
    elif given.state == "active":
        schedules.resume(given.id, user=whose.user)
    return _planned(schedules.get(given.id, user=whose.user))


@dataclass(frozen=True, slots=True)
class Delete:
    id: str = arg("", least=1, most=200)


@dataclass(frozen=True, slots=True)
class Deleted:
    id: str


def delete(whose: Whose, given: Delete) -> Deleted:
    whose.hf.schedules.delete(given.id, user=whose.user)
    return Deleted(given.id)


@dataclass(frozen=True, slots=True)
class Runs:
    id: str = arg("of the schedule", least=1, most=200)
    run: str | None = arg("A run's id: its whole output instead.", None, least=1, most=200)
    offset: int = arg("", 0, least=0, most=1_000_000_000)


@dataclass(frozen=True, slots=True)
class Done:
    id: str
    at: str
    status: str
    summary: str
    error: str | None


@dataclass(frozen=True, slots=True)
class Ran:
    runs: tuple[Done, ...]
    output: str | None = arg("of the run that was asked for, from offset on")
    next_offset: int | None = arg("null at the end")


def runs(whose: Whose, asked: Runs) -> Ran:
    schedules = whose.hf.schedules
    plan = schedules.get(asked.id, user=whose.user)
    if asked.run is not None:
        page = schedules.run_output(asked.run, user=whose.user, offset=asked.offset)
        return Ran((), page.text, page.next_offset)
    found = schedules.runs(asked.id, user=whose.user, offset=asked.offset)
    done = (
        Done(run.id, plan.local(run.started_at).isoformat(), run.status.value, run.summary, run.error) for run in found
    )
    return Ran(tuple(done), None, None)


TOOLS: tuple[AnyTool, ...] = (
    Tool(
        "schedule_create",
        "Schedule a task",
        "Let a task run later or again and again, when the user asks for it.",
        Create,
        Planned,
        create,
    ),
    Tool("schedule_search", "Find schedules", "The user's schedules.", Search, Plans, search, reads_only=True),
    Tool(
        "schedule_edit",
        "Change a schedule",
        "Change, pause or resume a schedule.",
        Edit,
        Planned,
        edit,
        repeatable=True,
    ),
    Tool(
        "schedule_delete",
        "Delete a schedule",
        "Delete a schedule and its runs.",
        Delete,
        Deleted,
        delete,
        destroys=True,
    ),
    Tool("schedule_runs", "What came of it", "The last runs of a schedule.", Runs, Ran, runs, reads_only=True),
)


def _planned(schedule: Schedule) -> Planned:
    return Planned(
        schedule.id,
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
    return None if moment is None else schedule.local(moment).isoformat()
