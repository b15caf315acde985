"""The folder an export is: ``manifest.json``, a file of JSON lines for each kind, and what people read.

Nothing in it says when it was made or where, so that two exports of the same memory are the same bytes. A folder gets
its name when it is whole; until then it is called ``NAME.unfinished``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, BinaryIO, NamedTuple, Self
from zipfile import BadZipFile, ZipFile, is_zipfile

from limpet.documents.files import printable_path
from limpet.errors import InvalidInput, StorageError
from limpet.model.dataclass import dataclass
from limpet.model.note import check_note_name
from limpet.model.scope import Level, Partition
from limpet.model.values import check_choice, check_id, check_name, check_number
from limpet.sessions.files import list_folder
from limpet.store.files import (
    check_no_symlink,
    folder_name,
    format_json_file,
    is_bookkeeping,
    make_folder,
    make_private_folders,
    open_private,
    parse_json_file,
    sync_folder,
    translate_errors,
)

FORMAT, VERSION = "limpet-export", 1
OLD_FORMAT = "holdfast-export"  # the same format, by the name the project had before
MANIFEST = "manifest.json"
LATER_KINDS = ("notes",)  # exports that are older than these have none
UNFINISHED = ".unfinished"
DATA = "data"
MAX_LINE_BYTES = 268_435_456  # no message, record or value is as long as that
_MAX_MANIFEST_BYTES = 1_048_576
_PIECE = 1_048_576
_MAX_UNPACKED = 16 << 30
_MAX_NAME = 255
_FILES = "files"
FILE_FIELDS = {
    "session_id": "the session in whose folder it lies",
    "name": "what it is called",
    "bytes": "how long it is",
    "sha256": "its SHA-256",
}
_NOTE_FIELDS = {"level", "owner", "name", "bytes", "sha256"}
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+|^\.+")


class ExportLine(NamedTuple):
    """A line's number, from 1; where in the file the next one begins; its object."""

    number: int
    end: int
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DataFile:
    """What the manifest says of a file of lines."""

    lines: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    user: str | None  # whose memory it is; None for a whole tenant's
    files: Mapping[str, DataFile] = field(default_factory=dict)  # by kind

    def count(self, kind: str) -> int:
        return self.files[kind].lines if kind in self.files else 0

    def as_bytes(self) -> bytes:
        files = [
            {"path": f"{DATA}/{kind}.jsonl", "lines": file.lines, "bytes": file.bytes, "sha256": file.sha256}
            for kind, file in self.files.items()
        ]
        return format_json_file({"format": FORMAT, "version": VERSION, "user": self.user, "files": files})


def names_format(text: bytes) -> bool:
    return FORMAT.encode() in text or OLD_FORMAT.encode() in text


def is_export(path: Path) -> bool:
    """Whether it is a folder that says so of itself; whether it is whole is another question."""
    try:
        with open(path / MANIFEST, "rb") as file:
            return names_format(file.read(4096))
    except OSError:
        return False


