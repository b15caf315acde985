"""An export as one file, for whoever has no folder on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from holdfast.domain.moving import ExportedFolder
from holdfast.domain.scope import Scope
from holdfast.files.atomic import translated
from holdfast.moving.export import export
from holdfast.runtime import Runtime
from holdfast.storage.base import Progress

_THEN = (1980, 1, 1, 0, 0, 0)  # two archives of the same memory are the same bytes


def archive(runtime: Runtime, scope: Scope, file: BinaryIO, progress: Progress) -> ExportedFolder:
    with TemporaryDirectory(prefix="holdfast-") as place:
        folder = Path(place, "export")
        done = export(runtime, scope, folder, progress)
        with translated(folder, "pack"), ZipFile(file, "w") as packed:
            for each in sorted(path for path in folder.rglob("*") if path.is_file()):
                entry = ZipInfo(each.relative_to(folder).as_posix(), _THEN)
                entry.compress_type = ZIP_DEFLATED
                with each.open("rb") as source, packed.open(entry, "w", force_zip64=True) as into:
                    while piece := source.read(1 << 20):
                        into.write(piece)
    return replace(done, path="")
