"""A turn over HTTP: the user's message in and a context out, then the reply in.

Both requests go to one address and carry the same Idempotency-Key. The server keeps the open turn for a while, so that
the second request is only the reply. Where it has it no more, the second request does all of it again, and what is
stored already is found by its key.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, TypedDict

from limpet import Turn
from limpet.api import parameters as given
from limpet.api.wire import load_session
from limpet.errors import IdempotencyConflict, StorageError
from limpet.model.containers import Items
from limpet.model.context import Context, Omission
from limpet.model.message import Message
from limpet.model.session import CompactionResult, ModelUsage
from limpet.server.auth import Caller
from limpet.server.open_turns import TurnKey
from limpet.server.route import OTHER_MESSAGE, Routes

routes = Routes()


class TurnResult(TypedDict):
    message: Annotated[Message, "the user's message as it is stored"]
    context: Annotated[Context, "what belongs into the prompt"]
    reply: Annotated[Message | None, "the reply as it is stored; null: none was given"]
    compacted: Annotated[CompactionResult | None, "what was summarized before; null: nothing was due"]
    failed: Annotated[list[Omission], "what memory could not do, and did without"]


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
    """One exchange: the user's message in, a context out, the reply in

    Without a `reply` the message is stored and the context answered. Send the same again with the reply and the same
    Idempotency-Key, and only the reply is added, with the `messages` before it.
    """
    question = Message.new("user", content, name=name)
    key = None if idempotency_key is None else TurnKey(who.id, session_id, idempotency_key)
    turn = None if key is None or reply is None else who.turns.take(key)
    if turn is None:
        turn = load_session(who.memory, session_id).turn(
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
        if stored is not None:
            said = Message.new("assistant", reply, name=reply_name, tool_calls=tool_calls)
            _check_same(idempotency_key, stored, said)
    elif key is not None and turn.message.sequence:
        who.turns.put(key, turn)
    # An agent goes on with a memory that stores nothing; whoever reads 201 must be able to rely on it.
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
