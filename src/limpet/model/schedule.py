"""Schedules: a goal that comes back, when it does, and what came of it."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, NamedTuple

from limpet.model.columns import NO_COLUMN, SET_ONCE, WHOSE, Column, Plain, Stored
from limpet.model.dataclass import dataclass
from limpet.model.schema import NO_EXPORT, ONLY_EXPORT, JsonName
from limpet.model.scope import Scope
from limpet.model.types import Cost, Id, Metadata, Moment, Name, Text, Title
from limpet.model.values import PageCursor, load_timezone

NOTIFY_MARK = "[NOTIFY]"  # what a run begins its answer with to be heard, where only that is


_NANO = 1_000_000_000


class ScheduleState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"  # nothing is left to fire
    FAILED = "failed"  # its last firing failed for good, and nothing is left to fire
    DISABLED = "disabled"  # failed too often in a row


LIVE_STATES = (ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.DISABLED)
END_STATES = (ScheduleState.COMPLETED, ScheduleState.FAILED)


class NotifyPolicy(StrEnum):
    ALWAYS = "always"
    CONDITIONAL = "conditional"  # only what begins with the mark
    NEVER = "never"


class RunStatus(StrEnum):
    OK = "ok"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A goal and its cadence. Completed or failed, nothing is left to fire. It reports to where it was asked for."""

    id: Annotated[Id, SET_ONCE, "given by the store"]
    tenant: Annotated[Name, NO_EXPORT, SET_ONCE, WHOSE, "the tenant it belongs to"]
    user: Annotated[Name, SET_ONCE, Column("user_id"), WHOSE, "the user it belongs to"]
    agent: Annotated[Name, WHOSE, "the agent it belongs to"]
    goal: Annotated[Text, "what to do each time"]
    cadence: Annotated[Text, Plain("when it is due"), "when: cron, once or every"]
    timezone: Annotated[Name, Plain("when it is due"), "the zone of its clock times"]
    created_at: Annotated[Moment, SET_ONCE, "when it was created"]
    updated_at: Annotated[Moment, "when it was last changed"]
    anchor_at: Annotated[Moment, ONLY_EXPORT, "what intervals are counted from"]
    name: Annotated[Title | None, "its name; null: it has none"] = None
    state: Annotated[ScheduleState, "disabled: it failed too often in a row"] = ScheduleState.ACTIVE
    notify: Annotated[NotifyPolicy, "when runs are reported; conditional: if the text begins with [NOTIFY]"] = (
        NotifyPolicy.ALWAYS
    )
    channel: Annotated[Name | None, Plain("where it was asked for"), "where it reports to; null: nowhere"] = None
    chat: Annotated[Name | None, Plain("the chat's id"), "where it reports to; null: nowhere"] = None
    thread: Annotated[Name | None, Plain("the thread's id"), "where it reports to; null: nowhere"] = None
    session: Annotated[
        Id | None, JsonName("session_id"), Column("session_id"), "the session it was created in; null: none"
    ] = None
    next_run_at: Annotated[Moment | None, "when it runs next: at due_at, or later when it is retried; null: never"] = (
        None
    )
    due_at: Annotated[Moment | None, "the firing that comes next; null: none"] = None
    last_due_at: Annotated[Moment | None, "the latest finished firing; null: none"] = None
    # But for those between these two, which were passed over: they come, should the clock be put back before them.
    skipped_from: Annotated[
        Moment | None, ONLY_EXPORT, "the first skipped firing; skipped ones run if the clock is set back"
    ] = None
    skipped_to: Annotated[Moment | None, ONLY_EXPORT, "the last skipped firing"] = None
    last_run_at: Annotated[Moment | None, "when it last ran; null: never"] = None
    last_status: Annotated[RunStatus | None, "how that run ended; null: it never ran"] = None
    attempts: Annotated[int, "runs started of the firing that is due"] = 0
    failures: Annotated[int, "consecutive failed firings"] = 0
    run_count: Annotated[int, "finished firings"] = 0
    max_runs: Annotated[int | None, "firings after which it ends; null: no limit"] = None
    ends_at: Annotated[Moment | None, "when it ends; null: never"] = None
    running_until: Annotated[
        Moment | None, NO_EXPORT, NO_COLUMN, "when the runner's lease ends; null: no runner has it"
    ] = None
    settled_at: Annotated[Moment | None, ONLY_EXPORT, "when the next firing was computed"] = None
    metadata: Annotated[Metadata, "any JSON of the program's own"] = field(default_factory=dict)
    note: Annotated[
        str | None, NO_EXPORT, NO_COLUMN, "for a new schedule: a warning that nothing runs it here; null: none"
    ] = field(default=None, compare=False)

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, user=self.user)

    def to_local(self, moment: datetime) -> datetime:
        """A moment as clocks in the schedule's own zone show it."""
        return moment.astimezone(load_timezone(self.timezone))


class ScheduleLease(NamedTuple):
    """A schedule that a runner has claimed: nobody else runs its firing until the lease ends.

    ``schedule.due_at`` is the firing; with the schedule's id it is the same each time the firing is tried.
    """

    schedule: Annotated[Schedule, "what to run: its goal, for the firing at its due_at"]
    token: Annotated[int, "identifies this claim; pass it to finish"]
    until: Annotated[Moment, "when the lease ends, and another runner may claim the firing"]


# Sums of whole numbers are exact.
_COST_COLUMN = Stored(("cost_nanos",), lambda cost: (round(cost * _NANO),), lambda nanos: nanos / _NANO)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one firing. ``missed`` counts later firings that it stands for, too: nobody was there to run them."""

    id: Annotated[Id, "given by the store"]
    schedule_id: Annotated[Id, "the id of its schedule"]
    due_at: Annotated[Moment, "the firing it is for"]
    started_at: Annotated[Moment, "when it started"]
    ended_at: Annotated[Moment, "when it ended"]
    status: Annotated[RunStatus, "how it ended"]
    attempt: Annotated[int, "1, plus one for each retry of the firing"] = 1
    missed: Annotated[int, "later firings that it also covers, because no runner was there"] = 0
    summary: Annotated[Text, "the beginning of its output"] = ""
    output_characters: Annotated[int, NO_EXPORT, NO_COLUMN, "length of its whole output"] = 0
    turns: Annotated[int, "turns it took"] = 0
    cost: Annotated[Cost, _COST_COLUMN, "in the reported currency"] = 0.0
    error: Annotated[Text | None, "what went wrong; null: nothing"] = None
    to_notify: Annotated[bool, NO_COLUMN, "whether it is to be reported"] = False
    notified: Annotated[bool, NO_COLUMN, "whether it was reported"] = False


class OutputPage(NamedTuple):
    """A part of what a run said. ``next_offset`` is None on the last page."""

    text: Annotated[str, "this page"]
    offset: Annotated[int, "the character it begins at"]
    next_offset: Annotated[int | None, "where the next page begins; null: this is the last"]
    total: Annotated[int, JsonName("characters"), "length of the whole output"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run hands back. ``notify`` decides whether anybody hears of it; None leaves that to the schedule."""

    text: str = ""
    turns: int = 1
    cost: float = 0.0
    notify: bool | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """A message to the chat that a schedule was created in."""

    schedule: Schedule
    run: Run
    text: str
    channel: str | None = None
    chat: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleQuery:
    agent: str | None = None
    state: ScheduleState | None = None
    text: str | None = None
    due_before: datetime | None = None
    limit: int = 50
    offset: int = 0
    before: PageCursor | None = None
