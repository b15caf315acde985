"""Routes of operations, derived from the operation table, and what every route has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, get_type_hints

from limpet.api.runtime import DEFAULT_USER
from limpet.api.wire import (
    ALIASES,
    CONFIRMED,
    PAGE,
    Form,
    build_alias,
    get_form,
    invoke,
    make_answer,
    place_arguments,
    settle_default,
)
from limpet.errors import InvalidInput
from limpet.model.dataclass import dataclass
from limpet.model.schema import fields_of_call
from limpet.security.authorize import OperationCall
from limpet.security.operation import OPERATIONS, On, Operation
from limpet.server.auth import Caller

F = TypeVar("F", bound=Callable[..., Any])

JSON = "application/json"
_ASKED_BY = "http"  # a key may be called after its user, and a receipt names nobody


@dataclass(frozen=True)
class Route:
    """``run`` takes the caller and the arguments by name, and returns JSON.

    A ``stream`` is also given the service and the request, and answers with a response of its own.
    """

    form: Form
    run: Callable[..., Any]
    media: str = JSON
    takes: str = JSON  # the media type of its body
    stream: bool = False
    public: bool = False  # answered without a key
    is_alias: bool = False  # a further address of an operation

    @property
    def key(self) -> tuple[str, str]:
        return self.form.path, self.form.method

    @property
    def tag(self) -> str:
        parts = self.form.path.split("/")
        return parts[2] if len(parts) > 2 else parts[1]


class Routes(list[Route]):
    """Routes written by hand. A function's parameters after ``/`` are the arguments, as those of an operation are."""

    def add(
        self,
        http: str,
        *,
        status: int = 200,
        media: str = JSON,
        takes: str = JSON,
        stream: bool = False,
        public: bool = False,
        answers: Any = None,
    ) -> Callable[[F], F]:
        """``answers`` is the type of a JSON answer that the function makes itself."""
        method, _, path = http.partition(" ")

        def decorate(function: F) -> F:
            hints = get_type_hints(function, include_extras=True)
            fields = map(settle_default, fields_of_call(function, hints, skip=function.__code__.co_posonlyargcount))
            in_body = takes == JSON and method in ("POST", "PUT", "PATCH")
            arguments = place_arguments(path, fields, {}, in_body=in_body)
            answer = make_answer(answers or hints["return"])
            doc = inspect.cleandoc(function.__doc__ or "")
            form = Form(method, path, function.__name__, doc, arguments, answer, status)

            def run(who: Any, arguments: dict[str, Any]) -> Any:
                if form.is_keyed:
                    arguments["idempotency_key"] = who.idempotency_key
                return answer.write(function(who, **arguments), arguments)

            self.append(Route(form, function if stream or public else run, media, takes, stream, public))
            return function

        return decorate


def derive_routes() -> list[Route]:
    """One for each operation that has an HTTP address, and for each further address."""
    names = [name for name, each in OPERATIONS.items() if each.http and "http" not in each.left_out]
    # Of two operations at one address the first counts: the one that takes more.
    forms = sorted(map(get_form, names), key=lambda form: -len(form.arguments))
    routes = [Route(form, partial(_run, form)) for form in forms]
    return [*routes, *(Route(form, partial(_run, form), is_alias=True) for form in map(build_alias, ALIASES))]


def _run(form: Form, who: Caller, arguments: dict[str, Any]) -> Any:
    operation = OPERATIONS[form.name]
    if form.method == "GET" and operation.on is On.OWNER:
        _choose_owner(arguments)
    if operation.name in CONFIRMED:
        _check_confirmed(arguments)
    return form.answer.write(call_operation(operation, who, arguments), arguments)


def call_operation(operation: Operation, who: Caller, arguments: dict[str, Any]) -> Any:
    """Call it for the caller, on the handle that the arguments name. Authorization happens in the call itself."""
    who.refuse_anonymous(operation)
    _fill_owner(operation, who, arguments)
    if operation.page:
        arguments["limit"] = arguments.get("limit", PAGE) + 1
    if "idempotency_key" in operation.arguments:
        arguments["idempotency_key"] = who.idempotency_key
    return invoke(who.memory, operation, arguments)


def _check_confirmed(arguments: dict[str, Any]) -> None:
    """Nothing is purged because a request was sent by mistake."""
    name, confirm = str(arguments.get("id") or arguments["user"]), arguments.pop("confirm", None)
    if not arguments.get("dry_run") and (confirm or "").lower() != name.lower():
        raise InvalidInput(
            "body.confirm: repeat the user's name or the session's id to purge it, or ask for a dry_run first"
        )


def _choose_owner(arguments: dict[str, Any]) -> None:
    """A query names one owner: the widest that is named."""
    widest = next((name for name in ("scope", "agent") if name in arguments), None)
    for name in ("user", "session", "agent") if widest else ():
        if name != widest:
            arguments.pop(name, None)


def _fill_owner(operation: Operation, who: Caller, arguments: dict[str, Any]) -> None:
    """Whose memory it is where nobody was named: the caller's own. A key of nobody has to say whose."""
    if operation.handle == "notes.long_term":
        arguments["user"] = who.resolve_user(arguments.get("user"))
    if "asked_by" in operation.arguments:
        arguments.setdefault("asked_by", _ASKED_BY)
    if operation.on in (On.USER, On.CHAT) and "agent" in operation.arguments and who.agent is not None:
        arguments.setdefault("agent", who.agent)
    if operation.on is On.CHAT:
        # Without a key many people may share the server: a chat that names nobody is its channel's user.
        if who.user is not None and not (who.is_anonymous and who.user == DEFAULT_USER):
            arguments.setdefault("user", who.user)
    elif OperationCall(operation, None, (), arguments).needs_default_user and (
        who.user is not None or who.agent is None or operation.on is On.USER
    ):
        arguments["user"] = who.resolve_user(None)
