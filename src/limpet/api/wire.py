"""An operation over HTTP: where each argument stands in a request, and how the answer is written.

The server reads requests and writes answers by these forms, OpenAPI describes them, and the remote client does the
reverse. ``invoke`` calls an operation that is known only by its place in the table. Nothing here knows a server or a
connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, field
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, NamedTuple, TypedDict, get_args, get_origin

from limpet.api.limpet import Limpet
from limpet.api.parameters import CursorCodec, LocalPath, SessionId, User
from limpet.api.session import Session
from limpet.model.access import Right
from limpet.model.constraints import REFERENCE, Codec, Definitions, Integer, OptionalCodec, Text, unwrap
from limpet.model.containers import Function, JsonObject, ListCodec, Opaque
from limpet.model.context import Context, Omission
from limpet.model.dataclass import dataclass, replace
from limpet.model.late import lazy_property
from limpet.model.message import Message
from limpet.model.schema import Field, ObjectCodec, codec
from limpet.model.session import CompactionResult, SessionInfo
from limpet.model.values import PageCursor
from limpet.security.operation import OPERATIONS, On, Operation

PAGE = 50
MAX_PAGE = 1000
IDEMPOTENCY_KEY = "Idempotency-Key"
PLAIN_KEY = re.compile(r"(?!utf-8'')[!-~]{1,200}")
ENCODED_KEY = "utf-8''"  # before a key that is percent-encoded, for what no header can hold (RFC 8187)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_BODY_METHODS = ("POST", "PUT", "PATCH")
_CURSOR = CursorCodec()


class Place(StrEnum):
    """The part of a request an argument stands in."""

    PATH = "path"
    QUERY = "query"
    BODY = "body"
    HEADER = "header"


class Argument(NamedTuple):
    """One argument: its name in Python, its name in HTTP, and where it stands."""

    name: str
    key: str
    place: Place
    field: Field

    @property
    def codec(self) -> Codec:
        return self.field.codec

    @property
    def is_required(self) -> bool:
        return self.place is Place.PATH or self.field.is_required

    def holds(self, *kinds: type[Codec]) -> bool:
        return isinstance(unwrap(self.codec), kinds)

    @property
    def is_object(self) -> bool:
        return self.holds(JsonObject, ObjectCodec)

    @property
    def is_nullable(self) -> bool:
        return isinstance(self.codec, OptionalCodec)

    def parse(self, texts: Sequence[str], name: str) -> Any:
        """The value of what stands in a query: a list has its key once for each entry."""
        inner = unwrap(self.codec)
        if isinstance(inner, ListCodec):
            return inner.check([inner.inner.parse(each, name) for each in texts], name)
        return self.codec.parse(texts[0], name)

    def format(self, value: Any) -> list[str]:
        """What stands in a query for this value, which was checked."""
        written = self.codec.write(value)
        return [to_query_text(each) for each in (written if self.holds(ListCodec) else [written])]


@dataclass(frozen=True, slots=True)
class Answer:
    """How a returned value stands in JSON: as it is, under a key, or as a page of a list."""

    codec: Codec
    key: str = ""
    page: str = ""  # the field that orders the list, or "offset"
    is_list: bool = False

    def write(self, value: Any, arguments: Mapping[str, Any]) -> Any:
        if self.is_list:
            return self._write_page(value, arguments)
        written = self.codec.write(value.info if isinstance(value, Session) else value)
        return {self.key: written} if self.key else written

    def read(self, data: Any) -> Any:
        """The value of an answer. A page gives its items: ``next`` is for the request of the next one."""
        if self.is_list:
            return [self.codec.read(each, "the answer") for each in data["items"]]
        return self.codec.read(data[self.key] if self.key else data, "the answer")

    def schema(self, name: str, definitions: Definitions | None) -> dict[str, Any]:
        inner = self.codec.schema(definitions, "output")
        if self.is_list:
            kind = str(inner.get("$ref", "")).rpartition("/")[2] or name
            return _refer(definitions, f"PageOf{kind}", _describe_page(inner))
        if not self.key:
            return inner
        meaning = {"description": "the answer"} if "description" not in inner else {}
        whole = {"type": "object", "properties": {self.key: inner | meaning}, "required": [self.key]}
        camel = "".join(word.capitalize() for word in re.split(r"[._]", name))
        return _refer(definitions, f"{camel}Answer", whole)

    def _write_page(self, found: Sequence[Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Of one entry more than was asked for, which tells whether there are more."""
        if not self.page:
            return {"items": [self.codec.write(each) for each in found], "next": None}
        limit = arguments["limit"] - 1
        shown, more = found[:limit], None
        if len(found) > limit and shown:
            last = shown[-1]
            more = str(arguments.get("offset", 0) + limit)
            if self.page != "offset":
                more = _CURSOR.write(PageCursor(getattr(last, self.page), last.id))
        return {"items": [self.codec.write(each) for each in shown], "next": more}


