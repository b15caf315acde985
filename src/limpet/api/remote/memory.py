"""A memory on a server: the same handles, whose operations are sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, NoReturn

from limpet.api.handle import SubHandle, View
from limpet.api.limpet import Limpet
from limpet.api.notes import LongTermNotes, NoteOperations
from limpet.api.parameters import MessagesCodec, User
from limpet.api.remote import files
from limpet.api.remote.authorizer import RemoteAuthorizer, encode_key, make_request, read_answer
from limpet.api.remote.http import Address, Client
from limpet.api.session import KeyValues, Session
from limpet.api.turn import Turn
from limpet.api.wire import IDEMPOTENCY_KEY, MAX_PAGE, TurnResult, get_form
from limpet.config import Config
from limpet.errors import InvalidInput, StorageError, Unsupported, WrongState
from limpet.model.access import Principal
from limpet.model.context import Context, Omission
from limpet.model.dataclass import replace
from limpet.model.message import Message, Role
from limpet.model.note import compute_version, merge_edits
from limpet.model.schema import codec, to_json
from limpet.model.scope import DEFAULT_TENANT, Scope
from limpet.model.session import CompactionResult, SessionInfo
from limpet.model.values import check_name, check_optional_name, check_time, short_repr, system_clock
from limpet.notes.user_notes import WriteResult

log = logging.getLogger("limpet.turn")

_ATTEMPTS = 5
_MAX_TIMEOUT = 86_400.0


def connect(url: str, *, key: str | None, user: str | None, timeout: float) -> RemoteLimpet:
    """A memory on the server at this address. Raises StoreUnavailable where there is none."""
    given: object = timeout
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given <= _MAX_TIMEOUT:
        raise InvalidInput(f"timeout is a number of seconds above 0, not {short_repr(timeout)}")
    client = Client(Address.parse(url), key, float(timeout))
    try:
        client.send(make_request("GET", "/health"))
    except BaseException:  # why: whatever it was, no connection stays open
        client.close()
        raise
    return RemoteLimpet(RemoteView(client, check_optional_name(user, "user")))


class RemoteView(View):
    """A server as one key sees it."""

    def __init__(self, client: Client, user: str | None) -> None:
        self.__dict__.update(client=client, user=user, tenant=DEFAULT_TENANT, agent=None, scheduled=False)
        self.__dict__["authorizer"] = RemoteAuthorizer(self)

    client: Client
    user: str | None  # whose memory it is where nobody is named; None: the server decides

    def __repr__(self) -> str:
        return f"<RemoteView {self.client.address}>"

    def __getattr__(self, name: str) -> NoReturn:
        """What a view of a store has besides, and a view of a server has not."""
        if name.startswith("_"):
            raise AttributeError(name)
        _refuse("the store itself", "it is on the server")

    def make_session(self, info: SessionInfo) -> RemoteSession:
        return RemoteSession(self, info)


class RemoteNotes(NoteOperations):
    _view: RemoteView

    def long_term(self, user: User | None = None) -> LongTermNotes:
        """The user's MEMORY.md: ``.read()``, ``.write(text)``, ``.append(text)``."""
        owner = self._view.user if user is None else check_name(user, "user")
        return RemoteLongTermNotes(self._view, owner)


