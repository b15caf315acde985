"""Schedules: goals that come back, and what came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict
from zoneinfo import available_timezones

from pydantic import Field, StringConstraints, WithJsonSchema
from typing_extensions import TypeAliasType

from limpet.model.schedule import Run, Schedule
from limpet.server.auth import Caller
from limpet.server.operation import Operations
from limpet.server.pages import Page, make_offset_page, make_page, parse_cursor
from limpet.server.params import (
    INT,
    WHOLE,
    Body,
    Counted,
    Extras,
    Id,
    Name,
    OfAgent,
    OfUser,
    Pages,
    Query,
    Time,
    User,
    Words,
)

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
_Goal = Annotated[Words, Field(max_length=1000, description="what is to be done each time")]
_Zone = Annotated[TimeZone | None, Field(description="of its clock times; left out: `schedules.timezone`")]
_Told = Annotated[_Notify, Field(description="when a run is told; conditional: when it begins with `[NOTIFY]`")]
_Agent = Annotated[Name, Field(description="the agent that does it")]
_Channel = Annotated[Name, Field(description="where it reports to: what carries the chat")]
_Chat = Annotated[Name, Field(description="where it reports to: the chat's name in its channel")]
_Thread = Annotated[Name, Field(description="where it reports to: the thread within the chat")]


_MostRuns = Annotated[
    int, Field(ge=0, le=1_000_000, description="firings after which it ends; 0 takes the limit away"), INT
]


class Output(TypedDict):
    """A page of what a run said."""

    text: Annotated[str, "this page"]
    offset: Annotated[int, "the character it begins at"]
    next_offset: Annotated[int | None, "where the next page begins; null: this is the last"]
    characters: Annotated[int, "length of the whole"]


class Gone(TypedDict):
    deleted: Annotated[bool, "always true; else a problem comes"]


class SchedulesQuery(Pages):
    user: OfUser | None = None
    agent: OfAgent | None = None
    state: Annotated[_State, Field(description="only those that are this")] | None = None
    text: Annotated[Words, Field(max_length=1000, description="words of the goal")] | None = None


class CreateSchedule(Body):
    goal: _Goal
    cadence: _Cadence
    user: User | None = None
    timezone: _Zone = None
    notify: _Told = "always"
    agent: _Agent | None = None
    channel: _Channel | None = None
    chat: _Chat | None = None
    thread: _Thread | None = None
    session: Annotated[Id, Field(description="where it is asked for; it reports to its chat")] | None = None
    max_runs: Annotated[int, Field(ge=1, le=1_000_000, description="firings after which it ends"), INT] | None = None
    ends_at: Annotated[Time, Field(description="when it ends")] | None = None
    metadata: Extras = None


class ChangeSchedule(Body):
    """What is left out or null stays as it is."""

    state: Annotated[Literal["active", "paused"], Field(description="pause it, or let it go on")] | None = None
    goal: _Goal | None = None
    cadence: _Cadence | None = None
    timezone: _Zone = None
    notify: _Told | None = None
    agent: _Agent | None = None
    channel: _Channel | None = None
    chat: _Chat | None = None
    thread: _Thread | None = None
    max_runs: _MostRuns | None = None
    ends_at: Annotated[Time | Literal["never"] | None, Field(description="when it ends")] = None
    metadata: Extras = None


class OutputQuery(Query):
    offset: Annotated[int, Field(ge=0, le=2**40, description="the character to begin at"), WHOLE] = 0
    limit: Annotated[int, Field(ge=1, le=1_000_000, description="characters at most"), WHOLE] = 10_000


@operations.get("/v1/schedules")
def list_schedules(who: Caller, query: SchedulesQuery) -> Page[Schedule]:
    """Schedules, the newest first"""
    found = who.hf.schedules.search(
        query.user, query.agent, query.state, query.text, limit=query.limit + 1, before=parse_cursor(query.cursor)
    )
    return make_page(found, query.limit, lambda each: (each.created_at, each.id))


@operations.post("/v1/schedules", 201, keyed=True)
def create_schedule(who: Caller, body: CreateSchedule) -> Schedule:
    """Let a goal come back"""
    values = body.model_dump(exclude={"user", "agent"})
    return who.hf.schedules.create(
        who.resolve_user(body.user), **values, agent=body.agent or who.agent, idempotency_key=who.once
    )


@operations.get("/v1/schedules/{id}")
def get_schedule(who: Caller, id: str) -> Schedule:
    """A schedule"""
    return who.hf.schedules.get(id)


@operations.patch("/v1/schedules/{id}")
def change_schedule(who: Caller, id: str, body: ChangeSchedule) -> Schedule:
    """Change what is given; pause, or let it go on"""
    values = {name: value for name, value in body.given().items() if value is not None and name != "state"}
    found = who.hf.schedules.edit(id, **values) if values else who.hf.schedules.get(id)
    if body.state == "paused":
        found = who.hf.schedules.pause(id)
    elif body.state == "active":
        found = who.hf.schedules.resume(id)
    return found


@operations.delete("/v1/schedules/{id}")
def delete_schedule(who: Caller, id: str) -> Gone:
    """Remove a schedule and its runs"""
    who.hf.schedules.delete(id)
    return {"deleted": True}


@operations.get("/v1/schedules/{id}/runs")
def list_runs(who: Caller, id: str, query: Counted) -> Page[Run]:
    """What came of a schedule, the latest first"""
    offset = int(query.cursor or 0)
    found = who.hf.schedules.runs(id, limit=query.limit + 1, offset=offset)
    return make_offset_page(found, query.limit, offset)


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
