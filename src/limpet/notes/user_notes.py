"""A user's MEMORY.md and daily notes: in the store, and where it has a folder as files beside it.

The store has the truth. A change is committed there, then written to the file; what a person saved in the file is read
into the store by the next call that meets it. A note is pending from its commit until its file is written, so that a
program that was killed in between leaves that to the next one.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext, suppress
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from limpet.config import ContextSettings, NotesSettings
from limpet.errors import InvalidInput, KeyMissing, LimpetError, StorageError, StoreBusy, StoreFull, WrongState
from limpet.model.context import Omission, OmissionReason
from limpet.model.dataclass import dataclass, replace
from limpet.model.late import load_modules
from limpet.model.note import (
    MEMORY_FILE,
    Note,
    compute_version,
    day_name,
    describe_note,
    end_line,
    format_line,
    iter_days_before,
    merge_edits,
    parse_day,
    prefix_day,
    trim_to_tail,
)
from limpet.model.scope import Level, Partition, user_partition
from limpet.model.values import Clock, check_text, load_timezone
from limpet.notes.files import MAX_TRIES, EditConflict, NoteFiles, lock_notes_file
from limpet.notes.repository import Notes
from limpet.store.files import owner_folder
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.notes")

ANY_VERSION = "*"


class NoteTexts(NamedTuple):
    """A user's own notes, as Markdown."""

    long_term: str = ""  # MEMORY.md
    today: str = ""
    recent: str = ""  # the notes of the days before
    failed: tuple[Omission, ...] = ()  # those that could not be read


NO_NOTE_TEXTS = NoteTexts()


class EditResult(NamedTuple):
    """A note after a change; and the copy of a text that found no place in it."""

    note: Note
    copy: Path | None = None


