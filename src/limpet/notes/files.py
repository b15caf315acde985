"""Files that people edit while a program writes them. No edit is lost.

Programs take turns by a lock; editors take none. So a file is compared once more before it is replaced.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from limpet.errors import ConfigError, StorageError, StoreBusy
from limpet.model.dataclass import dataclass
from limpet.model.note import is_note
from limpet.store.files import (
    check_no_symlink,
    is_behind_link,
    lock_file,
    make_folder,
    read_bytes,
    translate_errors,
    write_atomic,
)
from limpet.store.store import Store

log = logging.getLogger("limpet.notes")

MAX_TRIES = 20
_LOCK = "notes"
_MAX_COPIES = 1000
_PROPERTY = "notes_folder"
MARK = "limpet-store.id"
_FILES = "memory"


class EditConflict(Exception):
    """The file was saved by another program in the meantime."""


@dataclass(frozen=True, slots=True)
class NoteFiles:
    """The notes of one owner as files."""

    root: Path
    folder: Path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the owner's notes among programs, and create their folder."""
        with lock_notes_file(self.root, self.folder / _LOCK):
            for name in os.listdir(self.folder):  # what a killed writer left: it may say what was forgotten since
                if name.startswith(".") and name.endswith(".tmp"):
                    (self.folder / name).unlink(missing_ok=True)
            yield

    def find_present(self, names: Collection[str]) -> Collection[str]:
        """Those of the names that a file may have: reading one that it has not costs more than this."""
        if is_behind_link(self.root, self.folder):
            return names  # reading says what is wrong
        try:
            return frozenset(os.listdir(self.folder)).intersection(names)
        except FileNotFoundError:
            return ()
        except OSError:
            return names

    def list_names(self) -> list[str]:
        check_no_symlink(self.root, self.folder)
        try:
            return sorted(filter(is_note, os.listdir(self.folder)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str, most: int) -> str | None:
        """The text of a file, None if there is none. Bytes that are not UTF-8 become U+FFFD."""
        data = read_file(self.root, self.folder / name, most)
        return None if data is None else _decode_text(self.folder / name, data)

    def write(self, name: str, text: str, before: str | None) -> Path | None:
        """Replace a locked file that said ``before``. Raises EditConflict if it says anything else by now.

        Returns the copy of the file, if it had bytes that no text can say.
        """
        path = check_no_symlink(self.root, self.folder / name)
        data = read_bytes(path)
        if (None if data is None else _decode_text(path, data)) != before:
            raise EditConflict
        copy = self.save_copy(name, data) if data is not None and not _is_text(data) else None
        write_atomic(path, text.encode(), make_unchanged_check(path, data or b""), lasting=False)
        return copy

    def save_copy(self, name: str, data: bytes) -> Path:
        """Write the bytes beside the file as ``<name>.conflict``, ``.conflict.2`` and so on, without overwriting."""
        for number in range(1, _MAX_COPIES):
            copy = self.folder / (f"{name}.conflict" + (f".{number}" if number > 1 else ""))
            if copy.is_symlink():
                continue
            there = read_bytes(copy)
            if there is None:
                write_atomic(copy, data)
            if there is None or there == data:
                return copy
        raise StorageError(
            f"there are {_MAX_COPIES:,} conflict copies beside {self.folder / name}; look through them and remove some"
        )

    def delete(self, names: Collection[str]) -> None:
        """Remove files with the copies beside them."""
        check_no_symlink(self.root, self.folder)
        for each in os.listdir(self.folder):
            if any(each == name or each.startswith(f"{name}.") for name in names):
                with translate_errors(self.folder / each, "remove"):
                    (self.folder / each).unlink(missing_ok=True)


def read_file(root: Path, path: Path, most: int) -> bytes | None:
    """Return the file's bytes, None if it does not exist. Raises StorageError for more than ``most``."""
    try:
        size = os.lstat(path).st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}; check the path and its permissions") from error
    check_no_symlink(root, path)
    if size > most:
        raise StorageError(f"{path} is {size:,} bytes long; the limit is {most:,}: shorten it, or raise the setting")
    return read_bytes(path)


def _decode_text(path: Path, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        log.warning("%s is not UTF-8 at byte %d; what cannot be read is shown as \ufffd", path, error.start)
        text = data.decode("utf-8-sig", errors="replace")
    return text.replace("\x00", "\ufffd")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\x00" not in data


@contextmanager
def lock_notes_file(root: Path, path: Path) -> Iterator[None]:
    """Lock the file among programs, and create its folder."""
    for place in (path, path.with_name(f"{path.name}.lock")):
        check_no_symlink(root, place)
    make_folder(path.parent)
    with lock_file(path):
        yield


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> bytes:
    """Replace the locked file by what ``change`` returns for it; try again if it was saved in the meantime."""
    for _ in range(MAX_TRIES):
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


def make_unchanged_check(path: Path, before: bytes) -> Callable[[], None]:
    """Return a check for just before the write. It raises EditConflict if the file is not what was read."""

    def check() -> None:
        if (read_bytes(path) or b"") != before:
            raise EditConflict

    return check


# The folder that the settings give to a store on a server, which has none of its own. Both sides know a mark: a folder
# with the files of another store, or of this one before it got another folder, would be taken for edits of people.


def bind_folder(store: Store, folder: Path, fresh: str) -> bool:
    """Make sure that the folder is this store's. Returns whether it is so from now on: then it has no files yet.

    ``fresh`` is the mark of a folder that has none. Raises ConfigError for a folder with other files.
    """
    make_folder(folder)
    with lock_file(folder / MARK):
        if is_bound(store, folder):
            return False
        if (folder / _FILES).exists():
            raise ConfigError(
                f"notes.folder = {str(folder)!r} has the files of another store, or of this one before it got another"
                " folder; name the store's own folder, or an empty one"
            )
        _set_mark(store, fresh)
        write_atomic(folder / MARK, f"{fresh}\n".encode())
        return True


def is_bound(store: Store, folder: Path) -> bool:
    marked = (read_bytes(folder / MARK) or b"").decode(errors="replace").strip()
    return bool(marked) and _find_mark(store) == marked


def unbind_folder(store: Store) -> None:
    """A copy of a store has no folder: that is the first one's."""
    if _find_mark(store):
        _set_mark(store, "")


def _set_mark(store: Store, mark: str) -> None:
    store.write(lambda tx: tx.db.set_property(_PROPERTY, mark))


def _find_mark(store: Store) -> str | None:
    return store.read(lambda tx: tx.db.get_property(_PROPERTY))
