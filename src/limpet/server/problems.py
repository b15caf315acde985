"""What went wrong, as problem details (RFC 9457): the one table from errors to HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypedDict

from limpet import errors

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


class Problem(Exception):
    """Refused before a verb was called. ``headers`` go out with it."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        faults: list[Fault] | None = None,
        missing: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.faults = faults
        self.missing = missing  # the grant that would allow it

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
