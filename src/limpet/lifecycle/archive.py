"""An export as one file, and imports from one, for callers without a folder on this machine."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, BinaryIO
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo, is_zipfile

from limpet.documents.files import printable_path
from limpet.errors import InvalidInput
from limpet.lifecycle.export import ExportSource, export
from limpet.lifecycle.export_folder import MANIFEST, names_format
from limpet.model.scope import Scope
from limpet.model.telemetry import Progress
from limpet.model.transfer import ExportResult
from limpet.store.atomic_files import translate_errors

_SLICE = 1 << 20
_MAX_UNPACKED = 16 << 30
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+|^\.+")
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # two archives of the same memory are the same bytes


def write_archive(sources: Sequence[ExportSource], scope: Scope, file: BinaryIO, progress: Progress) -> ExportResult:
    with TemporaryDirectory(prefix="limpet-") as place:
        folder = Path(place, "export")
        done = export(sources, scope, folder, progress)
        with translate_errors(folder, "pack"), ZipFile(file, "w") as packed:
            for each in sorted(path for path in folder.rglob("*") if path.is_file()):
                entry = ZipInfo(each.relative_to(folder).as_posix(), _ZIP_EPOCH)
                entry.compress_type = ZIP_DEFLATED
                with each.open("rb") as source, packed.open(entry, "w", force_zip64=True) as into:
                    while piece := source.read(_SLICE):
                        into.write(piece)
    return replace(done, path="")


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
            while piece := file.read(_SLICE):
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
