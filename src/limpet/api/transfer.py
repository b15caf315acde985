"""Memory that leaves and comes: exports, and imports of those and of what other programs wrote."""

from __future__ import annotations

import logging
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from limpet.api.handle import Handle
from limpet.errors import InvalidInput
from limpet.lifecycle import SNAPSHOT
from limpet.model.telemetry import Progress
from limpet.model.text import check_name, check_path, short_repr
from limpet.model.transfer import ExportResult, ImportResult
from limpet.model.values import check_flag, check_progress
from limpet.security.operation import operation

log = logging.getLogger("limpet.import")


class TransferOperations(Handle):
    """Exports and imports: ``memory.transfer``."""

    @operation("transfer.export")
    def export(
        self, path: str | PathLike[str], user: str | None = None, *, progress: Progress | None = None
    ) -> ExportResult:
        """Write everything of a user, or without one of the whole tenant, into a new folder.

        JSON lines that ``import_`` takes in again without loss, and Markdown for people; of one moment, whoever writes
        meanwhile. The folder is there when it is whole. Two exports of the same memory are the same bytes.
        """
        from limpet.lifecycle.export import export  # late: few programs ever export

        place, report = Path(check_path(path, "the export's path")), check_progress(progress)
        runtime, scope = self._runtime, self._scope(user=user)
        return export(runtime.store, runtime.folder, scope, place, report or (lambda *_: None))

    @operation("transfer.archive")
    def archive(self, file: BinaryIO, user: str | None = None, *, progress: Progress | None = None) -> ExportResult:
        """What ``export`` writes, as a zip in a file that you opened. It needs no right on the machine's files."""
        from limpet.lifecycle.archive import write_archive

        report = check_progress(progress)
        if not callable(getattr(file, "write", None)) or not callable(getattr(file, "seek", None)):
            raise InvalidInput(f"file must be a binary file opened for writing, not {short_repr(file)}")
        runtime, scope = self._runtime, self._scope(user=user)
        return write_archive(runtime.store, runtime.folder, scope, file, report or (lambda *_: None))

    @operation("transfer.import_")
    def import_(
        self,
        path: str | PathLike[str],
        user: str | None = None,
        *,
        format: str = "auto",
        progress: Progress | None = None,
        dry_run: bool = False,
    ) -> ImportResult:
        """Take in an export of ours, or what another program wrote; ``format`` is found out unless you name it.

        ``user`` says whose memory it becomes. What is here already is not taken in twice; an import that was
        interrupted goes on where it was. ``dry_run`` reads and checks everything and stores nothing.
        """
        owner = None if user is None else check_name(user, "user")
        place, report = check_path(path, "the import's path"), check_progress(progress)
        only_look = check_flag(dry_run, "dry_run")
        scope = self._scope(user=owner)
        done = self._runtime.importer.import_path(scope, place, format, report or (lambda *_: None), dry_run=only_look)
        if done.messages and not only_look:
            self._warn_about_retention()
        return done

    def _warn_about_retention(self) -> None:
        """Whoever brings years of conversations learns now, and not by their absence, that only days are kept."""
        if not self._runtime.config.retention.enabled:
            return
        found = self._runtime.retention.apply(self._tenant, dry_run=True)
        if old := sum(each.counts.get("messages", 0) for each in found):
            log.warning(
                "%d messages here are older than retention.messages_days keeps them, and go within the hour;"
                " set it to 0 to keep all",
                old,
            )

    def _import_snapshot(self) -> None:
        folder = self._runtime.folder
        if folder is not None and (folder / SNAPSHOT).is_file():
            self._runtime.snapshots.import_pending(self._scope(), folder / SNAPSHOT)
