"""Access: grants, API keys and the audit log."""

from __future__ import annotations

from typing import Any

from limpet.api import parameters as arg
from limpet.api.handle import Handle
from limpet.api.keys import KeyOperations
from limpet.model.access import AuditEntry, AuditQuery, GrantInfo
from limpet.model.scope import Scope
from limpet.security.access_repository import Grants
from limpet.security.audit import AuditEntries
from limpet.security.operation import On, operation


class AccessOperations(Handle):
    """Grants, API keys and the audit log: ``memory.access``."""

    @property
    def keys(self) -> KeyOperations:
        """API keys: ``memory.access.keys.create("ci", user=…)``; calling the handle lists them."""
        return KeyOperations(self._view)

    @operation(
        "access.grant", On.WHOLE, "write:global", "POST /v1/grants", audited=True, answer="granted", cli="grants add"
    )
    def grant(self, user: arg.OneUser, grant: arg.GrantText) -> bool:
        """Let a user do more than is their own: ``read:global``, ``write:user:bob``. False when they may already."""
        parsed: Any = grant
        self._authorizer.check_can_grant(parsed)
        info = GrantInfo(user, parsed, self._now(), self._view.principal.name)
        return self._view.shared.store.write(lambda tx: Grants(tx).put(self._scope(user=user), info))

    @operation(
        "access.revoke",
        On.WHOLE,
        "write:global",
        "DELETE /v1/grants",
        audited=True,
        answer="revoked",
        cli="grants remove",
    )
    def revoke(self, user: arg.OneUser, grant: arg.GrantText) -> bool:
        """Take a grant away, in every process at once. False when the user did not have it."""
        parsed: Any = grant
        self._authorizer.check_can_grant(parsed)
        return self._view.shared.store.write(lambda tx: Grants(tx).remove(self._scope(user=user), parsed))

    @operation("access.grants", On.REACH, "read", "GET /v1/grants", cli="grants list")
    def grants(self, user: arg.OfUser | None = None) -> list[GrantInfo]:
        """What users may do beyond their own: one user, or all of the tenant."""
        return self._view.shared.store.read(lambda tx: Grants(tx).find(self._scope(user=user)))

    @operation("access.audit", On.WHOLE, "read:global", "GET /v1/audit", page="offset", cli="audit")
    def audit(
        self,
        user: arg.OfUser | None = None,
        operation: arg.OperationName | None = None,
        since: arg.Since | None = None,
        until: arg.Until | None = None,
        outcome: arg.Outcome | None = None,
        limit: arg.Limit = 50,
        offset: arg.Offset = 0,
        *,
        principal: arg.PrincipalName | None = None,
    ) -> list[AuditEntry]:
        """Who did what to whose memory, the newest first. ``user`` is whose memory, ``principal`` who did it."""
        ended: Any = outcome
        query = AuditQuery(
            user=user,
            principal=principal,
            operation=operation,
            outcome=ended,
            since=since,
            until=until,
            limit=limit,
            offset=offset,
        )
        self._runtime.flush_audit()
        return self._read(lambda tx: AuditEntries(tx).find(Scope(self._tenant), query))
