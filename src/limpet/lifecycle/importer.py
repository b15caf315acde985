"""An export of ours put back, batch by batch; and the one entry for every import, which detects the format of a path.

Everything is read and checked before anything is written. Each batch is one transaction together with the mark of how
far the import has come: one that was killed in the middle continues behind the last mark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from limpet.config import Config
from limpet.documents.add import DocumentIngester
from limpet.errors import InvalidInput, LimpetError
from limpet.lifecycle import SNAPSHOT
from limpet.lifecycle.export import AGENTS, FILES, NAMES
from limpet.lifecycle.export_folder import (
    DATA,
    FORMAT,
    ExportFile,
    ExportLine,
    Manifest,
    is_archive,
    is_export,
    open_archive,
    parse_file_line,
    read_lines,
    read_manifest,
    resume_lines,
    verify_copy,
)
from limpet.lifecycle.formats.contents import error_location
from limpet.lifecycle.formats.detect import AUTO, checked_format, detect
from limpet.lifecycle.formats.source import ImportSource
from limpet.lifecycle.import_foreign import ForeignImporter, SnapshotImporter
from limpet.lifecycle.line_kind import PRESENT, ImportTarget, LineKind, LineOutcome
from limpet.lifecycle.lines import IMPORT_STEPS, KINDS
from limpet.lifecycle.transfer_repository import Imports, Transfers
from limpet.model.dataclass import dataclass, replace
from limpet.model.scope import Partition, Scope
from limpet.model.transfer import MAX_LISTED_SKIPS, ImportResult, ImportSkip
from limpet.model.values import Clock, check_name
from limpet.notes.files import NoteFiles, lock_notes_file
from limpet.notes.user_notes import UserNotes
from limpet.search.embed import ChunkEmbedder
from limpet.security.telemetry import Progress
from limpet.sessions.repository import Sessions
from limpet.store.files import read_bytes, write_atomic
from limpet.store.store import Store
from limpet.store.tx import Tx

_LINES, _BYTES = 500, 4_194_304  # of a batch at most
_LOOKUP_BATCH = 500
_CHECKING = "checking"
_REASON = 300


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """How far an import has come: which step, and which line of it was the last; and what there is to report."""

    step: int = 0
    line: int = 0
    offset: int = 0
    renews: bool = False
    counts: dict[str, int] = field(default_factory=dict)  # taken in, by noun
    here: dict[str, int] = field(default_factory=dict)  # lines that were here already, by kind
    added: int = 0
    left_out: int = 0
    skipped: tuple[tuple[str, str], ...] = ()

    def advance(
        self, kind: LineKind[Any], lines: Sequence[ExportLine], outcomes: Sequence[LineOutcome]
    ) -> ImportProgress:
        added = sum(outcome.added for outcome in outcomes)
        here = sum(outcome.reason == PRESENT.reason for outcome in outcomes)
        told = [
            (_describe_place(kind.name, line), outcome.reason[:_REASON])
            for line, outcome in zip(lines, outcomes, strict=True)
            if outcome.reason and outcome.reason != PRESENT.reason
        ]
        return replace(
            self,
            line=lines[-1].number,
            offset=lines[-1].end,
            counts=_add_count(self.counts, kind.noun, added),
            here=_add_count(self.here, kind.name, here),
            added=self.added + added,
            left_out=self.left_out + len(told),
            skipped=(*self.skipped, *told)[:MAX_LISTED_SKIPS],
        )

    @classmethod
    def from_json(cls, text: str) -> ImportProgress:
        value = json.loads(text)
        return cls(**{**value, "skipped": tuple((place, reason) for place, reason in value["skipped"])})


def _add_count(counts: dict[str, int], name: str | None, more: int) -> dict[str, int]:
    return counts if name is None or not more else {**counts, name: counts.get(name, 0) + more}


@dataclass(frozen=True, slots=True)
class ExportImporter:
    store: Store
    notes: UserNotes
    embedder: ChunkEmbedder
    clock: Clock
    folder: Path
    manifest: Manifest
    into: ImportTarget
    key: str  # what the mark is kept under
    progress: Progress

    def run(self, *, dry_run: bool) -> ImportResult:
        known = self.store.read(lambda tx: Imports(tx).get_progress(self.into.scope, self.key))
        mark = ImportProgress() if known is None else ImportProgress.from_json(known)
        taken = self._check_all()
        if dry_run:
            lines = {kind.noun: self.manifest.count(kind.name) for kind in KINDS if kind.noun}
            files = self.manifest.count(FILES)
            return ImportResult(FORMAT, **lines, files=files, dry_run=True)  # type: ignore[arg-type]  # nouns are fields
        continued = sum(self.manifest.count(kind.name) for kind in IMPORT_STEPS[: mark.step]) + mark.line
        mirrors = self.notes.folder is not None and self.notes.is_allowed(self.into.tenant)
        into = replace(self.into, renews=mark.renews if known is not None else taken, mirrors_notes=mirrors)
        mark = replace(mark, renews=into.renews)
        for step, kind in list(enumerate(IMPORT_STEPS))[mark.step :]:
            if step > mark.step:
                mark = replace(mark, step=step, line=0, offset=0)
            mark = self._import_kind(kind, into, mark)
        self.notes.write_pending()
        files, known_files, notes = self._import_files(into)
        self.store.write(lambda tx: Imports(tx).finish(into.scope, self.key))
        if mark.added:
            self.embedder.request_all()
        mark = replace(mark, here=_add_count(mark.here, FILES, known_files))
        return _build_report(mark, files, notes, continued)

    # Before anything is written

    def _check_all(self) -> bool:
        """Every line and every file. Returns whether an id in them belongs to another owner here."""
        taken = False
        for kind in (kind for kind in KINDS if kind.name in self.manifest.files):
            owners: dict[str, str] = {}
            for line in read_lines(self.folder, kind.name, self.manifest.files[kind.name]):
                if (taker := kind.owner(_parse_item(kind, line, self.into))) is not None:
                    owners[taker[0]] = taker[1]
                if len(owners) == _LOOKUP_BATCH:
                    taken = self._has_foreign_ids(kind, owners) or taken
                    owners = {}
                if line.number % _LINES == 0:
                    self.progress(f"{_CHECKING} {kind.name}", line.number, self.manifest.count(kind.name))
            taken = (bool(owners) and self._has_foreign_ids(kind, owners)) or taken
        for file in self._iter_files():
            verify_copy(self.folder, file)
        return taken

    def _has_foreign_ids(self, kind: LineKind[Any], owners: dict[str, str]) -> bool:
        return bool(self.store.read(lambda tx: Transfers(tx).find_conflicting_ids(self.into.scope, kind.name, owners)))

    def _iter_files(self) -> Iterator[ExportFile]:
        for line in read_lines(self.folder, FILES, self.manifest.files[FILES]):
            with error_location(_describe_place(FILES, line)):
                file = parse_file_line(line.value, self.into.tenant)
                if file.space is not None:
                    self.into.map_partition(file.space)
            yield file

    # Writing

    def _import_kind(self, kind: LineKind[Any], into: ImportTarget, mark: ImportProgress) -> ImportProgress:
        total = self.manifest.count(kind.name)
        if not total:
            return mark
        for lines in _iter_batches(resume_lines(self.folder, kind.name, mark.line, mark.offset)):
            items = [kind.prepare(_parse_item(kind, line, into), into) for line in lines]
            mark = self.store.write(partial(self._put_batch, kind=kind, into=into, mark=mark, lines=lines, items=items))
            self.progress(kind.name, mark.line, total)
        return mark

    def _put_batch(
        self,
        tx: Tx,
        *,
        kind: LineKind[Any],
        into: ImportTarget,
        mark: ImportProgress,
        lines: Sequence[ExportLine],
        items: Sequence[Any],
    ) -> ImportProgress:
        reached = mark.advance(kind, lines, kind.put(tx, items, into))
        state = json.dumps(asdict(reached), ensure_ascii=False, separators=(",", ":"))
        Imports(tx).save_progress(into.scope, self.key, str(self.folder), state, self.clock())
        return reached

    def _import_files(self, into: ImportTarget) -> tuple[int, int, list[ImportSkip]]:
        """How many were taken, and how many were here. No transaction has files in it: each is there whole or not at
        all, and one that is there stays."""
        taken, here, notes = 0, 0, []
        for file in self._iter_files():
            try:
                done = self._import_file(file, into)
            except LimpetError as error:
                done = str(error)
            taken, here = taken + (done == ""), here + (done == PRESENT.reason)
            if done not in ("", PRESENT.reason):
                notes.append(ImportSkip(file.path, done[:_REASON]))
        return taken, here, notes

    def _import_file(self, file: ExportFile, into: ImportTarget) -> str:
        root, source = self.notes.folder, verify_copy(self.folder, file)
        if file.space is not None:
            return self._import_note(into.map_partition(file.space), file.name, source)
        if root is None:
            return "this store has no folder to keep files in"
        if not self.notes.is_allowed(into.tenant):
            return "the tenant is encrypted, and files are not; set encryption.plain_files = true to import them"
        session_id = into.map_id(file.session_id)
        scope = Scope(into.tenant, user=into.user, session=session_id)
        if self.store.read(lambda tx: Sessions(tx).get(scope)) is None:
            return "its session is not here"
        target, data = root / "sessions" / session_id / file.name, source.read_bytes()
        with lock_notes_file(root, target):
            there = read_bytes(target)
            if there is None:
                write_atomic(target, data)
                return ""
            if there == data:
                return PRESENT.reason
            copy = NoteFiles(root, target.parent).save_copy(file.name, data)
            return f"another {file.name} is here; this one is beside it as {copy.name}"

    def _import_note(self, partition: Partition, name: str, source: Path) -> str:
        """Of an export that is older than notes in the store."""
        text = NoteFiles(source.parent, source.parent).read(name, self.notes.max_bytes(name)) or ""
        there = self.notes.get(partition, name)
        if there is not None:
            return PRESENT.reason if there.text == text else f"another {name} is here, and stays"
        self.notes.edit(partition, name, lambda there: there or text)
        return ""


def read_target(folder: Path, config: Config, tenant: str, user: str | None) -> tuple[Manifest, ImportTarget, str]:
    """The manifest, where the lines go, and the key under which progress is kept."""
    manifest, digest = read_manifest(folder, NAMES)
    if manifest.user is None and user is not None:
        raise InvalidInput("this export is a whole tenant's; leave out user, since everybody keeps their own name")
    source = None if manifest.user is None else check_name(manifest.user, "manifest.json: user")
    into = ImportTarget(config, tenant, source, user or source)
    return manifest, into, hashlib.sha256(f"{digest}\n{into.user or ''}".encode()).hexdigest()


def _iter_batches(lines: Iterator[ExportLine]) -> Iterator[list[ExportLine]]:
    batch: list[ExportLine] = []
    begin = 0
    for line in lines:
        if not batch:
            begin = line.end
        batch.append(line)
        if len(batch) >= _LINES or line.end - begin >= _BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


def _parse_item(kind: LineKind[Any], line: ExportLine, into: ImportTarget) -> Any:
    with error_location(_describe_place(kind.name, line)):
        return kind.parse(line.value, into)


def _describe_place(name: str, line: ExportLine) -> str:
    return f"{DATA}/{name}.jsonl, line {line.number}"


def _build_report(mark: ImportProgress, files: int, notes: list[ImportSkip], continued: int) -> ImportResult:
    here = [
        ImportSkip(f"{DATA}/{kind}.jsonl", f"{number:,} of its lines: {PRESENT.reason}")
        for kind, number in mark.here.items()
    ]
    told = [ImportSkip(place, reason) for place, reason in mark.skipped]
    return ImportResult(
        FORMAT,
        **mark.counts,  # type: ignore[arg-type]  # nouns are fields
        files=files,
        already=bool(mark.here) and not mark.added and not files and not mark.left_out and not notes,
        continued=continued,
        left_out=mark.left_out + len(notes) + sum(mark.here.values()),
        skipped=(*here, *told, *notes)[:MAX_LISTED_SKIPS],
    )


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
    added = sum(
        totals[name] for name in ("sessions", "messages", "records", "documents", "notes", "files", "schedules")
    )
    return replace(one, **totals, already=(one.already or other.already) and not added)
