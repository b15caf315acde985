"""Acting for somebody, what they may, and who did what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from limpet.api.api_keys import ApiKeyOperations, parse_grants
from limpet.api.base import BaseOperations
from limpet.errors import InvalidInput
from limpet.model.access import Grant, GrantInfo, Principal, Reach
from limpet.model.api_key import KeyInfo
from limpet.model.audit import AuditEntry, AuditOutcome, AuditQuery
from limpet.model.ids import check_id
from limpet.model.scope import Scope
from limpet.model.text import check_choice, check_name, check_optional_name
from limpet.model.times import check_time
from limpet.model.values import check_number, check_page
from limpet.security.access_repository import AuditEntries, Grants
from limpet.security.operation import operation

if TYPE_CHECKING:
    from limpet.api.limpet import Limpet


class AccessOperations(BaseOperations):
    """The verbs on who may what, and who did."""

    @operation("acting")
    def acting(
        self,
        user: str | None = None,
        *,
        agent: str | None = None,
        session: str | None = None,
        grants: Iterable[str | Grant] = (),
        name: str | None = None,
    ) -> Limpet:
        """The same store for somebody with fewer rights: a user, one session of a user, or only what is granted.

        A user may read and write all of their own, a session only that session; the rest needs a grant, given here or
        kept with ``grant``. Where a user is left out, it is this one. ``name`` is what the audit says; the user's, if
        none is given. Making one asks nothing of the store, so that a server can make one for each request.
        """
        from limpet.api.limpet import Limpet

        who, through = check_optional_name(user, "user"), check_optional_name(agent, "agent")
        chat = None if session is None else check_id(session, "session id")
        known = name if name is not None else who or through or chat
        if known is None:
            raise InvalidInput("say who acts: user=, agent=, session= or, for somebody who owns nothing, name=")
        principal = Principal(check_name(known, "name"), self._tenant, who, through, chat, parse_grants(grants))
        return self._inherit_flags(Limpet(self._agents, self._tenant, through or self._agent, principal))

    def _principal_in(self, tenant: str) -> Principal:
        """Whoever may look into another tenant is nobody there, and has what reaches over all tenants."""
        me, name = self._principal, check_name(tenant, "tenant")
        if name == self._tenant:
            return me
        grants = tuple(grant for grant in me.grants if grant.reach is Reach.STORE)
        return replace(me, tenant=name, user=None, agent=None, session=None, grants=grants)

    @property
    def keys(self) -> ApiKeyOperations:
        """API keys: ``hf.keys.create("ci", user=…)``, and ``hf.keys.acting(secret)`` for a request that shows one."""
        shared = self._agents.runtime()  # kept there, for all agents
        return ApiKeyOperations(shared, self._gate, self._tenant, self._handle_for_key)

    def _handle_for_key(self, key: KeyInfo) -> Limpet:
        from limpet.api.limpet import Limpet

        theirs = self._inherit_flags(Limpet(self._agents, key.tenant, key.agent or self._agent, key.principal))
        theirs._closes = False  # noqa: SLF001 - one of ours: whoever shows a key may be an operator, of others' store
        return theirs

    @operation("grant")
    def grant(self, user: str, grant: str | Grant) -> bool:
        """Let a user do more than is their own: ``read:global``, ``write:user:bob``. False when they may already."""
        given, scope = self._check_grant(grant), self._scope(user=check_name(user, "user"))
        assert scope.user is not None
        kept = GrantInfo(scope.user, given, self._now(), self._principal.name)
        return self._agents.runtime().store.write(lambda tx: Grants(tx).put(scope, kept))

    @operation("revoke")
    def revoke(self, user: str, grant: str | Grant) -> bool:
        """Take a grant away, in every process at once. False when the user did not have it."""
        taken, scope = self._check_grant(grant), self._scope(user=check_name(user, "user"))
        return self._agents.runtime().store.write(lambda tx: Grants(tx).remove(scope, taken))

    def _check_grant(self, grant: object) -> Grant:
        parsed = Grant.parse(grant)
        self._gate.check_can_grant(parsed)
        return parsed

    @operation("grants")
    def grants(self, user: str | None = None) -> list[GrantInfo]:
        """What users may beyond their own: one user, or all of the tenant."""
        scope = self._scope(user=user)
        return self._agents.runtime().store.read(lambda tx: Grants(tx).find(scope))

    @operation("audit")
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
        if self._runtime.ledger is not None:
            self._runtime.ledger.flush()
        return self._read(lambda tx: AuditEntries(tx).find(Scope(self._tenant), query))
