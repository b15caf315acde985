"""Access: grants, API keys and the audit log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from limpet.api import parameters as arg
from limpet.api.handle import Handle, SubHandle
from limpet.api.runtime import Runtime
from limpet.errors import InvalidInput, LimpetError, Unauthenticated
from limpet.model.access import (
    AccessRequest,
    AuditEntry,
    AuditOutcome,
    AuditQuery,
    Grant,
    GrantInfo,
    KeyInfo,
    NewKey,
    Reach,
    Right,
    audit_name,
    find_descendant_keys,
    hash_secret,
)
from limpet.model.scope import STORE_PARTITION, Scope
from limpet.model.values import compute_expiry, is_id
from limpet.security.access_repository import ApiKeys, Grants
from limpet.security.audit import AuditEntries
from limpet.security.operation import IN_PROCESS, On, operation
from limpet.store.tx import Tx

if TYPE_CHECKING:
    from limpet.api.limpet import Limpet

log = logging.getLogger("limpet.keys")

_NOTED_EVERY = timedelta(minutes=1)
_MOST_NOTED = 10_000  # keys whose last use is remembered by a process


class KeyOperations(Handle):
    """API keys: ``memory.access.keys``. A key acts for a user, an agent, or only by its grants."""

    @property
    def _runtime(self) -> Runtime:
        return self._view.shared  # keys of all agents are there

    # A key reads and writes all of its user's memory. What else it is given is checked one by one.
    @operation(
        "access.keys.create",
        On.USER,
        "read:user write:user",
        "POST /v1/keys",
        values=("agent",),
        audited=True,
        requires_user=True,
        status=201,
        names={"expires_in": "expires_in_seconds"},
        cli="api-keys create",
    )
    def create(
        self,
        name: arg.KeyName,
        *,
        user: arg.OneUser | None = None,
        agent: arg.ThroughAgent | None = None,
        grants: arg.Grants = (),
        expires_in: arg.Lifetime | None = None,
    ) -> NewKey:
        """Create a key. The secret is in the result, and nobody can read it again.

        The key has the rights that ``memory.acting`` gives with the same user, agent and grants. With ``read:store``
        and ``write:store`` and no user it acts as operator. Nobody can create a key with more rights than their own.
        Names are unique among the live keys of a tenant. ``expires_in`` is a timedelta or a number of seconds.
        """
        if is_id(name):
            raise InvalidInput("a key's name must not look like an id; ids are given by the store")
        now, runtime = self._now(), self._runtime
        info = KeyInfo(
            id=runtime.new_id(),
            tenant=self._tenant,
            name=name,
            user=user,
            agent=agent,
            grants=tuple(dict.fromkeys(map(Grant.parse, grants))),
            created_at=now,
            created_by=self._view.principal.name,
            expires_at=compute_expiry(now, expires_in),
        )
        if info.user is None and info.agent is None and not info.grants:
            raise InvalidInput("say what the key may do: name a user, an agent, or grants such as read:global")
        self._check_escalation(info)
        secret = runtime.new_secret()
        hashed, scope = hash_secret(secret), Scope(self._tenant)
        assert hashed is not None

        def insert(tx: Tx) -> bool:
            _check_creator(tx, scope, info)
            return ApiKeys(tx).add(scope, info, hashed, now)

        if not runtime.store.write(insert, exclusive=True):
            raise InvalidInput(f"there is a key called {info.name!r} already; revoke it first, or choose another name")
        return NewKey(secret, info)

    def _check_escalation(self, info: KeyInfo) -> None:
        """Raises PermissionDenied for a key with more rights than its creator."""
        self._authorizer.check_access(_implied_needs(info, self._view.principal.user))
        given = list(info.grants)
        if info.user is not None and info.user != self._view.principal.user:
            # A user's key has what the user was granted, too.
            scope = Scope(self._tenant, user=info.user)
            given += self._read(lambda tx: Grants(tx).list_for(scope))
        for grant in given:
            self._authorizer.check_can_grant(grant)

    @operation("access.keys.list", On.WHOLE, "read:global", "GET /v1/keys", cli="api-keys list")
    def __call__(self, user: arg.OfUser | None = None, include_revoked: arg.IncludeRevoked = False) -> list[KeyInfo]:
        """List the tenant's keys, or one user's, newest first; on request also revoked and expired ones."""
        scope, now = Scope(self._tenant, user=user), self._now()
        found = self._read(lambda tx: ApiKeys(tx).find(scope))
        return [key for key in found if include_revoked or key.is_live(now)]

    @operation(
        "access.keys.revoke",
        On.WHOLE,
        "write:global",
        "DELETE /v1/keys/{id_or_name}",
        audited=True,
        answer="revoked",
        cli="api-keys revoke",
    )
    def revoke(self, id_or_name: arg.KeyRef) -> int:
        """Revoke a key and every key created with it, at once in all processes.

        Returns how many keys were revoked: 0 if there is no such key, or it was revoked before.
        """
        scope = Scope(self._tenant)
        wanted = id_or_name.lower() if is_id(id_or_name) else id_or_name
        found = self._read(lambda tx: ApiKeys(tx).get(scope, wanted))
        if found is None:
            return 0
        for grant in found.grants:
            self._authorizer.check_can_grant(grant)
        now, key = self._now(), found

        def revoke_all(tx: Tx) -> int:
            if not ApiKeys(tx).revoke(scope, key.id, now):
                return 0
            made = find_descendant_keys(key, ApiKeys(tx).find(scope))
            return 1 + sum(ApiKeys(tx).revoke(scope, each.id, now) for each in made)

        return self._write(revoke_all)

    @operation("access.keys.acting", On.WHOLE, "write:store", silent=True, left_out=IN_PROCESS)
    def acting(self, secret: arg.Secret) -> Limpet:
        """Return the same store with the tenant, user, agent and grants of the key.

        The audit log names it ``key:NAME``. Raises Unauthenticated. The key is looked up on each call, so a revocation
        takes effect at once. Closing the handle closes nothing.
        """
        hashed, now = hash_secret(secret), self._now()
        found = None if hashed is None else self._read(lambda tx: ApiKeys(tx).get_by_hash(STORE_PARTITION, hashed))
        if found is None or not found.is_live(now):
            raise Unauthenticated("this key is unknown, revoked or expired")
        if _is_due(found.last_used_at, now):
            self._record_use(found, now)
        # The caller with a key may be an operator, but does not close somebody else's store.
        agent = found.agent or self._view.agent
        view = self._view.derive(tenant=found.tenant, agent=agent, caller=found.principal, closes=False)
        from limpet.api.limpet import Limpet

        return Limpet(view)

    @operation(
        "access.keys.required",
        On.WHOLE,
        "read:store",
        "GET /v1/keys/required",
        silent=True,
        answer="required",
        left_out={"cli": "limpet serve says so when it starts"},
    )
    def required(self) -> bool:
        """Whether a server of this store asks for a key: always, once any tenant has had one.

        Keys that expire, are revoked or are purged with their user do not change that; ``allow_anonymous`` does.
        """
        return self._read(lambda tx: ApiKeys(tx).are_required(STORE_PARTITION))

    @operation(
        "access.keys.allow_anonymous",
        On.WHOLE,
        "write:store",
        audited=True,
        cli="api-keys allow-anonymous",
        left_out=dict.fromkeys(("http", "remote"), "opens the server itself: only for the operator at its machine"),
    )
    def allow_anonymous(self) -> None:
        """Let programs on the server's machine in without a key, until the next key is created.

        Raises InvalidInput while a key is not revoked.
        """
        store = self._runtime.store
        if not store.write(lambda tx: ApiKeys(tx).allow_anonymous(STORE_PARTITION), exclusive=True):
            raise InvalidInput("the store has API keys; revoke all of them first, the expired ones of every tenant too")

    def _record_use(self, key: KeyInfo, now: datetime) -> None:
        """A store that cannot be written for a while is asked once a minute, too, and not by every request."""
        noted = self._runtime.keys_used
        if not _is_due(noted.get(key.id), now):
            return
        if len(noted) >= _MOST_NOTED:
            noted.clear()
        noted[key.id] = now
        try:
            self._write(lambda tx: ApiKeys(tx).touch(Scope(key.tenant), key.id, now))
        except LimpetError as error:  # when a key was used is good to know, and no reason to refuse it
            log.debug("the use of a key could not be noted: %s", error)


class AccessOperations(Handle):
    """Grants, API keys and the audit log: ``memory.access``."""

    keys = SubHandle(KeyOperations)

    @operation(
        "access.grant", On.WHOLE, "write:global", "POST /v1/grants", audited=True, answer="granted", cli="grants add"
    )
    def grant(self, user: arg.OneUser, grant: arg.GrantText) -> bool:
        """Grant a user a right beyond their own: ``read:global``, ``write:user:bob``. False if they have it already."""
        parsed = Grant.parse(grant)
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
        """Revoke a grant, at once in all processes. False if the user did not have it."""
        parsed = Grant.parse(grant)
        self._authorizer.check_can_grant(parsed)
        return self._view.shared.store.write(lambda tx: Grants(tx).remove(self._scope(user=user), parsed))

    @operation("access.grants", On.REACH, "read", "GET /v1/grants", cli="grants list")
    def grants(self, user: arg.OfUser | None = None) -> list[GrantInfo]:
        """List the grants of one user, or of all users of the tenant."""
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
        """List who did what to whose memory, newest first: ``user`` is whose memory, ``principal`` who did it."""
        ended = None if outcome is None else AuditOutcome(outcome)
        query = AuditQuery(user, principal, operation, ended, since, until, limit, offset)
        self._runtime.flush_audit()
        return self._read(lambda tx: AuditEntries(tx).find(Scope(self._tenant), query))


def _check_creator(tx: Tx, scope: Scope, info: KeyInfo) -> None:
    """A key that is being revoked at this moment makes none that would be left over."""
    makers = [key for key in ApiKeys(tx).find(scope) if audit_name(key.name) == info.created_by]
    live = next((key for key in makers if key.revoked_at is None), None)
    if live is not None:
        # Its row is written, so that a concurrent revocation waits for this, or this for it.
        ApiKeys(tx).touch(scope, live.id, info.created_at)
    if makers and (live is None or ApiKeys(tx).get(scope, live.id) is None):
        raise Unauthenticated("this key was revoked")


def _implied_needs(info: KeyInfo, maker: str | None) -> Iterator[AccessRequest]:
    """What a key has without a grant, as far as the operation table does not ask for it."""
    if info.user is None or info.user != maker:
        yield AccessRequest(Right.WRITE, Reach.GLOBAL)
    if info.agent is not None:
        yield AccessRequest(Right.READ, Reach.AGENT, agent=info.agent)
        if info.user is None:
            yield AccessRequest(Right.WRITE, Reach.AGENT, agent=info.agent)


def _is_due(last: datetime | None, now: datetime) -> bool:
    """Also where a clock was set back."""
    return last is None or not timedelta() <= now - last < _NOTED_EVERY
