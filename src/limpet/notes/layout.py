"""Where an owner's files are: ``memory/users/<name>/`` below the store's folder, and nowhere else.

Any name becomes a folder name that no other name has, on file systems too that do not tell upper from lower case:
small letters, digits and ``- _ @ .`` stay, everything else is written as ``%`` and its UTF-8 bytes. What is then too
long is cut and ends in ``~`` and a hash of the whole. Other tenants than the default have a folder each under
``memory/tenants/``; ``memory/sessions`` and ``memory/sessions.json`` belong to sessions kept as files.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

from limpet.errors import StorageError
from limpet.model.scope import DEFAULT_TENANT, Level, Partition

_FOLDERS = {Level.USER: "users", Level.AGENT: "agents"}
_LONGEST, _KEPT = 120, 80
_UNSAFE = re.compile(r"[^a-z0-9_@.-]|^\.|\.$")
_WINDOWS_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?=\.|$)")


def folder_name(name: str) -> str:
    safe = _UNSAFE.sub(_escape, name)
    if _WINDOWS_DEVICE.match(safe):
        safe = f"%{ord(safe[0]):02x}{safe[1:]}"
    if len(safe) <= _LONGEST:
        return safe
    return f"{safe[:_KEPT]}~{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"


def owner_folder(root: Path, space: Partition) -> Path:
    memory = root / "memory"
    if space.tenant != DEFAULT_TENANT:
        memory = memory / "tenants" / folder_name(space.tenant)
    if space.level is Level.GLOBAL:
        return memory / "everyone"
    return memory / _FOLDERS[space.level] / folder_name(space.owner)


def check_no_symlink(root: Path, path: Path) -> Path:
    """The path, unless a link below the store's folder leads elsewhere: to other people's files, or out of it."""
    if is_behind_link(root, path):
        raise StorageError(f"{path} is behind a link; files below {root} are read and written in their own place only")
    return path


def is_behind_link(root: Path, path: Path) -> bool:
    return _has_symlink(str(root), str(path))


def _has_symlink(root: str, path: str) -> bool:
    if sys.platform == "win32":  # junctions are links too, and only the resolved path tells
        wanted = os.path.join(os.path.realpath(root), os.path.relpath(path, root))
        return os.path.normcase(os.path.realpath(path)) != os.path.normcase(wanted)
    # Every prompt asks this of each file: a few looks at names, where resolving the whole path costs ten times that.
    while len(path) > len(root):
        if os.path.islink(path):
            return True
        path = os.path.dirname(path)
    return False


def _escape(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02x}" for byte in found.group().encode())
