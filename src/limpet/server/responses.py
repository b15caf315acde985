"""Answers: JSON, and problems."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from starlette.responses import Response

from limpet.server.problems import MEDIA, Problem

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


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
