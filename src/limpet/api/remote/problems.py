"""What a server answers when it refuses: the same errors as in process, by their codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from limpet import errors

# Codes of the server itself, which no operation raises.
_OF_SERVER: dict[str, type[errors.LimpetError]] = {
    "too_many_requests": errors.StoreBusy,
    "too_many_streams": errors.StoreBusy,
    "overloaded": errors.StoreBusy,
    "too_slow": errors.StoreUnavailable,
    "too_large": errors.InvalidInput,
    "invalid_json": errors.InvalidInput,
    "wrong_media_type": errors.InvalidInput,
    "wrong_host": errors.ConfigError,
    "wrong_origin": errors.ConfigError,
    "wrong_method": errors.Unsupported,
    "internal_error": errors.StorageError,
}


def find_error(status: int, body: bytes, address: str) -> errors.LimpetError:
    """The error that a problem stands for. What is not a problem of ours comes from something else than Limpet."""
    problem = _parse(body)
    if problem is None:
        text = f"{address} answered {status} without saying why; is this the address of a Limpet server?"
        return errors.StoreUnavailable(text)
    code, detail = str(problem["code"]), str(problem.get("detail") or problem["code"])
    kind = _by_code().get(code)
    if kind is None:
        return errors.LimpetError(f"{detail} ({code})")
    if kind is errors.PermissionDenied:
        missing = problem.get("missing")
        return errors.PermissionDenied(detail, missing if isinstance(missing, str) else None)
    return kind(detail)


@cache
def _by_code() -> dict[str, type[errors.LimpetError]]:
    return {**{kind.code: kind for kind in _list_errors(errors.LimpetError)}, **_OF_SERVER}


def _list_errors(kind: type[errors.LimpetError]) -> Iterator[type[errors.LimpetError]]:
    """Those that a base class has in common with others do not take their place: each has a code of its own."""
    for each in kind.__subclasses__():
        yield from _list_errors(each)
        if "code" in vars(each):
            yield each


def _parse(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("code"), str) else None
