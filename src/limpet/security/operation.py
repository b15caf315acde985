"""Every operation once: a public method, and what its signature cannot say.

``@operation`` registers the method in ``OPERATIONS``. Authorization, the audit log, HTTP, the remote client, tools,
the command line and the reference pages read that table; none of them repeats a method's arguments or limits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, field
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from limpet.model.access import Reach, Right
from limpet.model.dataclass import dataclass, replace
from limpet.model.late import lazy_property
from limpet.model.scope import Partition

if TYPE_CHECKING:
    from limpet.model.constraints import Codec
    from limpet.model.schema import Field

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

Interface = Literal["http", "remote", "tool", "cli"]
INTERFACES: tuple[Interface, ...] = ("http", "remote", "tool", "cli")


class On(StrEnum):
    """How an operation says whose memory it touches."""

    HANDLE = "the session, or the user, of the handle"
    OWNER = "`user`, `agent`, `session` or `scope`; if omitted: one's own"
    REACH = "`user`, `agent` or `session`; if omitted: all that the grants cover, without grants one's own"
    ID = "an id, perhaps with `user` or `agent`; if omitted: all that the grants cover, without grants one's own"
    ID_OR_OWNER = "an id; or `user`, `agent`, `session` or `scope`, if omitted: one's own"
    FILTER = "`user`, while `agent` only selects among theirs; if omitted: all that the grants cover"
    USER = "`user`; if omitted: one's own"
    CHAT = "`user`; if omitted: one's own, or the user of the chat"
    WHOLE = "all of the tenant, or of the store"


# Arguments with these names say whose memory a call is about, or else are values: the agent that a schedule is for.
_OWNER_NAMES = frozenset(("user", "agent", "session", "session_id", "scope"))
_OWNER_ARGUMENTS: Mapping[On, frozenset[str]] = {
    On.HANDLE: frozenset(),
    On.OWNER: frozenset(("user", "agent", "session", "scope")),
    On.REACH: frozenset(("user", "agent", "session")),
    On.ID: frozenset(("user", "agent", "session_id")),
    On.ID_OR_OWNER: frozenset(("user", "agent", "session", "scope")),
    On.FILTER: frozenset(("user", "session")),
    On.USER: frozenset(("user",)),
    On.CHAT: frozenset(("user",)),
    On.WHOLE: frozenset(),
}
# Where an argument of such a name can only be a value: it names somebody, or selects among what is reached anyway.
_VALUE_ARGUMENTS: Mapping[On, frozenset[str]] = {
    On.FILTER: frozenset(("agent",)),
    On.CHAT: frozenset(("agent",)),
    On.WHOLE: _OWNER_NAMES,
}


@dataclass(frozen=True, slots=True)
class Permission:
    """A right on the level the arguments name, or on a fixed one: ``read``, ``write:user``."""

    right: Right
    reach: Reach | None = None

    @classmethod
    def parse(cls, text: str) -> Permission:
        right, _, reach = text.partition(":")
        return cls(Right(right), Reach(reach) if reach else None)

    def __str__(self) -> str:
        return f"{self.right}:{self.reach}" if self.reach else str(self.right)


# Why an interface leaves an operation out.
_NO_TOOL = "models use the memory_ and schedule_ tools"
_NO_TOOL_FOR = {"privacy": "a model must not purge"}  # by handle
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
    needs: str

    def __str__(self) -> str:
        value = "given" if self.value is ANY_VALUE else repr(self.value)
        needs = self.needs if ":" in self.needs else f"{self.needs}:the same level"
        return f"{needs} where `{self.argument}` is {value}"


@dataclass(frozen=True)
class Operation:
    """A public method, and everything the interfaces need to offer it; as a decorator, it registers the method.

    An operation without a tool is left to the tools there are, unless ``left_out`` gives another reason.
    """

    name: str  # such as "records.update"; one of Limpet itself has no handle before it
    on: On
    needs: str  # permissions, such as "read write:user"
    http: str = ""  # "PATCH /v1/records/{id}"
    _: KW_ONLY
    when: tuple[ExtraPermission, ...] = ()
    values: tuple[str, ...] = ()  # arguments that are called like an owner and are values, or only filter
    audited: bool = False  # it has an audit row of its own, written with the change; others are counted by the minute
    silent: bool = False  # it does nothing by itself: only a refusal is logged
    anonymizes: bool = False  # after it nobody is to be named any more: the log names what it returned
    requires_user: bool = False  # a user that is left out is never filled in for the operator
    status: int = 200
    keywords: Callable[[], Sequence[Field]] | None = None  # what its **keywords take; the noun checks them
    names: Mapping[str, str] = field(default_factory=dict)  # HTTP names of arguments that have another there
    answer: str = ""  # the key of the answer in its JSON object; "" for a noun, or a page of nouns
    page: str = ""  # how HTTP pages a list: the field that orders it, or "offset"
    tool: str = ""  # the tool of models that does this
    cli: str = ""  # its words on the command line
    left_out: Mapping[Interface, str] = field(default_factory=dict)  # where it is not offered, and why
    method: Callable[..., Any] = field(default=lambda: None)  # set when it decorates one

    def __call__(self, method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        """Register a public method. Its object has an ``_authorizer``, which carries out every call."""
        no_tool: Mapping[Interface, str] = {} if self.tool else {"tool": _NO_TOOL_FOR.get(self.handle, _NO_TOOL)}
        made = replace(self, method=method, left_out={**no_tool, **self.left_out})
        if self.name in OPERATIONS:
            raise ValueError(f"there are two operations called {self.name!r}")
        if not made.permissions:  # raises ValueError, too, for one that there is not
            raise ValueError(f"{self.name} needs no permission; say which")
        made.check_owners()
        OPERATIONS[self.name] = made
        method.__qualname__ = _public_name(self.name)  # what a TypeError calls it

        @wraps(method)
        def wrapper(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return self._authorizer.call(made, self, args, kwargs)

        wrapper.operation = made  # type: ignore[attr-defined]  # for the test that finds methods without one
        return wrapper

    @lazy_property
    def handle(self) -> str:
        """The path of the handle it belongs to: "", "records", "session.kv"."""
        return self.name.rpartition(".")[0]

    @lazy_property
    def permissions(self) -> tuple[Permission, ...]:
        return tuple(map(Permission.parse, self.needs.split()))

    @lazy_property
    def access(self) -> str:
        """The rights it needs, as the audit log writes them."""
        return "+".join(right for right in Right if any(each.right is right for each in self.permissions))

    @lazy_property
    def writes(self) -> bool:
        return any(each.right is Right.WRITE for each in self.permissions)

    @lazy_property
    def positional(self) -> tuple[str, ...]:
        """The arguments that may be given without their names, in their order."""
        code = self.method.__code__  # inspect.signature would slow down the start
        return code.co_varnames[1 : code.co_argcount]

    @lazy_property
    def positions(self) -> Mapping[str, int]:
        return {name: position for position, name in enumerate(self.positional)}

    @lazy_property
    def owners(self) -> frozenset[str]:
        """The arguments that name whose memory it is. No other argument changes which permission a call needs there."""
        return (_OWNER_ARGUMENTS[self.on] & self.arguments).difference(self.values)

    def check_owners(self) -> None:
        """Raise ValueError for an argument that might name an owner, where the table does not say if it does."""
        known = self.owners | _VALUE_ARGUMENTS.get(self.on, frozenset()) | {*self.values}
        unclear = sorted((_OWNER_NAMES & self.arguments) - known)
        if unclear:
            raise ValueError(
                f"{self.name}: list {', '.join(unclear)} in values=, or choose the on= that means an owner"
            )

    @lazy_property
    def arguments(self) -> frozenset[str]:
        code = self.method.__code__
        return frozenset((*self.positional, *code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]))

    @lazy_property
    def parameters(self) -> tuple[Field, ...]:
        """Its arguments with their types, limits, meanings and defaults."""
        from limpet.model.schema import fields_of_call

        own = fields_of_call(self.method, self._resolve_hints(self.arguments), skip=1)
        return (*own, *(() if self.keywords is None else self.keywords()))

    @lazy_property
    def returns(self) -> Any:
        return self._resolve_hints({"return"})["return"]

    @lazy_property
    def checks(self) -> Mapping[str, Callable[[Any, str], Any]]:
        """The check of each argument. Compiled at the first call: most programs use few operations."""
        from limpet.model.schema import codec

        codecs: dict[str, Codec] = {name: codec(hint) for name, hint in self._resolve_hints(self.arguments).items()}
        return {name: each.check for name, each in codecs.items()}

    @lazy_property
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
        return self.http.partition(" ")[0]

    @property
    def path(self) -> str:
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


operation = Operation  # as a decorator: ``@operation("records.get", On.ID, "read", "GET /v1/records/{id}")``


def session_operation(name: str, needs: str, http: str, *, cli: str = "", **more: Any) -> Operation:
    """An operation on the session of the handle. ``http`` is its method, and its path below the session's."""
    method, _, path = http.partition(" ")
    address = f"{method} /v1/sessions/{{session_id}}{path}"
    return operation(name, On.HANDLE, needs, address, cli=cli, **({"left_out": {} if cli else NO_CLI} | more))


def _public_name(name: str) -> str:
    """Session.append, Session.kv.get, Turn.reply, Limpet.recall, Limpet.records.update."""
    first, dot, rest = name.partition(".")
    return f"{first.capitalize()}.{rest}" if dot and first in ("session", "turn") else f"Limpet.{name}"


# Public names that are not operations, and why they need no permission.
EXEMPT: Mapping[str, str] = {
    "open": "anyone who can open the store can read its file",
    "connect": "the server checks every call by its key",
    "close": "only the handle that opened the store closes it; any other's does nothing",
    "agent": "the same caller with an agent's settings; every call is checked as before",
    "config": "settings, not memory",
    "principal": "who acts: the caller knows that",
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
