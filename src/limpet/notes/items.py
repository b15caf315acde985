"""A user's records and the same as lines in files, brought together.

Three sides decide about a line: what it says, what the record says, and what both said when they last agreed. Whoever
differs from that has changed. Where both have, the record stays and the line is kept as a conflict.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from itertools import chain

from limpet.api.runtime import Runtime
from limpet.errors import ConstraintFailed, InvalidInput, LimpetError, StoreBusy
from limpet.knowledge import record_json
from limpet.knowledge import remember as memory
from limpet.knowledge.repository import Records
from limpet.lifecycle.transfer_repository import Imports
from limpet.model.record import Layer, Record, RecordQuery
from limpet.model.scope import Level, Scope, Space
from limpet.notes import edited
from limpet.notes.item_lines import EPISODIC, SYNC, ItemFiles, Line, Sync, lines_of, one_line
from limpet.notes.user_notes import Notes
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

log = logging.getLogger("limpet.notes.items")

_TRIES = 5
_ALL = RecordQuery(include_past=True, limit=None)


@dataclass(frozen=True, slots=True)
class ItemProblem:
    """A line that was left as it is, and why."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Exported:
    """How many records stand in the files, edits that wait for an import, and lines that lost against their record."""

    records: int
    waiting: int = 0
    conflicts: int = 0
    problems: tuple[ItemProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemsImported:
    """What became of the lines, and what of the records that had none."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    conflicts: int = 0
    problems: tuple[ItemProblem, ...] = ()


class Fate(Enum):
    SAME = auto()
    NEW = auto()  # a line for a record that never was
    EDITED = auto()  # by a person
    OUTDATED = auto()  # the record went on
    FORGOTTEN = auto()  # the record is gone
    CONFLICT = auto()


def fate(line: str, record: str | None, agreed: str | None) -> Fate:
    """Of a line, by the digests of what it says, what its record says, and what both said before."""
    if record is None:
        return {None: Fate.NEW, line: Fate.FORGOTTEN}.get(agreed, Fate.CONFLICT)
    if line == record:
        return Fate.SAME
    return {line: Fate.OUTDATED, record: Fate.EDITED}.get(agreed or "", Fate.CONFLICT)


@dataclass(frozen=True, slots=True)
class Told:
    """A line that describes a record."""

    line: Line
    record: Record
    fate: Fate


@dataclass(slots=True)
class _Counts:
    added: int = 0
    changed: int = 0
    problems: list[ItemProblem] = field(default_factory=list)


def drop_lines(runtime: Runtime, tenant: str, user: str, ids: Collection[str]) -> None:
    """After records were removed: no file of theirs may tell what was forgotten."""
    if runtime.folder is None or not ids:
        return
    notes = Notes.of(runtime, Space(tenant, Level.USER, user))
    files = ItemFiles(notes.root, notes.folder / "items")
    if files.folder.is_dir():
        with edited.held(files.root, files.folder / SYNC):
            files.drop(ids)


@dataclass(frozen=True, slots=True)
class Items:
    runtime: Runtime
    notes: Notes
    scope: Scope  # a user's
    files: ItemFiles
    cut: memory.Cutter

    @classmethod
    def of(cls, runtime: Runtime, scope: Scope, cut: memory.Cutter) -> Items:
        assert scope.user is not None
        notes = Notes.of(runtime, Space(scope.tenant, Level.USER, scope.user))
        return cls(runtime, notes, scope, ItemFiles(notes.root, notes.folder / "items"), cut)

    def export(self) -> Exported:
        with edited.held(self.files.root, self.files.folder / SYNC):
            return self._export()

    def import_(self, *, delete_missing: bool) -> ItemsImported:
        """All lines that can be taken in, in one transaction; then the files as the records are."""
        now = self.runtime.clock()
        with edited.held(self.files.root, self.files.folder / SYNC):
            sync, lines = self.files.read_sync(), lines_of(self.files.read())
            imported = self.runtime.store.write(
                lambda tx: self._take_in(tx, lines, sync, now, delete_missing=delete_missing)
            )
            exported = self._export()
        if imported.added + imported.changed and self.runtime.embedding and self.runtime.config.embedding.background:
            self.runtime.wake_worker()
        problems = {(problem.file, problem.line): problem for problem in (*exported.problems, *imported.problems)}
        return ItemsImported(
            imported.added, imported.changed, imported.removed, exported.conflicts, tuple(problems.values())
        )

    # Out

    def _export(self) -> Exported:
        for _ in range(_TRIES):
            try:
                return self._export_once()
            except edited.FileChanged:
                log.debug("%s was saved by somebody else; reading it again", self.files.folder)
        raise StoreBusy(f"{self.files.folder} is changed again and again by another program; try again later")

    def _export_once(self) -> Exported:
        now, before = self.runtime.clock(), self.files.read()
        sync = self._own(self.files.read_sync(), now)
        records = {
            record.id: record
            for record in self.runtime.store.read(lambda tx: Records(tx).find(self.scope, _ALL, now))
            if record.layer is not Layer.WORKING
        }
        told, problems = self._told(lines_of(before), records, sync, now)
        lost = [one.line for one in told if one.fate is Fate.CONFLICT]
        self.files.add_conflicts(lost)
        if lost:
            log.warning("%d changed lines lost against their records; they are in .conflict files", len(lost))
        waiting = {one.record.id: one.line for one in told if one.fate in (Fate.NEW, Fate.EDITED)}
        kept = [line for line in lines_of(before) if (line.file, line.number) in problems]
        self.files.write(self._contents(records, waiting, kept), before)
        agreed = {
            id: sync.digests.get(id, "") if id in waiting else record_json.digest(record)
            for id, record in records.items()
        }
        self.files.write_sync(Sync(sync.store, {id: digest for id, digest in agreed.items() if digest}))
        return Exported(len(records), len(waiting), len(lost), tuple(problems.values()))

    def _contents(
        self, records: Mapping[str, Record], waiting: Mapping[str, Line], kept: Iterable[Line]
    ) -> dict[str, bytes]:
        """Oldest record first, so that a new one changes only the end; then lines that are nobody's record."""
        lines: dict[str, list[bytes]] = {}
        for record in sorted(records.values(), key=lambda record: (record.created_at, record.id)):
            line = waiting.get(record.id)
            raw = one_line(record_json.as_json(record)) if line is None else line.raw
            lines.setdefault(self._file(record), []).append(raw)
        unknown = (line for id, line in waiting.items() if id not in records)
        for line in sorted(chain(unknown, kept), key=lambda line: (line.file, line.number)):
            lines.setdefault(line.file, []).append(line.raw)
        return {name: b"\n".join(found) + b"\n" for name, found in lines.items()}

    def _file(self, record: Record) -> str:
        if record.layer is not Layer.EPISODIC:
            return f"{record.layer}.jsonl"
        assert record.created_at is not None
        return f"{EPISODIC}/{self.notes.local(record.created_at).date()}.jsonl"

    def _own(self, sync: Sync, now: datetime) -> Sync:
        """What was agreed on with this store. Files that come from another one agree with nothing here yet."""
        mark = sync.store
        if mark and self.runtime.store.read(lambda tx: Imports(tx).seen(self.scope, mark)):
            return sync
        fresh = self.runtime.new_id()
        self.runtime.store.write(lambda tx: Imports(tx).note(self.scope, fresh, "items", 0, 0, now))
        return Sync(fresh)

    # In

    def _take_in(self, tx: Tx, lines: list[Line], sync: Sync, now: datetime, *, delete_missing: bool) -> ItemsImported:
        known = sync if sync.store and Imports(tx).seen(self.scope, sync.store) else Sync()
        records = {record.id: record for record in Records(tx).find(self.scope, _ALL, now)}
        told, problems = self._told(lines, records, known, now)
        counts = _Counts(problems=list(problems.values()))
        for one in told:
            try:
                self._apply(tx, one, records, counts, now)
            except (InvalidInput, ConstraintFailed) as error:
                counts.problems.append(ItemProblem(one.line.file, one.line.number, str(error)))
        removed = 0
        if delete_missing and not problems:
            there = {one.record.id for one in told}
            gone = [
                id
                for id, agreed in known.digests.items()
                if id not in there and id in records and record_json.digest(records[id]) == agreed
            ]
            removed = memory.forget(tx, memory.with_copies(tx, self.scope, gone), self.cut, now).total
        return ItemsImported(counts.added, counts.changed, removed, 0, tuple(counts.problems))

    def _apply(self, tx: Tx, one: Told, records: Mapping[str, Record], counts: _Counts, now: datetime) -> None:
        record = one.record
        if one.fate not in (Fate.NEW, Fate.EDITED):
            return
        self._check_place(tx, record, records)
        if one.fate is Fate.EDITED:
            old = records[record.id]
            memory.rewrite(tx, old, record_json.edited(old, record), self.cut, now)
            counts.changed += 1
            return
        try:
            memory.insert(tx, record, self.cut)
        except ConstraintFailed:
            raise InvalidInput(f"the id {record.id} is taken; leave the id out to get a new one") from None
        counts.added += 1

    def _check_place(self, tx: Tx, record: Record, records: Mapping[str, Record]) -> None:
        """InvalidInput unless the record may be where the line says it is."""
        old, session = records.get(record.id), record.session_id
        if old is not None and old.home != record.home:
            raise InvalidInput("level and session_id of a record stay as they are")
        if session is not None:
            scope = Scope(self.scope.tenant, user=self.scope.user, session=session)
            if Sessions(tx).get(scope) is None:
                raise InvalidInput(f"its session {session} is not here")
        if record.key is not None:
            holder = Records(tx).by_key(record.home, record.key)
            if holder is not None and holder.id != record.id:
                raise InvalidInput(f"the key {record.key!r} belongs to record {holder.id}")

    def _told(
        self, lines: Iterable[Line], records: Mapping[str, Record], sync: Sync, now: datetime
    ) -> tuple[list[Told], dict[tuple[str, int], ItemProblem]]:
        """What each line says of which record, and the lines that say nothing."""
        digests = {id: record_json.digest(record) for id, record in records.items()}
        by_gist = {record_json.gist(record): record for record in records.values()}
        told: dict[str, Told] = {}
        problems: dict[tuple[str, int], ItemProblem] = {}
        for line in lines:
            try:
                record = self._record(line, by_gist, now)
                if record.id in told:
                    raise InvalidInput(f"the id {record.id} is there twice")
            except LimpetError as error:
                problems[line.file, line.number] = ItemProblem(line.file, line.number, str(error))
                continue
            said = record_json.digest(record)
            by_gist.setdefault(record_json.gist(record), record)
            outcome = fate(said, digests.get(record.id), sync.digests.get(record.id))
            told[record.id] = Told(line, record, outcome)
        return list(told.values()), problems

    def _record(self, line: Line, by_gist: Mapping[str, Record], now: datetime) -> Record:
        if line.value is None:
            raise InvalidInput(line.problem)
        assert self.scope.user is not None
        record = record_json.from_json(line.value, self.scope.tenant, self.scope.user, self.runtime.new_id, now)
        if line.value.get("id") is not None:
            return record
        # Written by hand and taken in already, where something stopped us before its id was in the file.
        return by_gist.get(record_json.gist(record), record)
