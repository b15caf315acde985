"""Sessions, their messages, turns and contexts."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, TypedDict

from pydantic import Field

from limpet import Session, Turn
from limpet.errors import IdempotencyConflict, StorageError
from limpet.model.context import Context, Omission
from limpet.model.message import Message, Role
from limpet.model.session import CompactionResult, SessionInfo, Summary
from limpet.model.values import check_metadata
from limpet.server.auth import Caller
from limpet.server.operation import Operations
from limpet.server.pages import Page, make_page, parse_cursor
from limpet.server.params import (
    INT,
    WHOLE,
    Arguments,
    Asked,
    Body,
    Channel,
    Chat,
    Extras,
    Limit,
    Metadata,
    Name,
    OfAgent,
    OfUser,
    Pages,
    Query,
    Seconds,
    Skill,
    Text,
    Thread,
    Time,
)

operations = Operations("sessions")

_ANOTHER = "this Idempotency-Key stands for another message of this session; choose a new one"
_State = Literal["ACTIVE", "PAUSED", "TERMINATED"]
_Count = Annotated[int, Field(ge=0, le=10**12), INT]
_Speaks = Annotated[Name, Field(description="who speaks; left out: you, or `CHANNEL:CHAT` where the key is no user's")]
_Speaker = Annotated[Name, Field(description="the speaker's name, where several speak")]
_Question = Annotated[Text, Field(description="what it is for: memory about it is recalled; empty: nothing is")]
_Tokens = Annotated[int, Field(ge=200, le=10_000_000, description="tokens at most; left out: `context.max_tokens`")]
_Window = Annotated[
    int, Field(ge=2048, le=100_000_000, description="tokens the model can read: room is left for its reply"), INT
]


class Removed(TypedDict):
    counts: Annotated[dict[str, int], "how many of each kind were removed"]


class TurnTaken(TypedDict):
    message: Annotated[Message, "the user's message as it is kept"]
    context: Annotated[Context, "what belongs into the prompt"]
    reply: Annotated[Message | None, "the reply as it is kept; null: none was given"]
    compacted: Annotated[CompactionResult | None, "what was condensed before; null: nothing was due"]
    failed: Annotated[list[Omission], "what memory could not do, and did without"]


class SessionsQuery(Pages):
    user: OfUser | None = None
    agent: OfAgent | None = None
    channel: Annotated[Name, Field(description="only those of this channel")] | None = None
    state: Annotated[_State, Field(description="only those that are this")] | None = None


class OpenSession(Body):
    channel: Channel
    chat: Chat
    thread: Thread | None = None
    user: _Speaks | None = None
    agent: Annotated[Name, Field(description="whom the user speaks to; left out: the usual one")] | None = None
    metadata: Annotated[Metadata | None, Field(description="of a new session; one that is there keeps its own")] = None
    ttl_seconds: Annotated[Seconds, Field(description="how long a new session lives; left out: for ever")] | None = None


class ChangeSession(Body):
    """What is left out or null stays as it is."""

    state: Annotated[_State, Field(description="TERMINATED is final")] | None = None
    metadata: Annotated[Metadata | None, Field(description="entries to change; null takes one out")] = None


class TextPart(Body):
    type: Annotated[Literal["text"], Field(description="words")]
    text: Annotated[Text, Field(description="what it says")]


class LinkedPart(Body):
    type: Annotated[Literal["image", "file"], Field(description="what the link leads to")]
    uri: Annotated[Text, Field(min_length=1, description="an address, a path, or the data itself as a `data:` URI")]
    media_type: Annotated[Text, Field(description="such as image/png")] | None = None
    alt: Annotated[Text, Field(description="of an image: what it shows")] | None = None
    name: Annotated[Text, Field(description="of a file: what it is called")] | None = None


class GivenToolCall(Body):
    id: Annotated[Name, Field(description="what the result refers to")]
    name: Annotated[Name, Field(description="of the tool")]
    arguments: Annotated[Arguments, Field(description="as the model gave them")] = Field(default_factory=dict)


Content = Text | Annotated[list[TextPart | LinkedPart], Field(max_length=1000, fail_fast=True)]
Calls = Annotated[list[GivenToolCall], Field(max_length=100, fail_fast=True)]


class GivenMessage(Body):
    role: Annotated[Role, Field(description="who speaks")]
    content: Annotated[Content, Field(description="text, or parts")]
    name: _Speaker | None = None
    tool_calls: Annotated[Calls, Field(description="what the assistant asks tools to do")] = Field(default_factory=list)
    tool_call_id: Annotated[Name, Field(description="of a tool's result: the call it answers")] | None = None
    is_error: Annotated[bool, Field(description="whether a tool's result is an error")] = False
    metadata: Extras = None
    created_at: Annotated[Time, Field(description="when it was said; left out: now")] | None = None


class GivenMessages(Body):
    messages: Annotated[
        list[GivenMessage],
        Field(min_length=1, max_length=1000, fail_fast=True, description="in their order"),
    ]


class GivenUsage(Body):
    model: Annotated[Name, Field(description="which one was asked")]
    input_tokens: Annotated[_Count, Field(description="tokens it read")] = 0
    output_tokens: Annotated[_Count, Field(description="tokens it wrote")] = 0
    cached_tokens: Annotated[_Count, Field(description="tokens of the input that came from a cache")] = 0
    cost: Annotated[
        float, Field(ge=0, le=1_000_000, allow_inf_nan=False, description="in whichever currency you count")
    ] = 0.0


class TakeTurn(Body):
    content: Annotated[Content, Field(description="what the user says: text, or parts")]
    reply: Annotated[Content | None, Field(description="the assistant's answer, if it is known")] = None
    tool_calls: Annotated[Calls, Field(description="of the reply")] = Field(default_factory=list)
    usage: Annotated[GivenUsage | None, Field(description="what the reply cost")] = None
    max_tokens: Annotated[_Tokens, INT] | None = None
    model_window: _Window | None = None
    skill: Skill | None = None
    name: _Speaker | None = None
    metadata: Extras = None
    at: Asked | None = None


class MessagesQuery(Query):
    after: Annotated[int, Field(ge=0, le=2**53, description="only those behind this number"), WHOLE] | None = None
    before: Annotated[int, Field(ge=0, le=2**53, description="only those before this number"), WHOLE] | None = None
    limit: Limit = 100


class AskContext(Body):
    query: _Question = ""
    max_tokens: Annotated[_Tokens, INT] | None = None
    model_window: _Window | None = None
    skill: Skill | None = None
    at: Asked | None = None
    compact: Annotated[bool, Field(description="condense history first if that is due")] = False


class ContextQuery(Query):
    query: _Question = ""
    max_tokens: Annotated[_Tokens, WHOLE] | None = None


class Condense(Body):
    keep: Annotated[int, Field(ge=1, le=100_000, description="messages that stay as they are"), INT] | None = None


@operations.get("/v1/sessions")
def list_sessions(who: Caller, query: SessionsQuery) -> Page[SessionInfo]:
    """Sessions, the most recently active first"""
    found = who.hf.sessions(
        query.user, query.agent, query.channel, query.state, query.limit + 1, before=parse_cursor(query.cursor)
    )
    return make_page(found, query.limit, lambda info: (info.last_active_at, info.id))


@operations.post("/v1/sessions")
def open_session(who: Caller, body: OpenSession) -> SessionInfo:
    """The live session of a chat, made when there is none"""
    ttl = None if body.ttl_seconds is None else timedelta(seconds=body.ttl_seconds)
    session = who.hf.session(
        body.channel,
        body.chat,
        body.thread,
        user=body.user or who.user,
        agent=body.agent or who.agent,
        metadata=body.metadata,
        ttl=ttl,
    )
    return session.refresh()


@operations.get("/v1/sessions/{id}")
def get_session(who: Caller, id: str) -> SessionInfo:
    """A session"""
    return who.hf.load_session(id).info


@operations.patch("/v1/sessions/{id}")
def change_session(who: Caller, id: str, body: ChangeSession) -> SessionInfo:
    """Pause, resume or end a session; change its metadata"""
    session = who.hf.load_session(id)
    check_metadata(body.metadata)  # before anything is changed
    match body.state:
        case "ACTIVE":
            session.resume()
        case "PAUSED":
            session.pause()
        case "TERMINATED":
            session.terminate()
    if body.metadata is not None:
        session.update_metadata(body.metadata)
    return session.refresh()


@operations.delete("/v1/sessions/{id}")
def delete_session(who: Caller, id: str) -> Removed:
    """Remove a session with its messages"""
    return {"counts": dict(who.hf.load_session(id).delete())}


@operations.get("/v1/sessions/{id}/messages")
def list_messages(who: Caller, id: str, query: MessagesQuery) -> Page[Message]:
    """Messages in the order they were said

    `next` is what to give as `after`.
    """
    session = who.hf.load_session(id)
    if query.after is None and query.before is not None:
        return {"items": list(_last(session, query.before, query.limit)), "next": None}
    found = session.messages(after=query.after, before=query.before, limit=query.limit + 1)
    shown = found[: query.limit]
    more = str(shown[-1].sequence) if len(found) > query.limit else None
    return {"items": list(shown), "next": more}


@operations.post("/v1/sessions/{id}/messages", 201, keyed=True)
def append_message(who: Caller, id: str, body: GivenMessage) -> Message:
    """Keep a message; it is on the disk when this answers"""
    given = _message(body)
    kept = who.hf.load_session(id).append(**given, idempotency_key=who.once)
    if who.once is not None and not kept.is_duplicate_of(Message.new(**given)):
        raise IdempotencyConflict(_ANOTHER)
    return kept


@operations.post("/v1/sessions/{id}/messages/batch", 201, keyed=True)
def append_messages(who: Caller, id: str, body: GivenMessages) -> Page[Message]:
    """Keep several messages, all of them or none"""
    given = [Message.new(**_message(each)) for each in body.messages]
    kept = who.hf.load_session(id).extend(given, idempotency_key=who.once)
    return {"items": list(kept), "next": None}


@operations.post("/v1/sessions/{id}/turns", 201, keyed=True)
def take_turn(who: Caller, id: str, body: TakeTurn) -> TurnTaken:
    """One exchange: the user's message in, a context out, the reply in

    Without a `reply` the message is kept and the context answered; send the same again with the reply and the same
    Idempotency-Key, and only the reply is added.
    """
    session = who.hf.load_session(id)
    with session.turn(
        _content(body.content),
        body.max_tokens,
        model_window=body.model_window,
        skill=body.skill,
        at=body.at,
        name=body.name,
        metadata=body.metadata,
        idempotency_key=who.once,
    ) as turn:
        _check_same(who, turn.message, Message.new("user", _content(body.content), name=body.name))
        reply = None if body.reply is None else _reply(who, turn, body)
    # An agent goes on with a memory that keeps nothing; whoever reads 201 must be able to rely on it.
    if turn.message.sequence == 0 if body.reply is None else reply is None:
        raise StorageError("the turn could not be kept; send it again with the same Idempotency-Key")
    return {
        "message": turn.message,
        "context": turn.context,
        "reply": reply,
        "compacted": turn.compacted,
        "failed": list(turn.failed),
    }


@operations.get("/v1/sessions/{id}/context")
def get_context(who: Caller, id: str, query: ContextQuery) -> Context:
    """What belongs into the next prompt"""
    return who.hf.load_session(id).context(query.query, query.max_tokens)


@operations.post("/v1/sessions/{id}/context")
def make_context(who: Caller, id: str, body: AskContext) -> Context:
    """What belongs into the next prompt, with all that can be said about it"""
    session = who.hf.load_session(id)
    return session.context(
        body.query,
        body.max_tokens,
        model_window=body.model_window,
        skill=body.skill,
        at=body.at,
        compact=body.compact,
    )


@operations.post("/v1/sessions/{id}/compact")
def compact_session(who: Caller, id: str, body: Condense) -> CompactionResult:
    """Condense a session's history into its summary"""
    return who.hf.load_session(id).compact(body.keep)


