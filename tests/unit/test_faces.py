"""The blocking and the asynchronous face have the same names, and take the same arguments."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from limpet import AsyncLimpet, AsyncSession, AsyncTurn, Limpet, Session, Turn
from limpet.api.api_keys import ApiKeyOperations
from limpet.api.async_limpet import AsyncApiKeys, AsyncKeyValues, AsyncLongTerm, AsyncSchedules
from limpet.api.schedules import ScheduleOperations
from limpet.api.session import KeyValues
from limpet.notes.long_term import LongTerm

FACES = [
    (Limpet, AsyncLimpet),
    (Session, AsyncSession),
    (Turn, AsyncTurn),
    (KeyValues, AsyncKeyValues),
    (LongTerm, AsyncLongTerm),
    (ScheduleOperations, AsyncSchedules),
    (ApiKeyOperations, AsyncApiKeys),
]


def public(kind: type) -> dict[str, Any]:
    return {name: found for name, found in inspect.getmembers_static(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "awaited"), FACES)
def test_both_faces_have_the_same_names(blocking: type, awaited: type) -> None:
    assert set(public(blocking)) == set(public(awaited))


@pytest.mark.parametrize(("blocking", "awaited"), FACES)
def test_both_faces_take_the_same_arguments(blocking: type, awaited: type) -> None:
    for name, found in public(blocking).items():
        other = public(awaited)[name]
        if isinstance(found, property):
            assert isinstance(other, property), name
            continue
        one, two = getattr(blocking, name), getattr(awaited, name)
        shown = [list(inspect.signature(call).parameters.items()) for call in (one, two)]
        assert [(at, each.default, each.kind) for at, each in shown[0]] == [
            (at, each.default, each.kind) for at, each in shown[1]
        ], name


@pytest.mark.parametrize(("blocking", "awaited"), FACES)
def test_what_the_blocking_face_does_the_other_awaits(blocking: type, awaited: type) -> None:
    plain = {"tenant", "acting", "file_sessions", "long_term", "turn", "add"}  # what neither waits nor asks the store
    for name, found in public(awaited).items():
        if not isinstance(found, property) and (name not in plain or awaited is AsyncApiKeys):
            assert inspect.iscoroutinefunction(getattr(awaited, name)), name


def test_every_public_name_can_be_loaded() -> None:
    import limpet

    assert limpet.__all__ == sorted(limpet.__all__)
    for name in limpet.__all__:
        assert getattr(limpet, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = limpet.nothing_like_it
    assert set(limpet.__all__) <= set(dir(limpet))
