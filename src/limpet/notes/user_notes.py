"""A user's own files: MEMORY.md and the daily notes, found, written, and read for a prompt."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from limpet.api.runtime import Runtime
from limpet.context.collect import Texts
from limpet.errors import InvalidInput, Unsupported
from limpet.model.context import Dropped
from limpet.model.scope import Scope, Space
from limpet.model.text import checked_text
from limpet.model.times import zone_named
from limpet.notes.daily import append_line, dated, days_before, end_of_day, has_day, line_of, read_day
from limpet.notes.layout import is_behind_link, owner_folder
from limpet.notes.long_term import LongTerm
from limpet.security.operation import OPEN, Gate

log = logging.getLogger("limpet.notes.user_notes")


@dataclass(frozen=True, slots=True)
class Notes:
    """The files of one owner in a store that has a folder."""

    runtime: Runtime
    root: Path
    folder: Path
    owner: Space

    @classmethod
    def of(cls, runtime: Runtime, space: Space) -> Notes:
        if runtime.folder is None:
            raise Unsupported("this store has no folder to keep notes in; open a folder")
        return cls(runtime, runtime.folder, owner_folder(runtime.folder, space), space)

    @classmethod
    def to_write(cls, runtime: Runtime, space: Space) -> Notes:
        found = cls.of(runtime, space)
        if not runtime.may_keep_files(space.tenant):
            raise Unsupported(
                f"tenant {space.tenant!r} is sealed, and these files would not be;"
                " encryption.plain_files = true allows them all the same"
            )
        return found

    def long_term(self, gate: Gate = OPEN) -> LongTerm:
        whose = Scope(self.owner.tenant, user=self.owner.owner)
        return LongTerm(self.root, self.folder, self.runtime.config.notes.max_memory_bytes, gate, whose)

    def local(self, moment: datetime) -> datetime:
        try:
            return moment.astimezone(zone_named(self.runtime.config.notes.timezone))
        except OverflowError:
            raise InvalidInput(f"{moment} is outside the years 1 to 9999 in that time zone") from None

    @staticmethod
    def day_of(runtime: Runtime, moment: datetime) -> date:
        return moment.astimezone(zone_named(runtime.config.notes.timezone)).date()

    def day(self, day: date) -> str:
        return read_day(self.root, self.folder, day, self.runtime.config.notes.max_day_bytes)

    def add(self, user: str, assistant: str, moment: datetime) -> str:
        """Note a turn in the day it happened in. Answers the line, "" when there was nothing to say."""
        at = self.local(moment)
        line = line_of(at, checked_text(user, "user_text"), checked_text(assistant, "assistant_text"))
        if line:
            most = self.runtime.config.notes.max_day_bytes
            append_line(self.root, self.folder, at.date(), line, most)
        return line


def texts(runtime: Runtime, space: Space, now: datetime) -> Texts:
    """What a prompt shows of the files. One that cannot be read is left out, and said to be."""
    settings, shown = runtime.config.notes, runtime.config.context
    if runtime.folder is None or not settings.enabled:
        return Texts()
    notes = Notes.of(runtime, space)
    if not notes.folder.exists():
        return Texts()
    today = notes.local(now).date()
    before = days_before(today, shown.recent_days) if settings.daily and shown.show_recent else ()
    failed: list[Dropped] = []

    def part(name: str, read: Callable[[], str]) -> str:
        try:
            return read()
        except Exception as error:  # why: memory never breaks the agent; a prompt without a file beats none
            log.warning("a context goes without %s: %s", name, error)
            failed.append(Dropped(name, f"could not be read: {error}"))
            return ""

    no_link = not is_behind_link(notes.root, notes.folder)

    def of_day(day: date) -> str:
        if no_link and not has_day(notes.folder, day):  # as on most days: quicker seen here than by reading nothing
            return ""
        return part(f"the notes of {day}", lambda: end_of_day(notes.day(day)))

    recent = [dated(day, of_day(day)) for day in before]
    return Texts(
        part("MEMORY.md", notes.long_term().read) if settings.long_term and shown.show_long_term else "",
        of_day(today) if settings.daily and shown.show_today else "",
        "\n".join(filter(None, recent)),
        tuple(failed),
    )
