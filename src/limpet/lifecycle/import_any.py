"""One entry for every import: the format of a path is detected, and the importer for it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

from limpet.config import Config
from limpet.documents.add import DocumentIngester
from limpet.lifecycle.archive import is_archive, open_archive
from limpet.lifecycle.export import AGENTS
from limpet.lifecycle.export_folder import FORMAT, is_export
from limpet.lifecycle.formats.detect import AUTO, SNAPSHOT, checked_format, detect
from limpet.lifecycle.formats.source import ImportSource
from limpet.lifecycle.import_export import ExportImporter, read_target
from limpet.lifecycle.import_foreign import ForeignImporter
from limpet.lifecycle.import_snapshot import SnapshotImporter
from limpet.model.dataclass import dataclass
from limpet.model.scope import Scope
from limpet.model.telemetry import Progress
from limpet.model.transfer import ImportResult
from limpet.model.values import Clock
from limpet.notes.user_notes import UserNotes
from limpet.search.embed import ChunkEmbedder
from limpet.store.store import Store


@dataclass(frozen=True, slots=True)
class Importer:
    store: Store
    config: Config
    notes: UserNotes
    documents: DocumentIngester
    snapshots: SnapshotImporter
    embedder: ChunkEmbedder
    clock: Clock

    def import_path(
        self,
        scope: Scope,
        path: str,
        format: str,
        progress: Progress,
        find_importer: Callable[[str], Importer | None] = lambda _folder: None,
        *,
        learn: bool,
        dry_run: bool,
    ) -> ImportResult:
        """``find_importer``: of an agent's folder in an export, the importer of its own store here, if it has one."""
        learns = learn and self.config.learn.enabled and not dry_run
        place, wanted = Path(path).expanduser(), checked_format(format)
        if wanted in (AUTO, FORMAT) and is_archive(place):
            with open_archive(place) as folder:
                return self._import_all(folder, scope, progress, find_importer, dry_run=dry_run)
        if wanted == FORMAT or (wanted == AUTO and is_export(place)):
            return self._import_all(place, scope, progress, find_importer, dry_run=dry_run)
        source = ImportSource.of(place)
        kind = detect(source) if wanted == AUTO else wanted
        if kind == SNAPSHOT:
            return self.snapshots.import_file(scope, place, learn=learns, dry_run=dry_run)
        importer = ForeignImporter(
            self.store, self.config, self.documents, self.embedder, scope, kind, self.clock(), dry_run, learns
        )
        return importer.run(source, progress)

    def _import_all(
        self,
        folder: Path,
        scope: Scope,
        progress: Progress,
        find_importer: Callable[[str], Importer | None],
        *,
        dry_run: bool,
    ) -> ImportResult:
        """An export, and those of agents below it: each into its own store, or into this one where it has none."""
        done = self._import_export(folder, scope, progress, dry_run=dry_run)
        for part in sorted(path for path in (folder / AGENTS).glob("*") if is_export(path)):
            importer = find_importer(part.name) or self
            done = _merge(done, importer._import_export(part, scope, progress, dry_run=dry_run))  # noqa: SLF001 - ours
        return done

    def _import_export(self, folder: Path, scope: Scope, progress: Progress, *, dry_run: bool) -> ImportResult:
        manifest, into, key = read_target(folder, self.config, scope.tenant, scope.user)
        importer = ExportImporter(
            self.store, self.notes, self.embedder, self.clock, folder, manifest, into, key, progress
        )
        return importer.run(dry_run=dry_run)


def _merge(one: ImportResult, other: ImportResult) -> ImportResult:
    totals = {
        each.name: getattr(one, each.name) + getattr(other, each.name)
        for each in fields(one)
        if type(getattr(one, each.name)) in (int, tuple)
    }
    added = sum(totals[name] for name in ("sessions", "messages", "records", "documents", "files", "schedules"))
    return replace(one, **totals, already=(one.already or other.already) and not added)
