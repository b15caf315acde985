"""What lies in a session's folder."""

from __future__ import annotations

import os
from pathlib import Path

from limpet.errors import StorageError
from limpet.model.session import FileInfo
from limpet.model.values import from_micros
from limpet.store.atomic_files import is_bookkeeping


def session_folder(root: Path, session_id: str) -> Path:
    """Where a session's own files are, below the store's folder."""
    return root / "sessions" / session_id


def list_folder(folder: Path) -> list[FileInfo]:
    """The plain files directly inside, by name. Links are left out: they may lead to another user's files."""
    try:
        with os.scandir(folder) as entries:
            found = [_describe(entry) for entry in entries if not is_bookkeeping(entry.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"cannot list {folder}: {error.strerror}; check the path and its permissions") from error
    return sorted((info for info in found if info), key=lambda info: info.name)


def _describe(entry: os.DirEntry[str]) -> FileInfo | None:
    try:
        if not entry.is_file(follow_symlinks=False):
            return None
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return FileInfo(entry.name, facts.st_size, from_micros(facts.st_mtime_ns // 1000))
