"""Which tenants are encrypted, and with what: asked by every transaction, cached until somebody changes it.

A transaction learns with its beginning how often the table was changed; only when that differs from what is
remembered are rows read again. Writers take turns on both backends, so that no writer works with an older answer than
the one before it left.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import NamedTuple

from limpet.errors import KeyMissing, LimpetError
from limpet.store.db import Db, Row
from limpet.store.encryption import PLAINTEXT, Cipher, KeyProvider, TenantCipher, check_value

log = logging.getLogger("limpet.store")

STATE_PLAINTEXT, STATE_ENCRYPTED, STATE_ENCRYPTING, STATE_ROTATING = "open", "sealed", "sealing", "rotating"


class EncryptionStateUnknown(LimpetError):
    """Nobody has noted yet whether this tenant is encrypted. The store notes it and runs the work again."""


class EncryptionState(NamedTuple):
    state: str
    version: int
    check: bytes
    old_check: bytes
    progress: str


class EncryptionRegistry:
    """What a store remembers of them. Safe to share between threads."""

    def __init__(self, keyring: KeyProvider | None = None) -> None:
        self.keyring = keyring
        self.is_ready = False  # once the table is there
        self._lock = threading.Lock()
        self._generation = -1
        self._ciphers: dict[str, Cipher] = {}

    def get_ciphers(self, generation: int) -> dict[str, Cipher]:
        """Those found at this generation. A view from before the latest change has its own for a moment."""
        with self._lock:
            if generation > self._generation:
                self._generation, self._ciphers = generation, {}
            return self._ciphers if generation == self._generation else {}

    def make_cipher(
        self, tenant: str, current: EncryptionState, *, check: bytes | None = None, version: int | None = None
    ) -> TenantCipher:
        """With the key that fits. Raises KeyMissing."""
        wanted = current.check if check is None else check
        keys = () if self.keyring is None else self.keyring.get_keys(tenant)
        for key in keys:
            if check_value(key, tenant) == wanted:
                assert self.keyring is not None
                return TenantCipher(tenant, key, current.version if version is None else version, self.keyring.nonce)
        if keys:
            raise KeyMissing(f"tenant {tenant!r} is sealed with another key than the one given; {_KEY_HINT}")
        raise KeyMissing(f"tenant {tenant!r} is sealed and its key is not there; {_KEY_HINT}")


_KEY_HINT = (
    "set encryption.key_env or encryption.key_file to where its key is."
    " Without that key nobody can read it, and nothing was written"
)


class TxEncryption:
    """What one connection's transactions know of it."""

    def __init__(self, db: Db, known: EncryptionRegistry | None = None) -> None:
        self._db = db
        self._known = known or EncryptionRegistry()
        self._ciphers: dict[str, Cipher] = {}
        self.all_open = self._known.keyring is None
        self._writing = False

    def begin(self, generation: int, *, writing: bool) -> None:
        self._writing = writing
        self.all_open = generation == 0 and self._known.keyring is None
        if not self.all_open:
            self._ciphers = self._known.get_ciphers(generation)

    def cipher_for(self, tenant: str) -> Cipher:
        """What the tenant's values go through. Raises KeyMissing."""
        if self.all_open:
            return PLAINTEXT
        return self._ciphers.get(tenant) or self._load_cipher(tenant)

    def _load_cipher(self, tenant: str) -> Cipher:
        current, keyring = self.get(tenant), self._known.keyring
        if current is None:
            if keyring is not None and self._writing:
                raise EncryptionStateUnknown(tenant)
            return PLAINTEXT
        if current.state in (STATE_ENCRYPTING, STATE_ROTATING):
            raise KeyMissing(
                f"tenant {tenant!r} is being sealed, and read and written by nobody else until that is done;"
                f" where it was interrupted, limpet --tenant {tenant} encryption encrypt goes on with it"
            )
        if current.state == STATE_PLAINTEXT:
            if keyring is not None and keyring.is_required and self._writing:
                raise _key_required_error(tenant)
            cipher: Cipher = PLAINTEXT
        else:
            cipher = self._known.make_cipher(tenant, current)
        if self._writing or not (keyring is not None and keyring.is_required):
            self._ciphers[tenant] = cipher
        return cipher

    def can_use(self, tenant: str) -> bool:
        """For code that reads many tenants' rows: whether this program may read and write the tenant."""
        keyring = self._known.keyring
        required = keyring is not None and keyring.is_required
        try:
            cipher = self.cipher_for(tenant)
        except KeyMissing:
            return False
        except EncryptionStateUnknown:
            if required:  # it holds rows already: settling would refuse it
                return False
            raise
        return cipher.is_encrypted or not required

    def is_encrypted(self, tenant: str) -> bool:
        """Or will be with the first that is written."""
        current, keyring = self.get(tenant), self._known.keyring
        if current is not None:
            return current.state != STATE_PLAINTEXT
        return keyring is not None and bool(keyring.get_keys(tenant)) and self._is_new(tenant)

    def _is_new(self, tenant: str) -> bool:
        return self._db.one("encryption.has_rows", {"tenant": tenant}) is None

    def get(self, tenant: str) -> EncryptionState | None:
        row = self._db.one("encryption.get", {"tenant": tenant})
        return None if row is None else _parse_state(row)

    def all(self) -> Mapping[str, EncryptionState]:
        return {tenant: _parse_state(tuple(rest)) for tenant, *rest in self._db.all("encryption.all", {})}

    def put(self, tenant: str, current: EncryptionState) -> None:
        params = {
            "state": current.state,
            "version": current.version,
            "check_value": current.check,
            "old_check": current.old_check,
            "progress": current.progress,
        }
        self._db.run("encryption.put", {"tenant": tenant, **params})
        self._db.run("encryption.count_change", {})

    def record_initial_state(self, tenant: str) -> None:
        """Note that the tenant is encrypted, if it has a key and holds nothing yet, or that it is plain text."""
        keyring = self._known.keyring
        if keyring is None or self.get(tenant) is not None:
            return
        keys = keyring.get_keys(tenant)
        is_new = self._is_new(tenant)
        if keyring.is_required and not (keys and is_new):
            raise _key_required_error(tenant)
        if keys and is_new:
            self.put(tenant, EncryptionState(STATE_ENCRYPTED, 1, check_value(keys[0], tenant), b"", ""))
            return
        if keys:
            log.warning(
                "tenant %r has text from before there was a key for it, and stays open:"
                " limpet --tenant %s encryption encrypt",
                tenant,
                tenant,
            )
        self.put(tenant, EncryptionState(STATE_PLAINTEXT, 0, b"", b"", ""))


def _parse_state(row: Row) -> EncryptionState:
    state, version, check, old_check, progress = row
    return EncryptionState(state, version, bytes(check), bytes(old_check), progress)


def _key_required_error(tenant: str) -> KeyMissing:
    return KeyMissing(
        f"tenant {tenant!r} is not sealed, and encryption.required wants every tenant sealed: give it a key, and if it"
        f" has text already, run limpet --tenant {tenant} encryption encrypt"
    )
