"""A user's own files: MEMORY.md and daily notes, written by programs and people in any order. No edit is lost.

A day's notes are ``YYYY-MM-DD.md``: one line a turn, in the order of the turns. Programs take turns by a lock; editors
take none. So a write is computed from what the file holds, and the file is compared once more before it is replaced.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from limpet.config import ContextSettings, NotesSettings
from limpet.errors import InvalidInput, StorageError, StoreBusy, StoreFull, Unsupported, WrongState
from limpet.model.context import Omission, OmissionReason
from limpet.model.dataclass import dataclass
from limpet.model.scope import Level, Partition
from limpet.model.values import check_text, load_timezone
from limpet.store.files import (
    check_no_symlink,
    is_behind_link,
    lock_file,
    make_folder,
    owner_folder,
    read_bytes,
    write_atomic,
)

log = logging.getLogger("limpet.notes")

MEMORY_FILE = "MEMORY.md"
ANY_VERSION = "*"
USER_CHARS, ASSISTANT_CHARS = 200, 300
_MAX_TRIES = 20
_MAX_COPIES = 1000
_MIN_CUT_CHARS = 12  # characters of a sentence that a cut line shows, to recognise it by
_SHOWN_CHARS = 65_536  # of a day, in a context: its end
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
# White partition, controls, and what reverses the direction of text: none of it may end or turn a line.
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")


class NoteTexts(NamedTuple):
    """A user's own files, as Markdown."""

    long_term: str = ""  # MEMORY.md
    today: str = ""
    recent: str = ""  # the notes of the days before
    failed: tuple[Omission, ...] = ()  # files that could not be read


NO_NOTE_TEXTS = NoteTexts()


@dataclass(frozen=True, slots=True)
class UserNotes:
    """The files of all users of a store, if the store has a folder for them."""

    folder: Path | None
    settings: NotesSettings
    is_allowed: Callable[[str], bool]  # whether plain files of this tenant may be written: not beside encrypted rows
    mask: Callable[[str], str]

    def open(self, partition: Partition) -> NoteFiles:
        if self.folder is None:
            raise Unsupported("this store has no folder to keep notes in; open a folder")
        return NoteFiles(self.settings, self.folder, owner_folder(self.folder, partition), partition)

    def open_for_writing(self, partition: Partition) -> NoteFiles:
        found = self.open(partition)
        if not self.is_allowed(partition.tenant):
            raise Unsupported(
                f"tenant {partition.tenant!r} is encrypted, and these files would not be;"
                " set encryption.plain_files = true to allow them"
            )
        return found

    def local_day(self, moment: datetime, user: str) -> date:
        zone = self.settings.find_zone(user) or self.settings.timezone
        return moment.astimezone(load_timezone(zone)).date()

    def write_turn(self, partition: Partition, user: str, assistant: str, moment: datetime) -> None:
        """Add the turn's line to the notes of its day, if the settings and the store allow it."""
        wanted = self.settings.enabled and self.settings.write_daily
        if self.folder is not None and wanted and self.is_allowed(partition.tenant):
            self.open(partition).add_turn(self.mask(user), self.mask(assistant), moment)

    def delete_item_lines(self, tenant: str, user: str, ids: Collection[str]) -> None:
        """Call after records were removed: no file may contain what was forgotten."""
        if self.folder is None or not ids:
            return
        from limpet.notes.item_lines import SYNC, ItemFiles  # late: it builds on this module

        notes = self.open(Partition(tenant, Level.USER, user))
        files = ItemFiles(notes.root, notes.folder / "items")
        if files.folder.is_dir():
            with lock_notes_file(files.root, files.folder / SYNC):
                files.delete_records(ids)

    def read_long_term(self, partition: Partition) -> tuple[str, datetime] | None:
        """The text of MEMORY.md and when it was written; None if there is none, or it cannot be read."""
        if self.folder is None or not (self.settings.enabled and self.settings.long_term):
            return None
        notes = self.open(partition)
        try:
            written = (notes.folder / MEMORY_FILE).stat().st_mtime
            return notes.long_term().read(), datetime.fromtimestamp(written, UTC)
        except FileNotFoundError:
            return None
        except (OSError, StorageError) as error:
            log.warning("recall goes on without %s: %s", MEMORY_FILE, error)
            return None

    def read_texts(self, partition: Partition, shown: ContextSettings, now: datetime) -> NoteTexts:
        """Return what a context shows of the files. One that cannot be read is left out, and listed as failed."""
        settings = self.settings
        if self.folder is None or not settings.enabled:
            return NO_NOTE_TEXTS
        notes = self.open(partition)
        if not notes.folder.exists():
            return NO_NOTE_TEXTS
        reader = _NoteReader(notes, [], has_link=is_behind_link(notes.root, notes.folder))
        today = notes.to_local(now).date()
        before = iter_days_before(today, shown.recent_days) if settings.daily and shown.show_recent else ()
        recent = [_prefix_day(day, reader.read_day(day)) for day in before]
        shows_long_term = settings.long_term and shown.show_long_term
        return NoteTexts(
            reader.read_part(MEMORY_FILE, notes.long_term().read) if shows_long_term else "",
            reader.read_day(today) if settings.daily and shown.show_today else "",
            "\n".join(filter(None, recent)),
            tuple(reader.failed),
        )


