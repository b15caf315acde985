"""Files that go along with an export as they are: what lies in the folders of sessions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from limpet.errors import InvalidInput, StorageError
from limpet.lifecycle.export_folder import hash_file
from limpet.model.dataclass import dataclass
from limpet.model.note import check_note_name
from limpet.model.scope import Level, Partition
from limpet.model.values import check_choice, check_id, check_name, check_number
from limpet.sessions.files import list_folder
from limpet.store.files import (
    check_no_symlink,
    folder_name,
    is_bookkeeping,
    make_private_folders,
    open_private,
    translate_errors,
)

FOLDER = "files"
FIELDS = {
    "session_id": "the session in whose folder it lies",
    "name": "what it is called",
    "bytes": "how long it is",
    "sha256": "its SHA-256",
}
_NOTE_FIELDS = {"level", "owner", "name", "bytes", "sha256"}
_PIECE = 1_048_576
_MAX_NAME = 255


@dataclass(frozen=True, slots=True)
class ExportFile:
    session_id: str
    name: str
    bytes: int = 0
    sha256: str = ""
    space: Partition | None = None  # whose note it is, in an export that is older than notes in the store

    @property
    def path(self) -> str:
        """Where it is in an export: made of what is said of it, never taken from a file."""
        if self.space is None:
            return f"{FOLDER}/sessions/{self.session_id}/{self.name}"
        owner = folder_name(self.space.owner) if self.space.owner else "everyone"
        return f"{FOLDER}/{self.space.level.value}/{owner}/{self.name}"

    def to_line(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIELDS}


def iter_session_files(folder: Path, session_id: str) -> Iterator[tuple[ExportFile, Path]]:
    for info in list_folder(folder):
        try:
            yield ExportFile(session_id, _check_file_name(info.name)), folder / info.name
        except InvalidInput as error:
            raise StorageError(f"{folder} has a file that cannot be exported; rename it: {error}") from None


def copy_file(source: Path, target: Path) -> tuple[int, str]:
    """How long it was while it was read, and its SHA-256."""
    digest, size = hashlib.sha256(), 0
    with translate_errors(target, "copy to"):
        make_private_folders(target.parent)
        with open(source, "rb") as reading, open_private(target, "wb") as writing:
            while piece := reading.read(_PIECE):
                digest.update(piece)
                size += writing.write(piece)
    return size, digest.hexdigest()


def parse_line(value: Mapping[str, Any], tenant: str) -> ExportFile:
    of_note = "level" in value
    if unknown := value.keys() - (_NOTE_FIELDS if of_note else FIELDS.keys()):
        raise InvalidInput(f"files have no {', '.join(sorted(map(repr, unknown)))[:200]}")
    size, digest = check_number(value.get("bytes"), "bytes"), value.get("sha256")
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise InvalidInput("sha256 is not a SHA-256 in hexadecimal")
    name = _check_file_name(value.get("name"))
    if not of_note:
        return ExportFile(check_id(value.get("session_id"), "session_id"), name, size, digest)
    level = check_choice(Level, value["level"], "level")
    owner = "" if level is Level.GLOBAL else check_name(value.get("owner"), "owner")
    return ExportFile("", check_note_name(name), size, digest, Partition(tenant, level, owner))


def verify_copy(folder: Path, file: ExportFile) -> Path:
    """The file in the export, if it is what its line says."""
    path = folder / file.path
    try:
        check_no_symlink(folder, path)
        if not path.is_file() or path.stat().st_size != file.bytes or hash_file(path)[1] != file.sha256:
            raise InvalidInput(f"{file.path} is missing, or is not what data/files.jsonl says it is")
    except OSError as error:
        raise InvalidInput(f"{file.path} cannot be read: {error.strerror}") from error
    return path


def _check_file_name(value: object) -> str:
    name = check_name(value, "name", max_bytes=_MAX_NAME)
    if name in (".", "..") or any(mark in name for mark in '/\\:*?"<>|') or is_bookkeeping(name):
        raise InvalidInput(f"name: {name[:80]!r} is not a plain file name")
    return name
