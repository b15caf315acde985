"""Schedules: a goal that comes back, when it does, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from limpet.model.paging import PageCursor
from limpet.model.scope import Scope
from limpet.model.times import load_timezone

NOTIFY_MARK = "[NOTIFY]"  # what a run begins its answer with to be heard, where only that is


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
    """A goal and its cadence.

    ``due_at`` is the firing that comes next, ``next_run_at`` when it is run: the same, or later when it is tried again.
    ``attempts`` counts the runs of that firing that were begun, ``failures`` the runs in a row that failed.
    ``channel``, ``chat``, ``thread`` and ``session`` say where it was asked for, which is where it reports to.
    """

    id: str
    tenant: str
    user: str
    agent: str
    goal: str
    cadence: str
    timezone: str
    created_at: datetime
    updated_at: datetime
    anchor_at: datetime  # what intervals are counted from
    state: ScheduleState = ScheduleState.ACTIVE
    notify: NotifyPolicy = NotifyPolicy.ALWAYS
    channel: str | None = None
    chat: str | None = None
    thread: str | None = None
    session: str | None = None
    next_run_at: datetime | None = None
    due_at: datetime | None = None
    last_due_at: datetime | None = None  # the latest firing that is over: none up to it comes again
    # But for those between these two, which were passed over: they come, should the clock be put back before them.
    skipped_from: datetime | None = None
    skipped_to: datetime | None = None
    last_run_at: datetime | None = None
    last_status: RunStatus | None = None
    attempts: int = 0
    failures: int = 0
    run_count: int = 0  # firings that are over
    max_runs: int | None = None
    ends_at: datetime | None = None
    running_until: datetime | None = None  # how long whoever runs it now is waited for
    settled_at: datetime | None = None  # when the next firing was worked out
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, user=self.user)

    def to_local(self, moment: datetime) -> datetime:
        """A moment as clocks in the schedule's own zone show it."""
        return moment.astimezone(load_timezone(self.timezone))


class ScheduleLease(NamedTuple):
    """A schedule in the hands of the runner that took it. ``token`` tells this holder from every other, ever."""

    schedule: Schedule
    token: int
    until: datetime


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one firing. ``missed`` counts later firings that it stands for, too: nobody was there to run them."""

    id: str
    schedule_id: str
    due_at: datetime
    started_at: datetime
    ended_at: datetime
    status: RunStatus
    attempt: int = 1
    missed: int = 0
    summary: str = ""
    output_characters: int = 0
    turns: int = 0
    cost: float = 0.0
    error: str | None = None
    to_notify: bool = False
    notified: bool = False


class OutputPage(NamedTuple):
    """A part of what a run said. ``next_offset`` is None on the last page."""

    text: str
    offset: int
    next_offset: int | None
    total: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run hands back. ``notify`` decides whether anybody hears of it; None leaves that to the schedule."""

    text: str = ""
    turns: int = 1
    cost: float = 0.0
    notify: bool | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """Something to tell whoever asked for the schedule, where they asked."""

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
