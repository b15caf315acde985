"""Arguments become a request, and the JSON of its answer a value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

from limpet.api.remote.http import Request
from limpet.api.wire import ENCODED_KEY, IDEMPOTENCY_KEY, PLAIN_KEY, Argument, Form, Place
from limpet.errors import InvalidInput, StorageError, Unsupported
from limpet.model.constraints import Codec
from limpet.model.schema import ignore_unknown_fields


def build_request(form: Form, given: Mapping[str, Any], cursor: str | None = None) -> Request:
    """Each argument in its place. What is None is left out, unless it has to be said."""
    path, query, body, headers = form.path, [], {}, {}
    placed = {each.name: each for each in form.arguments}
    for name, value in given.items():
        argument = placed.get(name)
        if argument is None:
            _refuse_local(form.name, name, value)
        elif value is None and not argument.is_required:
            pass
        elif argument.place is Place.PATH:
            path = path.replace(f"{{{argument.key}}}", quote(argument.format(value)[0], safe=""))
        elif argument.place is Place.QUERY:
            query += _format_query(argument, value, cursor)
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


def _format_query(argument: Argument, value: Any, cursor: str | None) -> list[tuple[str, str]]:
    if cursor is not None and argument.key == "cursor":
        return []
    return [(argument.key, text) for text in argument.format(value)]


def _refuse_local(operation: str, name: str, value: Any) -> None:
    """Progress is a courtesy; anything else that is of this process would change the result."""
    if value is not None and name != "progress":
        raise Unsupported(f"{operation}({name}=…) does not work over HTTP: it is an object of this process")


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
