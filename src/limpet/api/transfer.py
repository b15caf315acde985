"""Memory that leaves and comes: exports, and imports of those and of what other programs wrote."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from limpet.api import parameters as arg
from limpet.api.handle import Handle
from limpet.errors import InvalidInput
from limpet.lifecycle import SNAPSHOT
from limpet.model.late import load_modules
from limpet.model.scope import Scope
from limpet.model.transfer import ExportResult, ImportResult
from limpet.model.values import short_repr
from limpet.security.operation import On, operation
from limpet.security.telemetry import Progress

if TYPE_CHECKING:
    from limpet.lifecycle.export import ExportSource
    from limpet.lifecycle.importer import Importer

log = logging.getLogger("limpet.import")


class TransferOperations(Handle):
    """Exports and imports: ``memory.transfer``."""

    # It needs more than the user has: it writes files of the machine, which are not the user's.
    @operation("transfer.export", On.REACH, "read write:store", "GET /v1/export", audited=True, cli="export")
    def export(
        self, path: arg.WritePath, user: arg.OfUser | None = None, *, progress: Progress | None = None
    ) -> ExportResult:
        """Write everything of a user, or without one of the whole tenant, into a new folder.

        It holds JSON lines that ``import_`` reads back without loss, and Markdown for people. It is one consistent
        snapshot, and the folder appears when it is complete. Two exports of the same memory have the same bytes.
        """
        load_modules("limpet.lifecycle.export")
        from limpet.lifecycle.export import export  # late: few programs ever export

        scope = self._scope(user=user)
        return export(self._sources(scope), scope, Path(path), progress or (lambda *_: None))

    @operation(
        "transfer.archive",
        On.REACH,
        "read",
        "GET /v1/export",
        audited=True,
        left_out={"cli": "the command export writes a folder"},
    )
    def archive(
        self, file: BinaryIO, user: arg.OfUser | None = None, *, progress: Progress | None = None
    ) -> ExportResult:
        """Write what ``export`` writes as a zip into a file that you opened. Needs no right on the machine's files."""
        load_modules("limpet.lifecycle.export")
        from limpet.lifecycle.export import write_archive

        if not callable(getattr(file, "write", None)) or not callable(getattr(file, "seek", None)):
            raise InvalidInput(f"file must be a binary file opened for writing, not {short_repr(file)}")
        scope = self._scope(user=user)
        return write_archive(self._sources(scope), scope, file, progress or (lambda *_: None))

    def _sources(self, scope: Scope) -> list[ExportSource]:
        """The store, and the own stores of agents; with what people wrote into files since."""
        load_modules("limpet.lifecycle.export")
        from limpet.lifecycle.export import ExportSource

        own = None if scope.user is None else [scope.partition]
        for _, runtime in self._stores():
            runtime.notes.read_files(own)
        return [
            ExportSource(runtime.store, runtime.folder, "" if agent is None else self._view.agents.own_folder(agent))
            for agent, runtime in self._stores()
        ]

    @operation("transfer.import_", On.REACH, "write read:store", "POST /v1/import", audited=True, cli="import")
    def import_(
        self,
        path: arg.ReadPath,
        user: arg.OfUser | None = None,
        *,
        format: arg.Format = "auto",
        learn: arg.LearnFromImport = True,
        progress: Progress | None = None,
        dry_run: arg.DryRun = False,
    ) -> ImportResult:
        """Import an export of Limpet or of another program; ``format`` is detected unless you name it.

        ``user`` says whose memory it becomes. What exists already is not imported twice; an interrupted import
        continues. Conversations of other programs are learned from in the background, one job each, unless ``learn`` is
        False; the result says how many. ``dry_run`` reads and checks everything and stores nothing.
        """
        assert isinstance(path, str)
        return self._import(path, user, format, progress, learn=learn, dry_run=dry_run)

    @operation(
        "transfer.import_file",
        On.REACH,
        "write",
        "POST /v1/import",
        audited=True,
        left_out={"cli": "the command import reads a path", "remote": "import_ sends the file"},
    )
    def import_file(
        self,
        file: IO[bytes],
        user: arg.OfUser | None = None,
        *,
        format: arg.Format = "auto",
        learn: arg.LearnFromImport = True,
        dry_run: arg.DryRun = False,
    ) -> ImportResult:
        """Import from a binary file that you opened. Needs no right on the machine's files.

        It is read to its end, at most ``server.max_import_bytes``. Its name may help to detect the format.
        """
        load_modules("limpet.lifecycle.export_folder")
        from limpet.lifecycle.export_folder import copy_to_disk

        if not callable(getattr(file, "read", None)):
            raise InvalidInput(f"file must be a binary file opened for reading, not {short_repr(file)}")
        with copy_to_disk(file, self._runtime.config.server.max_import_bytes) as copy:
            return self._import(str(copy), user, format, None, learn=learn, dry_run=dry_run)

    def _import(
        self, path: str, user: str | None, format: str, progress: Progress | None, *, learn: bool, dry_run: bool
    ) -> ImportResult:
        scope, report = self._scope(user=user), progress or (lambda *_: None)
        done = self._runtime.importer.import_path(
            scope, path, format, report, self._find_importer, learn=learn, dry_run=dry_run
        )
        if done.learning:
            self._runtime.wake_worker()
        if done.messages and not dry_run:
            self._warn_about_retention()
        return done

    def _find_importer(self, folder: str) -> Importer | None:
        """For the part of an export that is of an agent with its own store here."""
        runtime = self._view.agents.find_own(folder) if self._view.agent is None else None
        return None if runtime is None else runtime.importer

    def _warn_about_retention(self) -> None:
        """Warn now that retention will remove most of an import, not when messages are missing."""
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
