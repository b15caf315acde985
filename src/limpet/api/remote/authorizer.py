"""An operation becomes a request by the operation table, and its answer the value that the operation returns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, get_origin
from urllib.parse import quote, urlencode

from limpet.api.remote.http import Client, Request
from limpet.api.runtime import DEFAULT_USER
from limpet.api.wire import ENCODED_KEY, IDEMPOTENCY_KEY, MAX_PAGE, PLAIN_KEY, Form, Place, get_form
from limpet.errors import InvalidInput, StorageError, Unsupported
from limpet.model.constraints import Codec
from limpet.model.schema import ignore_unknown_fields
from limpet.model.scope import Partition
from limpet.model.session import SessionInfo
from limpet.security.authorize import OperationCall
from limpet.security.operation import OPERATIONS, On, Operation

if TYPE_CHECKING:
    from limpet.api.remote.memory import RemoteView

Arguments = dict[str, Any]

_get_signature = cache(signature)

# Afterwards the handle of a session shows what has become of it.
_CHANGE_SESSION = frozenset(
    f"session.{name}"
    for name in ("new", "clear", "pause", "resume", "terminate", "update_metadata", "expire_in", "learn")
)


class RemoteAuthorizer:
    """In the place of the one that checks: the server checks, with what the key may do."""

    def __init__(self, view: RemoteView) -> None:
        self._view = view

    @property
    def client(self) -> Client:
        return self._view.client

    def call(self, operation: Operation, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Check the arguments as in process, send them, and return what the server's call returned."""
        from limpet.api.remote.memory import BY_HAND

        if (reason := operation.left_out.get("remote")) is not None:
            raise Unsupported(f"{operation.name} does not work over HTTP: {reason}")
        call = OperationCall(operation, subject, args, kwargs)
        call.check_arguments()
        self._fill_user(call)
        given = bind_arguments(call)
        _check_owner(operation, given)
        by_hand = BY_HAND.get(operation.name)
        if by_hand is not None:
            return by_hand(self, subject, given)
        found = self.send(operation.name, subject, given)
        if operation.name in _CHANGE_SESSION:
            subject.refresh()
        return found

    def filter_visible(self, spaces: Sequence[Partition]) -> tuple[Partition, ...]:
        return tuple(spaces)

    def send(self, name: str, subject: Any, given: Arguments) -> Any:
        """Call the operation on the server, as often as its list has pages."""
        form = get_form(name)
        arguments = {**given, **_name_handle(OPERATIONS[name], subject)}
        wanted = arguments.get("limit")
        if not form.answer.page or not isinstance(wanted, int):
            return self._convert(OPERATIONS[name], self.read(form, self.request(form, arguments)))
        found: list[Any] = []
        cursor: str | None = None
        while len(found) < wanted:
            arguments["limit"] = min(wanted - len(found), MAX_PAGE)
            answer = self.request(form, arguments, cursor)
            found += self.read(form, answer)
            cursor = answer["next"]
            arguments.pop("offset", None)
            if cursor is None:
                break
        return found

    def request(self, form: Form, arguments: Arguments, cursor: str | None = None) -> Any:
        """The JSON of the answer."""
        return self.client.send(build_request(form, arguments, cursor))

    def read(self, form: Form, answer: Any) -> Any:
        with reading_answer(form.name):
            return form.answer.read(answer)

    def _convert(self, operation: Operation, found: Any) -> Any:
        """What the operation returns in process: a handle of a session, a list."""
        if isinstance(found, SessionInfo) and operation.returns is not SessionInfo:
            return self._view.make_session(found)
        return list(found) if isinstance(found, tuple) and get_origin(operation.returns) is list else found

    def _fill_user(self, call: OperationCall) -> None:
        """Whose memory it is where nobody was named; without a default the server knows whose the key is."""
        user = self._view.user
        if user is None:
            return
        chat = call.operation.on is On.CHAT and user != DEFAULT_USER and call.argument("user") is None
        if chat or call.needs_default_user:
            call.set_argument("user", user)


