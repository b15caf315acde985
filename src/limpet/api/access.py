"""Access: grants, API keys and the audit log."""

from __future__ import annotations

from datetime import datetime

from limpet.api.handle import Handle
from limpet.api.keys import KeyOperations
from limpet.model.access import Grant, GrantInfo
from limpet.model.audit import AuditEntry, AuditOutcome, AuditQuery
from limpet.model.scope import Scope
from limpet.model.text import check_choice, check_name, check_optional_name
from limpet.model.times import check_time
from limpet.model.values import check_number, check_page
from limpet.security.access_repository import AuditEntries, Grants
from limpet.security.operation import operation


class AccessOperations(Handle):
    """Grants, API keys and the audit log: ``memory.access``."""

    @property
    def keys(self) -> KeyOperations:
        """API keys: ``memory.access.keys.create("ci", user=…)``; calling the handle lists them."""
        return KeyOperations(self._view)

    @operation("access.grant")
    def grant(self, user: str, grant: str | Grant) -> bool:
        """Let a user do more than is their own: ``read:global``, ``write:user:bob``. False when they may already."""
        given, scope = self._check_grant(grant), self._scope(user=check_name(user, "user"))
        assert scope.user is not None
        kept = GrantInfo(scope.user, given, self._now(), self._view.principal.name)
        return self._view.agents.runtime().store.write(lambda tx: Grants(tx).put(scope, kept))

    @operation("access.revoke")
    def revoke(self, user: str, grant: str | Grant) -> bool:
        """Take a grant away, in every process at once. False when the user did not have it."""
        taken, scope = self._check_grant(grant), self._scope(user=check_name(user, "user"))
        return self._view.agents.runtime().store.write(lambda tx: Grants(tx).remove(scope, taken))

    def _check_grant(self, grant: object) -> Grant:
        parsed = Grant.parse(grant)
        self._gate.check_can_grant(parsed)
        return parsed

    @operation("access.grants")
    def grants(self, user: str | None = None) -> list[GrantInfo]:
        """What users may beyond their own: one user, or all of the tenant."""
        scope = self._scope(user=user)
        return self._view.agents.runtime().store.read(lambda tx: Grants(tx).find(scope))

    @operation("access.audit")
    def audit(
        self,
        user: str | None = None,
        verb: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        outcome: str | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        principal: str | None = None,
    ) -> list[AuditEntry]:
        """Who did what to whose memory, the newest first. ``user`` is whose memory, ``principal`` who did it."""
        query = AuditQuery(
            user=check_optional_name(user, "user"),
            principal=check_optional_name(principal, "principal"),
            verb=check_optional_name(verb, "verb"),
            outcome=None if outcome is None else check_choice(AuditOutcome, outcome, "outcome"),
            since=None if since is None else check_time(since, "since"),
            until=None if until is None else check_time(until, "until"),
            limit=check_page(limit),
            offset=check_number(offset, "offset"),
        )
        self._runtime.flush_audit()
        return self._read(lambda tx: AuditEntries(tx).find(Scope(self._tenant), query))
