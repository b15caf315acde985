"""The files people can read: MEMORY.md, daily notes, records as lines."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from limpet.api.base import Face
from limpet.model.scope import home_of
from limpet.model.times import checked_day, checked_time
from limpet.model.values import checked_flag
from limpet.notes import user_notes
from limpet.notes.long_term import LongTerm
from limpet.security.operation import verb

if TYPE_CHECKING:
    from limpet.notes.items import Exported, Items, ItemsImported


class Notes(Face):
    """The verbs on a user's own files."""

    def long_term(self, user: str) -> LongTerm:
        """The user's MEMORY.md: ``.read()``, ``.write(text)``, ``.append(text)``."""
        return self._to_write(user).long_term(self._gate)

    @verb("daily_notes")
    def daily_notes(self, user: str, day: date | str | None = None) -> str:
        """The notes of a day, today's if none is given; "" when there are none."""
        found = self._notes(user)
        wanted = found.local(self._now()).date() if day is None else checked_day(day, "day")
        return found.day(wanted)

    @verb("note_turn")
    def note_turn(self, user: str, user_text: str, assistant_text: str, at: datetime | None = None) -> str:
        """Add a turn's line to the notes of its day. Answers the line."""
        moment = self._now() if at is None else checked_time(at, "at")
        return self._to_write(user).add(user_text, assistant_text, moment)

    @verb("export_items")
    def export_items(self, user: str) -> Exported:
        """Write the user's records to ``items/…jsonl`` in their folder. Lines that were edited wait for an import."""
        self._to_write(user)
        return self._items(user).export()

    @verb("import_items")
    def import_items(self, user: str, *, delete_missing: bool = False) -> ItemsImported:
        """Take in what was changed in ``items/…jsonl``, in one transaction. A bad line is reported and left as it is.

        A line that is missing removes nothing, unless ``delete_missing`` says so.
        """
        return self._items(user).import_(delete_missing=checked_flag(delete_missing, "delete_missing"))

    def _items(self, user: str) -> Items:
        from limpet.notes.items import Items  # late: few programs use them

        return Items.of(self._runtime, home_of(self._scope(user=user)).scope, self._cut)

    def _to_write(self, user: str) -> user_notes.Notes:
        return user_notes.Notes.to_write(self._runtime, home_of(self._scope(user=user)).space)

    def _notes(self, user: str) -> user_notes.Notes:
        return user_notes.Notes.of(self._runtime, home_of(self._scope(user=user)).space)
