"""A memory on a server: the same handles, whose operations are sent."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NoReturn

from limpet.api.handle import View
from limpet.api.key_values import KeyValues
from limpet.api.limpet import Limpet
from limpet.api.notes import LongTermNotes, NoteOperations
from limpet.api.parameters import User
from limpet.api.remote.authorizer import RemoteAuthorizer
from limpet.api.remote.http import Address, Client
from limpet.api.remote.request import make_request
from limpet.api.remote.turn import RemoteTurn
from limpet.api.session import Session
from limpet.api.turn import Turn
from limpet.config import Config
from limpet.errors import InvalidInput, Unsupported
from limpet.model.access import Principal
from limpet.model.message import Message
from limpet.model.scope import DEFAULT_TENANT, Scope
from limpet.model.session import SessionInfo
from limpet.model.values import check_name, check_optional_name, check_time, short_repr

_MAX_TIMEOUT = 86_400.0


def connect(url: str, *, key: str | None, user: str | None, timeout: float) -> RemoteLimpet:
    """A memory on the server at this address. Raises StoreUnavailable where there is none."""
    client = Client(Address.parse(url), key, _check_timeout(timeout))
    try:
        client.send(make_request("GET", "/health"))
    except BaseException:  # why: whatever it was, no connection stays open
        client.close()
        raise
    return RemoteLimpet(RemoteView(client, check_optional_name(user, "user")))


def _check_timeout(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MAX_TIMEOUT:
        raise InvalidInput(f"timeout is a number of seconds above 0, not {short_repr(value)}")
    return float(value)


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


class RemoteLimpet(Limpet):
    """``Limpet.connect`` returns one."""

    _view: RemoteView

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

    @property
    def notes(self) -> NoteOperations:
        """MEMORY.md and the daily notes."""
        return RemoteNotes(self._view)

    def agent(self, name: str) -> Limpet:
        _refuse("agent", "memory.session(agent=…) chooses an agent, and so does a key that is made for one")


class RemoteNotes(NoteOperations):
    _view: RemoteView

    def long_term(self, user: User | None = None) -> LongTermNotes:
        """The user's MEMORY.md: ``.read()``, ``.write(text)``, ``.append(text)``."""
        owner = self._view.user if user is None else check_name(user, "user")
        return RemoteLongTermNotes(self._view, owner)


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
        fields = {
            "max_tokens": max_tokens,
            "model_window": window,
            "skill": skill,
            "at": None if at is None else check_time(at, "at").isoformat(),
        }
        return RemoteTurn(
            self._view, self._info, message, {key: value for key, value in fields.items() if value is not None}
        )


def _refuse(name: str, reason: str) -> NoReturn:
    raise Unsupported(f"{name} does not work over HTTP: {reason}")
