"""One way in for everything: what a path holds is found out, and taken in the way its format wants."""

from __future__ import annotations

from pathlib import Path

from holdfast import snapshots
from holdfast.domain.moving import Imported
from holdfast.domain.scope import Scope
from holdfast.files.export_folder import FORMAT, is_export
from holdfast.files.foreign.detect import AUTO, SNAPSHOT, checked_format, detect
from holdfast.files.foreign.source import Source
from holdfast.moving.archive import is_archive, unpacked
from holdfast.moving.foreign import Taking
from holdfast.moving.restore import Restoring
from holdfast.runtime import Runtime
from holdfast.storage.base import Progress


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
        return snapshots.take_in(runtime, scope, place, dry_run=dry_run)
    return Taking(runtime, scope, kind, runtime.clock(), dry_run).run(source, progress)
