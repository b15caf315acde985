"""A user's own files: MEMORY.md and the daily notes, found, written, and read for a prompt."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from limpet.api.runtime import Runtime
from limpet.context.collect import NoteTexts
from limpet.errors import InvalidInput, Unsupported
from limpet.model.context import Omission
from limpet.model.scope import Partition, Scope
from limpet.model.text import check_text
from limpet.model.times import load_timezone
from limpet.notes.daily import append_line, format_line, has_day, iter_days_before, prefix_day, read_day, trim_to_tail
from limpet.notes.layout import is_behind_link, owner_folder
from limpet.notes.long_term import LongTerm
from limpet.security.operation import ALLOW_ALL, Authorizer

log = logging.getLogger("limpet.notes")


@dataclass(frozen=True, slots=True)
class NoteFiles:
    """The files of one owner in a store that has a folder."""

    runtime: Runtime
    root: Path
    folder: Path
    owner: Partition

    @classmethod
    def of(cls, runtime: Runtime, space: Partition) -> NoteFiles:
        if runtime.folder is None:
            raise Unsupported("this store has no folder to keep notes in; open a folder")
        return cls(runtime, runtime.folder, owner_folder(runtime.folder, space), space)

    @classmethod
    def open_for_writing(cls, runtime: Runtime, space: Partition) -> NoteFiles:
        found = cls.of(runtime, space)
        if not runtime.can_write_files(space.tenant):
            raise Unsupported(
                f"tenant {space.tenant!r} is sealed, and these files would not be;"
                " encryption.plain_files = true allows them all the same"
            )
        return found

    def long_term(self, gate: Authorizer = ALLOW_ALL) -> LongTerm:
        whose = Scope(self.owner.tenant, user=self.owner.owner)
        return LongTerm(self.root, self.folder, self.runtime.config.notes.max_memory_bytes, gate, whose)

    def to_local(self, moment: datetime) -> datetime:
        try:
            return moment.astimezone(load_timezone(self.runtime.config.notes.timezone))
        except OverflowError:
            raise InvalidInput(f"{moment} is outside the years 1 to 9999 in that time zone") from None

    @staticmethod
    def local_day(runtime: Runtime, moment: datetime) -> date:
        return moment.astimezone(load_timezone(runtime.config.notes.timezone)).date()

    def read_notes(self, day: date) -> str:
        return read_day(self.root, self.folder, day, self.runtime.config.notes.max_day_bytes)

    def add_turn(self, user: str, assistant: str, moment: datetime) -> str:
        """Note a turn in the day it happened in. Answers the line, "" when there was nothing to say."""
        at = self.to_local(moment)
        line = format_line(at, check_text(user, "user_text"), check_text(assistant, "assistant_text"))
        if line:
            most = self.runtime.config.notes.max_day_bytes
            append_line(self.root, self.folder, at.date(), line, most)
        return line


def read_texts(runtime: Runtime, space: Partition, now: datetime) -> NoteTexts:
    """What a prompt shows of the files. One that cannot be read is left out, and said to be."""
    settings, shown = runtime.config.notes, runtime.config.context
    if runtime.folder is None or not settings.enabled:
        return NoteTexts()
    notes = NoteFiles.of(runtime, space)
    if not notes.folder.exists():
        return NoteTexts()
    today = notes.to_local(now).date()
    before = iter_days_before(today, shown.recent_days) if settings.daily and shown.show_recent else ()
    failed: list[Omission] = []

    def read_part(name: str, read: Callable[[], str]) -> str:
        try:
            return read()
        except Exception as error:  # why: memory never breaks the agent; a prompt without a file beats none
            log.warning("a context goes without %s: %s", name, error)
            failed.append(Omission(name, f"could not be read: {error}"))
            return ""

    no_link = not is_behind_link(notes.root, notes.folder)

    def read_recent_day(day: date) -> str:
        if no_link and not has_day(notes.folder, day):  # as on most days: quicker seen here than by reading nothing
            return ""
        return read_part(f"the notes of {day}", lambda: trim_to_tail(notes.read_notes(day)))

    recent = [prefix_day(day, read_recent_day(day)) for day in before]
    return NoteTexts(
        read_part("MEMORY.md", notes.long_term().read) if settings.long_term and shown.show_long_term else "",
        read_recent_day(today) if settings.daily and shown.show_today else "",
        "\n".join(filter(None, recent)),
        tuple(failed),
    )