def read_manifest(folder: Path, kinds: tuple[str, ...]) -> tuple[Manifest, str]:
    """With the digest by which the whole export is known: it has those of all files in it."""
    try:
        with open(folder / MANIFEST, "rb") as file:
            data = file.read(_MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{folder / MANIFEST} cannot be read: {error.strerror}") from error
    try:
        if len(data) > _MAX_MANIFEST_BYTES:
            raise InvalidInput(f"it is longer than {_MAX_MANIFEST_BYTES:,} bytes")
        return _parse_manifest(parse_json_file(data), kinds), hashlib.sha256(data).hexdigest()
    except ValueError as error:
        raise InvalidInput(f"{MANIFEST}: {error}") from None


def _parse_manifest(value: object, kinds: tuple[str, ...]) -> Manifest:
    if not isinstance(value, dict) or value.get("format") not in (FORMAT, OLD_FORMAT):
        raise InvalidInput(f"it is not the manifest of a {FORMAT}")
    if value.get("version") != VERSION:
        raise InvalidInput(f"this release reads version {VERSION} of {FORMAT}, not {value.get('version')!r}")
    user, files = value.get("user"), value.get("files")
    if (user is not None and not isinstance(user, str)) or not isinstance(files, list):
        raise InvalidInput("user must be text or null, and files a list")
    known = {f"{DATA}/{kind}.jsonl": kind for kind in kinds}
    found: dict[str, DataFile] = {}
    for entry in files:
        # Only names that are known are ever opened: a path in a file leads nowhere.
        path = entry.get("path") if isinstance(entry, dict) else None
        if not isinstance(path, str) or path not in known or known[path] in found:
            raise InvalidInput(f"files: {str(path)[:80]!r} is unknown to this release, or there twice")
        digest = entry.get("sha256")
        if not isinstance(digest, str) or len(digest) != 64:
            raise InvalidInput(f"{path}: sha256 is no SHA-256 in hexadecimal")
        lines, size = check_number(entry.get("lines"), "lines"), check_number(entry.get("bytes"), "bytes")
        found[known[path]] = DataFile(lines, size, digest)
    if missing := [kind for kind in kinds if kind not in found and kind not in LATER_KINDS]:
        raise InvalidInput(f"files: {', '.join(missing)} is missing")
    return Manifest(user, found)


def read_lines(folder: Path, kind: str, expected: DataFile) -> Iterator[ExportLine]:
    """Every line, checked as it is read; at the end InvalidInput if the file differs from the manifest."""
    name, digest, end = f"{DATA}/{kind}.jsonl", hashlib.sha256(), 0
    with open_data_file(folder, kind) as file:
        for number, raw in enumerate(_raw_lines(file, name, 1), start=1):
            digest.update(raw)
            end += len(raw)
            if number > expected.lines:
                break
            yield ExportLine(number, end, parse_line(raw, name, number))
        else:
            number = 0 if not end else number
        if number != expected.lines or end != expected.bytes or digest.hexdigest() != expected.sha256:
            raise InvalidInput(
                f"{name} is not what {MANIFEST} says it is: {expected.lines:,} lines and {expected.bytes:,} bytes with "
                f"the SHA-256 {expected.sha256[:12]}… It was cut off or edited; export again, or fetch it again"
            )


def resume_lines(folder: Path, kind: str, line: int, offset: int) -> Iterator[ExportLine]:
    """The lines behind one that was read before, of a file that was checked."""
    name = f"{DATA}/{kind}.jsonl"
    with open_data_file(folder, kind) as file:
        file.seek(offset)
        for number, raw in enumerate(_raw_lines(file, name, line + 1), start=line + 1):
            offset += len(raw)
            yield ExportLine(number, offset, parse_line(raw, name, number))


def open_data_file(folder: Path, kind: str) -> BinaryIO:
    path = folder / DATA / f"{kind}.jsonl"
    try:
        if path.is_symlink() or path.parent.is_symlink():
            raise InvalidInput(f"{path} is a link; an export has none")
        return open(path, "rb")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error


def _raw_lines(file: BinaryIO, name: str, first: int) -> Iterator[bytes]:
    number = first
    while raw := file.readline(MAX_LINE_BYTES + 1):
        if len(raw) > MAX_LINE_BYTES:
            raise InvalidInput(f"{name}, line {number}: it is longer than {MAX_LINE_BYTES:,} bytes")
        yield raw
        number += 1


def parse_line(raw: bytes, name: str, number: int) -> dict[str, Any]:
    try:
        value = parse_json_file(raw)
    except ValueError as error:
        raise InvalidInput(f"{name}, line {number}: it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{name}, line {number}: a line is an object, not {type(value).__name__}")
    return value


class LineWriter:
    """A file of lines that knows its own digest."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_private(path, "wb", buffering=_PIECE)  # closed by __exit__
        self._digest = hashlib.sha256()
        self.lines = self.bytes = 0

    def write(self, value: Mapping[str, Any]) -> None:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        raw = text.encode() + b"\n"
        if len(raw) > MAX_LINE_BYTES:
            raise StorageError(f"{self._path.name}: one line would be {len(raw):,} bytes long; nothing was exported")
        self._file.write(raw)
        self._digest.update(raw)
        self.lines += 1
        self.bytes += len(raw)

    def to_data_file(self) -> DataFile:
        return DataFile(self.lines, self.bytes, self._digest.hexdigest())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()


@contextmanager
def create_folder(target: Path) -> Iterator[Path]:
    """A folder that appears whole or not at all. What an interrupted call left is removed by the next one."""
    path = target.with_name(target.name + UNFINISHED)
    with translate_errors(target, "write"):
        if target.is_symlink() or target.is_file():
            raise InvalidInput(f"{target} is not a folder; name a new one")
        if target.exists() and any(target.iterdir()):
            raise InvalidInput(f"{target} exists and is not empty; name a new folder")
        if path.is_symlink() or path.is_file():
            raise InvalidInput(f"{path} is in the way; remove it")
        if path.exists():
            shutil.rmtree(path)
        make_folder(path)
    try:
        yield path
    except BaseException:  # why: whatever it was, nothing half written stays; it goes on as it came
        shutil.rmtree(path, ignore_errors=True)
        raise
    with translate_errors(target, "write"):
        sync_folder(path)
        if target.exists():
            target.rmdir()
        os.replace(path, target)
        sync_folder(target.parent)


# The same as one file, and imports from one, for callers without a folder on this machine.


def is_archive(path: Path) -> bool:
    """Whether it is a zip that says so of itself; whether it is whole is another question."""
    try:
        if not (path.is_file() and is_zipfile(path)):
            return False
        with ZipFile(path) as packed, packed.open(MANIFEST) as manifest:
            return names_format(manifest.read(4096))
    except (OSError, KeyError, RuntimeError, NotImplementedError, BadZipFile, zlib.error):
        return False


@contextmanager
def copy_to_disk(file: IO[bytes], most: int) -> Iterator[Path]:
    """What a file that somebody opened holds, as a file of ours for as long as it is read.

    Raises InvalidInput for one that is longer than ``most`` bytes, or would fill the disk when it is unpacked.
    """
    with TemporaryDirectory(prefix="limpet-") as folder:
        path = Path(folder, _copy_name(file))
        with translate_errors(path, "copy"), path.open("wb") as copy:
            while piece := file.read(_PIECE):
                if not isinstance(piece, bytes):
                    raise InvalidInput("file must be a binary file; open it with mode 'rb'")
                if copy.tell() + len(piece) > most:
                    raise InvalidInput(
                        f"the file is longer than {most:,} bytes, the limit of server.max_import_bytes;"
                        " raise it, or import a path"
                    )
                copy.write(piece)
        _check_unpacked_size(path)
        yield path


def _copy_name(file: IO[bytes]) -> str:
    """Of its own name the part that may say its format."""
    name = getattr(file, "name", None)
    safe = _UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]) if isinstance(name, str) else ""
    return safe[-100:] or "import"


def _check_unpacked_size(path: Path) -> None:
    try:
        if not is_zipfile(path):
            return
        with ZipFile(path) as packed:
            size = sum(entry.file_size for entry in packed.infolist())
    except (OSError, BadZipFile) as error:
        raise InvalidInput(f"the file cannot be read as a zip: {error}") from error
    if size > _MAX_UNPACKED:
        raise InvalidInput(f"unpacked, the file is {size:,} bytes long; the limit is {_MAX_UNPACKED:,}")


@contextmanager
def open_archive(path: Path) -> Iterator[Path]:
    """As the folder it was made of, for as long as it is read."""
    with TemporaryDirectory(prefix="limpet-") as place:
        folder = Path(place, "export")
        try:
            with translate_errors(folder, "unpack"), ZipFile(path) as packed:
                packed.extractall(folder)  # which leaves nothing outside the folder, whatever names are in it
        except (EOFError, RuntimeError, NotImplementedError, BadZipFile, zlib.error) as error:
            raise InvalidInput(f"{printable_path(str(path))} cannot be unpacked: {error}") from error
        yield folder


# Files that go along as they are: what lies in the folders of sessions.


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
            return f"{_FILES}/sessions/{self.session_id}/{self.name}"
        owner = folder_name(self.space.owner) if self.space.owner else "everyone"
        return f"{_FILES}/{self.space.level.value}/{owner}/{self.name}"


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


def parse_file_line(value: Mapping[str, Any], tenant: str) -> ExportFile:
    of_note = "level" in value
    if unknown := value.keys() - (_NOTE_FIELDS if of_note else FILE_FIELDS.keys()):
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
        if not path.is_file() or path.stat().st_size != file.bytes or _hash_file(path) != file.sha256:
            raise InvalidInput(f"{file.path} is missing, or is not what data/files.jsonl says it is")
    except OSError as error:
        raise InvalidInput(f"{file.path} cannot be read: {error.strerror}") from error
    return path


def _hash_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_file_name(value: object) -> str:
    name = check_name(value, "name", max_bytes=_MAX_NAME)
    if name in (".", "..") or any(mark in name for mark in '/\\:*?"<>|') or is_bookkeeping(name):
        raise InvalidInput(f"name: {name[:80]!r} is not a plain file name")
    return name
