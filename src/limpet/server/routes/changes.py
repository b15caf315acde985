"""What one operation alone does not do: several changes in one request, and answers that say more."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from limpet import Session
from limpet.api import parameters as given
from limpet.model.constraints import Integer
from limpet.model.message import Message
from limpet.model.schedule import Schedule
from limpet.model.session import SessionInfo, SessionStatus
from limpet.model.types import Metadata
from limpet.notes.user_notes import compute_version
from limpet.security.operation import OPERATIONS
from limpet.server.auth import Caller
from limpet.server.route import Routes, call_operation

routes = Routes()

_Number = Annotated[int, Integer(0, 2**53)]
_PageLimit = Annotated[int, Integer(1, 1000), "messages of a page at most"]


class MessagePage(TypedDict):
    items: Annotated[list[Message], "the messages, `limit` at most"]
    next: Annotated[str | None, "what to give as `after` for the next page; null: this is the last"]


class NotesText(TypedDict):
    text: Annotated[str, "Markdown; empty: there is nothing yet"]
    version: Annotated[str, "of this text, for writing it"]


@routes.add("PATCH /v1/sessions/{session_id}")
def change_session(
    who: Caller,
    /,
    session_id: given.SessionId,
    *,
    state: Annotated[SessionStatus, "TERMINATED is final"] | None = None,
    metadata: Annotated[Metadata, "entries to change; null removes one"] | None = None,
) -> SessionInfo:
    """Pause, resume or end a session; change its metadata"""
    session = who.memory.load_session(session_id)
    match state:
        case SessionStatus.ACTIVE:
            session.resume()
        case SessionStatus.PAUSED:
            session.pause()
        case SessionStatus.TERMINATED:
            session.terminate()
    if metadata is not None:
        session.update_metadata(metadata)
    return session.refresh()


@routes.add("GET /v1/sessions/{session_id}/messages")
def list_messages(
    who: Caller,
    /,
    session_id: given.SessionId,
    *,
    after: Annotated[_Number, "only messages behind this number"] | None = None,
    before: Annotated[_Number, "only messages before this number"] | None = None,
    limit: _PageLimit = 100,
) -> MessagePage:
    """Messages in their order

    `next` is what to give as `after`. With `before` alone, the last messages before that number.
    """
    session = who.memory.load_session(session_id)
    if after is None and before is not None:
        return {"items": _read_last(session, before, limit), "next": None}
    found = session.messages(after=after, before=before, limit=limit + 1)
    shown = list(found[:limit])
    return {"items": shown, "next": str(shown[-1].sequence) if len(found) > limit else None}


def _read_last(session: Session, before: int, limit: int) -> list[Message]:
    """The last messages before that number. Numbers may have gaps: then it looks further back."""
    end, span = min(before, session.info.last_sequence + 1), limit
    while True:
        begin = max(0, end - 1 - span)
        found = session.messages(after=begin, before=end)
        if len(found) >= limit or begin == 0:
            return list(found[-limit:])
        span *= 4


@routes.add("PATCH /v1/schedules/{id}")
def change_schedule(
    who: Caller,
    /,
    id: given.ScheduleId,
    *,
    state: Annotated[Literal["active", "paused"], "pause it, or let it go on"] | None = None,
    user: given.OfUser | None = None,
    name: given.ScheduleName | None = None,
    goal: given.Goal | None = None,
    cadence: given.Cadence | None = None,
    timezone: given.TimeZone | None = None,
    notify: given.Notify | None = None,
    agent: given.ThroughAgent | None = None,
    channel: given.Channel | None = None,
    chat: given.Chat | None = None,
    thread: given.Thread | None = None,
    max_runs: given.MaxRuns | None = None,
    ends_at: given.EndsAt | None = None,
    metadata: given.Metadata | None = None,
) -> Schedule:
    """Change what is given; pause, or let it go on"""
    values: dict[str, Any] = {
        "name": name,
        "goal": goal,
        "cadence": cadence,
        "timezone": timezone,
        "notify": notify,
        "agent": agent,
        "channel": channel,
        "chat": chat,
        "thread": thread,
        "max_runs": max_runs,
        "ends_at": ends_at,
        "metadata": metadata,
    }
    changes = {name: value for name, value in values.items() if value is not None}
    schedules = who.memory.schedules
    found = schedules.edit(id, user=user, **changes) if changes else schedules.get(id, user=user)
    if state == "paused":
        found = schedules.pause(id, user=user)
    elif state == "active":
        found = schedules.resume(id, user=user)
    return found


@routes.add("GET /v1/notes")
def get_notes(who: Caller, /, *, user: given.User | None = None) -> NotesText:
    """A user's MEMORY.md, with its version"""
    return _describe_notes(call_operation(OPERATIONS["notes.long_term.read"], who, {"user": user}))


@routes.add("PUT /v1/notes")
def put_notes(
    who: Caller, /, *, text: given.NoteText, version: given.NoteVersion | None = None, user: given.User | None = None
) -> NotesText:
    """Replace a user's MEMORY.md

    With a `version` only if it is still that one: what somebody else wrote meanwhile is not lost.
    """
    arguments = {"user": user, "text": text, "version": "*" if version is None else version}
    return _describe_notes(call_operation(OPERATIONS["notes.long_term.write"], who, arguments).text)


@routes.add("POST /v1/notes")
def append_notes(who: Caller, /, *, text: given.NoteText, user: given.User | None = None) -> NotesText:
    """Add a paragraph or a line at the end of a user's MEMORY.md"""
    return _describe_notes(call_operation(OPERATIONS["notes.long_term.append"], who, {"user": user, "text": text}).text)


def _describe_notes(text: str) -> NotesText:
    return {"text": text, "version": compute_version(text)}
