"""One way in for everything: what a path holds is found out, and taken in the way its format wants."""

from __future__ import annotations

from pathlib import Path

from limpet.api.runtime import Runtime
from limpet.lifecycle import import_snapshot
from limpet.lifecycle.archive import is_archive, unpacked
from limpet.lifecycle.export_folder import FORMAT, is_export
from limpet.lifecycle.formats.detect import AUTO, SNAPSHOT, checked_format, detect
from limpet.lifecycle.formats.source import Source
from limpet.lifecycle.import_export import Restoring
from limpet.lifecycle.import_foreign import Taking
from limpet.model.scope import Scope
from limpet.model.transfer import Imported
from limpet.store.base import Progress


def take_in(runtime: Runtime, scope: Scope, path: str, format: str, progress: Progress, *, dry_run: bool) -> Imported:
    place, wanted = Path(path).expanduser(), checked_format(format)
    if wanted in (AUTO, FORMAT) and is_archive(place):
        with unpacked(place) as folder:
            return Restoring.of(runtime, scope.tenant, folder, scope.user, progress).run(dry_run=dry_run)
    if wanted == FORMAT or (wanted == AUTO and is_export(place)):
        return Restoring.of(runtime, scope.tenant, place, scope.user, progress).run(dry_run=dry_run)
    source = Source.of(place)
    kind = detect(source) if wanted == AUTO else wanted
    if kind == SNAPSHOT:
        return import_snapshot.take_in(runtime, scope, place, dry_run=dry_run)
    return Taking(runtime, scope, kind, runtime.clock(), dry_run).run(source, progress)
