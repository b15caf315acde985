"""A user's own files: MEMORY.md and daily notes, found, written, and read for a context.

A day's notes are ``YYYY-MM-DD.md``: one line a turn, in the order the turns came.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

from limpet.config import ContextSettings, NotesSettings
from limpet.errors import InvalidInput, StoreFull, Unsupported
from limpet.model.context import Omission
from limpet.model.dataclass import dataclass
from limpet.model.scope import Level, Partition
from limpet.model.values import check_text, load_timezone
from limpet.notes import edited
from limpet.notes.item_lines import SYNC, ItemFiles
from limpet.notes.long_term import LongTerm
from limpet.store.atomic_files import is_behind_link, owner_folder

log = logging.getLogger("limpet.notes")

USER_CHARS, ASSISTANT_CHARS = 200, 300
_CUT_AT_LEAST = 12  # characters of a sentence that a cut line shows, to be known by them
_SHOWN_CHARS = 65_536  # of a day, in a context: its end
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
# White space, controls, and what reverses the direction of text: none of it may end or turn a line.
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")


class NoteTexts(NamedTuple):
    """The user's own files, as Markdown."""

    long_term: str = ""  # MEMORY.md
    today: str = ""
    recent: str = ""  # the notes of the days before
    failed: tuple[Omission, ...] = ()  # files that could not be read


NO_NOTE_TEXTS = NoteTexts()


