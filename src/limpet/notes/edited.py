"""Files that people edit while a program writes them: no edit is lost.

Programs take turns by a lock; editors take none. So what a program writes is worked out from what the file holds, and
looked at again in the last moment before the file is replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from limpet.errors import StorageError, StoreBusy
from limpet.store.atomic_files import check_no_symlink, lock_file, make_folder, read_bytes, write_atomic

log = logging.getLogger("limpet.notes")

_TRIES = 20
_MOST_COPIES = 1000


class EditConflict(Exception):
    """Somebody saved the file meanwhile."""


def read_file(root: Path, path: Path, most: int) -> bytes:
    """The file's bytes, none where there is no file. StorageError for more than ``most`` of them."""
    check_no_symlink(root, path)
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}; check the path and its permissions") from error
    if size > most:
        raise StorageError(f"{path} is {size:,} bytes long; the limit is {most:,}: shorten it, or raise the setting")
    return read_bytes(path) or b""


def decode_text(path: Path, data: bytes) -> str:
    """What a person sees. Bytes that are no text are shown as U+FFFD, and reported."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        log.warning("%s is not UTF-8 at byte %d; what cannot be read is shown as \ufffd", path, error.start)
        text = data.decode("utf-8-sig", errors="replace")
    return text.replace("\x00", "\ufffd")


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\x00" not in data


@contextmanager
def lock_notes_file(root: Path, path: Path) -> Iterator[None]:
    """Hold the file alone among programs; its folder is there then."""
    for place in (path, path.with_name(f"{path.name}.lock")):
        check_no_symlink(root, place)
    make_folder(path.parent)
    with lock_file(path):
        yield


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> bytes:
    """Replace the file by what ``change`` makes of it, again if it was saved meanwhile. While it is held."""
    for _ in range(_TRIES):
        before = read_bytes(path) or b""
        after = change(before)
        if after == before:
            return after
        try:
            write_atomic(path, after, make_unchanged_check(path, before))
        except EditConflict:
            continue
        return after
    raise StoreBusy(f"{path} is saved again and again by another program; try again later")


def save_conflict_copy(path: Path, data: bytes) -> Path:
    """Put the bytes beside the file as ``<name>.conflict``, or ``.conflict.2`` and so on: no copy is overwritten."""
    for number in range(1, _MOST_COPIES):
        copy = path.with_name(f"{path.name}.conflict" + (f".{number}" if number > 1 else ""))
        if copy.is_symlink():
            continue
        there = read_bytes(copy)
        if there is None:
            write_atomic(copy, data)
        if there is None or there == data:
            return copy
    raise StorageError(f"there are {_MOST_COPIES:,} conflict copies beside {path}; look through them and remove some")


def make_unchanged_check(path: Path, before: bytes) -> Callable[[], None]:
    """The last look of a write: FileChanged where the file is no longer what was read."""

    def check() -> None:
        if (read_bytes(path) or b"") != before:
            raise EditConflict

    return check
