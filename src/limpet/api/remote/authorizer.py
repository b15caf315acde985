"""An operation becomes a request by the operation table, and its answer the value that the operation returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, get_origin

from limpet.api.remote.http import Client
from limpet.api.remote.request import build_request, reading_answer
from limpet.api.runtime import DEFAULT_USER
from limpet.api.wire import MAX_PAGE, Form, get_form
from limpet.errors import InvalidInput, Unsupported
from limpet.model.scope import Partition
from limpet.model.session import SessionInfo
from limpet.security.authorize import OperationCall
from limpet.security.operation import OPERATIONS, On, Operation

if TYPE_CHECKING:
    from limpet.api.remote.memory import RemoteView

Arguments = dict[str, Any]

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
        from limpet.api.remote.by_hand import BY_HAND

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


@cache
def _get_signature(method: Callable[..., Any]) -> Signature:
    return signature(method)


def _name_handle(operation: Operation, subject: Any) -> Arguments:
    """What the request says of the handle: the session's id, the user whose notes they are."""
    first = operation.handle.partition(".")[0]
    if first in ("session", "turn"):
        return {"session_id": subject._scope.session}  # noqa: SLF001 - a handle of ours
    return {"user": subject._scope.user} if operation.handle == "notes.long_term" else {}  # noqa: SLF001
