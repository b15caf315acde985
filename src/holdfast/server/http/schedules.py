"""Schedules: goals that come back, and what came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict
from zoneinfo import available_timezones

from pydantic import Field, StringConstraints, WithJsonSchema
from typing_extensions import TypeAliasType

from holdfast import shapes
from holdfast.server.door import Caller
from holdfast.server.given import INT, WHOLE, Body, Counted, Id, Metadata, Name, Pages, Query, Time, Words
from holdfast.server.operation import Operations
from holdfast.server.pages import Page, before, counted, page
from holdfast.shapes import nouns

operations = Operations("schedules")

_Notify = Literal["always", "conditional", "never"]
_State = Literal["active", "paused", "completed", "failed", "disabled"]
_MINUTE, _HOUR, _DAY, _MONTH = "[1-5]?[0-9]", "([0-9]|1[0-9]|2[0-3])", "([1-9]|1[0-9]|2[0-8])", "([1-9]|1[0-2])"
_FIELDS = (
    rf"({_MINUTE}(,{_MINUTE})?|\*/(5|10|15|20|30))",
    rf"(\*|{_HOUR}(,{_HOUR}){{0,3}}|[0-9]-(1[0-9]|2[0-3])|\*/[2-8])",
    rf"(\*|{_DAY}(,{_DAY}){{0,3}})",
    rf"(\*|{_MONTH}(,{_MONTH}){{0,3}})",
    r"(\*|[0-6](,[0-6]){0,3}|[0-2]-[3-6])",
)
_MOMENT = "20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]"
_SPAN = "[1-9][0-9]{0,2} ?(m|h|d|minutes|hours|days)"
# What a pattern can tell of them: the 31st of February is no matter of one. The server reads all of cron.
USUAL = f"^(cron: {' '.join(_FIELDS)}|once: {_MOMENT}|every: {_SPAN})$"
_Cadence = Annotated[
    str,
    StringConstraints(max_length=200, pattern=r"^(cron|once|every):[ -~]+$"),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": 200,
            "pattern": USUAL,
            "description": "`cron: 0 9 * * 1-5`, `once: 2030-12-01T09:00` or `every: 15m`. The pattern has the usual"
            " forms; names of days and months, longer lists, `1h30m` and times with an offset are understood, too.",
            "examples": ["cron: 0 9 * * 1-5", "every: 15m"],
        }
    ),
]
_ZONES: Any = {"enum": sorted(available_timezones())}
if TYPE_CHECKING:
    TimeZone = str
else:
    TimeZone = TypeAliasType(
        "TimeZone", Annotated[str, StringConstraints(max_length=64), Field(json_schema_extra=_ZONES)]
    )
_Goal = Annotated[Words, Field(max_length=1000)]
_Runs = Annotated[int, Field(ge=1, le=1_000_000), INT] | None


class Output(TypedDict):
    """A page of what a run said. `next_offset` is where the next one begins."""

    text: str
    offset: int
    next_offset: int | None
    characters: int


class Gone(TypedDict):
    deleted: bool


class SchedulesQuery(Pages):
    user: Name | None = None
    agent: Name | None = None
    state: _State | None = None
    text: Annotated[Words | None, Field(max_length=1000, description="words of the goal")] = None


class CreateSchedule(Body):
    goal: _Goal
    cadence: _Cadence
    user: Name | None = None
    timezone: TimeZone | None = None
    notify: _Notify = "always"
    agent: Name | None = None
    channel: Name | None = None
    chat: Name | None = None
    thread: Name | None = None
    session: Id | None = None
    max_runs: _Runs = None
    ends_at: Time | None = None
    metadata: Metadata | None = None


class ChangeSchedule(Body):
    state: Literal["active", "paused"] | None = None
    goal: _Goal | None = None
    cadence: _Cadence | None = None
    timezone: TimeZone | None = None
    notify: _Notify | None = None
    agent: Name | None = None
    channel: Name | None = None
    chat: Name | None = None
    thread: Name | None = None
    max_runs: Annotated[int, Field(ge=0, le=1_000_000, description="0 takes the limit away"), INT] | None = None
    ends_at: Time | Literal["never"] | None = None
    metadata: Metadata | None = None


class OutputQuery(Query):
    offset: Annotated[int, Field(ge=0, le=2**40), WHOLE] = 0
    limit: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] = 10_000


@operations.get("/v1/schedules")
def list_schedules(who: Caller, query: SchedulesQuery) -> Page[nouns.Schedule]:
    """Schedules, the newest first"""
    found = who.hf.schedules.search(
        query.user, query.agent, query.state, query.text, limit=query.limit + 1, before=before(query.cursor)
    )
    return page(found, query.limit, shapes.schedule, lambda each: (each.created_at, each.id))


@operations.post("/v1/schedules", 201, keyed=True)
def create_schedule(who: Caller, body: CreateSchedule) -> nouns.Schedule:
    """Let a goal come back"""
    values = body.model_dump(exclude={"user", "agent"})
    made = who.hf.schedules.create(
        who.own(body.user), **values, agent=body.agent or who.agent, idempotency_key=who.once
    )
    return shapes.schedule(made)


@operations.get("/v1/schedules/{id}")
def get_schedule(who: Caller, id: str) -> nouns.Schedule:
    """A schedule"""
    return shapes.schedule(who.hf.schedules.get(id))


@operations.patch("/v1/schedules/{id}")
def change_schedule(who: Caller, id: str, body: ChangeSchedule) -> nouns.Schedule:
    """Change what is given; pause, or let it go on"""
    values = {name: value for name, value in body.given().items() if value is not None and name != "state"}
    found = who.hf.schedules.edit(id, **values) if values else who.hf.schedules.get(id)
    if body.state == "paused":
        found = who.hf.schedules.pause(id)
    elif body.state == "active":
        found = who.hf.schedules.resume(id)
    return shapes.schedule(found)


@operations.delete("/v1/schedules/{id}")
def delete_schedule(who: Caller, id: str) -> Gone:
    """Remove a schedule and its runs"""
    who.hf.schedules.delete(id)
    return {"deleted": True}


@operations.get("/v1/schedules/{id}/runs")
def list_runs(who: Caller, id: str, query: Counted) -> Page[nouns.Run]:
    """What came of a schedule, the latest first"""
    offset = int(query.cursor or 0)
    found = who.hf.schedules.runs(id, limit=query.limit + 1, offset=offset)
    return counted(found, query.limit, offset, shapes.run)


@operations.get("/v1/runs/{id}/output")
def get_output(who: Caller, id: str, query: OutputQuery) -> Output:
    """All that a run said, a page at a time"""
    found = who.hf.schedules.run_output(id, offset=query.offset, limit=query.limit)
    return {
        "text": found.text,
        "offset": found.offset,
        "next_offset": found.next_offset,
        "characters": found.total,
    }