class RemoteLimpet(Limpet):
    """``Limpet.connect`` returns one."""

    _view: RemoteView
    notes = SubHandle(RemoteNotes)

    def close(self) -> None:
        """Close the connections. The server goes on. Idempotent."""
        self._view.client.close()

    @property
    def _closes_store(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Limpet {self._view.client.address}>"

    @property
    def principal(self) -> Principal:
        _refuse("principal", "the server knows whom the key is for")

    @property
    def config(self) -> Config:
        _refuse("config", "the settings are those of the server")

    def agent(self, name: str) -> Limpet:
        _refuse("agent", "memory.session(agent=…) chooses an agent, and so does a key that is made for one")


class RemoteLongTermNotes(LongTermNotes):
    def __init__(self, view: RemoteView, user: str | None) -> None:
        self._authorizer = view.authorizer
        self._scope = Scope(view.tenant, user=user)
        self.user = user
        self.seen: str | None = None  # the text as it was last read through this handle

    def __repr__(self) -> str:
        return f"<LongTermNotes of {self._scope.user or 'the key'}>"

    @property
    def path(self) -> Path:
        _refuse("notes.long_term.path", "the file is on the server's machine")


class RemoteKeyValues(KeyValues):
    def __init__(self, view: RemoteView, scope: Scope) -> None:
        self._authorizer = view.authorizer
        self._scope = scope


class RemoteSession(Session):
    def __init__(self, view: RemoteView, info: SessionInfo) -> None:
        self._view = view
        self._authorizer = view.authorizer
        self._info = info
        self._scope = info.scope
        self.kv = RemoteKeyValues(view, info.scope)

    def set_info(self, info: SessionInfo) -> None:
        self._info = info

    def _make_turn(
        self, message: Message, max_tokens: int | None, window: int | None, skill: str | None, at: datetime | None
    ) -> Turn:
        said_at = None if at is None else check_time(at, "at").isoformat()
        fields = {"max_tokens": max_tokens, "model_window": window, "skill": skill, "at": said_at}
        given = {key: value for key, value in fields.items() if value is not None}
        return RemoteTurn(self._view, self._info, message, given)


class RemoteTurn(Turn):
    """A turn whose steps are done by the server: one request stores the user's message and answers the context, another
    stores the reply.

    Both carry the same idempotency key: the server finds the open turn by it, and each of them can be sent again. A
    server that cannot be reached does not break the agent: the turn goes on with the conversation's message alone, and
    what could not be stored in the end raises.
    """

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
            raise InvalidInput("a turn can be used once; session.turn(…) starts the next")
        self._remote = authorizer
        try:
            answer = self._send(authorizer, {})
        except StorageError as error:  # memory never breaks the agent; the reply sends the question again
            self._add_failure("keeping the user's message", error)
            self._message = replace(self._message, created_at=self._message.created_at or system_clock())
            self._context = Context("", (self._message,), self._message.tokens, {}, (), ())
        else:
            self._kept = True
            self._message, self._context = answer["message"], answer["context"]
            self._compacted = () if answer["compacted"] is None else (answer["compacted"],)
            self._failed += answer["failed"]
        self._open = True

    def _keep_question(self) -> None:
        assert self._remote is not None  # the block has begun
        self._kept, self._message = True, self._send(self._remote, {})["message"]

    def send_reply(self, authorizer: RemoteAuthorizer, fields: Mapping[str, Any]) -> Message | None:
        self._check_open()
        steps = {"messages": MessagesCodec().write(self._steps)} if self._steps else {}
        try:
            answer = self._send(authorizer, {**steps, **fields})
        except StorageError as error:
            self._add_failure("keeping the reply", error)
            raise
        self._open = False
        self._message, self._reply = answer["message"], answer["reply"]
        self._failed += answer["failed"][len(self._failed) :]
        return self._reply

    def _send(self, authorizer: RemoteAuthorizer, more: Mapping[str, Any]) -> TurnResult:
        path = f"/v1/sessions/{self._info.id}/turns"
        request = make_request("POST", path, body={**self._fields, **more}, headers={IDEMPOTENCY_KEY: self._key})
        answer: TurnResult = read_answer(codec(TurnResult), authorizer.client.send(request))
        return answer

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
    write = partial(_send_notes, authorizer, notes, "write", mask_secrets=given.get("mask_secrets", False))
    if version is not None:
        notes.seen = write(text=text, version=version)
        return WriteResult(notes.seen)
    base = notes.seen or ""
    there = base
    for _ in range(_ATTEMPTS):
        joined = merge_edits(base, there, text)
        if joined is None:
            break
        try:
            after = write(text=joined, version=compute_version(there))
        except WrongState:
            there = _send_notes(authorizer, notes, "read")
        else:
            notes.seen = after if joined == text else text  # with its secrets masked, where that was wanted
            return WriteResult(after)
    raise WrongState("MEMORY.md was changed by somebody else, and the changes do not fit together; read it again")


def append_notes(authorizer: RemoteAuthorizer, notes: RemoteLongTermNotes, given: dict[str, Any]) -> WriteResult:
    return WriteResult(_send_notes(authorizer, notes, "append", **given))


def _send_notes(authorizer: RemoteAuthorizer, notes: RemoteLongTermNotes, name: str, **given: Any) -> str:
    form = get_form(f"notes.long_term.{name}")
    return str(authorizer.request(form, {**given, "user": notes.user})["text"])


def _refuse(name: str, reason: str) -> NoReturn:
    raise Unsupported(f"{name} does not work over HTTP: {reason}")


# Operations that are more than one request with its answer, and why.
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
