"""The files people can read: MEMORY.md, daily notes, records as lines."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from limpet.api.handle import Handle
from limpet.model.scope import resolve_owner
from limpet.model.times import check_day, check_time
from limpet.model.values import check_flag
from limpet.notes.long_term import LongTerm
from limpet.notes.user_notes import NoteFiles
from limpet.security.operation import operation

if TYPE_CHECKING:
    from limpet.lifecycle.item_sync import ItemExportResult, ItemImportResult, ItemSync


class NoteOperations(Handle):
    """MEMORY.md, daily notes and records as lines: ``memory.notes``."""

    def long_term(self, user: str) -> LongTerm:
        """The user's MEMORY.md: ``.read()``, ``.write(text)``, ``.append(text)``."""
        return self._writable_notes(user).long_term(self._gate)

    @operation("notes.day")
    def day(self, user: str, day: date | str | None = None) -> str:
        """The notes of a day, today's if none is given; "" when there are none."""
        found = self._notes(user)
        wanted = found.to_local(self._now()).date() if day is None else check_day(day, "day")
        return found.read_notes(wanted)

    @operation("notes.add_turn")
    def add_turn(self, user: str, user_text: str, assistant_text: str, at: datetime | None = None) -> str:
        """Add a turn's line to the notes of its day. Answers the line."""
        moment = self._now() if at is None else check_time(at, "at")
        return self._writable_notes(user).add_turn(user_text, assistant_text, moment)

    @operation("notes.export_items")
    def export_items(self, user: str) -> ItemExportResult:
        """Write the user's records to ``items/…jsonl`` in their folder. Lines that were edited wait for an import."""
        self._writable_notes(user)
        return self._items(user).export()

    @operation("notes.import_items")
    def import_items(self, user: str, *, delete_missing: bool = False) -> ItemImportResult:
        """Take in what was changed in ``items/…jsonl``, in one transaction. A bad line is reported and left as it is.

        A line that is missing removes nothing, unless ``delete_missing`` says so.
        """
        return self._items(user).import_(delete_missing=check_flag(delete_missing, "delete_missing"))

    def _items(self, user: str) -> ItemSync:

        return self._runtime.item_sync(resolve_owner(self._scope(user=user)).scope)

    def _writable_notes(self, user: str) -> NoteFiles:
        return self._runtime.notes.open_for_writing(resolve_owner(self._scope(user=user)).space)

    def _notes(self, user: str) -> NoteFiles:
        return self._runtime.notes.open(resolve_owner(self._scope(user=user)).space)
