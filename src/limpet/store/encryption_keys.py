"""Keys of encrypted tenants, and which tenant is encrypted with which.

One master key from the environment or a file, or a folder with a file for each tenant. A key is 32 bytes in base64.
Where there are several, with spaces or line ends between them, the first encrypts; the others still decrypt what was
encrypted with them.
"""

from __future__ import annotations

import base64
import logging
import os
import stat
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from limpet.config import EncryptionSettings
from limpet.errors import ConfigError, KeyMissing, LimpetError
from limpet.model.values import short_repr
from limpet.store.encryption import KEY_BYTES, TenantCipher, check_value
from limpet.store.files import folder_name, write_atomic
from limpet.store.tx import PLAINTEXT, Cipher, Db, Encryption, Row

log = logging.getLogger("limpet.store")

SUFFIX = ".key"


class EncryptionKeys:
    """The keys that the settings name. What was read is remembered until the program ends."""

    def __init__(self, settings: EncryptionSettings, env: Mapping[str, str], nonce: Callable[[int], bytes]) -> None:
        self.is_required = settings.required
        self.nonce = nonce
        self.folder: Path | None = None
        self._master: tuple[bytes, ...] = ()
        self._of: dict[str, tuple[bytes, ...]] = {}
        if settings.key_env != "none":
            self._master = _read_environment(env, settings.key_env)
        elif settings.key_file != "none":
            place = Path(settings.key_file).expanduser()
            if place.is_dir():
                self.folder = place
            else:
                self._master = read_keys(place)

    def get_keys(self, tenant: str) -> tuple[bytes, ...]:
        if self.folder is None:
            return self._master
        if not self._of.get(tenant):
            file = key_file(self.folder, tenant)
            self._of[tenant] = read_keys(file) if file.exists() else ()
        return self._of[tenant]


def key_file(folder: Path, tenant: str) -> Path:
    return folder / f"{folder_name(tenant)}{SUFFIX}"


def _read_environment(env: Mapping[str, str], name: str) -> tuple[bytes, ...]:
    if not env.get(name, "").strip():
        raise ConfigError(
            f"encryption.key_env names {name}, which is not set in the environment;"
            f" limpet encryption new prints a key, or leave the setting out to open tenants that are not encrypted"
        )
    return parse_keys(env[name], name)


def read_keys(file: Path) -> tuple[bytes, ...]:
    try:
        if sys.platform != "win32" and (mode := stat.S_IMODE(os.stat(file).st_mode)) & 0o077:
            raise ConfigError(f"{file} may be read by others (its mode is {mode:03o}): chmod 600 {file}")
        text = file.read_text(encoding="ascii")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the key in {file} cannot be read: {error}; limpet encryption new makes one") from None
    return parse_keys(text, str(file))


def parse_keys(text: str, where: str) -> tuple[bytes, ...]:
    """The keys; whatever is wrong is told without the key."""
    found = []
    for number, word in enumerate(text.replace(",", " ").split(), 1):
        try:
            key = base64.b64decode(word, validate=True)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise ConfigError(
                f"key {number} in {short_repr(where)} is not {KEY_BYTES} bytes in base64;"
                " limpet encryption new makes one"
            )
        found.append(key)
    if not found:
        raise ConfigError(f"{short_repr(where)} holds no key; limpet encryption new makes one")
    return tuple(found)


def encode_key(key: bytes) -> str:
    return base64.b64encode(key).decode()


def write_keys(file: Path, keys: tuple[bytes, ...]) -> None:
    """Whole or not at all, and for nobody else to read."""
    write_atomic(file, "".join(f"{encode_key(key)}\n" for key in keys).encode())


STATE_PLAINTEXT, STATE_ENCRYPTED, STATE_ENCRYPTING, STATE_ROTATING = (
    "plaintext",
    "encrypted",
    "encrypting",
    "rotating",
)


class EncryptionStateUnknown(LimpetError):
    """Nobody has noted yet whether this tenant is encrypted. The store notes it and runs the work again."""


class EncryptionState(NamedTuple):
    state: str
    version: int
    check: bytes
    old_check: bytes
    progress: str


