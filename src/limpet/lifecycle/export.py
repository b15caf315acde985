"""A user's or a tenant's whole memory as files: one consistent view of the store, a folder that appears whole.

An export that is interrupted is begun anew: the view it had of the store is gone with its transaction, and one that is
pasted together from two moments would be none.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from limpet.lifecycle import copied_files
from limpet.lifecycle.copied_files import ExportFile
from limpet.lifecycle.export_folder import DATA, MANIFEST, AtomicFolder, DataFile, LineWriter, Manifest
from limpet.lifecycle.line_kind import LineKind, iter_session_scopes
from limpet.lifecycle.lines import KINDS
from limpet.lifecycle.readable import ReadableWriter
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.scope import Level, Partition, Scope
from limpet.model.telemetry import Progress
from limpet.model.transfer import ExportResult
from limpet.sessions.files.listing import session_folder
from limpet.store.atomic_files import translate_errors
from limpet.store.private_files import make_private_folders, open_private
from limpet.store.store import Store
from limpet.store.tx import Tx

FILES = "files"
AGENTS = "agents"  # below an export: those of agents with their own stores
NAMES = (*(kind.name for kind in KINDS), FILES)
_PROGRESS_EVERY = 500


class ExportSource(NamedTuple):
    """A store, and its folder if it has one. ``agent``: the folder of the agent whose own store it is."""

    store: Store
    root: Path | None
    agent: str = ""


def export(sources: Sequence[ExportSource], scope: Scope, path: Path, progress: Progress) -> ExportResult:
    """Of the scope's user, or of its whole tenant. Own stores of agents are exports of their own, below the first."""
    counts, size = Counter[str](), 0
    with AtomicFolder(path) as folder, translate_errors(path, "write"):
        for source in sources:
            place = folder.path / AGENTS / source.agent if source.agent else folder.path
            make_private_folders(place)
            files = source.store.read(lambda tx: _write(tx, source.root, scope, place, progress))  # noqa: B023
            if source.agent and not any(file.lines for file in files.values()):
                shutil.rmtree(place)
                continue
            with open_private(place / MANIFEST, "wb") as file:
                file.write(Manifest(scope.user, files).as_bytes())
            counts.update({name: file.lines for name, file in files.items()})
            size += sum(file.bytes for file in files.values())
    return ExportResult(str(path), dict(counts), size)


def _write(tx: Tx, root: Path | None, scope: Scope, folder: Path, progress: Progress) -> dict[str, DataFile]:
    make_private_folders(folder / DATA)
    totals, files = Transfers(tx).totals(scope), {}
    with ReadableWriter(folder) as readable:
        for kind in KINDS:
            with LineWriter(folder / DATA / f"{kind.name}.jsonl") as writer:
                _write_kind(tx, scope, kind, writer, readable, totals, progress)
            files[kind.name] = writer.to_data_file()
    with LineWriter(folder / DATA / f"{FILES}.jsonl") as writer:
        for file in _copy_files(tx, root, scope, folder):
            writer.write(file.to_line())
    files[FILES] = writer.to_data_file()
    return files


def _write_kind(
    tx: Tx,
    scope: Scope,
    kind: LineKind[Any],
    writer: LineWriter,
    readable: ReadableWriter,
    totals: Mapping[str, int],
    progress: Progress,
) -> None:
    for line in map(kind.write, kind.find(tx, scope)):
        writer.write(line)
        readable.add(kind.name, line)
        if writer.lines % _PROGRESS_EVERY == 0:
            progress(kind.name, writer.lines, max(writer.lines, totals.get(kind.name, 0)))
    progress(kind.name, writer.lines, writer.lines)


def _copy_files(tx: Tx, root: Path | None, scope: Scope, folder: Path) -> Iterator[ExportFile]:
    if root is None:
        return
    for file, source in _find_files(tx, scope, root):
        size, digest = copied_files.copy_file(source, folder / file.path)
        yield replace(file, bytes=size, sha256=digest)


def _find_files(tx: Tx, scope: Scope, root: Path) -> Iterator[tuple[ExportFile, Path]]:
    own = [] if scope.user is None else [Partition(scope.tenant, Level.USER, scope.user)]
    for space in own or Transfers(tx).find_partitions(scope):
        yield from copied_files.iter_owner_files(root, space)
    for one in iter_session_scopes(tx, scope):
        yield from copied_files.iter_session_files(session_folder(root, str(one.session)), str(one.session))
