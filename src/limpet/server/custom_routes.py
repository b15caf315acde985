"""The routes that are written by hand, each with a reason; ``list_routes`` adds those of the operation table."""

from __future__ import annotations

from datetime import timedelta
from threading import Lock
from typing import Annotated, Any, Literal, TypedDict

from limpet import Session, Turn
from limpet.api import parameters as given
from limpet.api import sample
from limpet.api.wire import TurnResult, load_session
from limpet.errors import IdempotencyConflict, StorageError, WrongState
from limpet.model.constraints import Choice, Integer
from limpet.model.containers import Items
from limpet.model.dataclass import replace
from limpet.model.message import Message
from limpet.model.note import compute_version
from limpet.model.session import ModelUsage
from limpet.model.types import Metadata
from limpet.model.values import system_clock
from limpet.security.operation import OPERATIONS
from limpet.server import streams
from limpet.server.auth import Caller, TurnKey
from limpet.server.operation_routes import Route, Routes, call_operation, derive_routes
from limpet.sessions.messages import OTHER_MESSAGE
from limpet.tools import TOOLS, Toolbox

routes = Routes()

_LOADING = Lock()
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
    after: Annotated[_Number, "only messages after this number"] | None = None,
    before: Annotated[_Number, "only messages before this number"] | None = None,
    limit: _PageLimit = 100,
) -> MessagePage:
    """Messages in order

    Pass `next` as `after`. With `before` alone, the last messages before that number.
    """
    session = load_session(who.memory, session_id, "session.messages")
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
    who: Caller,
    /,
    *,
    text: given.NoteText,
    version: given.NoteVersion | None = None,
    mask_secrets: given.MaskSecrets = False,
    user: given.User | None = None,
) -> NotesText:
    """Replace a user's MEMORY.md

    With a `version`, only if it is still the current one, so that no concurrent change is lost.
    """
    version = "*" if version is None else version
    arguments = {"user": user, "text": text, "version": version, "mask_secrets": mask_secrets}
    return _describe_notes(call_operation(OPERATIONS["notes.long_term.write"], who, arguments).text)


@routes.add("POST /v1/notes")
def append_notes(
    who: Caller, /, *, text: given.NoteText, mask_secrets: given.MaskSecrets = False, user: given.User | None = None
) -> NotesText:
    """Add a paragraph or a line at the end of a user's MEMORY.md"""
    arguments = {"user": user, "text": text, "mask_secrets": mask_secrets}
    return _describe_notes(call_operation(OPERATIONS["notes.long_term.append"], who, arguments).text)


def _describe_notes(text: str) -> NotesText:
    return {"text": text, "version": compute_version(text)}


class Sample(TypedDict):
    user: Annotated[str, "whose it is"]
    sessions: Annotated[int, "how many were made"]
    messages: Annotated[int, "how many were stored"]
    question: Annotated[str, "one that it answers"]


@routes.add("POST /v1/sample", status=201)
def load_sample(who: Caller, /) -> Sample:
    """Load the sample: three chats between Mara and her assistant, and a fact that changed"""
    with _LOADING:  # two clicks at once load it once
        return _load(who)


def _load(who: Caller) -> Sample:
    if who.memory.sessions(sample.USER, limit=1):
        raise WrongState(f"{sample.USER} has sessions already: the sample is for a store without her")
    # As if it were recent: retention removes what is old.
    later = system_clock() - timedelta(days=1) - max(chat.at for chat in sample.CHATS)
    sample.load(who.memory, later=later)
    _, planned, moved = sample.CHATS
    for text, chat in ((sample.BEFORE, planned), (sample.AFTER, moved)):
        who.memory.remember(text, user=sample.USER, key=sample.KEY, valid_from=chat.at + later)
    return {
        "user": sample.USER,
        "sessions": len(sample.CHATS),
        "messages": sum(len(chat.lines) for chat in sample.CHATS),
        "question": sample.QUESTION,
    }


class ToolSchemas(TypedDict):
    tools: Annotated[list[dict[str, Any]], "for a request to the provider, as they are"]


class ToolOutcome(TypedDict):
    text: Annotated[str, "for the model"]
    data: Annotated[dict[str, Any] | None, "the same as JSON; null: it is an error"]
    is_error: Annotated[bool, "whether the text tells the model what went wrong"]


@routes.add("GET /v1/tools")
def list_tools(
    who: Caller, /, *, form: Annotated[Literal["openai", "anthropic"], "whose format the schemas have"] = "openai"
) -> ToolSchemas:
    """The tools, in the format of a model's provider"""
    box = Toolbox(who.memory, who.user or "nobody")
    return {"tools": box.openai() if form == "openai" else box.anthropic()}


