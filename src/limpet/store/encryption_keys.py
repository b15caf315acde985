"""Keys of encrypted tenants: one master key from the environment or a file, or a folder with a file for each tenant.

A key is 32 bytes in base64. Where there are several, with spaces or line ends between them, the first encrypts;
the others still decrypt what was encrypted with them.
"""

from __future__ import annotations

import base64
import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from limpet.config import EncryptionSettings
from limpet.errors import ConfigError
from limpet.model.values import short_repr
from limpet.store.atomic_files import folder_name
from limpet.store.encryption import KEY_BYTES

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
            f"encryption.key_env names {name}, and the environment has nothing there;"
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
    unfinished = file.with_name(f"{file.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as writing:
        writing.write("".join(f"{encode_key(key)}\n" for key in keys))
        writing.flush()
        os.fsync(writing.fileno())
    os.replace(unfinished, file)
