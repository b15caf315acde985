"""A turn over HTTP: one request stores the user's message and answers the context, another stores the reply.

Both carry the same idempotency key: the server finds the open turn by it, and each of them can be sent again. A server
that cannot be reached does not break the agent: the turn goes on with the conversation's message alone, and what could
not be stored in the end raises.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from limpet.api.parameters import MessagesCodec
from limpet.api.remote.request import encode_key, make_request, read_answer
from limpet.api.turn import Turn
from limpet.api.wire import IDEMPOTENCY_KEY
from limpet.errors import InvalidInput, StorageError
from limpet.model.context import Context, Omission
from limpet.model.message import Message, Role
from limpet.model.schema import codec, to_json
from limpet.model.session import CompactionResult, SessionInfo
from limpet.model.values import system_clock

if TYPE_CHECKING:
    from limpet.api.remote.authorizer import RemoteAuthorizer
    from limpet.api.remote.memory import RemoteView

log = logging.getLogger("limpet.turn")


class RemoteTurn(Turn):
    """A turn whose steps are done by the server."""

    def __init__(self, view: RemoteView, info: SessionInfo, message: Message, fields: Mapping[str, Any]) -> None:
        """``fields``: of the request, by their names in JSON."""
        self._authorizer = view.authorizer
        self._remote: RemoteAuthorizer | None = None
        self._scope = info.scope
        self._info = info
        self._message = message
        self._fields = {**fields, **_describe_message(message)}
        self._key = token_hex(16) if message.idempotency_key is None else encode_key(message.idempotency_key)
        self._context: Context | None = None
        self._steps: list[Message] = []
        self._reply: Message | None = None
        self._compacted: tuple[CompactionResult, ...] = ()
        self._kept = False
        self._open = False
        self._failed: list[Omission] = []

    def _get_time(self) -> None:
        """The server's, when the message arrives there."""

    def send_question(self, authorizer: RemoteAuthorizer) -> None:
        if self._context is not None:
            raise InvalidInput("a turn is used once; session.turn(…) makes the next")
        self._remote = authorizer
        try:
            answer = self._send(authorizer, {})
        except StorageError as error:  # memory never breaks the agent; the reply sends the question again
            self._add_failure("keeping the user's message", error)
            self._message = replace(self._message, created_at=self._message.created_at or system_clock())
            self._context = Context("", (self._message,), self._message.tokens, {}, (), ())
        else:
            self._kept = True
            self._message = read_answer(codec(Message), answer["message"])
            self._context = read_answer(codec(Context), answer["context"])
            compacted = read_answer(codec(CompactionResult | None), answer["compacted"])
            self._compacted = () if compacted is None else (compacted,)
            self._failed += read_answer(codec(tuple[Omission, ...]), answer["failed"])
        self._open = True

    def _keep_question(self) -> None:
        assert self._remote is not None  # the block has begun
        answer = self._send(self._remote, {})
        self._kept, self._message = True, read_answer(codec(Message), answer["message"])

    def send_reply(self, authorizer: RemoteAuthorizer, fields: Mapping[str, Any]) -> Message | None:
        self._check_open()
        steps = {"messages": MessagesCodec().write(self._steps)} if self._steps else {}
        try:
            answer = self._send(authorizer, {**steps, **fields})
        except StorageError as error:
            self._add_failure("keeping the reply", error)
            raise
        self._open = False
        self._message = read_answer(codec(Message), answer["message"])
        self._failed += read_answer(codec(tuple[Omission, ...]), answer["failed"])[len(self._failed) :]
        self._reply = read_answer(codec(Message | None), answer["reply"])
        return self._reply

    def _send(self, authorizer: RemoteAuthorizer, more: Mapping[str, Any]) -> Any:
        path = f"/v1/sessions/{self._info.id}/turns"
        request = make_request("POST", path, body={**self._fields, **more}, headers={IDEMPOTENCY_KEY: self._key})
        return authorizer.client.send(request)

    def _add_failure(self, what: str, error: StorageError) -> None:
        log.warning("a turn goes on without %s: %s", what, error)
        self._failed.append(Omission(what, str(error)))


def enter_turn(authorizer: RemoteAuthorizer, turn: RemoteTurn, _given: dict[str, Any]) -> RemoteTurn:
    turn.send_question(authorizer)
    return turn


def reply_to_turn(authorizer: RemoteAuthorizer, turn: RemoteTurn, given: dict[str, Any]) -> Message | None:
    said = Message.from_checked(
        Role.ASSISTANT,
        given.pop("content"),
        given.pop("name", None),
        given.pop("tool_calls", ()),
        metadata=given.pop("metadata", None),
        created_at=given.pop("created_at", None),
    )
    described = _describe_message(said)
    fields = {f"reply_{name}": described[name] for name in ("name", "metadata", "created_at") if name in described}
    fields |= {"reply": described["content"], "tool_calls": to_json(list(said.tool_calls))}
    fields |= {name: to_json(value) if name == "usage" else value for name, value in given.items() if value is not None}
    return turn.send_reply(authorizer, fields)


def _describe_message(message: Message) -> dict[str, Any]:
    """The fields of a message that a turn's request has, where they are not empty."""
    written = MessagesCodec().write([message])[0]
    names = ("content", "name", "metadata", "created_at")
    return {name: written[name] for name in names if written[name] or name == "content"}
