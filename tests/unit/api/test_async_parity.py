"""The blocking and the asynchronous face have the same names, and take the same arguments."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from limpet import AsyncLimpet, AsyncSession, AsyncTurn, Limpet, Session, Turn
from limpet.api import async_limpet as asynchronous
from limpet.api.access import AccessOperations, KeyOperations
from limpet.api.admin import AdminOperations
from limpet.api.async_limpet import AsyncKeyValues
from limpet.api.async_pool import Attribute, Child
from limpet.api.documents import DocumentOperations
from limpet.api.handle import SubHandle
from limpet.api.jobs import JobOperations
from limpet.api.notes import LongTermNotes, NoteOperations
from limpet.api.privacy import PrivacyOperations
from limpet.api.records import GraphOperations, RecordOperations
from limpet.api.schedules import ScheduleOperations
from limpet.api.session import KeyValues
from limpet.api.transfer import TransferOperations

FACES = [
    (Limpet, AsyncLimpet),
    (Session, AsyncSession),
    (Turn, AsyncTurn),
    (KeyValues, AsyncKeyValues),
    (LongTermNotes, asynchronous.AsyncLongTerm),
    (RecordOperations, asynchronous.AsyncRecords),
    (DocumentOperations, asynchronous.AsyncDocuments),
    (GraphOperations, asynchronous.AsyncGraph),
    (NoteOperations, asynchronous.AsyncNotes),
    (ScheduleOperations, asynchronous.AsyncSchedules),
    (JobOperations, asynchronous.AsyncJobs),
    (AccessOperations, asynchronous.AsyncAccess),
    (KeyOperations, asynchronous.AsyncKeys),
    (PrivacyOperations, asynchronous.AsyncPrivacy),
    (TransferOperations, asynchronous.AsyncTransfer),
    (AdminOperations, asynchronous.AsyncAdmin),
]


def public(kind: type) -> dict[str, Any]:
    """Its public members. ``__call__`` is one where calling the handle is an operation."""
    members = dict(inspect.getmembers_static(kind)) | ({"kv": property()} if kind is Session else {})  # set in __init__
    return {name: found for name, found in members.items() if not name.startswith("_") or name == "__call__"}


@pytest.mark.parametrize(("blocking", "awaited"), FACES)
def test_sync_and_async_classes_have_same_names(blocking: type, awaited: type) -> None:
    assert set(public(blocking)) == set(public(awaited))


@pytest.mark.parametrize(("blocking", "awaited"), FACES)
def test_sync_and_async_methods_have_same_signatures(blocking: type, awaited: type) -> None:
    for name, found in public(blocking).items():
        other = public(awaited)[name]
        if isinstance(found, property | SubHandle):
            assert isinstance(other, property | Attribute | Child), name
            continue
        one, two = getattr(blocking, name), getattr(awaited, name)
        shown = [list(inspect.signature(call).parameters.items()) for call in (one, two)]
        assert [(at, each.default, each.kind) for at, each in shown[0]] == [
            (at, each.default, each.kind) for at, each in shown[1]
        ], name


@pytest.mark.parametrize(("blocking", "awaited"), FACES)
def test_async_methods_are_coroutine_functions(blocking: type, awaited: type) -> None:
    plain = {"open", "connect", "tenant", "acting", "long_term", "turn"}  # what neither waits nor reads the store
    plain |= {"add"} if awaited is AsyncTurn else set()
    for name, found in public(awaited).items():
        if not isinstance(found, property | Attribute | Child) and (
            name not in plain or awaited is asynchronous.AsyncKeys
        ):
            assert inspect.iscoroutinefunction(getattr(awaited, name)), name


def test_public_names_are_importable() -> None:
    import limpet

    assert limpet.__all__ == sorted(limpet.__all__)
    for name in limpet.__all__:
        assert getattr(limpet, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = limpet.nothing_like_it
    assert set(limpet.__all__) <= set(dir(limpet))