class Done(Codec):
    """The answer of an operation that returns nothing."""

    def write(self, value: None) -> bool:
        return True

    def read(self, value: Any, name: str) -> None:
        return None

    def schema(self, definitions: Definitions | None = None, mode: Any = "output") -> dict[str, Any]:
        return {"type": "boolean", "description": "always true; otherwise a problem is answered"}


@dataclass(frozen=True)
class Form:
    """One operation as one HTTP request and its answer."""

    method: str
    path: str
    name: str
    doc: str
    arguments: tuple[Argument, ...]
    answer: Answer
    status: int = 200
    rules: Mapping[str, Any] = field(default_factory=dict)  # what a JSON Schema can say about the body as a whole

    @property
    def summary(self) -> str:
        return self.doc.partition("\n")[0]

    @lazy_property
    def in_path(self) -> Mapping[str, Argument]:
        return self._select(Place.PATH)

    @lazy_property
    def in_query(self) -> Mapping[str, Argument]:
        return self._select(Place.QUERY)

    @lazy_property
    def in_body(self) -> Mapping[str, Argument]:
        return self._select(Place.BODY)

    @lazy_property
    def required(self) -> tuple[Argument, ...]:
        """Those that a request must give in its query or its body."""
        return tuple(each for each in (*self.in_query.values(), *self.in_body.values()) if each.is_required)

    def _select(self, place: Place) -> dict[str, Argument]:
        return {each.key: each for each in self.arguments if each.place is place}

    @lazy_property
    def is_keyed(self) -> bool:
        """Whether an Idempotency-Key makes it safe to repeat."""
        return any(each.place is Place.HEADER for each in self.arguments)

    @property
    def has_body(self) -> bool:
        return bool(self.in_body)


class Alias(NamedTuple):
    """A second address of an operation, with some of its arguments, some of them required there."""

    operation: str
    http: str
    only: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


# A question that goes into a log with the address of its request goes into the body of a POST; a short one may not.
ALIASES = (
    Alias("recall", "GET /v1/recall"),
    Alias("session.context", "GET /v1/sessions/{session_id}/context"),
    Alias("forget", "DELETE /v1/records/{id}", ("id", "user", "agent", "session"), ("id",)),
)
# What Python may leave out and a request may not. Without a text the server would read a file of its own machine.
_REQUIRED = {"documents.add": ("text",)}
# A path that is only a name there.
_URIS = ("documents.add",)
# Exactly one of them says what is meant.
_ONE_OF = {"forget": ("id", "key", "query")}
# What they remove does not come back: a request repeats the name of what goes.
CONFIRMED = ("privacy.purge_session", "privacy.purge_user", "privacy.purge_older")
# A uri may say more than an address in a log should.
_IN_BODY = ("documents.remove",)


@cache
def get_form(name: str) -> Form:
    """How the operation stands in HTTP. It must have an address."""
    operation = OPERATIONS[name]
    return _build_form(operation, operation.http, get_arguments(operation), _REQUIRED.get(name, ()))


def build_alias(alias: Alias) -> Form:
    operation = OPERATIONS[alias.operation]
    fields = [each for each in get_arguments(operation) if not alias.only or each.name in alias.only]
    return _build_form(operation, alias.http, fields, alias.required)


