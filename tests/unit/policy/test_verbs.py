"""No public verb without its mark, and no mark without its line in the table."""

from __future__ import annotations

import inspect

import pytest

from limpet import Limpet, Session, Turn
from limpet.api.api_keys import ApiKeyOperations
from limpet.api.schedules import ScheduleOperations
from limpet.api.session import KeyValues
from limpet.notes.long_term import LongTerm
from limpet.security.operations import (
    EXEMPT,
    KEYS,
    KV,
    LIMPET,
    LONG_TERM,
    OPERATIONS,
    SCHEDULES,
    SESSION,
    TURN,
    OwnerRule,
)

FACES = [
    (Limpet, "", LIMPET),
    (Session, "session.", SESSION),
    (KeyValues, "session.kv.", KV),
    (Turn, "turn.", TURN),
    (LongTerm, "long_term.", LONG_TERM),
    (ScheduleOperations, "schedules.", SCHEDULES),
    (ApiKeyOperations, "keys.", KEYS),
]
BEGUN_BY_ITS_BLOCK = {"session.turn"}


@pytest.mark.parametrize(("kind", "prefix", "verbs"), FACES)
def test_every_public_method_comes_through_the_gate(kind: type, prefix: str, verbs: dict[str, object]) -> None:
    marked = set()
    for name, found in inspect.getmembers_static(kind):
        if name.startswith("_") or f"{prefix}{name}" in EXEMPT or f"{prefix}{name}" in BEGUN_BY_ITS_BLOCK:
            continue
        function = found.fget if isinstance(found, property) else found
        passage = getattr(function, "passage", None)
        assert passage is not None, f"{prefix}{name} has no @verb, and no reason in FREE why it needs none"
        assert passage.name == f"{prefix}{name}"
        marked.add(name)
    assert marked == set(verbs) - {name.removeprefix(prefix) for name in BEGUN_BY_ITS_BLOCK}


def test_a_turn_is_checked_when_it_begins() -> None:
    assert Turn.__enter__.passage.name == "session.turn"  # type: ignore[attr-defined]


def test_what_is_free_exists_and_is_not_in_the_table() -> None:
    assert EXEMPT.keys() & OPERATIONS.keys() == set()
    kinds = {prefix: kind for kind, prefix, _ in FACES}
    for name in EXEMPT:
        prefix, _, last = name.rpartition(".")
        assert hasattr(kinds[f"{prefix}." if prefix else ""], last), name


def test_a_verb_takes_the_arguments_its_line_speaks_of() -> None:
    """A renamed argument must not make the gate blind."""
    wanted = {
        OwnerRule.HOME: {"user", "agent", "scope"},
        OwnerRule.REACH: {"user"},
        OwnerRule.ID: {"user"},
        OwnerRule.ID_OR_HOME: {"user", "agent", "session", "scope", "id"},
        OwnerRule.FILTER: {"user", "agent"},
        OwnerRule.OWNER: {"user"},
        OwnerRule.WHOLE: set(),
    }
    known = {"user", "agent", "session", "session_id", "scope", "id"}
    for name, verb in LIMPET.items():
        taken = set(inspect.signature(getattr(Limpet, name)).parameters)
        assert wanted[verb.on] <= taken, name
        assert {when.argument for when in verb.when} <= taken, name
        # Nothing about whose memory it is may go past the gate under another name.
        assert not {each for each in taken if each.endswith(("user", "session", "agent", "owner"))} - known, name
    for kind, prefix, verbs in FACES[1:]:
        for name, verb in verbs.items():
            function = getattr(kind, name) if name != "turn" else Turn.__enter__
            if isinstance(function, property):
                continue
            assert {when.argument for when in verb.when} <= set(inspect.signature(function).parameters), prefix + name
