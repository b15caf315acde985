"""Notes as lines of an export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from limpet.lifecycle.line_kind import ADDED, PRESENT, ImportTarget, LineKind, LineOutcome
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.dataclass import replace
from limpet.model.note import check_note_name
from limpet.model.scope import Scope
from limpet.model.transfer import NoteState
from limpet.notes.repository import Notes
from limpet.store.tx import Tx


class NoteLines(LineKind[NoteState]):
    name, about, noun = "notes", "a user's MEMORY.md, or the notes of a day", "notes"
    required = ("name", "text", "updated_at")

    def find(self, tx: Tx, scope: Scope) -> Iterator[NoteState]:
        for space in Transfers(tx).find_partitions(scope):
            for name in Notes(tx).list_names(space):
                note = Notes(tx).get(space, name)
                assert note is not None
                yield NoteState(space, note)

    def read(self, value: dict[str, Any], into: ImportTarget) -> NoteState:
        state = super().read(value, into)
        check_note_name(state.note.name)
        return replace(state, space=into.map_partition(state.space))

    def put_one(self, tx: Tx, state: NoteState, into: ImportTarget) -> LineOutcome:
        note, there = state.note, Notes(tx).get(state.space, state.note.name)
        if there is not None:
            return PRESENT if there.text == note.text else LineOutcome(False, f"another {note.name} is here, and stays")
        Notes(tx).put(state.space, replace(note, pending=into.mirrors_notes))
        return ADDED
