"""Every public method of a handle is an operation of the table, and the other way round."""

from __future__ import annotations

import inspect

import pytest

from limpet import Limpet, Session, Turn
from limpet.api.access import AccessOperations, KeyOperations
from limpet.api.admin import AdminOperations
from limpet.api.documents import DocumentOperations
from limpet.api.jobs import JobOperations
from limpet.api.notes import LongTermNotes, NoteOperations
from limpet.api.privacy import PrivacyOperations
from limpet.api.records import GraphOperations, RecordOperations
from limpet.api.schedules import ScheduleOperations
from limpet.api.session import KeyValues
from limpet.api.transfer import TransferOperations
from limpet.security.operation import EXEMPT, OPERATIONS, On

HANDLES = {
    "": Limpet,
    "session": Session,
    "session.kv": KeyValues,
    "turn": Turn,
    "records": RecordOperations,
    "documents": DocumentOperations,
    "graph": GraphOperations,
    "notes": NoteOperations,
    "notes.long_term": LongTermNotes,
    "schedules": ScheduleOperations,
    "jobs": JobOperations,
    "access": AccessOperations,
    "access.keys": KeyOperations,
    "privacy": PrivacyOperations,
    "transfer": TransferOperations,
    "admin": AdminOperations,
}
CALLS = {"records": "list", "graph": "get", "access.keys": "list"}  # what calling the handle does


@pytest.mark.parametrize("path", HANDLES)
def test_every_public_method_is_an_operation(path: str) -> None:
    marked = set()
    for name, found in inspect.getmembers_static(HANDLES[path]):
        full = f"{path}.{CALLS[path] if name == '__call__' else name}".lstrip(".")
        if (name.startswith("_") and name != "__call__") or full in EXEMPT or full == "session.turn":
            continue
        operation = getattr(found.fget if isinstance(found, property) else found, "operation", None)
        assert operation is not None, f"{full} has no @operation, and no reason in EXEMPT why it needs none"
        assert operation.name == full
        marked.add(full)
    listed = {name for name in OPERATIONS if name.rpartition(".")[0] == path}
    assert marked == listed - {"session.turn"}


def test_turn_is_authorized_on_enter() -> None:
    assert Turn.__enter__.operation.name == "session.turn"  # type: ignore[attr-defined]


def test_what_is_exempt_exists_and_is_not_in_the_table() -> None:
    assert EXEMPT.keys() & OPERATIONS.keys() == set()
    for name in EXEMPT:
        path, _, last = name.rpartition(".")
        assert hasattr(HANDLES[path], last), name


def test_an_operation_takes_the_arguments_its_line_speaks_of() -> None:
    """A renamed argument must not make authorization blind."""
    wanted = {
        On.OWNER: {"user", "agent", "scope"},
        On.REACH: {"user"},
        On.ID: {"user"},
        On.ID_OR_OWNER: {"user", "agent", "session", "scope", "id"},
        On.FILTER: {"user", "agent"},
        On.USER: {"user"},
        On.CHAT: {"user", "channel", "chat"},
    }
    known = {"user", "agent", "session", "session_id", "scope", "id"}
    for name, policy in OPERATIONS.items():
        path, _, last = name.rpartition(".")
        method = Turn.__enter__ if name == "session.turn" else getattr(HANDLES[path], last, HANDLES[path].__call__)
        if isinstance(method, property):
            continue
        taken = set(inspect.signature(method).parameters)
        assert wanted.get(policy.on, set()) <= taken, name
        assert {when.argument for when in policy.when} <= taken, name
        # Nothing about whose memory it is may go past the authorizer under another name.
        assert not {each for each in taken if each.endswith(("user", "session", "agent", "owner"))} - known, name
