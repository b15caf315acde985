"""Grants and API keys in named queries."""

from __future__ import annotations

from datetime import datetime

from limpet.errors import InvalidInput
from limpet.model.access import Grant, GrantInfo, KeyInfo, Reach, Right, audit_name
from limpet.model.columns import to_text
from limpet.model.scope import STORE_PARTITION, Partition, Scope
from limpet.model.values import from_micros, to_micros
from limpet.store.tables import KEY_ROWS
from limpet.store.tx import Repository

_FOREVER = (1 << 63) - 1


class Grants(Repository):
    """What users may beyond their own memory."""

    def put(self, scope: Scope, granted: GrantInfo) -> bool:
        """False when the user has it already."""
        params = {**user_parameters(scope), "name": str(granted.grant), "granted_by": granted.by}
        return bool(self._db.run("grants.put", {**params, "granted_at": to_micros(granted.at)}))

    def remove(self, scope: Scope, grant: Grant) -> bool:
        return bool(self._db.run("grants.remove", {**user_parameters(scope), "name": str(grant)}))

    def list_for(self, scope: Scope) -> tuple[Grant, ...]:
        return tuple(Grant.parse(name) for (name,) in self._db.all("grants.of", user_parameters(scope)))

    def find(self, scope: Scope) -> list[GrantInfo]:
        """A user's, or all of a tenant."""
        where = "" if scope.user is None else "user_id = :user"
        rows = self._db.all("grants.list", {"tenant": scope.tenant, "user": scope.user}, where=where)
        return [GrantInfo(user, Grant.parse(name), from_micros(at), by) for user, name, at, by in rows]

    def erase(self, scope: Scope, instead: str) -> int:
        """Take away what the user has, and what others have on the user. ``instead`` stands where the user gave."""
        params = {**user_parameters(scope), **list_user_grants(scope)}
        self._db.run("grants.disown", {**user_parameters(scope), "instead": instead})
        return self._db.run("grants.erase", params)


class ApiKeys(Repository):
    """Keys of a tenant. A secret is found by its hash alone, whosever it is."""

    def add(self, scope: Scope, key: KeyInfo, secret_hash: str, now: datetime) -> bool:
        """False when another that is live has its name."""
        assert key.tenant == scope.tenant
        self._db.run("api_keys.free_name", {"tenant": key.tenant, "name": key.name, "now": to_micros(now)})
        self._db.run("api_keys.require", {})
        return bool(self._db.run("api_keys.add", {**KEY_ROWS.params(key), "secret_hash": secret_hash}))

    def get_by_hash(self, store: Partition, secret_hash: str) -> KeyInfo | None:
        """Of whichever tenant, revoked and expired ones too."""
        assert store == STORE_PARTITION
        row = self._db.one("api_keys.select", {"secret_hash": secret_hash}, where="secret_hash = :secret_hash")
        return None if row is None else KEY_ROWS.read(row)

    def are_required(self, store: Partition) -> bool:
        """From the first key on. That the last one is gone changes nothing."""
        assert store == STORE_PARTITION
        return self._db.one("api_keys.required", {}) is not None

    def allow_anonymous(self, store: Partition) -> bool:
        """False while there is a key that was not revoked."""
        assert store == STORE_PARTITION
        if self._db.one("api_keys.any", {}) is not None:
            return False
        self._db.run("api_keys.allow_anonymous", {})
        return True

    def get(self, scope: Scope, id_or_name: str) -> KeyInfo | None:
        """The one that was not revoked."""
        where = "tenant = :tenant AND revoked_at IS NULL AND (id = :given OR name = :given)"
        row = self._db.one("api_keys.select", {"tenant": scope.tenant, "given": id_or_name}, where=where)
        return None if row is None else KEY_ROWS.read(row)

    def find(self, scope: Scope) -> list[KeyInfo]:
        """A user's, or all of a tenant, the newest first; revoked and expired ones too."""
        where = "tenant = :tenant" + ("" if scope.user is None else " AND user_id = :user")
        params = {"tenant": scope.tenant, "user": scope.user}
        rows = self._db.all("api_keys.select", params, where=where, order="ORDER BY created_at DESC, id DESC")
        return [KEY_ROWS.read(row) for row in rows]

    def revoke(self, scope: Scope, key_id: str, now: datetime) -> bool:
        self._db.run("api_keys.require", {})  # by stores that had keys before this was stored, too
        return bool(self._db.run("api_keys.revoke", {"tenant": scope.tenant, "id": key_id, "now": to_micros(now)}))

    def touch(self, scope: Scope, key_id: str, now: datetime) -> None:
        self._db.run("api_keys.used", {"tenant": scope.tenant, "id": key_id, "now": to_micros(now)})

    def erase(self, scope: Scope, instead: str) -> int:
        """Remove a user's keys. ``instead`` stands in the audit and elsewhere where one of them, or the user, stood.

        What keys of others may do to the user's memory is taken from them.
        """
        whose = user_parameters(scope)
        for key in self.find(scope):
            self._anonymize(key, instead)
        self._db.run("api_keys.disown", {**whose, "instead": instead})
        if self.find(scope):
            self._db.run("api_keys.require", {})
        gone = self._db.run("api_keys.erase", whose)
        for key in self.find(Scope(scope.tenant)):
            kept = [grant for grant in key.grants if (grant.reach, grant.of) != (Reach.USER, scope.user)]
            if len(kept) < len(key.grants):
                grants = to_text([str(grant) for grant in kept])
                self._db.run("api_keys.set_grants", {"tenant": key.tenant, "id": key.id, "grants": grants})
        return gone

    def _anonymize(self, key: KeyInfo, instead: str) -> None:
        """Where the key acted or gave something. Another may have its name now, so that only its own time counts."""
        by = {"tenant": key.tenant, "user": audit_name(key.name), "instead": instead}
        until = _FOREVER if key.revoked_at is None else to_micros(key.revoked_at)
        times = {"since": to_micros(key.created_at), "until": until}
        self._db.run("api_keys.unname", {**times, "tenant": key.tenant, "principal": by["user"], "instead": instead})
        self._db.run("api_keys.disown", by)
        self._db.run("grants.disown", by)


def user_parameters(scope: Scope) -> dict[str, str]:
    if scope.user is None:
        raise InvalidInput("grants and keys belong to a user: name the user")
    return {"tenant": scope.tenant, "user": scope.user}


def list_user_grants(scope: Scope) -> dict[str, str]:
    reading, writing = (str(Grant(right, Reach.USER, scope.user)) for right in (Right.READ, Right.WRITE))
    return {"reading": reading, "writing": writing}
