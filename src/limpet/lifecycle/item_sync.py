"""A user's records and the same as lines in files, brought together.

Three sides decide about a line: what it says, what the record says, and what both said when they last agreed. The
side that differs from that has changed. If both have, the record stays and the line is kept as a conflict.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import partial
from itertools import chain

from limpet.errors import InvalidInput, LimpetError, StorageError, StoreBusy
from limpet.knowledge import remember as memory
from limpet.knowledge.repository import Records, is_record_id_taken
from limpet.lifecycle.transfer_repository import Imports
from limpet.model.dataclass import dataclass
from limpet.model.record import Layer, Record, RecordQuery
from limpet.model.scope import Scope
from limpet.model.transfer import ItemExportResult, ItemImportResult, ItemProblem
from limpet.model.values import Clock, IdFactory
from limpet.notes.files import EditConflict, NoteFiles, lock_notes_file
from limpet.notes.item_lines import (
    EPISODIC,
    SYNC,
    ItemFiles,
    ItemLine,
    SyncState,
    apply_edit,
    compute_digest,
    compute_timeless_digest,
    dump_line,
    external_id,
    parse_lines,
    record_from_json,
    record_to_json,
)
from limpet.search.embed import ChunkEmbedder
from limpet.sessions.repository import Sessions
from limpet.store.jobs import JobLease
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.notes")

_TRIES = 5
_PERIOD = timedelta(minutes=5)
_ALL = RecordQuery(include_past=True, limit=None)


class LineStatus(Enum):
    SAME = auto()
    NEW = auto()  # a line for a record that never was
    EDITED = auto()  # by a person
    OUTDATED = auto()  # the record went on
    FORGOTTEN = auto()  # the record is gone
    CONFLICT = auto()


def decide_line_status(line: str, record: str | None, agreed: str | None) -> LineStatus:
    """Of a line, by the digests of what it says, what its record says, and what both said before."""
    if record is None:
        return {None: LineStatus.NEW, line: LineStatus.FORGOTTEN}.get(agreed, LineStatus.CONFLICT)
    if line == record:
        return LineStatus.SAME
    return {line: LineStatus.OUTDATED, record: LineStatus.EDITED}.get(agreed or "", LineStatus.CONFLICT)


@dataclass(frozen=True, slots=True)
class LineMatch:
    """A line that describes a record."""

    line: ItemLine
    record: Record
    fate: LineStatus


@dataclass(frozen=True, slots=True)
class ItemSync:
    store: Store
    notes: NoteFiles
    to_local: Callable[[datetime], datetime]  # in the user's zone
    scope: Scope  # a user's
    cut: memory.RecordChunker
    embedder: ChunkEmbedder
    clock: Clock
    new_id: IdFactory

    @property
    def files(self) -> ItemFiles:
        return ItemFiles(self.notes.root, self.notes.folder / "items")

    def export(self) -> ItemExportResult:
        with lock_notes_file(self.files.root, self.files.folder / SYNC):
            return self._export()

    def import_(self, *, delete_missing: bool) -> ItemImportResult:
        """All lines that can be taken in, in one transaction; then the files as the records are."""
        now = self.clock()
        with lock_notes_file(self.files.root, self.files.folder / SYNC):
            sync, lines = self.files.read_sync(), parse_lines(self.files.read())
            imported = self.store.write(
                lambda tx: self._import_lines(tx, lines, sync, now, delete_missing=delete_missing)
            )
            exported = self._export()
        if imported.added + imported.changed:
            self.embedder.request_all()
        problems = {(problem.file, problem.line): problem for problem in (*exported.problems, *imported.problems)}
        return ItemImportResult(
            imported.added, imported.changed, imported.removed, exported.conflicts, tuple(problems.values())
        )

    # Out

    def _export(self) -> ItemExportResult:
        for _ in range(_TRIES):
            try:
                return self._export_once()
            except EditConflict:
                log.debug("%s was saved by somebody else; reading it again", self.files.folder)
        raise StoreBusy(f"{self.files.folder} is changed again and again by another program; try again later")

    def _export_once(self) -> ItemExportResult:
        now, before = self.clock(), self.files.read()
        sync = self._resolve_sync(self.files.read_sync(), now)
        records = {
            record.id: record
            for record in self.store.read(lambda tx: Records(tx).find(self.scope, _ALL, now))
            if record.layer is not Layer.WORKING
        }
        told, problems = self._match_lines(parse_lines(before), records, sync, now)
        lost = [one.line for one in told if one.fate is LineStatus.CONFLICT]
        self.files.add_conflicts(lost)
        if lost:
            log.warning("%d changed lines lost against their records; they are in .conflict files", len(lost))
        waiting = {one.record.id: one.line for one in told if one.fate in (LineStatus.NEW, LineStatus.EDITED)}
        kept = [line for line in parse_lines(before) if (line.file, line.number) in problems]
        self.files.write(self._render_files(records, waiting, kept), before)
        agreed = {
            id: sync.digests.get(id, "") if id in waiting else compute_digest(record) for id, record in records.items()
        }
        self.files.write_sync(SyncState(sync.store, {id: digest for id, digest in agreed.items() if digest}))
        return ItemExportResult(len(records), len(waiting), len(lost), tuple(problems.values()))

    def _render_files(
        self, records: Mapping[str, Record], waiting: Mapping[str, ItemLine], kept: Iterable[ItemLine]
    ) -> dict[str, bytes]:
        """Oldest record first, so that a new one changes only the end; then lines without a record."""
        lines: dict[str, list[bytes]] = {}
        for record in sorted(records.values(), key=lambda record: (record.created_at, record.id)):
            line = waiting.get(record.id)
            raw = dump_line(record_to_json(record)) if line is None else line.raw
            lines.setdefault(self._file_name(record), []).append(raw)
        unknown = (line for id, line in waiting.items() if id not in records)
        for line in sorted(chain(unknown, kept), key=lambda line: (line.file, line.number)):
            lines.setdefault(line.file, []).append(line.raw)
        return {name: b"\n".join(found) + b"\n" for name, found in lines.items()}

    def _file_name(self, record: Record) -> str:
        if record.layer is not Layer.EPISODIC:
            return f"{record.layer}.jsonl"
        assert record.created_at is not None
        return f"{EPISODIC}/{self.to_local(record.created_at).date()}.jsonl"

    def _resolve_sync(self, sync: SyncState, now: datetime) -> SyncState:
        """What was agreed on with this store. Files that come from another one agree with nothing here yet."""
        mark = sync.store
        if mark and self.store.read(lambda tx: Imports(tx).has_digest(self.scope, mark)):
            return sync
        fresh = self.new_id()
        self.store.write(lambda tx: Imports(tx).record_import(self.scope, fresh, "items", 0, 0, now))
        return SyncState(fresh)

    # In

    def _import_lines(
        self, tx: Tx, lines: list[ItemLine], sync: SyncState, now: datetime, *, delete_missing: bool
    ) -> ItemImportResult:
        known = sync if sync.store and Imports(tx).has_digest(self.scope, sync.store) else SyncState()
        records = {record.id: record for record in Records(tx).find(self.scope, _ALL, now)}
        told, unread = self._match_lines(lines, records, known, now)
        problems, fates = [*unread.values()], Counter[LineStatus]()
        for one in told:
            try:
                self._apply(tx, one, records, now)
                fates[one.fate] += 1
            except InvalidInput as error:
                problems.append(ItemProblem(one.line.file, one.line.number, str(error)))
        removed = 0
        if delete_missing and not unread:
            there = {one.record.id for one in told}
            gone = [
                id
                for id, agreed in known.digests.items()
                if id not in there and id in records and compute_digest(records[id]) == agreed
            ]
            removed = memory.delete_records(tx, memory.find_with_copies(tx, self.scope, gone), self.cut, now).total
        return ItemImportResult(fates[LineStatus.NEW], fates[LineStatus.EDITED], removed, 0, tuple(problems))

    def _apply(self, tx: Tx, one: LineMatch, records: Mapping[str, Record], now: datetime) -> None:
        record = one.record
        if one.fate not in (LineStatus.NEW, LineStatus.EDITED):
            return
        self._check_place(tx, record, records)
        if one.fate is LineStatus.EDITED:
            old = records[record.id]
            memory.rewrite(tx, old, apply_edit(old, record), self.cut, now)
            return
        if is_record_id_taken(tx, record.id):
            raise InvalidInput(f"the id {record.id} is taken; leave the id out to get a new one")
        memory.insert(tx, record, self.cut, external_id(one.line.value or {}))

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
            holder = Records(tx).find_by_key(record.home, record.key)
            if holder is not None and holder.id != record.id:
                raise InvalidInput(f"the key {record.key!r} belongs to record {holder.id}")

    def _match_lines(
        self, lines: Iterable[ItemLine], records: Mapping[str, Record], sync: SyncState, now: datetime
    ) -> tuple[list[LineMatch], dict[tuple[str, int], ItemProblem]]:
        """What each line says of which record, and the lines that say nothing."""
        digests = {id: compute_digest(record) for id, record in records.items()}
        by_gist = {compute_timeless_digest(record): record for record in records.values()}
        told: dict[str, LineMatch] = {}
        problems: dict[tuple[str, int], ItemProblem] = {}
        for line in lines:
            try:
                record = self._parse_record(line, by_gist, now)
                if record.id in told:
                    raise InvalidInput(f"the id {record.id} appears twice")
            except LimpetError as error:
                problems[line.file, line.number] = ItemProblem(line.file, line.number, str(error))
                continue
            said = compute_digest(record)
            by_gist.setdefault(compute_timeless_digest(record), record)
            outcome = decide_line_status(said, digests.get(record.id), sync.digests.get(record.id))
            told[record.id] = LineMatch(line, record, outcome)
        return list(told.values()), problems

    def _parse_record(self, line: ItemLine, by_gist: Mapping[str, Record], now: datetime) -> Record:
        if line.value is None:
            raise InvalidInput(line.problem)
        assert self.scope.user is not None
        record = record_from_json(line.value, self.scope.tenant, self.scope.user, self.new_id, now)
        if line.value.get("id") is not None:
            return record
        # Written by hand and taken in already, where something stopped us before its id was in the file.
        return by_gist.get(compute_timeless_digest(record), record)


@dataclass(frozen=True, slots=True)
class ItemMirror:
    """Brings the files of every user up to date whose records have changed. Lines that people edited wait for them.

    A record that is only recalled has not changed. Forgetting removes its lines at once.
    """

    store: Store
    open_files: Callable[[Scope], ItemSync | None]
    is_allowed: Callable[[str], bool]  # to write plain files of a tenant

    def run_job(self, lease: JobLease) -> datetime | None:
        for tenant, user, partition_id, state in self.store.read(lambda tx: tx.db.all("items.list_outdated", {})):
            if lease.stopping():
                return lease.now()
            try:
                files = self.open_files(Scope(tenant, user=user)) if self.is_allowed(tenant) else None
                if files is not None:
                    files.export()
            except StorageError as error:  # a file that cannot be written, say: the next run tries again
                log.warning("the items of a user were not written: %s", error)
                continue
            self.store.write(partial(_save_state, partition_id=partition_id, state=state))
            lease.renew()
        return lease.now() + _PERIOD


def _save_state(tx: Tx, *, partition_id: int, state: str) -> None:
    tx.db.set_property(f"items {partition_id}", state)
