"""One way in for everything: what a path holds is found out, and taken in the way its format wants."""

from __future__ import annotations

from pathlib import Path

from limpet.api.runtime import Runtime
from limpet.lifecycle import import_snapshot
from limpet.lifecycle.archive import is_archive, open_archive
from limpet.lifecycle.export_folder import FORMAT, is_export
from limpet.lifecycle.formats.detect import AUTO, SNAPSHOT, checked_format, detect
from limpet.lifecycle.formats.source import ImportSource
from limpet.lifecycle.import_export import ExportImporter
from limpet.lifecycle.import_foreign import ForeignImporter
from limpet.model.scope import Scope
from limpet.model.telemetry import Progress
from limpet.model.transfer import ImportResult


def import_path(
    runtime: Runtime, scope: Scope, path: str, format: str, progress: Progress, *, dry_run: bool
) -> ImportResult:
    place, wanted = Path(path).expanduser(), checked_format(format)
    if wanted in (AUTO, FORMAT) and is_archive(place):
        with open_archive(place) as folder:
            return ExportImporter.of(runtime, scope.tenant, folder, scope.user, progress).run(dry_run=dry_run)
    if wanted == FORMAT or (wanted == AUTO and is_export(place)):
        return ExportImporter.of(runtime, scope.tenant, place, scope.user, progress).run(dry_run=dry_run)
    source = ImportSource.of(place)
    kind = detect(source) if wanted == AUTO else wanted
    if kind == SNAPSHOT:
        return import_snapshot.import_file(runtime, scope, place, dry_run=dry_run)
    return ForeignImporter(runtime, scope, kind, runtime.clock(), dry_run).run(source, progress)
