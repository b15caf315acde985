"""Which tenants are sealed, and with what: asked by every transaction, remembered until somebody changes it.

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
from limpet.store.encryption import OPEN, Box, Keyring, Sealed, check_value

log = logging.getLogger("limpet.store")

IS_OPEN, IS_SEALED, SEALING, ROTATING = "open", "sealed", "sealing", "rotating"


class Unsettled(LimpetError):
    """Nobody has noted yet whether this tenant is sealed. The store notes it and runs the work again."""


class Seal(NamedTuple):
    state: str
    version: int
    check: bytes
    old_check: bytes
    progress: str


class Seals:
    """What a store remembers of them. Safe to share between threads."""

    def __init__(self, keyring: Keyring | None = None) -> None:
        self.keyring = keyring
        self.is_ready = False  # once the table is there
        self._lock = threading.Lock()
        self._generation = -1
        self._boxes: dict[str, Box] = {}

    def boxes(self, generation: int) -> dict[str, Box]:
        """Those found at this generation. A view from before the latest change has its own for a moment."""
        with self._lock:
            if generation > self._generation:
                self._generation, self._boxes = generation, {}
            return self._boxes if generation == self._generation else {}

    def box(self, tenant: str, seal: Seal, *, check: bytes | None = None, version: int | None = None) -> Sealed:
        """With the key that fits. Raises KeyMissing."""
        wanted = seal.check if check is None else check
        keys = () if self.keyring is None else self.keyring.keys(tenant)
        for key in keys:
            if check_value(key, tenant) == wanted:
                assert self.keyring is not None
                return Sealed(tenant, key, seal.version if version is None else version, self.keyring.nonce)
        if keys:
            raise KeyMissing(f"tenant {tenant!r} is sealed with another key than the one given; {_WHAT_TO_DO}")
        raise KeyMissing(f"tenant {tenant!r} is sealed and its key is not there; {_WHAT_TO_DO}")


_WHAT_TO_DO = (
    "set encryption.key_env or encryption.key_file to where its key is."
    " Without that key nobody can read it, and nothing was written"
)


class TxSeals:
    """What one connection's transactions know of it."""

    def __init__(self, db: Db, known: Seals | None = None) -> None:
        self._db = db
        self._known = known or Seals()
        self._boxes: dict[str, Box] = {}
        self.all_open = self._known.keyring is None
        self._writing = False

    def begin(self, generation: int, *, writing: bool) -> None:
        self._writing = writing
        self.all_open = generation == 0 and self._known.keyring is None
        if not self.all_open:
            self._boxes = self._known.boxes(generation)

    def of(self, tenant: str) -> Box:
        """What the tenant's values go through. Raises KeyMissing."""
        if self.all_open:
            return OPEN
        return self._boxes.get(tenant) or self._find(tenant)

    def _find(self, tenant: str) -> Box:
        seal, keyring = self.get(tenant), self._known.keyring
        if seal is None:
            if keyring is not None and self._writing:
                raise Unsettled(tenant)
            return OPEN
        if seal.state in (SEALING, ROTATING):
            raise KeyMissing(
                f"tenant {tenant!r} is being sealed, and read and written by nobody else until that is done;"
                f" where it was interrupted, limpet --tenant {tenant} key seal goes on with it"
            )
        if seal.state == IS_OPEN:
            if keyring is not None and keyring.required and self._writing:
                raise _refused(tenant)
            box: Box = OPEN
        else:
            box = self._known.box(tenant, seal)
        if self._writing or not (keyring is not None and keyring.required):
            self._boxes[tenant] = box
        return box

    def may_use(self, tenant: str) -> bool:
        """For whoever looks at many tenants' rows: whether this program may read and write the tenant."""
        keyring = self._known.keyring
        required = keyring is not None and keyring.required
        try:
            box = self.of(tenant)
        except KeyMissing:
            return False
        except Unsettled:
            if required:  # it holds rows already: settling would refuse it
                return False
            raise
        return box.is_sealed or not required

    def is_sealed(self, tenant: str) -> bool:
        """Or will be with the first that is written."""
        seal, keyring = self.get(tenant), self._known.keyring
        if seal is not None:
            return seal.state != IS_OPEN
        return keyring is not None and bool(keyring.keys(tenant)) and self._is_new(tenant)

    def _is_new(self, tenant: str) -> bool:
        return self._db.one("seals.has_rows", {"tenant": tenant}) is None

    def get(self, tenant: str) -> Seal | None:
        row = self._db.one("seals.get", {"tenant": tenant})
        return None if row is None else _seal(row)

    def all(self) -> Mapping[str, Seal]:
        return {tenant: _seal(tuple(rest)) for tenant, *rest in self._db.all("seals.all", {})}

    def put(self, tenant: str, seal: Seal) -> None:
        params = {
            "state": seal.state,
            "version": seal.version,
            "check_value": seal.check,
            "old_check": seal.old_check,
            "progress": seal.progress,
        }
        self._db.run("seals.put", {"tenant": tenant, **params})
        self._db.run("seals.changed", {})

    def settle(self, tenant: str) -> None:
        """Note that the tenant is sealed, if it has a key and holds nothing yet, or that it is open."""
        keyring = self._known.keyring
        if keyring is None or self.get(tenant) is not None:
            return
        keys = keyring.keys(tenant)
        is_new = self._is_new(tenant)
        if keyring.required and not (keys and is_new):
            raise _refused(tenant)
        if keys and is_new:
            self.put(tenant, Seal(IS_SEALED, 1, check_value(keys[0], tenant), b"", ""))
            return
        if keys:
            log.warning(
                "tenant %r has text from before there was a key for it, and stays open: limpet --tenant %s key seal",
                tenant,
                tenant,
            )
        self.put(tenant, Seal(IS_OPEN, 0, b"", b"", ""))


def _seal(row: Row) -> Seal:
    state, version, check, old_check, progress = row
    return Seal(state, version, bytes(check), bytes(old_check), progress)


def _refused(tenant: str) -> KeyMissing:
    return KeyMissing(
        f"tenant {tenant!r} is not sealed, and encryption.required wants every tenant sealed: give it a key, and if it"
        f" has text already, run limpet --tenant {tenant} key seal"
    )