def _build_form(operation: Operation, http: str, fields: Iterable[Field], required: Iterable[str]) -> Form:
    method, _, path = http.partition(" ")
    wanted = [_require(each) if each.name in required else each for each in fields]
    if method == "PATCH":
        wanted = [_allow_null(each) for each in wanted]
    in_body = method in _BODY_METHODS or operation.name in _IN_BODY
    arguments = place_arguments(path, wanted, operation.names, in_body=in_body)
    answer = make_answer(operation.returns, operation.answer, operation.page)
    rules = _describe_owners(arguments) if operation.on in (On.OWNER, On.ID_OR_OWNER) and in_body else {}
    if not required and operation.name in _ONE_OF:
        rules |= {"oneOf": [_describe_choice(name, _ONE_OF[operation.name]) for name in _ONE_OF[operation.name]]}
    return Form(method, path, operation.name, operation.doc, arguments, answer, operation.status, rules)


def get_arguments(operation: Operation) -> list[Field]:
    """The arguments that can travel, and those of the handle: a session's id, the user of the notes."""
    own = [settle_default(each) for each in operation.parameters if _travels(each, paths=operation.name in _URIS)]
    if operation.page:
        own = [_LIMIT if each.name == "limit" else each for each in own]
    if operation.page == "offset":
        own = [_OFFSET if each.name == "offset" else each for each in own]
    known = {each.name for each in own}
    if operation.handle.partition(".")[0] == "session":
        own.insert(0, _SESSION)
    elif operation.handle == "notes.long_term" and "user" not in known:
        own.append(_NOTES_USER)
    if operation.name in CONFIRMED:
        own.append(_CONFIRM)
    return own


def place_arguments(
    path: str, fields: Iterable[Field], names: Mapping[str, str], *, in_body: bool
) -> tuple[Argument, ...]:
    """Where each argument stands: in the path, as a header, and the rest in the query or the body."""
    in_path = frozenset(_PLACEHOLDER.findall(path))
    rest = Place.BODY if in_body else Place.QUERY
    found = []
    for each in fields:
        key = names.get(each.name, each.key)
        if each.name == "idempotency_key":
            found.append(Argument(each.name, IDEMPOTENCY_KEY, Place.HEADER, each))
        elif key in in_path:
            found.append(Argument(each.name, key, Place.PATH, each))
        elif each.name == "before" and isinstance(unwrap(each.codec), CursorCodec):
            found.append(Argument(each.name, "cursor", rest, each))
        else:
            found.append(Argument(each.name, key, rest, each))
    return tuple(found)


def make_answer(hint: Any, key: str = "", page: str = "") -> Answer:
    if hint is None or hint is type(None):
        return Answer(Done(), key or "done")
    if hint is Session:
        hint = SessionInfo
    elif hint == (Session | None):
        hint, key = SessionInfo | None, key or "session"
    if page or (get_origin(hint) is list and not key):
        return Answer(codec(get_args(hint)[0]), "", page, is_list=True)
    if not key and hint in (int, bool, str, float):
        key = "value"
    return Answer(codec(hint), key)


def settle_default(made: Field) -> Field:
    """With a default that is the value itself: an enumeration's member, not its word."""
    if made.default is MISSING or made.default is None:
        return made
    return made._replace(default=made.codec.check(made.default, made.name))


def _travels(each: Field, *, paths: bool) -> bool:
    """Functions, providers and open files do not. A path is of another machine, unless it is only a name there."""
    if isinstance(unwrap(each.codec), (Function, Opaque)):
        return False
    return paths or not each.hints & set(LocalPath)


def _require(each: Field) -> Field:
    inner = each.codec.inner if isinstance(each.codec, OptionalCodec) else each.codec
    return each._replace(default=MISSING, codec=inner)


def _allow_null(each: Field) -> Field:
    """In a change, null is as good as left out: it stays as it is."""
    is_free = each.default is None and not isinstance(each.codec, OptionalCodec)
    return each._replace(codec=OptionalCodec(each.codec)) if is_free else each