class Summarised(TypedDict):
    summary: Annotated[Summary | None, "null: nothing was condensed yet"]


@operations.get("/v1/sessions/{id}/summary")
def get_summary(who: Caller, id: str) -> Summarised:
    """What the condensed part of a session says"""
    return {"summary": who.hf.load_session(id).summary()}


def _last(session: Session, before: int, limit: int) -> list[Message]:
    """The last messages before that number. Numbers may have gaps: then it looks further back."""
    end, span = min(before, session.info.last_sequence + 1), limit
    while True:
        begin = max(0, end - 1 - span)
        found = session.messages(after=begin, before=end)
        if len(found) >= limit or begin == 0:
            return found[-limit:]
        span *= 4


def _message(given: GivenMessage) -> dict[str, Any]:
    return {
        "role": given.role,
        "content": _content(given.content),
        "name": given.name,
        "tool_calls": _calls(given.tool_calls),
        "tool_call_id": given.tool_call_id,
        "is_error": given.is_error,
        "metadata": given.metadata,
        "created_at": given.created_at,
    }


def _content(given: str | list[TextPart | LinkedPart]) -> str | list[dict[str, Any]]:
    return given if isinstance(given, str) else [each.model_dump(exclude_none=True) for each in given]


def _calls(given: list[GivenToolCall]) -> list[dict[str, Any]]:
    return [each.model_dump() for each in given]


def _reply(who: Caller, turn: Turn, body: TakeTurn) -> Message | None:
    assert body.reply is not None
    usage = None if body.usage is None else body.usage.model_dump()
    given: dict[str, Any] = {"content": _content(body.reply), "tool_calls": _calls(body.tool_calls)}
    kept = turn.reply(**given, usage=usage, skill=body.skill)
    if kept is None:
        return None
    _check_same(who, kept, Message.new("assistant", **given))
    return kept


def _check_same(who: Caller, kept: Message, given: Message) -> None:
    """A message that was kept before under this key must say the same: else it stands for another request."""
    if who.once is not None and not kept.has_same_content(given):
        raise IdempotencyConflict(_ANOTHER)
