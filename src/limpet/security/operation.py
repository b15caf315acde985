"""Every operation once: a public method, and what its signature cannot say.

``@operation`` registers the method in ``OPERATIONS``. Authorization, the audit log, HTTP, the remote client, tools,
the command line and the reference pages read that table; none of them repeats a method's arguments or limits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, field
from enum import StrEnum
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from limpet.errors import LimpetError
from limpet.model.access import AccessRequest, Reach, Right
from limpet.model.dataclass import dataclass
from limpet.model.record import Record
from limpet.model.scope import Partition, Scope
from limpet.model.values import check_id, check_name

if TYPE_CHECKING:
    from limpet.model.constraints import Codec
    from limpet.model.schema import Field

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

Interface = Literal["http", "remote", "tool", "cli"]
INTERFACES: tuple[Interface, ...] = ("http", "remote", "tool", "cli")
_EMPTY: Mapping[Any, str] = {}


class On(StrEnum):
    """How an operation says whose memory it touches."""

    HANDLE = "the session, or the user, of the handle"
    OWNER = "`user`, `agent`, `session` or `scope`; left out: one's own"
    REACH = "`user`, `agent` or `session`; left out: as far as the grants reach, one's own without any"
    ID = "an id, perhaps with `user` or `agent`; left out: as far as the grants reach, one's own without any"
    ID_OR_OWNER = "an id; or `user`, `agent`, `session` or `scope`, left out: one's own"
    FILTER = "`user`, while `agent` only selects among theirs; left out: as far as the grants reach"
    USER = "`user`; left out: one's own"
    CHAT = "`user`; left out: one's own, or the user of the chat"
    WHOLE = "all of the tenant, or of the store"


@dataclass(frozen=True, slots=True)
class Permission:
    """A right on the level the arguments name, or on a fixed one."""

    right: Right
    reach: Reach | None = None

    def at(self, reach: Reach) -> Permission:
        return Permission(self.right, reach)

    def __str__(self) -> str:
        return f"{self.right}:{self.reach}" if self.reach else str(self.right)


READ, WRITE = Permission(Right.READ), Permission(Right.WRITE)
READ_SESSION, WRITE_SESSION = READ.at(Reach.SESSION), WRITE.at(Reach.SESSION)
READ_USER, WRITE_USER = READ.at(Reach.USER), WRITE.at(Reach.USER)
READ_GLOBAL, WRITE_GLOBAL = READ.at(Reach.GLOBAL), WRITE.at(Reach.GLOBAL)
READ_STORE, WRITE_STORE = READ.at(Reach.STORE), WRITE.at(Reach.STORE)

# Why an interface leaves an operation out.
NO_TOOL: Mapping[Interface, str] = {"tool": "models use the memory_ and schedule_ tools"}
NO_CLI: Mapping[Interface, str] = {"cli": "for programs; people use the commands on sessions, records and notes"}
IN_PROCESS: Mapping[Interface, str] = dict.fromkeys(
    ("http", "remote", "cli"), "takes or returns an object of this process"
)

ANY_VALUE = ...


@dataclass(frozen=True, slots=True)
class ExtraPermission:
    """What an operation needs besides where an argument has this value; with ``ANY_VALUE``, any at all."""

    argument: str
    value: Any
    needs: Permission

    def __str__(self) -> str:
        value = "given" if self.value is ANY_VALUE else repr(self.value)
        return f"{self.needs.right}:{self.needs.reach or 'the same level'} where `{self.argument}` is {value}"


@dataclass(frozen=True)
class Operation:
    """A public method, and everything the interfaces need to offer it."""

    name: str  # such as "records.update"; one of Limpet itself has no handle before it
    method: Callable[..., Any]
    on: On
    needs: tuple[Permission, ...]
    when: tuple[ExtraPermission, ...] = ()
    audited: bool = False  # it has an audit row of its own, written with the change; others are counted by the minute
    silent: bool = False  # it does nothing by itself: only a refusal is logged
    anonymizes: bool = False  # after it nobody is to be named any more: the log names what it returned
    requires_user: bool = False  # a user that is left out is never filled in for the operator
    http: str = ""  # "PATCH /v1/records/{id}"
    status: int = 200
    keywords: Callable[[], Sequence[Field]] | None = None  # what its **keywords take; the noun checks them
    names: Mapping[str, str] = field(default_factory=dict)  # HTTP names of arguments that have another there
    answer: str = ""  # the key of the answer in its JSON object; "" for a noun, or a page of nouns
    page: str = ""  # how HTTP pages a list: the field that orders it, or "offset"
    tool: str = ""  # the tool of models that does this
    cli: str = ""  # its words on the command line
    left_out: Mapping[Interface, str] = field(default_factory=dict)  # where it is not offered, and why

    @cached_property
    def handle(self) -> str:
        """The path of the handle it belongs to: "", "records", "session.kv"."""
        return self.name.rpartition(".")[0]

    @cached_property
    def access(self) -> str:
        """The rights it needs, as the audit log writes them."""
        return "+".join(right for right in Right if any(each.right is right for each in self.needs))

    @cached_property
    def writes(self) -> bool:
        return any(each.right is Right.WRITE for each in self.needs)

    @cached_property
    def positional(self) -> tuple[str, ...]:
        """The arguments that may be given without their names, in their order."""
        code = self.method.__code__  # inspect.signature would slow down the start
        return code.co_varnames[1 : code.co_argcount]

    @cached_property
    def places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.positional)}

    @cached_property
    def arguments(self) -> frozenset[str]:
        code = self.method.__code__
        return frozenset((*self.positional, *code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]))

    @cached_property
    def parameters(self) -> tuple[Field, ...]:
        """Its arguments with their types, limits, meanings and defaults."""
        import inspect  # late: only what reads the whole table needs it

        from limpet.model.schema import Field

        signature = inspect.signature(self.method)
        hints = self._resolve_hints(self.arguments)
        return tuple(
            Field.of(each.name, hints[each.name], MISSING if each.default is each.empty else each.default)
            for each in list(signature.parameters.values())[1:]
            if each.kind is not each.VAR_KEYWORD
        ) + (() if self.keywords is None else tuple(self.keywords()))

    @cached_property
    def returns(self) -> Any:
        """The type of its answer."""
        return self._resolve_hints({"return"})["return"]

    @cached_property
    def checks(self) -> Mapping[str, Callable[[Any, str], Any]]:
        """The check of each argument. Compiled at the first call: most programs use few operations."""
        from limpet.model.schema import codec

        codecs: dict[str, Codec] = {name: codec(hint) for name, hint in self._resolve_hints(self.arguments).items()}
        return {name: each.check for name, each in codecs.items()}

    @cached_property
    def doc(self) -> str:
        """Its docstring, without the indentation."""
        from inspect import cleandoc

        return cleandoc(self.method.__doc__ or "")

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return self.doc.partition("\n")[0]

    @property
    def http_method(self) -> str:
        """Its HTTP method."""
        return self.http.partition(" ")[0]

    @property
    def path(self) -> str:
        """Its HTTP path, with ``{…}`` for arguments."""
        return self.http.partition(" ")[2]

    def _resolve_hints(self, names: AbstractSet[str]) -> dict[str, Any]:
        from types import SimpleNamespace
        from typing import get_type_hints

        scope = self.method.__globals__
        chosen = SimpleNamespace(
            __annotations__={name: hint for name, hint in self.method.__annotations__.items() if name in names}
        )
        return get_type_hints(chosen, scope, _PublicNames(scope), include_extras=True)


class _PublicNames(dict[str, Any]):
    """The names of a module; else those of limpet, for what the module imports for typing only."""

    def __missing__(self, name: str) -> Any:
        limpet = sys.modules[__name__.partition(".")[0]]
        if name not in limpet.__all__:
            raise KeyError(name)
        return getattr(limpet, name)


OPERATIONS: dict[str, Operation] = {}  # by name; complete when limpet.api is imported


class Authorizer(Protocol):
    def call(self, operation: Operation, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Check, call the method, and log who did it. Raises PermissionDenied before anything has happened."""

    def filter_visible(self, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
        """Those of them whose memory belongs into what this caller reads."""


def operation(
    name: str,
    *,
    on: On,
    needs: tuple[Permission, ...],
    when: tuple[ExtraPermission, ...] = (),
    audited: bool = False,
    silent: bool = False,
    anonymizes: bool = False,
    requires_user: bool = False,
    http: str = "",
    status: int = 200,
    keywords: Callable[[], Sequence[Field]] | None = None,
    names: Mapping[str, str] = _EMPTY,
    answer: str = "",
    page: str = "",
    tool: str = "",
    cli: str = "",
    left_out: Mapping[Interface, str] = _EMPTY,
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Register a public method. Its object has an ``_authorizer``, which carries out every call.

    One without a tool is left to the tools there are, unless ``left_out`` gives another reason.
    """

    def decorate(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        made = Operation(
            name=name,
            method=method,
            on=on,
            needs=needs,
            when=when,
            audited=audited,
            silent=silent,
            anonymizes=anonymizes,
            requires_user=requires_user,
            http=http,
            status=status,
            keywords=keywords,
            names=names,
            answer=answer,
            page=page,
            tool=tool,
            cli=cli,
            left_out=left_out if tool else {**NO_TOOL, **left_out},
        )
        if name in OPERATIONS:
            raise ValueError(f"there are two operations called {name!r}")
        OPERATIONS[name] = made
        method.__qualname__ = _public_name(name)  # what a TypeError calls it

        @wraps(method)
        def wrapper(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return self._authorizer.call(made, self, args, kwargs)

        wrapper.operation = made  # type: ignore[attr-defined]  # for the test that finds methods without one
        return wrapper

    return decorate


def session_operation(
    name: str, needs: Permission, http: str, *, cli: str = "", **more: Any
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """An operation on the session of the handle. ``http`` is its method, and its path below the session's."""
    method, _, path = http.partition(" ")
    return operation(
        name,
        on=On.HANDLE,
        needs=(needs,),
        http=f"{method} /v1/sessions/{{session_id}}{path}",
        cli=cli,
        left_out=_EMPTY if cli else NO_CLI,
        **more,
    )


def _public_name(name: str) -> str:
    """Session.append, Session.kv.get, Turn.reply, Limpet.recall, Limpet.records.update."""
    first, dot, rest = name.partition(".")
    return f"{first.capitalize()}.{rest}" if dot and first in ("session", "turn") else f"Limpet.{name}"


AuditTarget = tuple[str | None, str | None, str | None, str | None]  # user, agent, session, record

# Where agent= means the agent's memory, and does not select among a user's.
_AGENT_RULES = (On.OWNER, On.REACH, On.ID, On.ID_OR_OWNER)
_OWNED_RULES = (On.OWNER, On.USER, On.ID_OR_OWNER)
_OPEN_RULES = (On.REACH, On.FILTER, On.ID)


class OperationCall:
    """One call of an operation."""

    __slots__ = ("args", "kwargs", "operation", "subject")

    def __init__(self, operation: Operation, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.operation = operation
        self.subject = subject
        self.args = args
        self.kwargs = kwargs

    def invoke(self) -> Any:
        return self.operation.method(self.subject, *self.args, **self.kwargs)

    def check_arguments(self) -> None:
        """Replace each argument by its canonical value. Raises InvalidInput. Unknown names are left to Python."""
        checks = self.operation.checks
        if self.args:
            # Surplus arguments stay as they are: the call itself complains about them.
            names = self.operation.positional
            given = [checks[name](value, name) for name, value in zip(names, self.args, strict=False)]
            self.args = (*given, *self.args[len(names) :])
        if self.kwargs:
            self.kwargs = {
                name: checks[name](value, name) if name in checks else value for name, value in self.kwargs.items()
            }

    def argument(self, name: str) -> Any:
        """What was given under this name, or None."""
        place = self.operation.places.get(name)
        return self.args[place] if place is not None and place < len(self.args) else self.kwargs.get(name)

    def set_argument(self, name: str, value: object) -> None:
        place = self.operation.places.get(name)
        if place is not None and place < len(self.args):
            self.args = (*self.args[:place], value, *self.args[place + 1 :])
        elif name in self.operation.arguments:
            self.kwargs = {**self.kwargs, name: value}

    @property
    def needs_default_user(self) -> bool:
        """Nobody was named, and the operation works on one owner's memory."""
        operation = self.operation
        if operation.requires_user or operation.on not in _OWNED_RULES or self._is_by_id:
            return False
        names = ("user",) if operation.on is On.USER else ("user", "agent", "session", "scope")
        return all(self.argument(name) is None for name in names)

    @property
    def is_tenant_wide(self) -> bool:
        """The whole tenant, or more, is meant, and not only fallen into."""
        return self.operation.on is On.WHOLE or (self.argument("scope") == "global" and not self._is_by_id)

    @property
    def is_unscoped(self) -> bool:
        """Without a user it is about all that the caller may see."""
        return self.operation.on in _OPEN_RULES or self._is_by_id

    @property
    def can_target_agent(self) -> bool:
        return self.operation.on in _AGENT_RULES and "agent" in self.operation.arguments

    @property
    def _is_by_id(self) -> bool:
        return self.operation.on is On.ID or (self.operation.on is On.ID_OR_OWNER and self.argument("id") is not None)

    def resolve_target(self) -> AccessRequest:
        """Whose memory the arguments name, by the narrowest of them. What is compared must be a name, or is refused."""
        if self.operation.on is On.HANDLE:
            scope = self._scope
            return AccessRequest(Right.READ, Reach.SESSION, scope.user, scope.agent, scope.session)
        user, agent, session = self._owner_names()
        if self.argument("scope") == "global" and not self._is_by_id:
            reach = Reach.GLOBAL
        elif session is not None:
            reach = Reach.SESSION
        elif user is not None and self.operation.on is not On.WHOLE:
            reach = Reach.USER
        elif agent is not None and self.operation.on in _AGENT_RULES:
            reach = Reach.AGENT
        else:
            reach = Reach.GLOBAL
        return AccessRequest(Right.READ, reach, user, agent, session)

    def list_requests(self, place: AccessRequest) -> list[AccessRequest]:
        """Everything this call needs there."""
        also = [when.needs for when in self.operation.when if _applies(when, self.argument(when.argument))]
        return [
            AccessRequest(each.right, each.reach or place.reach, place.user, place.agent, place.session)
            for each in (*self.operation.needs, *also)
        ]

    def audit_target(self, answer: Any = None) -> AuditTarget:
        """What the audit names: what was found, or else what was asked for, as far as that is names and ids."""
        if self.operation.on is On.HANDLE:
            scope = self._scope
            return scope.user, scope.agent, scope.session, None
        if isinstance(answer, Record):
            owner = answer.home.scope
            return owner.user, owner.agent, owner.session, answer.id
        found = getattr(answer, "_scope", None)  # a session's handle knows whose it is
        return (
            (found.user, found.agent, found.session, None)
            if isinstance(found, Scope)
            else self._target_from_arguments()
        )

    @property
    def _scope(self) -> Scope:
        scope: Scope = self.subject._scope  # noqa: SLF001  # what every object with operations on its session has
        return scope

    def _owner_names(self) -> tuple[str | None, str | None, str | None]:
        user, agent, session = self.argument("user"), self.argument("agent"), self.argument("session")
        session = self.argument("session_id") if session is None else session
        return (
            None if user is None else check_name(user, "user"),
            None if agent is None else check_name(agent, "agent"),
            None if session is None else check_id(session, "session id"),
        )

    def _target_from_arguments(self) -> AuditTarget:
        """What is neither a name nor an id might be anything, a text too: left out."""
        try:
            user, agent, session = self._owner_names()
        except LimpetError:
            user = agent = session = None
        record = self.argument("id")
        try:
            record = None if record is None else check_id(record, "record id")
        except LimpetError:
            record = None
        return user, agent, session, record


def _applies(when: ExtraPermission, given: Any) -> bool:
    if when.value is ANY_VALUE:
        return given is not None
    if when.value is True:
        return given is not None and given is not False
    return given is when.value or (isinstance(given, str) and given == when.value)


# Public names that are not operations, and why they need no permission.
EXEMPT: Mapping[str, str] = {
    "open": "whoever can open the store can read its file",
    "connect": "the server checks every call by its key",
    "close": "only the handle that opened the store closes it; any other's does nothing",
    "agent": "the same caller with an agent's settings; every call is checked as before",
    "config": "settings, not memory",
    "principal": "who acts, which whoever acts knows",
    **dict.fromkeys(
        (
            *("records", "documents", "graph", "notes", "schedules", "jobs", "access", "privacy", "transfer", "admin"),
            *("access.keys", "notes.long_term"),
        ),
        "a handle; its operations are checked",
    ),
    "turn.add": "stored with the reply, which is checked",
    **dict.fromkeys(("turn.message", "turn.context", "turn.compacted", "turn.failed"), "what the turn already has"),
    **{
        f"session.{name}": "what the handle knows without the store"
        for name in (
            "info id key user agent channel chat thread state metadata created_at last_active_at expires_at".split()
        )
    },
    "notes.long_term.path": "what the handle knows without the store",
}