def bind_arguments(call: OperationCall) -> Arguments:
    """What was given, by name. Raises TypeError as the call of the method would."""
    operation, known = call.operation, _get_signature(call.operation.method)
    try:
        bound = known.bind(call.subject, *call.args, **call.kwargs).arguments
    except TypeError as error:
        raise TypeError(f"{operation.method.__qualname__}(): {error}") from None
    given, free = dict(list(bound.items())[1:]), Arguments()
    for name in [name for name in given if known.parameters[name].kind is Parameter.VAR_KEYWORD]:
        free |= given.pop(name)
    return {**given, **_check_keywords(operation, free)}


def _check_owner(operation: Operation, given: Arguments) -> None:
    """Before it is sent: of a query, HTTP takes the widest of several owners."""
    if operation.on not in (On.OWNER, On.ID_OR_OWNER):
        return
    if (several := [name for name in ("user", "agent", "scope") if given.get(name) is not None])[1:]:
        raise InvalidInput(f"a memory is a user's, an agent's or everybody's: give one of {'=, '.join(several)}=")


def _check_keywords(operation: Operation, free: Arguments) -> Arguments:
    """What stands for ``**keywords``, which in process the method checks itself."""
    codecs = {each.name: each.codec for each in (operation.keywords() if operation.keywords else ())}
    for name in free:
        if name not in codecs:
            raise InvalidInput(f"{operation.name} has no {name}; it has {', '.join(sorted(codecs))}")
    return {name: None if value is None else codecs[name].check(value, name) for name, value in free.items()}


def _name_handle(operation: Operation, subject: Any) -> Arguments:
    """What the request says of the handle: the session's id, the user whose notes they are."""
    first = operation.handle.partition(".")[0]
    if first in ("session", "turn"):
        return {"session_id": subject._scope.session}  # noqa: SLF001 - a handle of ours
    return {"user": subject._scope.user} if operation.handle == "notes.long_term" else {}  # noqa: SLF001


# Arguments become a request, and the JSON of its answer a value


def build_request(form: Form, given: Mapping[str, Any], cursor: str | None = None) -> Request:
    """Each argument in its place. What is None is left out, unless it has to be said."""
    path, query, body, headers = form.path, [], {}, {}
    placed = {each.name: each for each in form.arguments}
    for name, value in given.items():
        argument = placed.get(name)
        if argument is None:
            if value is not None and name != "progress":  # which is a courtesy; all else would change the result
                raise Unsupported(f"{form.name}({name}=…) does not work over HTTP: it is an object of this process")
        elif value is None and not argument.is_required:
            pass
        elif argument.place is Place.PATH:
            path = path.replace(f"{{{argument.key}}}", quote(argument.format(value)[0], safe=""))
        elif argument.place is Place.QUERY:
            texts = () if cursor is not None and argument.key == "cursor" else argument.format(value)
            query += [(argument.key, text) for text in texts]
        elif argument.place is Place.BODY:
            body[argument.key] = argument.codec.write(value)
        else:
            headers[IDEMPOTENCY_KEY] = encode_key(value)
    if "confirm" in placed and "confirm" not in given:  # a call in Python is deliberate; a request has to say so
        body["confirm"] = given.get("id") or given.get("user")
    if cursor is not None:
        query.append(("cursor", cursor))
    return make_request(form.method, path, query, body if form.has_body else None, headers)


def make_request(
    method: str,
    path: str,
    query: Sequence[tuple[str, str]] = (),
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Request:
    sent = {} if headers is None else dict(headers)
    data = None
    if body is not None:
        data = _encode(body)
        sent["Content-Type"] = "application/json"
    address = f"{path}?{urlencode(query)}" if query else path
    return Request(method, address, data, sent, method == "GET" or IDEMPOTENCY_KEY in sent)


def encode_key(value: str) -> str:
    """An idempotency key as a header can hold it: any other than a plain word as RFC 8187 writes it."""
    return value if PLAIN_KEY.fullmatch(value) else f"{ENCODED_KEY}{quote(value, safe='')}"


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"a value is not JSON: {error}") from None


def read_answer(codec: Codec, value: Any) -> Any:
    with reading_answer("the request"):
        return codec.read(value, "the answer")


@contextmanager
def reading_answer(operation: str) -> Iterator[None]:
    """Within it, what the server wrote is read. Fields that only a newer server knows are ignored."""
    try:
        with ignore_unknown_fields():
            yield
    except (InvalidInput, KeyError, TypeError) as error:
        raise StorageError(
            f"the answer to {operation} cannot be read: {error}; use the same version as the server"
        ) from error