_LIMIT = Field("limit", "limit", Integer(1, MAX_PAGE), "entries of a page at most", PAGE)
_OFFSET = Field("offset", "cursor", Integer(0, 10**9), "`next` of the page before", 0)
_SESSION = Field.of("session_id", SessionId)
_NOTES_USER = Field.of("user", User | None, None)
_CONFIRM = Field.of(
    "confirm",
    Annotated[str, Text(), "the user's name or the session's id again; needed unless it is a dry run"] | None,
    None,
)


def _describe_owners(arguments: Iterable[Argument]) -> dict[str, Any]:
    """In the words of JSON Schema: what is given of whose memory it is goes together."""
    known = {each.key for each in arguments}
    pairs = [pair for pair in _APART if known.issuperset(pair)]
    said = [{"required": list(pair), "properties": {key: {"type": "string"} for key in pair}} for pair in pairs]
    return {"not": {"anyOf": said}} if said else {}


_APART = (
    *(("user", "agent"), ("user", "scope"), ("agent", "scope"), ("session", "agent"), ("session", "scope")),
    *(("source", "agent"), ("source", "scope")),  # a session is of a user
)


def _describe_choice(chosen: str, names: Iterable[str]) -> dict[str, Any]:
    """In the words of JSON Schema: this one of the names is given, and none of the others."""
    kinds = {name: {"not": {"type": "null"}} if name == chosen else {"type": "null"} for name in names}
    return {"properties": kinds, "required": [chosen]}


def _describe_page(entry: dict[str, Any]) -> dict[str, Any]:
    items = {"type": "array", "items": entry, "description": "the entries, `limit` at most"}
    more = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    about = "where the next page begins; null: this is the last"
    properties = {"items": items, "next": {**more, "description": about}}
    return {"type": "object", "properties": properties, "required": ["items", "next"]}


def _refer(definitions: Definitions | None, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    if definitions is None:
        return schema
    definitions.setdefault(name, schema)
    return {"$ref": REFERENCE.format(name)}


def to_query_text(value: Any) -> str:
    """What stands in a query for a JSON value."""
    if isinstance(value, str):
        return value
    from json import dumps

    return dumps(value, ensure_ascii=False, separators=(",", ":"))


def invoke(memory: Limpet, operation: Operation, arguments: dict[str, Any]) -> Any:
    """Call it on the handle that the arguments name. Authorization happens in the call itself.

    An operation of a session takes the ``session_id`` as well, one on MEMORY.md the ``user``.
    """
    handle, rest = _find_handle(memory, operation, arguments)
    member = getattr(handle, operation.method.__name__)
    if not callable(member):  # a property
        return member
    unnamed = operation.positional[: max(0, operation.method.__code__.co_posonlyargcount - 1)]
    first = [rest.pop(name) for name in unnamed]
    return member(*first, **rest)


class TurnResult(TypedDict):  # the answer of both requests of a turn
    message: Annotated[Message, "the user's message as it is stored"]
    context: Annotated[Context, "what belongs into the prompt"]
    reply: Annotated[Message | None, "the reply as it is stored; null: none was given"]
    compacted: Annotated[CompactionResult | None, "what was summarized before; null: nothing was due"]
    failed: Annotated[list[Omission], "what memory could not do, and did without"]


def load_session(memory: Limpet, session_id: str, operation: str) -> Session:
    """For an operation on it, which alone is logged. One that only writes does not need the right to read."""
    loads = _load_silently(reads=any(each.right is Right.READ for each in OPERATIONS[operation].permissions))
    session: Session = memory._authorizer.call(loads, memory, (session_id,), {})  # noqa: SLF001 - of ours
    return session


@cache
def _load_silently(*, reads: bool) -> Operation:
    return replace(OPERATIONS["load_session"], silent=True, needs="read:session" if reads else "write:session")


def _find_handle(memory: Limpet, operation: Operation, arguments: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    rest, first = dict(arguments), operation.handle.partition(".")[0]
    handle: Any = memory
    for name in operation.handle.split(".") if operation.handle else ():
        if name == "session" and name == first:
            handle = load_session(memory, rest.pop("session_id"), operation.name)
        elif operation.handle == "notes.long_term" and name == "long_term":
            handle = handle.long_term(rest.pop("user", None))
        else:
            handle = getattr(handle, name)
    return handle, rest
