"""Schedules, and what came of their runs. Who runs one just now is not told: whoever takes it in is not at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from limpet.errors import InvalidInput
from limpet.lifecycle.lines.kind import (
    ALREADY_PRESENT,
    IDS,
    PAGE,
    ImportTarget,
    LineKind,
    LineOutcome,
    iter_pages,
    require_fields,
)
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.lines import LineCodec
from limpet.model.schedule import Schedule
from limpet.model.scope import Level, Partition, Scope
from limpet.model.transfer import RunState
from limpet.model.values import MAX_CONTENT_BYTES, load_timezone
from limpet.schedules.cadence import parse_cadence
from limpet.schedules.repository import Schedules
from limpet.search.chunk_repository import Chunks
from limpet.store.tx import Tx

_LINE = LineCodec(Schedule)
_RUN_LINE = LineCodec(RunState)


# Schedules


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    after = ""
    while page := Schedules(tx).page(scope, after, PAGE):
        yield from map(to_line, page)
        after = page[-1].id


def to_line(schedule: Schedule) -> dict[str, Any]:
    return _LINE.write(schedule)


def _read(value: dict[str, Any], into: ImportTarget) -> Schedule:
    require_fields(value, "state")
    schedule = _LINE.read(value, {"tenant": into.tenant}, into.map_id)
    if (schedule.due_at is None) != (schedule.next_run_at is None):
        raise InvalidInput("due_at and next_run_at belong together: give both or none")
    parse_cadence(schedule.cadence, _zone_or_utc(schedule.timezone), schedule.anchor_at)
    return replace(schedule, user=into.map_user(schedule.user))


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
    return _RUN_LINE.write(state)


def _read_run(value: dict[str, Any], into: ImportTarget) -> RunState:
    state = _RUN_LINE.read(value, {}, into.map_id)
    return replace(state, run=replace(state.run, output_characters=len(state.output)))


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
    _LINE,
    _iter_lines,
    _read,
    _put,
    noun="schedules",
    owner=lambda schedule: (schedule.id, schedule.user),
)
SCHEDULE_RUNS = LineKind(
    "schedule_runs",
    "what came of a schedule once",
    _RUN_LINE,
    _iter_run_lines,
    _read_run,
    _put_runs,
    owner=lambda state: (state.run.id, state.run.schedule_id),
)
