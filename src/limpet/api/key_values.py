"""The small named values of a session."""

from __future__ import annotations

from typing import Any

from limpet.api import parameters as arg
from limpet.api.runtime import Runtime
from limpet.model.scope import Scope
from limpet.model.session import MAX_VALUE_BYTES
from limpet.model.values import check_json
from limpet.security.operation import Authorizer, session_operation
from limpet.sessions.repository import KeyValueEntries


class KeyValues:
    """A session's small named values; beyond the cap the oldest goes."""

    def __init__(self, runtime: Runtime, authorizer: Authorizer, scope: Scope) -> None:
        self._runtime = runtime
        self._authorizer = authorizer
        self._scope = scope
        self._cap = runtime.config.session.kv_cap

    @session_operation("session.kv.get", "read:session", "GET /kv/{key}", answer="value")
    def get(self, key: arg.ValueKey) -> Any:
        """The value, or None."""
        return self._runtime.store.read(lambda tx: KeyValueEntries(tx).get(self._scope, key, self._cap))

    @session_operation("session.kv.set", "write:session", "PUT /kv/{key}")
    def set(self, key: arg.ValueKey, value: arg.Value) -> None:
        """Any JSON value. An existing key moves to the end."""
        self._set(key, value)

    def _set(self, key: str, value: Any) -> None:
        text, now = check_json(value, "a value", max_bytes=MAX_VALUE_BYTES), self._runtime.clock()
        self._runtime.store.write(lambda tx: KeyValueEntries(tx).set(self._scope, key, text, now, self._cap))

    @session_operation("session.kv.delete", "write:session", "DELETE /kv/{key}", answer="deleted")
    def delete(self, key: arg.ValueKey) -> bool:
        """False when there was no such key."""
        return self._runtime.store.write(lambda tx: KeyValueEntries(tx).delete(self._scope, key, self._cap))

    @session_operation("session.kv.items", "read:session", "GET /kv", answer="entries")
    def items(self) -> dict[str, Any]:
        """All entries, the oldest first."""
        entries = self._runtime.store.read(lambda tx: KeyValueEntries(tx).items(self._scope, self._cap))
        return {entry.key: entry.value for entry in entries}