@dataclass(frozen=True, slots=True)
class UserNotes:
    """The files of all users of a store, as far as the store has a folder for them."""

    folder: Path | None
    settings: NotesSettings
    is_allowed: Callable[[str], bool]  # whether plain files of this tenant may be written: not beside encrypted rows
    mask: Callable[[str], str]

    def open(self, space: Partition) -> NoteFiles:
        if self.folder is None:
            raise Unsupported("this store has no folder to keep notes in; open a folder")
        return NoteFiles(self.settings, self.folder, owner_folder(self.folder, space), space)

    def open_for_writing(self, space: Partition) -> NoteFiles:
        found = self.open(space)
        if not self.is_allowed(space.tenant):
            raise Unsupported(
                f"tenant {space.tenant!r} is encrypted, and these files would not be;"
                " set encryption.plain_files = true to allow them"
            )
        return found

    def local_day(self, moment: datetime) -> date:
        return moment.astimezone(load_timezone(self.settings.timezone)).date()

    def write_turn(self, space: Partition, user: str, assistant: str, moment: datetime) -> None:
        """The turn's line in the notes of its day, where the settings and the store allow it."""
        wanted = self.settings.enabled and self.settings.write_daily
        if self.folder is not None and wanted and self.is_allowed(space.tenant):
            self.open(space).add_turn(self.mask(user), self.mask(assistant), moment)

    def delete_item_lines(self, tenant: str, user: str, ids: Collection[str]) -> None:
        """After records were removed: no file may hold what was forgotten."""
        if self.folder is None or not ids:
            return
        notes = self.open(Partition(tenant, Level.USER, user))
        files = ItemFiles(notes.root, notes.folder / "items")
        if files.folder.is_dir():
            with edited.lock_notes_file(files.root, files.folder / SYNC):
                files.delete_records(ids)

    def read_texts(self, space: Partition, shown: ContextSettings, now: datetime) -> NoteTexts:
        """What a context shows of the files. One that cannot be read is left out, and listed as failed."""
        settings = self.settings
        if self.folder is None or not settings.enabled:
            return NO_NOTE_TEXTS
        notes = self.open(space)
        if not notes.folder.exists():
            return NO_NOTE_TEXTS
        reader = _NoteReader(notes, [], has_link=is_behind_link(notes.root, notes.folder))
        today = notes.to_local(now).date()
        before = iter_days_before(today, shown.recent_days) if settings.daily and shown.show_recent else ()
        recent = [prefix_day(day, reader.read_day(day)) for day in before]
        shows_long_term = settings.long_term and shown.show_long_term
        return NoteTexts(
            reader.read_part("MEMORY.md", notes.long_term().read) if shows_long_term else "",
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
            self.failed.append(Omission(name, f"could not be read: {error}"))
            return ""

    def read_day(self, day: date) -> str:
        if not self.has_link and not has_day(self.notes.folder, day):  # most days have none: cheaper than reading
            return ""
        return self.read_part(f"the notes of {day}", lambda: trim_to_tail(self.notes.read_notes(day)))


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
            return moment.astimezone(load_timezone(self.settings.timezone))
        except OverflowError:
            raise InvalidInput(f"{moment} is outside the years 1 to 9999 in that time zone") from None

    def read_notes(self, day: date) -> str:
        return read_day(self.root, self.folder, day, self.settings.max_day_bytes)

    def add_turn(self, user: str, assistant: str, moment: datetime) -> str:
        """Note a turn in the day it happened in. Returns the line, "" when there was nothing to say."""
        at = self.to_local(moment)
        line = format_line(at, check_text(user, "user_text"), check_text(assistant, "assistant_text"))
        if line:
            append_line(self.root, self.folder, at.date(), line, self.settings.max_day_bytes)
        return line


# Daily notes


def format_line(moment: datetime, user: str, assistant: str) -> str:
    """``[HH:mm] User: … | Assistant: …`` at a local time; a silent side is left out, and "" if both were silent."""
    said = (("User", _clip(user, USER_CHARS)), ("Assistant", _clip(assistant, ASSISTANT_CHARS)))
    parts = [f"{who}: {text}" for who, text in said if text]
    return f"[{moment:%H:%M}] {' | '.join(parts)}" if parts else ""


def append_line(root: Path, folder: Path, day: date, line: str, most: int) -> None:
    path = day_path(folder, day)

    def change(there: bytes) -> bytes:
        ended = there if not there or there.endswith(b"\n") else there + b"\n"
        after = ended + line.encode() + b"\n"
        if len(after) > most:
            raise StoreFull(f"{path} has reached its limit of {most:,} bytes (notes.max_day_bytes)")
        return after

    with edited.lock_notes_file(root, path):
        edited.rewrite(path, change)


def redact_lines(text: str, gone: Iterable[str], mark: str) -> tuple[str, int]:
    """The notes with a mark in the place of these sentences, also where a line ends in their middle; and how many."""
    wanted = [_flatten(sentence) for sentence in gone]
    before = text.splitlines(keepends=True)
    after = [_redact_line(line, wanted, mark) for line in before]
    return "".join(after), sum(one != two for one, two in zip(before, after, strict=True))


def _redact_line(line: str, gone: Iterable[str], mark: str) -> str:
    for sentence in gone:
        if sentence in line:
            line = line.replace(sentence, mark)
            continue
        for length in range(len(sentence) - 1, _CUT_AT_LEAST - 1, -1):
            if f"{sentence[:length]}…" in line:
                line = line.replace(f"{sentence[:length]}…", mark)
                break
    return line


def list_days(folder: Path) -> list[date]:
    """The days that have a file, the oldest first."""
    names = [path.stem for path in folder.glob("[0-9]*-[0-9]*-[0-9]*.md")]
    return sorted(date.fromisoformat(name) for name in names if _DAY.fullmatch(name) and _is_date(name))


def _is_date(name: str) -> bool:
    try:
        date.fromisoformat(name)
    except ValueError:
        return False
    return True


def has_day(folder: Path, day: date) -> bool:
    """Whether there is anything under the day's name; reading it reports what is wrong with it."""
    try:
        os.lstat(day_path(folder, day))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def read_day(root: Path, folder: Path, day: date, most: int) -> str:
    path = day_path(folder, day)
    return edited.decode_text(path, edited.read_file(root, path, most))


def trim_to_tail(text: str) -> str:
    """As much of a day's end as a context can need, from the beginning of a line."""
    if len(text) <= _SHOWN_CHARS:
        return text
    return text[-_SHOWN_CHARS:].partition("\n")[2]


def iter_days_before(today: date, count: int) -> Iterator[date]:
    """The oldest first."""
    first = max(today.toordinal() - count, date.min.toordinal())
    return (date.fromordinal(ordinal) for ordinal in range(first, today.toordinal()))


def prefix_day(day: date, text: str) -> str:
    """Every line with its day before it: a line that alone finds room still says when."""
    name = day.isoformat()
    return "\n".join(f"{name} {line}" for line in text.splitlines() if line.strip())


def day_path(folder: Path, day: date) -> Path:
    return folder / f"{day.isoformat()}.md"


def _clip(text: str, most: int) -> str:
    plain = _flatten(text)
    return plain if len(plain) <= most else f"{plain[: most - 1].rstrip()}…"


def _flatten(text: str) -> str:
    # The bar is what parts the two speakers; neither of them may write one.
    return _SPACE.sub(" ", text).replace("|", "¦").strip()