class EncryptionRegistry:
    """What a store remembers of its tenants' encryption until somebody changes it. Safe to share between threads.

    A transaction learns with its beginning how often the table was changed; only when that differs from what is
    remembered are rows read again. Nobody else writes while that table is changed, so that no writer works with an
    older answer than the one before it left.
    """

    def __init__(self, keyring: EncryptionKeys | None = None) -> None:
        self.keyring = keyring
        self.is_ready = False  # once the table is there
        self._lock = threading.Lock()
        self._changes = -1
        self._ciphers: dict[str, Cipher] = {}

    @property
    def is_required(self) -> bool:
        return self.keyring is not None and self.keyring.is_required

    def get_keys(self, tenant: str) -> Sequence[bytes]:
        return () if self.keyring is None else self.keyring.get_keys(tenant)

    def begin(self, db: Db, changes: int, *, writing: bool) -> TxEncryption:
        """For one transaction. A view from before the latest change has ciphers of its own for a moment."""
        with self._lock:
            if changes > self._changes:
                self._changes, self._ciphers = changes, {}
            return TxEncryption(db, self, self._ciphers if changes == self._changes else {}, writing=writing)

    def make_cipher(
        self, tenant: str, current: EncryptionState, *, check: bytes | None = None, version: int | None = None
    ) -> TenantCipher:
        """With the key that fits. Raises KeyMissing."""
        wanted = current.check if check is None else check
        keys = self.get_keys(tenant)
        for key in keys:
            if check_value(key, tenant) == wanted:
                assert self.keyring is not None
                return TenantCipher(tenant, key, current.version if version is None else version, self.keyring.nonce)
        if keys:
            raise KeyMissing(f"tenant {tenant!r} is encrypted with another key than the one given; {_KEY_HINT}")
        raise KeyMissing(f"tenant {tenant!r} is encrypted and its key is missing; {_KEY_HINT}")

    def is_encrypted(self, db: Db, tenant: str) -> bool:
        """Or will be with the first that is written."""
        current = get_state(db, tenant)
        if current is not None:
            return current.state != STATE_PLAINTEXT
        return bool(self.get_keys(tenant)) and _is_new(db, tenant)

    def record_initial_state(self, db: Db, tenant: str) -> None:
        """Note that the tenant is encrypted, if it has a key and holds nothing yet, or that it is plain text."""
        if self.keyring is None or get_state(db, tenant) is not None:
            return
        keys, is_new = self.get_keys(tenant), _is_new(db, tenant)
        if self.is_required and not (keys and is_new):
            raise _key_required_error(tenant)
        if keys and is_new:
            put_state(db, tenant, EncryptionState(STATE_ENCRYPTED, 1, check_value(keys[0], tenant), b"", ""))
            return
        if keys:
            log.warning(
                "tenant %r has text from before there was a key for it, and stays plain text:"
                " limpet --tenant %s encryption encrypt",
                tenant,
                tenant,
            )
        put_state(db, tenant, EncryptionState(STATE_PLAINTEXT, 0, b"", b"", ""))


_KEY_HINT = (
    "set encryption.key_env or encryption.key_file to where its key is."
    " Without that key nobody can read it, and nothing was written"
)


class TxEncryption(Encryption):
    """The tenants' ciphers in one transaction."""

    def __init__(self, db: Db, registry: EncryptionRegistry, ciphers: dict[str, Cipher], *, writing: bool) -> None:
        self._db = db
        self._registry = registry
        self._ciphers = ciphers
        self._writing = writing

    def cipher_for(self, tenant: str) -> Cipher:
        return self._ciphers.get(tenant) or self._load_cipher(tenant)

    def _load_cipher(self, tenant: str) -> Cipher:
        current, registry = get_state(self._db, tenant), self._registry
        if current is None:
            if registry.keyring is not None and self._writing:
                raise EncryptionStateUnknown(tenant)
            return PLAINTEXT
        if current.state in (STATE_ENCRYPTING, STATE_ROTATING):
            raise KeyMissing(
                f"tenant {tenant!r} is being encrypted, and cannot be used until that is done;"
                f" if it was interrupted, limpet --tenant {tenant} encryption encrypt continues it"
            )
        if current.state == STATE_PLAINTEXT:
            if registry.is_required and self._writing:
                raise _key_required_error(tenant)
            cipher = PLAINTEXT
        else:
            cipher = registry.make_cipher(tenant, current)
        if self._writing or not registry.is_required:
            self._ciphers[tenant] = cipher
        return cipher

    def can_use(self, tenant: str) -> bool:
        try:
            cipher = self.cipher_for(tenant)
        except KeyMissing:
            return False
        except EncryptionStateUnknown:
            if self._registry.is_required:  # it holds rows already: settling would refuse it
                return False
            raise
        return cipher.is_encrypted or not self._registry.is_required


def get_state(db: Db, tenant: str) -> EncryptionState | None:
    row = db.one("encryption.get", {"tenant": tenant})
    return None if row is None else _parse_state(row)


def list_states(db: Db) -> Mapping[str, EncryptionState]:
    return {tenant: _parse_state(tuple(rest)) for tenant, *rest in db.all("encryption.all", {})}


def put_state(db: Db, tenant: str, current: EncryptionState) -> None:
    db.run("encryption.put", {"tenant": tenant, **current._asdict()})
    db.run("encryption.count_change", {})


def _is_new(db: Db, tenant: str) -> bool:
    return db.one("encryption.has_rows", {"tenant": tenant}) is None


def _parse_state(row: Row) -> EncryptionState:
    state, version, check, old_check, progress = row
    return EncryptionState(state, version, bytes(check), bytes(old_check), progress)


def _key_required_error(tenant: str) -> KeyMissing:
    return KeyMissing(
        f"tenant {tenant!r} is not encrypted, and encryption.required is set: give it a key,"
        f" and if it has text already, run limpet --tenant {tenant} encryption encrypt"
    )