@dataclass(frozen=True, slots=True)
class UserNotes:
    """The notes of all users of a store."""

    store: Store
    folder: Path | None  # where the store has one
    settings: NotesSettings
    plain_files: bool  # also for a tenant that is encrypted
    mask: Callable[[str], str]
    clock: Clock

    def is_allowed(self, tenant: str) -> bool:
        """Whether plain files of this tenant may be written: beside encrypted rows they would show what those hide."""
        return self.plain_files or not self.store.is_encrypted(tenant)

    def files(self, partition: Partition) -> NoteFiles | None:
        """The files of an owner; None where the store has no folder, or the tenant is encrypted."""
        if self.folder is None or not self.is_allowed(partition.tenant):
            return None
        return NoteFiles(self.folder, owner_folder(self.folder, partition))

    def to_local(self, moment: datetime, user: str) -> datetime:
        zone = self.settings.find_zone(user)
        try:
            return moment.astimezone(load_timezone(zone))
        except OverflowError:
            raise InvalidInput(f"{moment} is outside the years 1 to 9999 in that time zone") from None

    def local_day(self, moment: datetime, user: str) -> date:
        return self.to_local(moment, user).date()

    # Reading

    def read(self, partition: Partition, name: str) -> str:
        """The text of a note, "" if there is none."""
        note = self.get(partition, name)
        return "" if note is None else note.text

    def get(self, partition: Partition, name: str) -> Note | None:
        return self.compare_file(partition, name, self.store.read(lambda tx: Notes(tx).get(partition, name)))

    def compare_file(self, partition: Partition, name: str, note: Note | None) -> Note | None:
        """The note, after what a person changed in its file was read into the store."""
        files = self.files(partition)
        text = None if files is None else files.read(name, self.max_bytes(name))
        if text is None or (note is not None and _is_as_written(text, note)):
            return note
        try:
            return self.edit(partition, name, _keep).note
        except StorageError as error:  # a store that cannot be written is still read
            log.warning("%s was changed by a person, and could not be stored: %s", name, error)
            return Note(name, text, self.clock())

    @property
    def is_recalled(self) -> bool:
        """Whether recall finds lines of MEMORY.md."""
        return self.settings.enabled and self.settings.long_term

    def find_recalled(self, partition: Partition, stored: Note | None) -> Note | None:
        """MEMORY.md as its file has it, where that can be read."""
        try:
            return self.compare_file(partition, MEMORY_FILE, stored)
        except StorageError as error:
            log.warning("recall goes on without the file %s: %s", MEMORY_FILE, error)
            return stored

    def list_names(self, partition: Partition) -> list[str]:
        files = self.files(partition)
        stored = self.store.read(lambda tx: Notes(tx).list_names(partition))
        return sorted({*stored, *(() if files is None else files.list_names())})

    def find_days_before(self, partition: Partition, first: date) -> list[str]:
        return [name for name in self.list_names(partition) if (day := parse_day(name)) is not None and day < first]

    def _list_shown(self, partition: Partition, shown: ContextSettings, now: datetime) -> tuple[list[str], list[date]]:
        """The names of the notes that a context shows, and those of them that are of the days before."""
        settings = self.settings
        if not settings.enabled:
            return [], []
        today = self.local_day(now, partition.owner)
        days = [*iter_days_before(today, shown.recent_days)] if settings.daily and shown.show_recent else []
        names = [MEMORY_FILE] if settings.long_term and shown.show_long_term else []
        names += [day_name(today)] if settings.daily and shown.show_today else []
        return [*names, *map(day_name, days)], days

    def prefetch_shown(self, tx: Tx, partition: Partition, shown: ContextSettings, now: datetime) -> None:
        Notes(tx).prefetch(partition, self._list_shown(partition, shown, now)[0])

    def find_shown(self, tx: Tx, partition: Partition, shown: ContextSettings, now: datetime) -> dict[str, Note]:
        names, _ = self._list_shown(partition, shown, now)
        return Notes(tx).find(partition, names) if names else {}

    def read_texts(
        self, partition: Partition, shown: ContextSettings, now: datetime, stored: Mapping[str, Note]
    ) -> NoteTexts:
        """Return what a context shows of the notes. One that cannot be read is left out, and listed as failed."""
        if not self.settings.enabled:
            return NO_NOTE_TEXTS
        (names, days), today = self._list_shown(partition, shown, now), self.local_day(now, partition.owner)
        reader = _NoteReader.open(self, partition, names, stored)
        recent = [prefix_day(day, trim_to_tail(reader.read(day_name(day)))) for day in days]
        return NoteTexts(
            reader.read(MEMORY_FILE),
            trim_to_tail(reader.read(day_name(today))),
            "\n".join(filter(None, recent)),
            tuple(reader.failed),
        )

    # Writing

    def edit(self, partition: Partition, name: str, change: Callable[[str], str]) -> EditResult:
        """Put what ``change`` returns for the text in its place: in the store, then in the file.

        ``change`` is called again if another program, or a person, was quicker.
        """
        files, mine = self.files(partition), 0
        with nullcontext() if files is None else files.lock():
            for _ in range(MAX_TRIES):
                there = None if files is None else files.read(name, self.max_bytes(name))
                saved = self.store.write(_NoteEdit(partition, name, change, files, there, mine, self.clock).store)
                mine = saved.version
                try:
                    copy = None if files is None else self._write_file(files, partition, saved, there)
                except EditConflict:
                    continue
                return EditResult(saved, copy)
        raise StoreBusy(f"{name} is changed again and again by another program; try again later")

    def mirror(self, partition: Partition, note: Note) -> None:
        """Write the file of a note that was just stored. Where somebody was quicker, the two are brought together."""
        files = self.files(partition)
        if files is None:
            return
        with files.lock():
            there = files.read(note.name, self.max_bytes(note.name))
            if note.mirrored is None if there is None else _is_as_written(there, note):
                with suppress(EditConflict):
                    self._write_file(files, partition, note, there, soon=True)
                    return
        self.edit(partition, note.name, _keep)

    def _write_file(
        self, files: NoteFiles, partition: Partition, note: Note, there: str | None, *, soon: bool = False
    ) -> Path | None:
        """Bring the file to a stored note, and store that, at once or ``soon``. If it cannot be written, it waits."""
        if not note.version:
            return None
        try:
            copy = files.write(note.name, note.text, there) if there != note.text else None
        except StorageError as error:
            log.warning("%s is in the store, but its file could not be written: %s", note.name, error)
            return None
        digest = compute_version(note.text)
        if note.pending or note.mirrored != digest:
            write = self.store.write_soon if soon else self.store.write
            write(lambda tx: Notes(tx).mark_mirrored(partition, note, digest))
        return copy

    def replace_memory(
        self, partition: Partition, new: str, base: str, version: str | None
    ) -> tuple[WriteResult, bool]:
        """Replace MEMORY.md, of which the writer had read ``base``, or a ``version``. Returns also whether it was."""
        change = _Replacement(self, partition, new, base, version)
        done = self.edit(partition, MEMORY_FILE, change)
        return WriteResult(done.note.text, change.copy or done.copy), change.copy is None

    def append_memory(self, partition: Partition, text: str) -> WriteResult:
        """Add a paragraph or a line at the end of MEMORY.md."""
        most = self.settings.max_memory_bytes
        added = end_line(check_text(text, MEMORY_FILE, max_bytes=most))

        def change(there: str) -> str:
            after = end_line(there) + added
            if (size := len(after.encode())) > most:
                raise InvalidInput(f"{MEMORY_FILE} would be {size:,} bytes long; the limit is {most:,}")
            return after

        return WriteResult(self.edit(partition, MEMORY_FILE, change).note.text)

    def delete(self, partition: Partition, names: Collection[str]) -> None:
        """Remove notes with their files. The files go first: who is killed in between does it again."""
        files = self.files(partition)
        with nullcontext() if files is None else files.lock():
            if files is not None:
                files.delete(names)
            self.store.write(lambda tx: Notes(tx).delete(partition, names))

    def add_turn(self, partition: Partition, user: str, assistant: str, moment: datetime) -> str:
        """Add a turn to the notes of its day. Return the line, "" if both sides were silent."""
        at = self.to_local(moment, partition.owner)
        line = format_line(at, user, assistant)
        if line:
            self.edit(partition, day_name(at.date()), partial(self.add_line, line=line))
        return line

    def add_line(self, there: str, *, line: str) -> str:
        after = f"{end_line(there)}{line}\n"
        if len(after.encode()) > self.settings.max_day_bytes:
            most = self.settings.max_day_bytes
            raise StoreFull(f"the notes of this day have reached their limit of {most:,} bytes (notes.max_day_bytes)")
        return after

    @property
    def writes_daily(self) -> bool:
        return self.settings.enabled and self.settings.write_daily

    def max_bytes(self, name: str) -> int:
        return self.settings.max_memory_bytes if name == MEMORY_FILE else self.settings.max_day_bytes

    # The files of everybody

    def write_pending(self) -> None:
        """Write the files that a program left, which was killed between its commit and the file."""
        if self.folder is None:
            return
        for partition, name in self.store.read(lambda tx: Notes(tx).list_pending()):
            try:
                self.edit(partition, name, _keep)
            except LimpetError as error:  # its key is elsewhere, or the file cannot be read: the next call tries again
                log.warning("the file of %s was not written: %s", describe_note(name), error)

    def read_files(self, partitions: Iterable[Partition] | None = None) -> None:
        """Read into the store what people changed in files, of these owners or of all: before it is copied."""
        for partition in self._list_partitions() if partitions is None else partitions:
            files = self.files(partition)
            try:
                for name in () if files is None else files.list_names():
                    self.get(partition, name)
            except StorageError as error:
                log.warning("a file of notes could not be read: %s", error)

    def write_files(self) -> None:
        """Write every file as the store has it, after the store was copied here. What a file said becomes a copy.

        The files of records follow with the next run of their job.
        """
        self.store.write(lambda tx: tx.db.run("items.forget_states", {}))
        for partition in self._list_partitions():
            files = self.files(partition)
            if files is None or not (notes := self.store.read(lambda tx: Notes(tx).find(partition))):  # noqa: B023 - read at once
                continue
            with files.lock():
                for note in notes.values():
                    there = files.read(note.name, self.max_bytes(note.name))
                    if there and there != note.text:
                        files.save_copy(note.name, there.encode())
                    with suppress(EditConflict):  # saved at this moment: read by the next call
                        self._write_file(files, partition, note, there)

    def _list_partitions(self) -> list[Partition]:
        if self.folder is None:
            return []
        rows = self.store.read(lambda tx: tx.db.all("partitions.list", {}))
        found = [Partition(tenant, Level(level), owner) for tenant, level, owner in rows]
        return [partition for partition in found if self._can_read(partition.tenant)]

    def _can_read(self, tenant: str) -> bool:
        try:
            return self.is_allowed(tenant)
        except KeyMissing:
            return False

    def delete_item_lines(self, tenant: str, user: str, ids: Collection[str]) -> None:
        """Call after records were removed: no file may contain what was forgotten."""
        if self.folder is None or not ids:
            return
        load_modules("limpet.notes.item_lines")
        from limpet.notes.item_lines import SYNC, ItemFiles  # late: few users have such files

        files = ItemFiles(self.folder, owner_folder(self.folder, user_partition(tenant, user)) / "items")
        if files.folder.is_dir():
            with lock_notes_file(files.root, files.folder / SYNC):
                files.delete_records(ids)

    def delete_lines_of(self, tenant: str, gone: Iterable[tuple[str | None, str]]) -> None:
        """The same of records of several users, each with its user, or None: such a record has no line."""
        by_user: dict[str, list[str]] = defaultdict(list)
        for user, id in gone:
            if user is not None:
                by_user[user].append(id)
        for user, ids in sorted(by_user.items()):
            self.delete_item_lines(tenant, user, ids)


