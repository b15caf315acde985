"""API keys: made, listed, taken away, and shown by whoever wants to act."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from limpet.api.runtime import Runtime
from limpet.errors import InvalidInput, InvalidKey, LimpetError, Unauthenticated
from limpet.model.access import Grant, Need, Reach, Right
from limpet.model.api_key import MAX_NAME, KeyInfo, NewKey, audit_name, hash_of, made_by
from limpet.model.ids import checked_id
from limpet.model.scope import STORE, Scope
from limpet.model.text import checked_name, optional_name, shown
from limpet.model.times import checked_ttl
from limpet.model.values import at_most, checked_flag
from limpet.security.access_repository import Grants
from limpet.security.api_key_repository import ApiKeys
from limpet.security.authorize import Gate
from limpet.security.operation import verb
from limpet.store.tx import Tx

if TYPE_CHECKING:
    from limpet.api.limpet import Limpet

log = logging.getLogger("limpet.keys")

MAX_GRANTS = 1000
_NOTED_EVERY = timedelta(minutes=1)
_MOST_NOTED = 10_000  # keys whose last use is remembered by a process


class Keys:
    """``hf.keys``: the verbs on API keys. A key acts for a user, an agent, or only by what it was granted."""

    def __init__(self, runtime: Runtime, gate: Gate, tenant: str, act: Callable[[KeyInfo], Limpet]) -> None:
        self._runtime = runtime
        self._gate = gate
        self._tenant = tenant
        self._act = act

    @verb("keys.create")
    def create(
        self,
        name: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        grants: Iterable[str | Grant] = (),
        expires_in: timedelta | float | None = None,
    ) -> NewKey:
        """Make a key. The secret in the answer is shown only here: nobody can read it again.

        It acts as ``hf.acting`` would with the same user, agent and grants; with ``read:store`` and ``write:store``
        and no user, as operator. Nobody makes one that may more than they may themselves. Two live keys of a tenant
        have different names. ``expires_in`` is a timedelta or a number of seconds.
        """
        now, runtime = self._runtime.clock(), self._runtime
        info = KeyInfo(
            id=runtime.new_id(),
            tenant=self._tenant,
            name=_checked_key_name(name),
            user=optional_name(user, "user"),
            agent=optional_name(agent, "agent"),
            grants=tuple(dict.fromkeys(checked_grants(grants))),
            created_at=now,
            created_by=self._gate.principal.name,
            expires_at=None if expires_in is None else _end(now, expires_in),
        )
        if info.user is None and info.agent is None and not info.grants:
            raise InvalidInput("say what the key may: user=, agent= or grants=['read:global']")
        self._refuse_more(info)
        secret = runtime.new_secret()
        hashed, scope = hash_of(secret), Scope(self._tenant)
        assert hashed is not None

        def made(tx: Tx) -> bool:
            _check_maker(tx, scope, info)
            return ApiKeys(tx).add(scope, info, hashed, now)

        if not runtime.store.write(made):
            raise InvalidInput(f"there is a key called {info.name!r} already; revoke it first, or choose another name")
        return NewKey(secret, info)

    def _refuse_more(self, info: KeyInfo) -> None:
        """Raises PermissionDenied for a key that may more than whoever makes it."""
        self._gate.check_has(_reached(info, self._gate.principal.user))
        given = list(info.grants)
        if info.user is not None and info.user != self._gate.principal.user:
            # A user's key has what the user was granted, too.
            scope = Scope(self._tenant, user=info.user)
            given += self._runtime.store.read(lambda tx: Grants(tx).of(scope))
        for grant in given:
            self._gate.check_gift(grant)

    @verb("keys.list")
    def list(self, user: str | None = None, include_revoked: bool = False) -> builtins.list[KeyInfo]:
        """The tenant's keys, or one user's, the newest first; on request also those that were revoked or expired."""
        scope, now = Scope.of(self._tenant, user=user), self._runtime.clock()
        everything = checked_flag(include_revoked, "include_revoked")
        found = self._runtime.store.read(lambda tx: ApiKeys(tx).find(scope))
        return [key for key in found if everything or key.is_live(now)]

    @verb("keys.revoke")
    def revoke(self, id_or_name: str) -> int:
        """Take a key away, with all that were made by it and by those, in every process at once.

        Answers how many keys these are: 0 when there is none, or it was revoked before.
        """
        wanted, scope = checked_name(id_or_name, "the key's id or name"), Scope(self._tenant)
        wanted = wanted.lower() if _is_id(wanted) else wanted
        found = self._runtime.store.read(lambda tx: ApiKeys(tx).named(scope, wanted))
        if found is None:
            return 0
        for grant in found.grants:
            self._gate.check_gift(grant)
        now, key = self._runtime.clock(), found

        def taken(tx: Tx) -> int:
            if not ApiKeys(tx).revoke(scope, key.id, now):
                return 0
            made = made_by(key, ApiKeys(tx).find(scope))
            return 1 + sum(ApiKeys(tx).revoke(scope, each.id, now) for each in made)

        return self._runtime.store.write(taken)

    @verb("keys.acting")
    def acting(self, secret: str) -> Limpet:
        """The same store acting as what the key is bound to: its tenant, user, agent and grants.

        The audit names it ``key:NAME``. Raises Unauthenticated. The key is looked up each time, so that one that was
        revoked is so at once; closing the handle closes nothing.
        """
        hashed, now = hash_of(secret), self._runtime.clock()
        found = None if hashed is None else self._runtime.store.read(lambda tx: ApiKeys(tx).by_hash(STORE, hashed))
        if found is None or not found.is_live(now):
            raise Unauthenticated("this key is unknown, revoked or expired")
        if _is_due(found.last_used_at, now):
            self._note_use(found, now)
        return self._act(found)

    @verb("keys.any")
    def any(self) -> bool:
        """Whether the store has a key of any tenant that was not revoked.

        One that has expired counts: a server that asks for keys does not stop asking by itself.
        """
        return self._runtime.store.read(lambda tx: ApiKeys(tx).any(STORE))

    def _note_use(self, key: KeyInfo, now: datetime) -> None:
        """A store that cannot be written for a while is asked once a minute, too, and not by every request."""
        noted = self._runtime.keys_used
        if not _is_due(noted.get(key.id), now):
            return
        if len(noted) >= _MOST_NOTED:
            noted.clear()
        noted[key.id] = now
        try:
            self._runtime.store.write(lambda tx: ApiKeys(tx).used(Scope(key.tenant), key.id, now))
        except LimpetError as error:  # when a key was used is good to know, and no reason to refuse it
            log.debug("the use of a key could not be noted: %s", error)


def checked_grants(given: Iterable[str | Grant]) -> tuple[Grant, ...]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidInput(f"grants must be a list such as ['read:global'], not {shown(given)}")
    return tuple(Grant.parse(each) for each in at_most(MAX_GRANTS, given, "these are too many grants"))


def _check_maker(tx: Tx, scope: Scope, info: KeyInfo) -> None:
    """A key that is being revoked at this moment makes none that would be left over."""
    makers = [key for key in ApiKeys(tx).find(scope) if audit_name(key.name) == info.created_by]
    live = next((key for key in makers if key.revoked_at is None), None)
    if live is not None:
        # Its row is written, so that whoever revokes it waits for this, or this for them.
        ApiKeys(tx).used(scope, live.id, info.created_at)
    if makers and (live is None or ApiKeys(tx).named(scope, live.id) is None):
        raise Unauthenticated("this key was revoked")


def _checked_key_name(value: object) -> str:
    name = checked_name(value, "name", max_bytes=MAX_NAME)
    if _is_id(name):
        raise InvalidInput("a key's name must not look like an id; ids are given by the store")
    return name


def _is_id(text: str) -> bool:
    try:
        checked_id(text, "key id")
    except InvalidKey:
        return False
    return True


def _end(now: datetime, span: timedelta | float) -> datetime:
    try:
        return now + checked_ttl(span)
    except OverflowError:
        raise InvalidInput("expires_in ends after the year 9999; leave it out for a key without an end") from None


def _reached(info: KeyInfo, maker: str | None) -> Iterator[Need]:
    """What a key has without a grant, as far as the table of verbs does not ask for it."""
    if info.user is None or info.user != maker:
        yield Need(Right.WRITE, Reach.GLOBAL)
    if info.agent is not None:
        yield Need(Right.READ, Reach.AGENT, agent=info.agent)
        if info.user is None:
            yield Need(Right.WRITE, Reach.AGENT, agent=info.agent)


def _is_due(last: datetime | None, now: datetime) -> bool:
    """Also where a clock was set back."""
    return last is None or not timedelta() <= now - last < _NOTED_EVERY
