"""An export taken in again, batch by batch: each is one transaction together with the mark of how far it has come.

Everything is read and checked before anything is written. Whoever is killed in the middle and called again goes on
behind the last mark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from limpet.api.runtime import Runtime
from limpet.errors import InvalidInput, LimpetError
from limpet.lifecycle import copied_files
from limpet.lifecycle.copied_files import CopiedFile
from limpet.lifecycle.export import FILES, NAMES
from limpet.lifecycle.export_folder import DATA, FORMAT, Line, Manifest, read_lines, read_manifest, read_on
from limpet.lifecycle.formats.snapshot_fields import at
from limpet.lifecycle.lines import KINDS, STEPS, Into, Kind, Outcome
from limpet.lifecycle.lines.kind import HERE
from limpet.lifecycle.transfer_repository import Imports, Transfers
from limpet.model.scope import Level, Scope
from limpet.model.text import checked_name
from limpet.model.transfer import SHOWN_SKIPS, Imported, Skipped
from limpet.notes import edited
from limpet.notes.layout import owner_folder
from limpet.sessions.repository import Sessions
from limpet.store.atomic_files import read_bytes, write_atomic
from limpet.store.base import Progress
from limpet.store.tx import Tx

_LINES, _BYTES = 500, 4_194_304  # of a batch at most
_LOOKED_UP = 500
_CHECKING = "checking"
_REASON = 300


@dataclass(frozen=True, slots=True)
class Mark:
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

    def after(self, kind: Kind, lines: Sequence[Line], outcomes: Sequence[Outcome]) -> Mark:
        added = sum(outcome.added for outcome in outcomes)
        here = sum(outcome.reason == HERE for outcome in outcomes)
        told = [
            (_place(kind.name, line), outcome.reason[:_REASON])
            for line, outcome in zip(lines, outcomes, strict=True)
            if outcome.reason and outcome.reason != HERE
        ]
        return replace(
            self,
            line=lines[-1].number,
            offset=lines[-1].end,
            counts=_plus(self.counts, kind.noun, added),
            here=_plus(self.here, kind.name, here),
            added=self.added + added,
            left_out=self.left_out + len(told),
            skipped=(*self.skipped, *told)[:SHOWN_SKIPS],
        )

    @classmethod
    def read(cls, text: str) -> Mark:
        value = json.loads(text)
        return cls(**{**value, "skipped": tuple((place, reason) for place, reason in value["skipped"])})


def _plus(counts: dict[str, int], name: str | None, more: int) -> dict[str, int]:
    return counts if name is None or not more else {**counts, name: counts.get(name, 0) + more}


@dataclass(frozen=True, slots=True)
class Restoring:
    runtime: Runtime
    folder: Path
    manifest: Manifest
    into: Into
    key: str  # what the mark is kept under
    progress: Progress

    @classmethod
    def of(cls, runtime: Runtime, tenant: str, folder: Path, user: str | None, progress: Progress) -> Restoring:
        manifest, digest = read_manifest(folder, NAMES)
        if manifest.user is None and user is not None:
            raise InvalidInput("this export is a whole tenant's; leave out user, since everybody keeps their own name")
        told_of = None if manifest.user is None else checked_name(manifest.user, "manifest.json: user")
        into = Into(runtime.config, tenant, told_of, user or told_of)
        key = hashlib.sha256(f"{digest}\n{into.user or ''}".encode()).hexdigest()
        return cls(runtime, folder, manifest, into, key, progress)

    def run(self, *, dry_run: bool) -> Imported:
        known = self.runtime.store.read(lambda tx: Imports(tx).progress(self.into.scope, self.key))
        mark = Mark() if known is None else Mark.read(known)
        taken = self._check()
        if dry_run:
            lines = {kind.noun: self.manifest.files[kind.name].lines for kind in KINDS if kind.noun}
            files = self.manifest.files[FILES].lines
            return Imported(FORMAT, **lines, files=files, dry_run=True)  # type: ignore[arg-type]  # nouns are fields
        continued = self._lines_before(mark)
        into = replace(self.into, renews=mark.renews if known is not None else taken)
        mark = replace(mark, renews=into.renews)
        for step, kind in list(enumerate(STEPS))[mark.step :]:
            if step > mark.step:
                mark = replace(mark, step=step, line=0, offset=0)
            mark = self._step(kind, into, mark)
        files, known_files, notes = self._take_files(into)
        self.runtime.store.write(lambda tx: Imports(tx).finish(into.scope, self.key))
        if mark.added and self.runtime.embedding is not None and self.runtime.config.embedding.background:
            self.runtime.wake_worker()
        mark = replace(mark, here=_plus(mark.here, FILES, known_files))
        return _report(mark, files, notes, continued)

    def _lines_before(self, mark: Mark) -> int:
        return sum(self.manifest.files[kind.name].lines for kind in STEPS[: mark.step]) + mark.line

    # Before anything is written

    def _check(self) -> bool:
        """Every line and every file. Whether an id in them belongs to somebody else here."""
        taken = False
        for kind in KINDS:
            owners: dict[str, str] = {}
            for line, item in self._read(kind):
                if kind.owner is not None:
                    id_, owner = kind.owner(item)
                    owners[id_] = owner
                if len(owners) == _LOOKED_UP:
                    taken = self._is_taken(kind, owners) or taken
                    owners = {}
                if line.number % _LINES == 0:
                    self.progress(f"{_CHECKING} {kind.name}", line.number, self.manifest.files[kind.name].lines)
            taken = (bool(owners) and self._is_taken(kind, owners)) or taken
        for file in self._files():
            copied_files.checked_copy(self.folder, file)
        return taken

    def _read(self, kind: Kind) -> Iterator[tuple[Line, Any]]:
        for line in read_lines(self.folder, kind.name, self.manifest.files[kind.name]):
            yield line, _meant(kind, line, self.into)

    def _is_taken(self, kind: Kind, owners: dict[str, str]) -> bool:
        return bool(self.runtime.store.read(lambda tx: Transfers(tx).taken(self.into.scope, kind.name, owners)))

    def _files(self) -> Iterator[CopiedFile]:
        """Each as it is here: whose it is there is another question."""
        for line in read_lines(self.folder, FILES, self.manifest.files[FILES]):
            with at(_place(FILES, line)):
                file = copied_files.read_line(line.value, self.into.tenant)
                if file.space is not None and file.space.level is Level.USER:
                    self.into.owner(file.space.owner, "owner")
                elif file.space is not None and self.into.told_of is not None:
                    raise InvalidInput(f"level: the export is of {self.into.told_of!r}, and this is the tenant's")
            yield file

    # Writing

    def _step(self, kind: Kind, into: Into, mark: Mark) -> Mark:
        total = self.manifest.files[kind.name].lines
        for lines in _batches(read_on(self.folder, kind.name, mark.line, mark.offset)):
            items = [kind.prepare(_meant(kind, line, into), into) for line in lines]
            mark = self.runtime.store.write(self._batch(kind, into, mark, lines, items))
            self.progress(kind.name, mark.line, total)
        return mark

    def _batch(
        self, kind: Kind, into: Into, mark: Mark, lines: Sequence[Line], items: Sequence[Any]
    ) -> Callable[[Tx], Mark]:
        now = self.runtime.clock()

        def work(tx: Tx) -> Mark:
            reached = mark.after(kind, lines, kind.put(tx, items, into))
            state = json.dumps(asdict(reached), ensure_ascii=False, separators=(",", ":"))
            Imports(tx).mark(into.scope, self.key, str(self.folder), state, now)
            return reached

        return work

    def _take_files(self, into: Into) -> tuple[int, int, list[Skipped]]:
        """How many were taken, and how many were here. No transaction has files in it: each is there whole or not at
        all, and one that is there stays."""
        taken, here, notes = 0, 0, []
        for file in self._files():
            try:
                done = self._take_file(file, into)
            except LimpetError as error:
                done = str(error)
            taken, here = taken + (done == ""), here + (done == HERE)
            if done not in ("", HERE):
                notes.append(Skipped(file.path, done[:_REASON]))
        return taken, here, notes

    def _take_file(self, file: CopiedFile, into: Into) -> str:
        root, source = self.runtime.folder, copied_files.checked_copy(self.folder, file)
        if root is None:
            return "this store has no folder to keep files in"
        if not self.runtime.may_keep_files(into.tenant):
            return "the tenant is sealed, and files are not; encryption.plain_files = true takes them all the same"
        if file.session_id is not None:
            session_id = into.id(file.session_id)
            scope = Scope(into.tenant, user=into.user, session=session_id)
            if self.runtime.store.read(lambda tx: Sessions(tx).get(scope)) is None:
                return "its session is not here"
            target = root / "sessions" / session_id / file.name
        else:
            assert file.space is not None
            owner = into.user if file.space.level is Level.USER and into.user else file.space.owner
            target = owner_folder(root, file.space._replace(owner=owner)) / file.name
        data = source.read_bytes()
        with edited.held(root, target):
            there = read_bytes(target)
            if there is None:
                write_atomic(target, data)
                return ""
            if there == data:
                return HERE
            return f"another {file.name} is here; this one is beside it as {edited.keep_copy(target, data).name}"


def _batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    batch: list[Line] = []
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


def _meant(kind: Kind, line: Line, into: Into) -> Any:
    with at(_place(kind.name, line)):
        kind.check(line.value)
        return kind.read(line.value, into)


def _place(name: str, line: Line) -> str:
    return f"{DATA}/{name}.jsonl, line {line.number}"


def _report(mark: Mark, files: int, notes: list[Skipped], continued: int) -> Imported:
    here = [Skipped(f"{DATA}/{kind}.jsonl", f"{number:,} of its lines: {HERE}") for kind, number in mark.here.items()]
    told = [Skipped(place, reason) for place, reason in mark.skipped]
    return Imported(
        FORMAT,
        sessions=mark.counts.get("sessions", 0),
        messages=mark.counts.get("messages", 0),
        records=mark.counts.get("records", 0),
        documents=mark.counts.get("documents", 0),
        schedules=mark.counts.get("schedules", 0),
        files=files,
        already=bool(mark.here) and not mark.added and not files and not mark.left_out and not notes,
        continued=continued,
        left_out=mark.left_out + len(notes) + sum(mark.here.values()),
        skipped=(*here, *told, *notes)[:SHOWN_SKIPS],
    )