def _keep(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class _NoteEdit:
    """One try to change a note, whose file says ``there``."""

    partition: Partition
    name: str
    change: Callable[[str], str]
    files: NoteFiles | None
    there: str | None
    mine: int  # the version that an earlier try of the same call has stored
    clock: Clock

    def store(self, tx: Tx) -> Note:
        """The note as it is stored then. Its version is 0 if there is none."""
        note, there = Notes(tx).lock(self.partition, self.name), self.there
        text = self.change(self._merge(note))
        if note is not None and note.text == text:
            return note
        if note is None and there is None and not text:
            return Note(self.name, "", self.clock(), 0)
        version = 1 if note is None else note.version + 1
        mirrored = (note.mirrored if note else None) if there is None else compute_version(there)
        is_pending = self.files is not None and there != text
        made = Note(self.name, text, self.clock(), version, mirrored, is_pending)
        Notes(tx).put(self.partition, made)
        return made

    def _merge(self, note: Note | None) -> str:
        """What the change begins with: the text in the store, or what a person made of it.

        Where both changed, the file stays as saved, and the store's text becomes a copy beside it.
        """
        there = self.there
        if note is None or there is None:
            return (note.text if note else there) or ""
        if note.version == self.mine:  # saved by a person after this call had read the file
            return there
        if _is_as_written(there, note):
            return note.text
        if self.files is not None and (note.pending or note.mirrored is None):
            copy = self.files.save_copy(self.name, note.text.encode())
            log.warning("%s was changed by a person and by a program; what the program wrote is in %s", self.name, copy)
        return there


def _is_as_written(text: str, note: Note) -> bool:
    """Whether nobody else has changed a file with this text."""
    return text == note.text or compute_version(text) == note.mirrored


@dataclass(frozen=True, slots=True)
class _NoteReader:
    """Some notes of one owner, read at once."""

    notes: UserNotes
    partition: Partition
    stored: Mapping[str, Note]
    present: Collection[str]  # names that have files
    failed: list[Omission]

    @classmethod
    def open(cls, notes: UserNotes, partition: Partition, names: list[str], stored: Mapping[str, Note]) -> _NoteReader:
        files = notes.files(partition)
        return cls(notes, partition, stored, () if files is None else files.find_present(names), [])

    def read(self, name: str) -> str:
        note = self.stored.get(name)
        try:
            if name in self.present:
                note = self.notes.compare_file(self.partition, name, note)
        except Exception as error:  # why: memory never breaks the agent; a prompt without a note beats none
            log.warning("a context goes without %s: %s", describe_note(name), error)
            self.failed.append(Omission(describe_note(name), OmissionReason.UNREADABLE.format(error=error)))
            return ""
        return "" if note is None else note.text


class TurnNote:
    """The line of a turn: stored in the transaction that keeps its reply, then written to the file of the day."""

    def __init__(self, notes: UserNotes, partition: Partition, user: str, assistant: str, known: str = "") -> None:
        """``user``, ``assistant``: what was said, with secrets masked. ``known``: what the note was a moment ago."""
        self._notes, self._partition, self._said = notes, partition, (user, assistant)
        self._today = day_name(notes.local_day(notes.clock(), partition.owner))
        self._stored: Note | None = None
        self._is_mirrored = (files := notes.files(partition)) is not None
        if files is not None and files.read(self._today, notes.max_bytes(self._today)) != known:
            notes.get(partition, self._today)  # what a person wrote there comes before

    def prefetch(self, tx: Tx) -> None:
        """Let what ``store`` reads be read along with the first lock of the transaction."""
        Notes(tx).prefetch_locked(self._partition, self._today)

    def store(self, tx: Tx, moment: datetime) -> None:
        notes, partition = self._notes, self._partition
        at = notes.to_local(moment, partition.owner)
        if line := format_line(at, *self._said):
            note = Notes(tx).lock(partition, name := day_name(at.date())) or Note(name, "", moment, 0)
            text, version = notes.add_line(note.text, line=line), note.version + 1
            changed = replace(note, text=text, updated_at=notes.clock(), version=version, pending=self._is_mirrored)
            Notes(tx).put(partition, changed)
            self._stored = changed

    def write_file(self) -> None:
        if self._stored is not None:
            self._notes.mirror(self._partition, self._stored)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The text now, and the copy of the text that could not be merged with it."""

    text: str
    conflict: Path | None = None


class _Replacement:
    """A new text for MEMORY.md, as an edit of what its writer had read. It may take several tries."""

    def __init__(self, notes: UserNotes, partition: Partition, new: str, base: str, version: str | None) -> None:
        self._files, self._most = notes.files(partition), notes.settings.max_memory_bytes
        self._new, self._base, self._version = check_text(new, MEMORY_FILE, max_bytes=self._most), base, version
        self.copy: Path | None = None  # of the new text, if it does not fit together with what is there

    def __call__(self, there: str) -> str:
        if self._version is not None:  # compared once: from then on it is an edit of that text
            if self._version not in (ANY_VERSION, compute_version(there)):
                raise WrongState(
                    f"{MEMORY_FILE} has changed since that version was read; read it again, nothing was written"
                )
            self._base, self._version = there, None
        joined, self.copy = merge_edits(self._base, there, self._new), None
        if joined is not None and len(joined.encode()) <= self._most:
            return joined
        if self._files is None:
            raise WrongState(
                f"{MEMORY_FILE} was changed by another program, and the changes do not fit together; read it again,"
                " nothing was written"
            )
        # The copy comes first: each text is in a file at every moment.
        self.copy = self._files.save_copy(MEMORY_FILE, self._new.encode())
        log.warning("%s was changed by another program; the other text is in %s", MEMORY_FILE, self.copy)
        return there
