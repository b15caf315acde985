"""What compares a store with the notes of its writers finds what is missing, and what is there too much."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from limpet import Limpet
from tests.crash import writes
from tests.crash.check import Findings, check, fits
from tests.crash.writes import Deed

WRITE, LINES = "note write", {"note write"}


@pytest.fixture
def memory() -> Iterator[Limpet]:
    with Limpet.open(":memory:") as opened:
        yield opened


def done(name: str, kind: str, target: str) -> Deed:
    return Deed(name, kind, target, done=True)


def begun(name: str, kind: str, target: str) -> Deed:
    return Deed(name, kind, target)


def lost(memory: Limpet, *deeds: Deed) -> Findings:
    return check(memory, deeds)


@pytest.mark.parametrize(
    ("actual", "possible"),
    [(["b", "c"], True), (["a", "c"], True), (["c"], False), (["a", "b", "c"], False), (["b"], False)],
)
def test_fits_takes_unanswered_restart_as_done_or_not_at_all(actual: list[str], possible: bool) -> None:
    events = [done("a", WRITE, "x"), begun("b", WRITE, "x"), done("c", "note append", "x")]
    assert fits(events, actual, restarts=LINES) is possible


def test_check_finds_lost_and_half_written_document(memory: Limpet) -> None:
    uri, first, second = "paper://keeper-0-0/letter", "op0x0x0x1", "op0x0x0x2"
    deeds = [done(first, "document add", uri), begun(second, "document add", uri)]
    assert lost(memory, *deeds).lost
    for name in (first, second):
        memory.documents.add(uri, writes.document(name), user="keeper-0-0")
        assert lost(memory, *deeds).lost == []
    memory.documents.add(uri, writes.document(second)[:-3], user="keeper-0-0")
    assert lost(memory, *deeds).lost
    memory.documents.remove(uri, user="keeper-0-0")
    assert lost(memory, *deeds, done("op0x0x0x3", "document remove", uri)).lost == []


def test_check_finds_lost_line_of_notes(memory: Limpet) -> None:
    page = memory.notes.long_term(user="keeper-0-0")
    deeds = [done("op0x0x0x1", WRITE, "keeper-0-0"), done("op0x0x0x2", "note append", "keeper-0-0")]
    page.write("- op0x0x0x1\n")
    assert lost(memory, *deeds).lost
    page.append("- op0x0x0x2")
    assert lost(memory, *deeds).lost == []


def test_check_finds_what_outlived_delete_and_purge(memory: Limpet) -> None:
    session = memory.session("doomed", "0-0", user="keeper-0-0")
    session.extend([writes.message("op0x0x0x1i0")])
    said = done("op0x0x0x1", "doomed", session.id)
    said.result = [1]
    deleted = done("op0x0x0x2", "delete session", session.id)
    assert lost(memory, said).lost == []
    assert lost(memory, said, deleted).denied
    session.delete()
    assert lost(memory, said).lost
    found = lost(memory, said, deleted)
    assert (found.lost, found.denied) == ([], [])
    memory.session("leaver", "main", user="leaver-0-0").extend([writes.message("op0x0x0x3i0")])
    left = [done("op0x0x0x3", "leave", "leaver-0-0"), done("op0x0x0x4", "purge", "leaver-0-0")]
    assert lost(memory, *left).lost
    memory.privacy.purge_user("leaver-0-0")
    assert lost(memory, *left).lost == []
