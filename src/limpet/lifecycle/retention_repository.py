"""What is older than somebody wants to keep it, in named queries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from limpet.model.scope import Level, Partition, Scope
from limpet.model.values import to_micros
from limpet.store.tx import Tx


class ExpiredDocument(NamedTuple):
    """A document that is due, and whose it is."""

    id: str
    space: Partition


class ExpiredRows:
    """What is older than somebody wants to keep it, a page at a time."""

    def __init__(self, tx: Tx) -> None:
        self._db = tx.db

    def agents(self, scope: Scope) -> list[str]:
        """Those that have messages."""
        return [agent for (agent,) in self._db.all("retention.agents", {"tenant": scope.tenant})]

    def sessions_before(self, scope: Scope, moment: datetime, limit: int) -> list[Scope]:
        """Sessions of the scope's agent with messages from before the moment."""
        where = "agent = :agent AND oldest_at < :moment"
        return self._sessions(scope, where, {"agent": scope.agent, "moment": to_micros(moment), "limit": limit})

    def find_expired(self, scope: Scope, now: datetime, limit: int) -> list[Scope]:
        return self._sessions(scope, "expires_at <= :now", {"now": to_micros(now), "limit": limit})

    def _sessions(self, scope: Scope, where: str, params: dict[str, Any]) -> list[Scope]:
        rows = self._db.all("retention.sessions", {"tenant": scope.tenant, **params}, where=where)
        return [Scope(scope.tenant, user=user, agent=agent, session=id_) for id_, user, agent in rows]

    def count_messages(self, scope: Scope, moment: datetime) -> int:
        params = {"tenant": scope.tenant, "agent": scope.agent, "moment": to_micros(moment)}
        row = self._db.one("retention.count_messages", params)
        return 0 if row is None else int(row[0])

    def records_before(self, scope: Scope, moment: datetime, after: str, limit: int) -> list[str]:
        """Neither changed nor used since; no explicit and no pinned ones."""
        params = {"tenant": scope.tenant, "moment": to_micros(moment), "after": after, "limit": limit}
        return [id_ for (id_,) in self._db.all("retention.records", params)]

    def documents_before(self, scope: Scope, moment: datetime, after: str, limit: int) -> list[ExpiredDocument]:
        params = {"tenant": scope.tenant, "moment": to_micros(moment), "after": after, "limit": limit}
        rows = self._db.all("retention.documents", params)
        return [ExpiredDocument(id_, Partition(scope.tenant, Level(level), owner)) for id_, level, owner in rows]