@dataclass(frozen=True, slots=True)
class _NoteReader:
    notes: NoteFiles
    failed: list[Omission]
    has_link: bool

    def read_part(self, name: str, read: Callable[[], str]) -> str:
        try:
            return read()
        except Exception as error:  # why: memory never breaks the agent; a prompt without a file beats none
            log.warning("a context goes without %s: %s", name, error)
            self.failed.append(OmissionReason.UNREADABLE.omit(name, error=error))
            return ""

    def read_day(self, day: date) -> str:
        if not self.has_link and not _has_day(self.notes.folder, day):  # most days have none: cheaper than reading
            return ""
        return self.read_part(f"the notes of {day}", lambda: _trim_to_tail(self.notes.read_notes(day)))


@dataclass(frozen=True, slots=True)
class NoteFiles:
    """The files of one owner in a store that has a folder."""

    settings: NotesSettings
    root: Path
    folder: Path
    owner: Partition

    def long_term(self) -> LongTerm:
        return LongTerm(self.root, self.folder, self.settings.max_memory_bytes)

    def to_local(self, moment: datetime) -> datetime:
        try:
            user = self.owner.owner if self.owner.level is Level.USER else None
            return moment.astimezone(load_timezone(self.settings.find_zone(user) or self.settings.timezone))
        except OverflowError:
            raise InvalidInput(f"{moment} is outside the years 1 to 9999 in that time zone") from None

    def read_notes(self, day: date) -> str:
        path = day_path(self.folder, day)
        return decode_text(path, read_file(self.root, path, self.settings.max_day_bytes))

    def add_turn(self, user: str, assistant: str, moment: datetime) -> str:
        """Add a turn to the notes of its day. Return the line, "" if both sides were silent."""
        at = self.to_local(moment)
        line = format_line(at, user, assistant)
        if line:
            append_line(self.root, self.folder, at.date(), line, self.settings.max_day_bytes)
        return line


# Daily notes


def format_line(moment: datetime, user: str, assistant: str) -> str:
    """Return ``[HH:mm] User: … | Assistant: …``, without a silent side; "" if both were silent."""
    said = (("User", _clip(user, USER_CHARS)), ("Assistant", _clip(assistant, ASSISTANT_CHARS)))
    parts = [f"{who}: {text}" for who, text in said if text]
    return f"[{moment:%H:%M}] {' | '.join(parts)}" if parts else ""


def append_line(root: Path, folder: Path, day: date, line: str, most: int) -> None:
    path = day_path(folder, day)

    def change(there: bytes) -> bytes:
        after = _end_line(there) + line.encode() + b"\n"
        if len(after) > most:
            raise StoreFull(f"{path} has reached its limit of {most:,} bytes (notes.max_day_bytes)")
        return after

    with lock_notes_file(root, path):
        rewrite(path, change)


def redact_lines(text: str, gone: Iterable[str], mark: str) -> tuple[str, int]:
    """Return the notes with a mark in place of these sentences, even if cut off by the end of a line; and how many."""
    wanted = [_flatten(sentence) for sentence in gone]
    before = text.splitlines(keepends=True)
    after = [_redact_line(line, wanted, mark) for line in before]
    return "".join(after), sum(one != two for one, two in zip(before, after, strict=True))


