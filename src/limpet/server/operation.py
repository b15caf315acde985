"""An operation of the API: defined once by a function, whose types are its schema and the check of what is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError

from limpet.model.schema import codec
from limpet.model.text import short_repr
from limpet.server.params import Query
from limpet.server.problems import Fault, Problem
from limpet.tools import TOOLS

F = TypeVar("F", bound=Callable[..., Any])

_PATH = re.compile(r"\{(\w+)\}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MOST_FAULTS = 1000
_FAULTS = 10  # told at most
_QUOTING = {"union_tag_invalid": "Input should be of a kind that the schema names"}  # would say what was given


@dataclass(frozen=True, slots=True)
class Operation:
    """``run`` takes the caller, what stands in the path by its name, and perhaps ``query`` and ``body``.

    A ``stream`` answers with a response of its own instead of JSON.
    """

    method: str
    path: str
    tag: str
    run: Callable[..., Any]
    status: int
    gives: Any
    query: type[Query] | None
    body: type[BaseModel] | None
    keyed: bool  # whether an Idempotency-Key makes it safe to repeat
    media: str
    stream: bool = False
    free: bool = False  # for whoever asks, without a key

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def summary(self) -> str:
        return (self.run.__doc__ or self.name).strip().partition("\n")[0]

    @property
    def doc(self) -> str:
        lines = (self.run.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)

    @property
    def in_path(self) -> list[str]:
        return _PATH.findall(self.path)

    def write(self, found: Any) -> Any:
        """What it found, as JSON."""
        return codec(self.gives).write(found)

    def arguments(self, path: Mapping[str, str], query: Sequence[tuple[str, str]], raw: bytes) -> dict[str, Any]:
        """Everything checked, or the problem with it."""
        given: dict[str, Any] = {name: self._check_path_value(name, value) for name, value in path.items()}
        if self.query is not None:
            given["query"] = _validate(
                self.query, lambda kind: kind.model_validate(_collect_values(kind, query)), "query"
            )
        elif query:
            raise Problem(422, "invalid_input", f"{self.method} {self.path} takes nothing after the question mark")
        if self.body is not None:
            given["body"] = _validate(self.body, lambda kind: kind.model_validate_json(raw or b"{}"), "body")
        elif raw.strip():
            raise Problem(422, "invalid_input", f"{self.method} {self.path} takes no body")
        return given

    def _check_path_value(self, name: str, value: str) -> str:
        """What can name nothing that is there names nothing."""
        known = value in TOOLS if name == "tool" else _UUID.fullmatch(value)
        if not known:
            raise Problem(404, "not_found", f"there is no {name} {short_repr(value)}")
        return value


class Operations(list[Operation]):
    """The operations of one part of the API."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag

    def get(
        self, path: str, *, media: str = "application/json", stream: bool = False, free: bool = False
    ) -> Callable[[F], F]:
        return self._add("GET", path, 200, keyed=False, media=media, stream=stream, free=free)

    def post(self, path: str, status: int = 200, *, keyed: bool = False) -> Callable[[F], F]:
        return self._add("POST", path, status, keyed=keyed)

    def put(self, path: str) -> Callable[[F], F]:
        return self._add("PUT", path, 200, keyed=False)

    def patch(self, path: str) -> Callable[[F], F]:
        return self._add("PATCH", path, 200, keyed=False)

    def delete(self, path: str) -> Callable[[F], F]:
        return self._add("DELETE", path, 200, keyed=False)

    def _add(
        self,
        method: str,
        path: str,
        status: int,
        *,
        keyed: bool,
        media: str = "application/json",
        stream: bool = False,
        free: bool = False,
    ) -> Callable[[F], F]:
        def decorate(run: F) -> F:
            hints = get_type_hints(run, include_extras=True)
            gives, query, body = hints.get("return"), hints.get("query"), hints.get("body")
            self.append(Operation(method, path, self._tag, run, status, gives, query, body, keyed, media, stream, free))
            return run

        return decorate


M = TypeVar("M", bound=BaseModel)


def _validate(kind: type[M], read: Callable[[type[M]], M], where: str) -> M:
    try:
        return read(kind)
    except ValidationError as error:
        raise _validation_problem(error, where) from None
    except RecursionError:
        raise Problem(400, "invalid_json", "the body is nested too deeply") from None


def _validation_problem(error: ValidationError, where: str) -> Problem:
    """Which place is wrong, and how; never what stood there, which may be anything."""
    if error.error_count() > _MOST_FAULTS:  # to tell them all would take longer than to find them
        return Problem(422, "invalid_input", f"the {where} has {error.error_count():,} faults")
    found = error.errors(include_url=False, include_context=False, include_input=False)
    if found[0]["type"] == "json_invalid":
        return Problem(400, "invalid_json", f"the body is no JSON: {found[0]['msg']}")
    faults = [
        Fault(where=".".join([where, *map(str, each["loc"])])[:200], message=_QUOTING.get(each["type"], each["msg"]))
        for each in found[:_FAULTS]
    ]
    first = faults[0]
    return Problem(422, "invalid_input", f"{first['where']}: {first['message']}", faults=faults)


def _collect_values(kind: type[Query], query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A name that stands there twice is a list where one is wanted, and a mistake elsewhere."""
    given: dict[str, Any] = {}
    for name, value in query:
        known = kind.model_fields.get(name)
        if known is not None and _is_list(known.annotation):
            given.setdefault(name, []).append(value)
        elif name in given:
            raise Problem(422, "invalid_input", f"query.{name[:100]} is given twice")
        else:
            given[name] = value
    return given


def _is_list(hint: Any) -> bool:
    """Also one that may be left out."""
    return list in (get_origin(hint), *map(get_origin, get_args(hint)))
