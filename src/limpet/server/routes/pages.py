"""Answers that say more than the operation returns: pages of messages from either end, and versions of notes."""

from __future__ import annotations

from typing import Annotated, TypedDict

from limpet import Session
from limpet.api import parameters as given
from limpet.api.wire import load_session
from limpet.model.constraints import Integer
from limpet.model.message import Message
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
    session = load_session(who.memory, session_id)
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