def _redact_line(line: str, gone: Iterable[str], mark: str) -> str:
    for sentence in gone:
        if sentence in line:
            line = line.replace(sentence, mark)
            continue
        for length in range(len(sentence) - 1, _MIN_CUT_CHARS - 1, -1):
            if f"{sentence[:length]}…" in line:
                line = line.replace(f"{sentence[:length]}…", mark)
                break
    return line


def list_days(folder: Path) -> list[date]:
    """Return the days that have a file, the oldest first."""
    names = [path.stem for path in folder.glob("[0-9]*-[0-9]*-[0-9]*.md")]
    days = []
    for name in filter(_DAY.fullmatch, names):
        with suppress(ValueError):  # 2026-02-31
            days.append(date.fromisoformat(name))
    return sorted(days)


def _has_day(folder: Path, day: date) -> bool:
    """Return whether anything has the day's name; reading it reports what is wrong with it."""
    try:
        os.lstat(day_path(folder, day))
    except OSError as error:
        return not isinstance(error, FileNotFoundError)
    return True


def _trim_to_tail(text: str) -> str:
    """Return as much of a day's end as a context can need, from the start of a line."""
    return text if len(text) <= _SHOWN_CHARS else text[-_SHOWN_CHARS:].partition("\n")[2]


def iter_days_before(today: date, count: int) -> Iterator[date]:
    """The oldest first."""
    first = max(today.toordinal() - count, date.min.toordinal())
    return (date.fromordinal(ordinal) for ordinal in range(first, today.toordinal()))


def _prefix_day(day: date, text: str) -> str:
    """Put the day before every line: a line that alone finds room still says when."""
    name = day.isoformat()
    return "\n".join(f"{name} {line}" for line in text.splitlines() if line.strip())


def day_path(folder: Path, day: date) -> Path:
    return folder / f"{day.isoformat()}.md"


def _clip(text: str, most: int) -> str:
    plain = _flatten(text)
    return plain if len(plain) <= most else f"{plain[: most - 1].rstrip()}…"


def _flatten(text: str) -> str:
    # The bar separates the two speakers; neither of them may write one.
    return _SPACE.sub(" ", text).replace("|", "¦").strip()


# MEMORY.md


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The file's text now, and the copy of the text that could not be merged with it."""

    text: str
    conflict: Path | None = None


class LongTerm:
    """A user's MEMORY.md. A handle remembers what it last read: a write is an edit of that. Thread-safe."""

    def __init__(self, root: Path, folder: Path, max_bytes: int) -> None:
        self._root = root
        self._file = folder / MEMORY_FILE
        self._most = max_bytes
        self._seen = b""
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        return f"<LongTerm {self._file}>"

    @property
    def path(self) -> Path:
        return self._file

    def read(self) -> str:
        """Return the current text, "" if there is none."""
        with self._turn:
            self._seen = read_file(self._root, self._file, self._most)
            return decode_text(self._file, self._seen)

    def write(self, text: str, *, version: str | None = None) -> WriteResult:
        """Replace what was last read through this handle.

        If the file has changed since, both sides are kept: lines that one side appended are added to the other;
        otherwise the file stays as it is and the text goes to ``MEMORY.md.conflict``. A caller without a handle passes
        the ``version`` it read: ``compute_version(text)``, or ``"*"`` for any. If the file has another version, the
        call raises WrongState and writes nothing.
        """
        new = check_text(text, MEMORY_FILE, max_bytes=self._most).encode()
        with self._turn, lock_notes_file(self._root, self._file):
            if version is not None:
                self._seen = self._read_version(version)
            return self._replace(new)

    def append(self, text: str) -> WriteResult:
        """Add a paragraph or a line at the end."""
        added = check_text(text, MEMORY_FILE, max_bytes=self._most).encode()

        def change(there: bytes) -> bytes:
            after = _end_line(there) + _end_line(added)
            if len(after) > self._most:
                raise InvalidInput(f"{MEMORY_FILE} would be {len(after):,} bytes long; the limit is {self._most:,}")
            return after

        with self._turn, lock_notes_file(self._root, self._file):
            return WriteResult(decode_text(self._file, rewrite(self._file, change)))

    def _read_version(self, version: str) -> bytes:
        there = read_file(self._root, self._file, self._most)
        if version not in (ANY_VERSION, compute_version(decode_text(self._file, there))):
            raise WrongState(
                f"{MEMORY_FILE} has changed since that version was read; read it again, nothing was written"
            )
        return there

    def _replace(self, new: bytes) -> WriteResult:
        conflict: Path | None = None

        def change(there: bytes) -> bytes:
            nonlocal conflict
            after, lost = there, None
            joined = merge_edits(self._seen, there, new)
            if joined is None or len(joined) > self._most:
                lost = new
            else:
                after = joined
                if not is_text(there) and there not in joined:
                    lost = there  # not all of it could be read
            # The copy comes first: each text is in a file at every moment.
            conflict = None if lost is None else save_conflict_copy(self._file, lost)
            return after

        after = rewrite(self._file, change)
        if conflict is None:
            # What others added in the meantime was not read here: the next write must keep it too.
            self._seen = new
        else:
            log.warning("%s was changed by another program; the other text is in %s", self._file, conflict)
        return WriteResult(decode_text(self._file, after), conflict)


