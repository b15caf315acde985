"""Grants and the audit in named queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from limpet.errors import InvalidInput
from limpet.model.access import AuditEntry, AuditQuery, Grant, GrantInfo, Reach, Right
from limpet.model.scope import Level, Scope, hash_bucket
from limpet.model.values import from_micros, to_micros
from limpet.store.tables import AUDIT_ROWS
from limpet.store.tx import Tx

_FILTERS = {
    "user": "user_id = :user",
    "principal": "principal = :principal",
    "operation": "operation = :operation",
    "outcome": "outcome = :outcome",
    "since": "last_at >= :since",
    "until": "at < :until",
}


class Grants:
    """What users may beyond their own memory."""

    def __init__(self, tx: Tx) -> None:
        self._db = tx.db

    def put(self, scope: Scope, granted: GrantInfo) -> bool:
        """False when the user has it already."""
        params = {**_user_params(scope), "name": str(granted.grant), "granted_by": granted.by}
        return bool(self._db.run("grants.put", {**params, "granted_at": to_micros(granted.at)}))

    def remove(self, scope: Scope, grant: Grant) -> bool:
        return bool(self._db.run("grants.remove", {**_user_params(scope), "name": str(grant)}))

    def list_for(self, scope: Scope) -> tuple[Grant, ...]:
        return tuple(Grant.parse(name) for (name,) in self._db.all("grants.of", _user_params(scope)))

    def find(self, scope: Scope) -> list[GrantInfo]:
        """A user's, or all of a tenant."""
        where = "" if scope.user is None else "user_id = :user"
        rows = self._db.all("grants.list", {"tenant": scope.tenant, "user": scope.user}, where=where)
        return [GrantInfo(user, Grant.parse(name), from_micros(at), by) for user, name, at, by in rows]

    def erase(self, scope: Scope, instead: str) -> int:
        """Take away what the user has, and what others have on the user. ``instead`` stands where the user gave."""
        params = {**_user_params(scope), **_grant_names(scope)}
        self._db.run("grants.disown", {**_user_params(scope), "instead": instead})
        return self._db.run("grants.erase", params)


class AuditEntries:
    def __init__(self, tx: Tx) -> None:
        self._db = tx.db

    def add(self, scope: Scope, entries: Sequence[AuditEntry]) -> None:
        if any(entry.tenant != scope.tenant for entry in entries):
            raise InvalidInput("these audit entries are another tenant's")
        self._db.run_many("audit.add", [AUDIT_ROWS.params(entry) for entry in entries])

    def find(self, scope: Scope, query: AuditQuery) -> list[AuditEntry]:
        """A tenant's, the newest first."""
        given: dict[str, Any] = {
            "user": query.user,
            "principal": query.principal,
            "operation": query.operation,
            "outcome": query.outcome and str(query.outcome),
            "since": None if query.since is None else to_micros(query.since),
            "until": None if query.until is None else to_micros(query.until),
        }
        where = " AND ".join(clause for name, clause in _FILTERS.items() if given[name] is not None)
        params = {**given, "tenant": scope.tenant, "limit": query.limit, "offset": query.offset}
        return [AUDIT_ROWS.read(row) for row in self._db.all("audit.find", params, where=where)]

    def erase(self, scope: Scope, instead: str) -> int:
        """Put another name in the user's place everywhere, and nothing in that of sessions and records."""
        params = {**_user_params(scope), "instead": instead}
        changed = self._db.run("audit.erase_target", params) + self._db.run("audit.erase_principal", params)
        changed += self._erase_sessions(scope)
        return changed + self._db.run("audit.erase_grants", {"tenant": scope.tenant, **_grant_names(scope)})

    def _erase_sessions(self, scope: Scope) -> int:
        assert scope.user is not None
        params = {**_user_params(scope), "bucket": hash_bucket(scope.tenant, Level.USER.value, scope.user)}
        sessions = [id_ for (id_,) in self._db.all("audit.sessions_of", params)]
        named = {"tenant": scope.tenant, "sessions": self._db.to_array(sessions)}
        return self._db.run("audit.erase_sessions", named) if sessions else 0

    def trim(self, scope: Scope, before: datetime) -> int:
        """Remove what is older. Answers how many."""
        return self._db.run("audit.trim", {"tenant": scope.tenant, "before": to_micros(before)})


def _user_params(scope: Scope) -> dict[str, str]:
    if scope.user is None:
        raise InvalidInput("a grant is a user's: name the user")
    return {"tenant": scope.tenant, "user": scope.user}


def _grant_names(scope: Scope) -> dict[str, str]:
    """What grants on this user are called."""
    reading, writing = (str(Grant(right, Reach.USER, scope.user)) for right in (Right.READ, Right.WRITE))
    return {"reading": reading, "writing": writing}
