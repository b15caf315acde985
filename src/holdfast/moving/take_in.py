"""One way in for everything: what a path holds is found out, and taken in the way its format wants."""

from __future__ import annotations

from pathlib import Path

from holdfast.domain.moving import Imported
from holdfast.domain.scope import Scope
from holdfast.moving.restore import Restoring
from holdfast.runtime import Runtime
from holdfast.storage.base import Progress


def take_in(runtime: Runtime, scope: Scope, path: str, format: str, progress: Progress, *, dry_run: bool) -> Imported:
    return Restoring.of(runtime, scope.tenant, Path(path), scope.user, progress).run(dry_run=dry_run)
