"""Calling an operation by its place in the table: for interfaces that know it only by name."""

from __future__ import annotations

from typing import Any

from limpet.api.limpet import Limpet
from limpet.security.operation import Operation


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


def _find_handle(memory: Limpet, operation: Operation, arguments: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    rest, first = dict(arguments), operation.handle.partition(".")[0]
    handle: Any = memory
    for name in operation.handle.split(".") if operation.handle else ():
        if name == "session" and name == first:
            handle = memory.load_session(rest.pop("session_id"))
        elif operation.handle == "notes.long_term" and name == "long_term":
            handle = handle.long_term(rest.pop("user", None))
        else:
            handle = getattr(handle, name)
    return handle, rest