@routes.add("POST /v1/tools/{tool}")
def call_tool(
    who: Caller,
    /,
    tool: Annotated[str, Choice(tuple(TOOLS)), "which one"],
    *,
    arguments: Annotated[Metadata, "as the model gave them"] = {},  # noqa: B006 - never changed
    user: given.User | None = None,
    session: Annotated[given.SessionId, "the session the model is in"] | None = None,
) -> ToolOutcome:
    """Run a tool call of a model"""
    box = Toolbox(who.memory, who.resolve_user(user), session=session, agent=who.agent)
    outcome = box.call(tool, arguments)
    data = None if outcome.data is None else dict(outcome.data)
    return {"text": outcome.text, "data": data, "is_error": outcome.is_error}


# Both requests of a turn go to one address and carry the same Idempotency-Key. The server keeps the open turn for a
# while, so that the second request is only the reply. Where it has it no more, the second request does all of it again,
# and what is stored already is found by its key.
@routes.add("POST /v1/sessions/{session_id}/turns", status=201)
def take_turn(
    who: Caller,
    /,
    session_id: given.SessionId,
    *,
    content: Annotated[given.Content, "what the user says: text, or parts"],
    reply: Annotated[given.Content, "the assistant's answer; left out: it comes later"] | None = None,
    messages: Annotated[
        tuple[Message, ...], Items(1000), "between the question and the reply, such as tool results; stored with it"
    ] = (),
    tool_calls: Annotated[given.ToolCalls, "of the reply"] = (),
    usage: Annotated[ModelUsage, "what the reply cost"] | None = None,
    max_tokens: given.Tokens | None = None,
    model_window: given.Window | None = None,
    skill: given.Skill | None = None,
    name: given.Speaker | None = None,
    metadata: given.Metadata | None = None,
    created_at: given.CreatedAt | None = None,
    at: given.At | None = None,
    reply_name: given.Speaker | None = None,
    reply_metadata: given.Metadata | None = None,
    reply_created_at: given.CreatedAt | None = None,
    idempotency_key: given.IdempotencyName | None = None,
) -> TurnResult:
    """One turn: store the user's message, return a context, store the reply

    Without a `reply`, the message is stored and the context returned. Send the same request again with the reply and
    the same Idempotency-Key: then the reply is stored, with the `messages` before it. A turn keeps its first reply:
    another one under the same key is not stored, and the first is returned.
    """
    question = Message.new("user", content, name=name)
    key = None if idempotency_key is None else TurnKey(who.id, session_id, idempotency_key)
    turn = None if key is None or reply is None else who.turns.take(key)
    if turn is None:
        turn = load_session(who.memory, session_id, "session.turn").turn(
            content,
            max_tokens,
            model_window=model_window,
            skill=skill,
            at=at,
            name=name,
            metadata=metadata,
            created_at=created_at,
            idempotency_key=idempotency_key,
        )
        turn.__enter__()  # the block ends with another request, or never
    _check_same(idempotency_key, turn.message, question)
    stored = None
    if reply is not None:
        _add_steps(turn, messages)
        stored = turn.reply(
            reply,
            tool_calls=tool_calls,
            usage=None if usage is None else replace(usage, calls=usage.calls or 1),
            skill=skill,
            name=reply_name,
            metadata=reply_metadata,
            created_at=reply_created_at,
        )
    elif key is not None and turn.message.sequence:
        who.turns.put(key, turn)
    # An agent can continue if memory stores nothing, but a client must be able to rely on 201.
    if turn.message.sequence == 0 if reply is None else stored is None:
        raise StorageError("the turn could not be stored; send it again with the same Idempotency-Key")
    return {
        "message": turn.message,
        "context": turn.context,
        "reply": stored,
        "compacted": turn.compacted,
        "failed": list(turn.failed),
    }


def _add_steps(turn: Turn, steps: tuple[Message, ...]) -> None:
    for each in steps:
        turn.add(
            each.role,
            each.content,
            name=each.name,
            tool_calls=each.tool_calls,
            tool_call_id=each.tool_call_id,
            is_error=each.is_error,
            metadata=each.metadata,
            created_at=each.created_at,
        )


def _check_same(key: str | None, stored: Message, sent: Message) -> None:
    """A message that was stored before under this key must say the same: else it stands for another request."""
    if key is not None and not stored.has_same_content(sent):
        raise IdempotencyConflict(OTHER_MESSAGE)


def list_routes() -> list[Route]:
    """In a steady order. A route written by hand takes the place of the one derived from the operation."""
    found: dict[tuple[str, str], Route] = {}
    for route in (*routes, *streams.routes, *derive_routes()):
        found.setdefault(route.key, route)
    return sorted(found.values(), key=lambda route: (route.tag, route.key))
