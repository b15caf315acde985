"""Files and folders that only their owner can read, from the moment they exist."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any

FOLDER_MODE, FILE_MODE = 0o700, 0o600

_creating = Lock()


def make_private_folders(folder: Path) -> list[Path]:
    """Create the folder and its missing parents, outermost first. Returns those that were missing."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()][::-1]
    for place in missing:
        place.mkdir(FOLDER_MODE, exist_ok=True)
    if not missing and not folder.is_dir():
        folder.mkdir()  # raises: something else has the name
    return missing


def open_private(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Like ``open``. A file that exists keeps its mode."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, FILE_MODE), **options)


def create_private_file(path: str) -> None:
    """Create an empty file for SQLite, which gives its log the mode of the database. One that exists stays as it is.

    The lock ensures that no thread has opened the database before the descriptor is closed here: closing one drops all
    locks that this process holds on the file. What cannot be created is left to SQLite, which says why.
    """
    with _creating, suppress(OSError):
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE))


def make_tree_private(folder: Path) -> None:
    """For files that another library has written below a private folder."""
    for place, folders, files in os.walk(folder):
        for name in folders:
            os.chmod(os.path.join(place, name), FOLDER_MODE)
        for name in files:
            os.chmod(os.path.join(place, name), FILE_MODE)


def find_readable_by_others(paths: Sequence[str]) -> Iterator[str]:
    """The paths that every account of this machine can read, because their folder lets them in too."""
    if os.name == "nt":
        return
    for path in paths:
        with suppress(OSError):
            folder = os.stat(os.path.dirname(os.path.abspath(path))).st_mode
            if folder & stat.S_IXOTH and os.stat(path).st_mode & stat.S_IROTH:
                yield path
