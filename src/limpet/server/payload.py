"""JSON and texts of a request become arguments, answers become JSON, and what goes wrong problem details (RFC 9457)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from math import isfinite
from typing import Any, TypedDict

from starlette.responses import Response

from limpet import errors
from limpet.api.wire import Argument, Form, Place
from limpet.errors import InvalidInput
from limpet.model.constraints import Choice, Uuid
from limpet.model.containers import JsonValue, ListCodec
from limpet.model.values import hide_values, suggest

MEDIA = "application/problem+json"

# The nearest class counts: InvalidKey is an InvalidInput.
STATUS: Mapping[type[errors.LimpetError], int] = {
    errors.InvalidInput: 422,
    errors.IdempotencyConflict: 409,
    errors.WrongState: 409,
    errors.NotFound: 404,
    errors.SequenceConflict: 409,
    errors.LeaseLost: 409,
    errors.Unauthenticated: 401,
    errors.PermissionDenied: 403,
    errors.Unsupported: 409,  # of how this store is set up, not of what was sent
    errors.ConfigError: 500,
    errors.ProviderError: 502,
    errors.MigrationError: 500,
    errors.StorageError: 503,
    errors.StoreFull: 507,
    errors.StoreCorrupt: 500,
    errors.ConstraintFailed: 409,
    errors.LimpetError: 500,
}


class Fault(TypedDict):
    where: str
    message: str


@dataclass(eq=False)
class Problem(Exception):
    """Refused before an operation was called. ``headers`` go out with it."""

    status: int
    code: str
    detail: str
    _: KW_ONLY
    headers: Mapping[str, str] = field(default_factory=dict)
    faults: list[Fault] | None = None
    missing: str | None = None  # the grant that would allow it

    def body(self, request_id: str) -> dict[str, Any]:
        told: dict[str, Any] = {
            "type": f"urn:limpet:error:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "request_id": request_id,
        }
        if self.faults:
            told["errors"] = self.faults
        if self.missing is not None:
            told["missing"] = self.missing
        return told


def problem_from_error(error: errors.LimpetError) -> Problem:
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    headers = {"Retry-After": "1"} if status == 503 else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    missing = error.missing if isinstance(error, errors.PermissionDenied) else None
    return Problem(status, error.code, str(error), headers=headers, missing=missing)


_MAX_FAULTS = 10
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_arguments(form: Form, path: Mapping[str, str], query: Sequence[tuple[str, str]], raw: bytes) -> dict[str, Any]:
    """The checked arguments by their names in Python. Only what was given is there."""
    found: dict[str, Any] = {}
    faults: list[Fault] = []
    with hide_values():  # a problem says what is wrong with a value, never what it was
        for key, text in path.items():
            found[form.in_path[key].name] = _read_path(form.in_path[key], text)
        for place, key, value in (*_split_query(form, query), *_split_body(form, raw)):
            known = form.in_query if place is Place.QUERY else form.in_body
            try:
                _read_value(found, known, key, value, is_text=place is Place.QUERY)
            except InvalidInput as error:
                faults.append(Fault(where=f"{place}.{key}"[:200], message=str(error)))
                if len(faults) == _MAX_FAULTS:
                    break
    wrong = {fault["where"] for fault in faults}
    faults += [
        Fault(where=f"{each.place}.{each.key}", message=f"{each.key} is missing")
        for each in form.required
        if each.name not in found and f"{each.place}.{each.key}" not in wrong
    ]
    if faults:
        raise _invalid(faults[:_MAX_FAULTS])
    return found


def _split_query(form: Form, query: Sequence[tuple[str, str]]) -> list[tuple[Place, str, Any]]:
    if query and not form.in_query:
        raise Problem(422, "invalid_input", f"{form.method} {form.path} takes no query parameters")
    texts: dict[str, list[str]] = {}
    for key, text in query:
        texts.setdefault(key, []).append(text)
    return [(Place.QUERY, key, given) for key, given in texts.items()]


def _split_body(form: Form, raw: bytes) -> list[tuple[Place, str, Any]]:
    if not form.in_body:
        if raw.strip() not in (b"", b"{}"):
            raise Problem(422, "invalid_input", f"{form.method} {form.path} takes no body")
        return []
    body = _parse_json(raw or b"{}", "the body")
    if not isinstance(body, dict):
        raise Problem(422, "invalid_input", "the body must be a JSON object")
    return [(Place.BODY, key, value) for key, value in body.items()]


def _read_value(found: dict[str, Any], known: Mapping[str, Argument], key: str, value: Any, *, is_text: bool) -> None:
    argument = known.get(key)
    if argument is None:
        meant = suggest(key[:200], known) or f"; use one of {', '.join(known)}"
        raise InvalidInput(f"unknown name{meant}")
    if is_text:
        found[argument.name] = _parse_texts(argument, value)
    elif value is not None or argument.holds(JsonValue):
        found[argument.name] = argument.codec.read(value, key)
    elif not argument.is_nullable:
        raise InvalidInput(f"{key} must not be null")
    elif argument.is_required:
        found[argument.name] = None


def _parse_texts(argument: Argument, texts: list[str]) -> Any:
    """A key that stands there twice is a list where one is wanted, and a mistake elsewhere."""
    if len(texts) > 1 and not argument.holds(ListCodec):
        raise InvalidInput(f"{argument.key} is given twice")
    if argument.is_object:
        return argument.codec.read(_parse_json(texts[0].encode(), f"query.{argument.key}"), argument.key)
    return argument.parse(texts, argument.key)


def _read_path(argument: Argument, text: str) -> Any:
    """An id that cannot be one names nothing that is there, and neither does a word that is not on a list."""
    try:
        return argument.codec.parse(text, argument.key)
    except InvalidInput as error:
        if argument.holds(Uuid, Choice):
            raise Problem(404, "not_found", f"there is no such {argument.key}") from None
        raise _invalid([Fault(where=f"path.{argument.key}", message=str(error))]) from None


def _parse_json(raw: bytes, what: str) -> Any:
    """UTF-8 without lone surrogates. NaN is left to the argument, which says what it wants instead."""
    try:
        text = raw.decode()
        value = json.loads(text)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise Problem(400, "invalid_json", f"{what} is not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise Problem(400, "invalid_json", f"{what} contains a lone surrogate") from None
    except json.JSONDecodeError as error:
        raise Problem(400, "invalid_json", f"{what} is not valid JSON: {error}") from None
    except (RecursionError, ValueError):  # ValueError: a number of more digits than Python reads
        raise Problem(400, "invalid_json", f"{what} is nested too deeply, or has a number too long") from None
    return value


def _invalid(faults: list[Fault]) -> Problem:
    first = faults[0]
    return Problem(422, "invalid_input", f"{first['where']}: {first['message']}", faults=faults)


def json_bytes(value: Any) -> bytes:
    """JSON has no NaN and no infinity: null stands for them."""
    try:
        return _encode(value).encode()
    except ValueError:
        return _encode(_without_nan(value)).encode()


def json_response(value: bytes, status: int = 200) -> Response:
    return Response(value, status, media_type="application/json")


def problem_response(found: Problem, request_id: str) -> Response:
    return Response(json_bytes(found.body(request_id)), found.status, headers=found.headers, media_type=MEDIA)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