def compute_version(text: str) -> str:
    """Return a short hash of the text."""
    return sha256(text.encode()).hexdigest()[:12]


def merge_edits(base: bytes, there: bytes, new: bytes) -> bytes | None:
    """Return the text with both edits of the base; None if both do more than append."""
    if there in (base, new):
        return new
    if not base:
        return None
    if (added := _find_appended(base, new)) is not None:
        return _end_line(there) + added
    if (added := _find_appended(base, there)) is not None:
        return _end_line(new) + added
    return None


def _find_appended(base: bytes, text: bytes) -> bytes | None:
    """Return the lines that a text appends to its base; None if it differs in another way."""
    rest = text.removeprefix(base)
    if not text.startswith(base) or not (base.endswith(b"\n") or rest.startswith((b"\n", b"\r\n"))):
        return None
    return rest.lstrip(b"\r\n")


def _end_line(data: bytes) -> bytes:
    """Return the text with its last line ended."""
    return data if not data or data.endswith(b"\n") else data + b"\n"


# Files that people edit while a program writes them


class EditConflict(Exception):
    """The file was saved by another program in the meantime."""


def read_file(root: Path, path: Path, most: int) -> bytes:
    """Return the file's bytes, none if it does not exist. Raises StorageError for more than ``most``."""
    check_no_symlink(root, path)
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}; check the path and its permissions") from error
    if size > most:
        raise StorageError(f"{path} is {size:,} bytes long; the limit is {most:,}: shorten it, or raise the setting")
    return read_bytes(path) or b""


def decode_text(path: Path, data: bytes) -> str:
    """Return the text. Bytes that are not UTF-8 become U+FFFD and are logged."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        log.warning("%s is not UTF-8 at byte %d; what cannot be read is shown as \ufffd", path, error.start)
        text = data.decode("utf-8-sig", errors="replace")
    return text.replace("\x00", "\ufffd")


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\x00" not in data


@contextmanager
def lock_notes_file(root: Path, path: Path) -> Iterator[None]:
    """Lock the file among programs, and create its folder."""
    for place in (path, path.with_name(f"{path.name}.lock")):
        check_no_symlink(root, place)
    make_folder(path.parent)
    with lock_file(path):
        yield


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> bytes:
    """Replace the locked file by what ``change`` returns for it; try again if it was saved in the meantime."""
    for _ in range(_MAX_TRIES):
        before = read_bytes(path) or b""
        after = change(before)
        if after == before:
            return after
        try:
            write_atomic(path, after, make_unchanged_check(path, before))
        except EditConflict:
            continue
        return after
    raise StoreBusy(f"{path} is saved again and again by another program; try again later")


def save_conflict_copy(path: Path, data: bytes) -> Path:
    """Write the bytes beside the file as ``<name>.conflict``, ``.conflict.2`` and so on, without overwriting one."""
    for number in range(1, _MAX_COPIES):
        copy = path.with_name(f"{path.name}.conflict" + (f".{number}" if number > 1 else ""))
        if copy.is_symlink():
            continue
        there = read_bytes(copy)
        if there is None:
            write_atomic(copy, data)
        if there is None or there == data:
            return copy
    raise StorageError(f"there are {_MAX_COPIES:,} conflict copies beside {path}; look through them and remove some")


def make_unchanged_check(path: Path, before: bytes) -> Callable[[], None]:
    """Return a check for just before the write. It raises EditConflict if the file is not what was read."""

    def check() -> None:
        if (read_bytes(path) or b"") != before:
            raise EditConflict

    return check
