"""What callers say about schedules, read: goals, ends, queries, repeated requests."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from limpet.api.handle import View
from limpet.errors import InvalidInput, ScheduleNotFound
from limpet.model.schedule import Schedule, ScheduleQuery
from limpet.model.scope import Level, Partition, Scope
from limpet.model.session import SessionInfo
from limpet.model.values import check_text, check_time, load_timezone, short_repr
from limpet.schedules.cadence import resolve_local_time
from limpet.schedules.firing import Callback, Notifier
from limpet.schedules.repository import ScheduleQueue, Schedules
from limpet.schedules.runner import RunHandlers
from limpet.store import idempotency
from limpet.store.idempotency import IdempotencyKey, ResourceKind
from limpet.store.tx import Tx

if TYPE_CHECKING:
    from limpet.api.runtime import Runtime

log = logging.getLogger("limpet.schedules")

_RUNNER_SILENCE = timedelta(hours=2)  # one that is started every hour counts
_NEVER = ("", "never", "none")


def build_query(agent: str | None, state: str | None, text: str | None, due_before: datetime | None) -> ScheduleQuery:
    status: Any = state
    return ScheduleQuery(agent=agent, state=status, text=text or None, due_before=due_before)


def check_goal(text: str, most: int) -> str:
    if not text.strip():
        raise InvalidInput("goal is empty; say what is to be done")
    return check_text(text, "goal", max_bytes=most)


def parse_end(value: datetime | str | None, zone: str) -> datetime | None:
    """A moment, or text: in the zone if it says nothing else."""
    if not isinstance(value, str):
        return value
    if value.strip().lower() in _NEVER:
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        raise InvalidInput(f"ends_at must be a time such as 2026-12-01T09:00, not {short_repr(value)}") from None
    return resolve_local_time(moment, load_timezone(zone)) if moment.tzinfo is None else check_time(moment, "ends_at")


def apply_session_defaults(session: SessionInfo, draft: Schedule) -> Schedule:
    """What is reported goes where it was asked for, if nothing else was said."""
    key = session.key
    return replace(
        draft,
        session=session.id,
        channel=draft.channel or key.channel,
        chat=draft.chat or key.chat,
        thread=draft.thread or key.thread,
    )


_REQUEST_FIELDS = (
    "user agent name goal cadence timezone notify channel chat thread session max_runs ends_at metadata".split()
)


def build_request(key: str | None, draft: Schedule) -> IdempotencyKey | None:
    if key is None:
        return None
    return IdempotencyKey.from_request(
        ResourceKind.SCHEDULE, key, {name: getattr(draft, name) for name in _REQUEST_FIELDS}
    )


def find_previous(tx: Tx, scope: Scope, asked: IdempotencyKey | None, now: datetime) -> Schedule | None:
    def find(tx: Tx, schedule_id: str) -> Schedule:
        found = Schedules(tx).get(scope, schedule_id)
        if found is None:
            raise ScheduleNotFound(f"schedule {schedule_id} was made under this idempotency_key, and is gone since")
        return found

    return idempotency.find_existing(tx, user_partition(scope), asked, find, now)


def user_partition(scope: Scope) -> Partition:
    assert scope.user is not None
    return Partition(scope.tenant, Level.USER, scope.user)


def make_run_handlers(view: View, callback: Callback, notify: Notifier | None) -> RunHandlers:
    from limpet.api.limpet import Limpet

    def memory_for(schedule: Schedule) -> Limpet:
        """Memory for a scheduled turn: it may do everything but create schedules, in any thread."""
        return Limpet(view.derive(tenant=schedule.tenant, agent=schedule.agent, scheduled=True))

    return RunHandlers(callback, notify, memory_for)


def describe_missing_runner(runtime: Runtime) -> str | None:
    """What to say where nothing has looked for due schedules lately; None where something has."""
    seen, now = runtime.store.read(lambda tx: ScheduleQueue(tx).find_runner()), runtime.clock()
    if seen is not None and now - seen < _RUNNER_SILENCE:
        return None
    since = "yet" if seen is None else f"since {seen.isoformat(timespec='minutes')}"
    return (
        f"nothing has run schedules in this store {since}: `limpet worker --schedules` does, or a program with"
        " memory.schedules.run or memory.schedules.claim"
    )


def warn_without_runner(runtime: Runtime, schedule: Schedule) -> None:
    missing = describe_missing_runner(runtime)
    if missing is not None:
        log.warning("the schedule %s waits: %s", schedule.id, missing)
