"""Files that go along with an export as they are: MEMORY.md, daily notes, what lies in the folders of sessions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from limpet.errors import InvalidInput, StorageError
from limpet.lifecycle.export_folder import hash_file
from limpet.model.dataclass import dataclass
from limpet.model.scope import Level, Partition
from limpet.model.values import check_choice, check_id, check_name, check_number
from limpet.notes.user_notes import MEMORY_FILE
from limpet.sessions.files import list_folder
from limpet.store.files import (
    check_no_symlink,
    folder_name,
    is_bookkeeping,
    make_private_folders,
    open_private,
    owner_folder,
    translate_errors,
)

FOLDER = "files"
FIELDS = {
    "level": "whose it is, if not a session's: a `user`'s, an `agent`'s, or `global`, the whole tenant's",
    "owner": "the user or the agent",
    "session_id": "or the session in whose folder it lies",
    "name": "what it is called",
    "bytes": "how long it is",
    "sha256": "its SHA-256",
}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.md")
_PIECE = 1_048_576
_MAX_NAME = 255


@dataclass(frozen=True, slots=True)
class ExportFile:
    """``space`` or ``session_id`` says whose it is."""

    name: str
    space: Partition | None = None
    session_id: str | None = None
    bytes: int = 0
    sha256: str = ""

    @property
    def path(self) -> str:
        """Where it is in an export: made of what is said of it, never taken from a file."""
        if self.space is None:
            return f"{FOLDER}/sessions/{self.session_id}/{self.name}"
        owner = folder_name(self.space.owner) if self.space.owner else "everyone"
        return f"{FOLDER}/{self.space.level.value}/{owner}/{self.name}"

    def to_line(self) -> dict[str, Any]:
        whose: dict[str, Any] = {"session_id": self.session_id}
        if self.space is not None:
            whose = {"level": self.space.level.value, "owner": self.space.owner}
        return {**whose, "name": self.name, "bytes": self.bytes, "sha256": self.sha256}


def iter_owner_files(root: Path, space: Partition) -> Iterator[tuple[ExportFile, Path]]:
    folder = check_no_symlink(root, owner_folder(root, space))
    for info in list_folder(folder):
        if info.name == MEMORY_FILE or _DAY.fullmatch(info.name):
            yield ExportFile(info.name, space), folder / info.name


def iter_session_files(folder: Path, session_id: str) -> Iterator[tuple[ExportFile, Path]]:
    for info in list_folder(folder):
        try:
            yield ExportFile(_check_file_name(info.name), session_id=session_id), folder / info.name
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
    if unknown := value.keys() - FIELDS.keys():
        raise InvalidInput(f"files have no {', '.join(sorted(map(repr, unknown)))[:200]}")
    size, digest = check_number(value.get("bytes"), "bytes"), value.get("sha256")
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise InvalidInput("sha256 is not a SHA-256 in hexadecimal")
    name = _check_file_name(value.get("name"))
    if value.get("session_id") is not None:
        return ExportFile(name, None, check_id(value["session_id"], "session_id"), size, digest)
    level = check_choice(Level, value.get("level"), "level")
    owner = "" if level is Level.GLOBAL else check_name(value.get("owner"), "owner")
    if level is Level.SESSION or not (name == MEMORY_FILE or _DAY.fullmatch(name)):
        raise InvalidInput(f"name: {MEMORY_FILE} or a day's notes such as 2026-03-10.md, not {name[:80]!r}")
    return ExportFile(name, Partition(tenant, level, owner), None, size, digest)


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
