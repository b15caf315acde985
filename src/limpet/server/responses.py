"""Answers: JSON, and problems."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from limpet.server.problems import MEDIA, Problem


def json_bytes(value: Any) -> bytes:
    return to_json(value, inf_nan_mode="null")


def json_response(value: bytes, status: int = 200) -> Response:
    return Response(value, status, media_type="application/json")


def problem_response(found: Problem, request_id: str) -> Response:
    return Response(json_bytes(found.body(request_id)), found.status, headers=found.headers, media_type=MEDIA)
