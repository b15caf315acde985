"""The mark of a public verb: whoever calls it comes through the gate, and nowhere else is anything checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from limpet.model.scope import Partition

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class OperationInfo:
    """A verb's name and method, and where its arguments stand when they are given without their names."""

    name: str
    method: Callable[..., Any]
    places: Mapping[str, int]
    arguments: frozenset[str]


class Authorizer(Protocol):
    def call(self, passage: OperationInfo, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Check, call the method, and note who did it. Raises PermissionDenied before anything has happened."""

    def filter_visible(self, spaces: Sequence[Partition]) -> tuple[Partition, ...]:
        """Those of them whose memory belongs into what this caller reads."""


class AllowAll:
    """No gate: for what the program does by itself."""

    def call(self, passage: OperationInfo, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return passage.method(subject, *args, **kwargs)

    def filter_visible(self, spaces: Sequence[Partition]) -> tuple[Partition, ...]:
        return tuple(spaces)


ALLOW_ALL = AllowAll()


def operation(name: str) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """A public method under the name the table of verbs has it by. Its object has a ``_gate``."""

    def decorate(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        code = method.__code__  # inspect.signature would slow down the start
        names = code.co_varnames[1 : code.co_argcount]
        known = frozenset((*names, *code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]))
        passage = OperationInfo(name, method, {each: place for place, each in enumerate(names)}, known)

        @wraps(method)
        def wrapper(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return self._gate.call(passage, self, args, kwargs)

        wrapper.passage = passage  # type: ignore[attr-defined]  # for the test that finds verbs without a mark
        return wrapper

    return decorate
