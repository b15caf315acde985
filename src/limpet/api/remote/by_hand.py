"""Operations that are more than one request with its answer, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from limpet.api.remote import files
from limpet.api.remote.memory import enter_turn, reply_to_turn
from limpet.api.wire import MAX_PAGE, get_form
from limpet.errors import WrongState
from limpet.model.message import Message
from limpet.model.note import compute_version
from limpet.model.session import SessionInfo
from limpet.notes.lines import merge_edits
from limpet.notes.user_notes import WriteResult

if TYPE_CHECKING:
    from limpet.api.remote.authorizer import RemoteAuthorizer
    from limpet.api.remote.memory import RemoteLongTermNotes, RemoteSession

_ATTEMPTS = 5


def refresh_session(authorizer: RemoteAuthorizer, session: RemoteSession, given: dict[str, Any]) -> SessionInfo:
    found: SessionInfo = authorizer.send("session.refresh", session, given)
    session.set_info(found)
    return found


def read_messages(authorizer: RemoteAuthorizer, session: RemoteSession, given: dict[str, Any]) -> list[Message]:
    """All of them by default, a page at a time."""
    form, left, after = get_form("session.messages"), given.get("limit"), given.get("after") or 0
    found: list[Message] = []
    while left is None or left > 0:
        size = MAX_PAGE if left is None else min(left, MAX_PAGE)
        bounds = {"after": after, "before": given.get("before"), "limit": size, "session_id": session.id}
        answer = authorizer.request(form, bounds)
        found += authorizer.read(form, answer)
        if answer["next"] is None:
            break
        after, left = int(answer["next"]), None if left is None else left - size
    return found


def read_notes(authorizer: RemoteAuthorizer, notes: RemoteLongTermNotes, _given: dict[str, Any]) -> str:
    notes.seen = _send_notes(authorizer, notes, "read")
    return notes.seen


def write_notes(authorizer: RemoteAuthorizer, notes: RemoteLongTermNotes, given: dict[str, Any]) -> WriteResult:
    """An edit of what was last read through this handle: what others only added meanwhile is joined to it."""
    text, version = given["text"], given.get("version")
    if version is not None:
        notes.seen = _send_notes(authorizer, notes, "write", text=text, version=version)
        return WriteResult(notes.seen)
    base = notes.seen or ""
    there = base
    for _ in range(_ATTEMPTS):
        joined = merge_edits(base, there, text)
        if joined is None:
            break
        try:
            after = _send_notes(authorizer, notes, "write", text=joined, version=compute_version(there))
        except WrongState:
            there = _send_notes(authorizer, notes, "read")
        else:
            notes.seen = text
            return WriteResult(after)
    raise WrongState("MEMORY.md was changed by somebody else, and the changes do not fit together; read it again")


def append_notes(authorizer: RemoteAuthorizer, notes: RemoteLongTermNotes, given: dict[str, Any]) -> WriteResult:
    return WriteResult(_send_notes(authorizer, notes, "append", text=given["text"]))


def _send_notes(authorizer: RemoteAuthorizer, notes: RemoteLongTermNotes, name: str, **given: str) -> str:
    form = get_form(f"notes.long_term.{name}")
    return str(authorizer.request(form, {**given, "user": notes.user})["text"])


BY_HAND: Mapping[str, Callable[[Any, Any, dict[str, Any]], Any]] = {
    "session.refresh": refresh_session,  # the handle shows what it read
    "session.messages": read_messages,  # all of them, in pages
    "session.turn": enter_turn,  # a block in Python, two requests over HTTP
    "turn.reply": reply_to_turn,
    "notes.long_term.read": read_notes,  # a handle remembers what it read
    "notes.long_term.write": write_notes,
    "notes.long_term.append": append_notes,
    "documents.add": files.add_document,  # files are of this machine
    "documents.text": partial(files.try_uris, "documents.text"),
    "documents.remove": partial(files.try_uris, "documents.remove"),
    "transfer.export": files.export,
    "transfer.archive": files.archive,
    "transfer.import_": files.import_,
}
