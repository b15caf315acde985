"""MEMORY.md, daily notes, and records as lines in files."""

from __future__ import annotations

import threading
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.api import parameters as arg
from limpet.api.handle import Handle
from limpet.model.note import MEMORY_FILE, day_name
from limpet.model.scope import Partition, Scope, resolve_owner
from limpet.model.transfer import ItemExportResult, ItemImportResult
from limpet.model.values import check_name
from limpet.notes.user_notes import UserNotes, WriteResult
from limpet.security.operation import Authorizer, On, Operation, operation

if TYPE_CHECKING:
    from limpet.lifecycle.item_sync import ItemSync


def _long_term_operation(name: str, needs: str, method: str, **more: Any) -> Operation:
    address = f"{method} /v1/notes"
    return operation(
        f"notes.long_term.{name}", On.HANDLE, needs, address, tool="memory_notes", cli="notes memory", **more
    )


class LongTermNotes:
    """A user's MEMORY.md. The handle knows what it last read: a write is an edit of that. Safe between threads."""

    def __init__(self, authorizer: Authorizer, scope: Scope, notes: UserNotes) -> None:
        self._authorizer = authorizer
        self._scope = scope
        self._notes, self._partition = notes, resolve_owner(scope).space
        self._seen = ""
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        return f"<LongTermNotes of {self._scope.user}>"

    @property
    def path(self) -> Path | None:
        """The file; None where the store has no folder, or the tenant is encrypted."""
        files = self._notes.files(self._partition)
        return None if files is None else files.folder / MEMORY_FILE

    @_long_term_operation("read", "read:user", "GET", answer="text")
    def read(self) -> str:
        """Return the current text; "" if there is none."""
        with self._turn:
            self._seen = self._notes.read(self._partition, MEMORY_FILE)
            return self._seen

    # It reads too: it returns the whole file.
    @_long_term_operation("write", "read:user write:user", "PUT")
    def write(
        self, text: arg.NoteText, *, version: arg.NoteVersion | None = None, mask_secrets: arg.MaskSecrets = False
    ) -> WriteResult:
        """Replace the text that was last read through this handle.

        If it has changed since, both edits are kept: lines that one side only added are merged; otherwise the current
        text stays, and yours is written to ``MEMORY.md.conflict``. A store without a folder raises WrongState instead.
        A caller without a lasting handle passes the ``version`` it read, or ``"*"`` for any. If the text has another
        version by now, WrongState is raised and nothing is written.
        """
        text = self._notes.mask(text) if mask_secrets else text
        with self._turn:
            done, was_taken = self._notes.replace_memory(self._partition, text, self._seen, version)
            if was_taken:
                # What others added in the meantime was not read here: the next write must keep it too.
                self._seen = text
            return done

    @_long_term_operation("append", "read:user write:user", "POST")
    def append(self, text: arg.NoteText, *, mask_secrets: arg.MaskSecrets = False) -> WriteResult:
        """Add a paragraph or a line at the end of the current text."""
        return self._notes.append_memory(self._partition, self._notes.mask(text) if mask_secrets else text)


class NoteOperations(Handle):
    """MEMORY.md, daily notes and records as lines: ``memory.notes``."""

    def long_term(self, user: arg.User | None = None) -> LongTermNotes:
        """The user's MEMORY.md: ``.read()``, ``.write(text)``, ``.append(text)``."""
        owner = self._view.principal.user or self._view.default_user if user is None else check_name(user, "user")
        return LongTermNotes(self._authorizer, self._scope(user=owner), self._runtime.notes)

    @operation("notes.day", On.USER, "read:user", "GET /v1/notes/day", answer="text", cli="notes show")
    def day(self, user: arg.User | None = None, day: arg.Day | None = None) -> str:
        """Return the notes of a day (default: today); "" if there are none."""
        notes, partition = self._runtime.notes, self._partition(user)
        wanted = day if isinstance(day, date) else notes.local_day(self._now(), partition.owner)
        return notes.read(partition, day_name(wanted))

    @operation(
        "notes.add_turn",
        On.USER,
        "write:user",
        "POST /v1/notes/day",
        answer="line",
        left_out={"cli": "a turn writes its line itself"},
    )
    def add_turn(
        self,
        user: arg.User,
        user_text: arg.UserText,
        assistant_text: arg.AssistantText,
        at: arg.CreatedAt | None = None,
    ) -> str:
        """Add a turn's line to the notes of its day. Returns the line."""
        return self._runtime.notes.add_turn(self._partition(user), user_text, assistant_text, at or self._now())

    @operation(
        "notes.export_items", On.USER, "read:user", "POST /v1/notes/items/export", audited=True, cli="notes export"
    )
    def export_items(self, user: arg.User | None = None) -> ItemExportResult:
        """Write the user's records to ``items/…jsonl`` in their folder. Edited lines wait for an import.

        Without a folder (``has_folder`` is False) nothing is written; the records are in the store on every backend.
        """
        items = self._items(user)
        return ItemExportResult(0, has_folder=False) if items is None else items.export()

    @operation(
        "notes.import_items", On.USER, "write:user", "POST /v1/notes/items/import", audited=True, cli="notes import"
    )
    def import_items(
        self, user: arg.User | None = None, *, delete_missing: arg.DeleteMissing = False
    ) -> ItemImportResult:
        """Import the changes in ``items/…jsonl`` in one transaction. An invalid line is reported and not changed.

        A missing line removes nothing, unless ``delete_missing`` is set.
        """
        items = self._items(user)
        return ItemImportResult(has_folder=False) if items is None else items.import_(delete_missing=delete_missing)

    def _items(self, user: str | None) -> ItemSync | None:
        return self._runtime.item_sync(resolve_owner(self._scope(user=user)).scope)

    def _partition(self, user: str | None) -> Partition:
        return resolve_owner(self._scope(user=user)).space
