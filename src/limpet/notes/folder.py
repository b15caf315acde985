"""The folder that the settings give to a store on a server, which has none of its own.

Both sides know a mark. A folder with the files of another store, or of this one before it got another folder, would
be taken for edits of people: it is refused.
"""

from __future__ import annotations

from pathlib import Path

from limpet.errors import ConfigError
from limpet.store.files import lock_file, make_folder, read_bytes, write_atomic
from limpet.store.store import Store
from limpet.store.tx import Tx

_PROPERTY = "notes_folder"
MARK = "limpet-store.id"
_FILES = "memory"


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
    """Whether the folder is this store's."""
    marked = (read_bytes(folder / MARK) or b"").decode(errors="replace").strip()
    return bool(marked) and store.read(_find_mark) == marked


def unbind_folder(store: Store) -> None:
    """A copy of a store has no folder: that is the first one's."""
    if store.read(_find_mark):
        _set_mark(store, "")


def _set_mark(store: Store, mark: str) -> None:
    store.write(lambda tx: tx.db.run("properties.set", {"name": _PROPERTY, "value": mark}))


def _find_mark(tx: Tx) -> str | None:
    row = tx.db.one("properties.get", {"name": _PROPERTY})
    return None if row is None else str(row[0])
