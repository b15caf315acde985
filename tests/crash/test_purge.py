"""A purge that is killed at any point is finished by the next call, or by the next worker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from limpet import Limpet
from limpet.model.receipt import ErasureState
from tests.crash import points
from tests.crash.nursery import Nursery
from tests.crash.test_crash import KILLED, Scene, faults

MARKS = (b"Biscuit", b"topic3", b"alice", b"green")


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as opened:
        yield opened


@pytest.fixture
def scene(nursery: Nursery, tmp_path: Path) -> Scene:
    folder = tmp_path / "before"
    with Limpet.open(folder, config=points.QUIET, clock=lambda: points.NOW) as hf:
        points.furnish(hf)
        hf.notes.long_term(user="alice").write("Biscuit\n")
        hf.notes.add_turn("alice", "Biscuit", "green")
        hf.notes.export_items(user="alice")
        hf.session("test", "chat", user="bob").append("user", "bob stays")
    return Scene(nursery, "purge", folder, tmp_path)


def traces(folder: Path) -> list[str]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in found if any(mark in path.read_bytes() for mark in MARKS)] + [
        path.name for path in folder.rglob("*") if path.name == "alice"
    ]


@pytest.mark.slow
def test_a_purge_killed_at_any_point_is_finished(scene: Scene) -> None:
    store, status = scene.play(at=0)
    assert status == 0
    assert traces(store) == []
    begun = 0
    for at in scene.points():
        store, status = scene.play(at)
        assert status == KILLED
        assert faults(store) == []
        with Limpet.open(store, config=points.QUIET, clock=lambda: points.NOW + timedelta(hours=1)) as hf:
            marked = hf.privacy.receipts()
            begun += bool(marked)
            if at % 2 and marked:
                hf.jobs.run()
            else:
                hf.privacy.purge_user("alice")
            assert all(receipt.done_at and receipt.verified for receipt in hf.privacy.receipts())
            hf.jobs.run()
            assert {receipt.bytes for receipt in hf.privacy.receipts()} == {ErasureState.GONE}
            assert hf.recall("stays", user="bob")
        assert traces(store) == [], f"killed at {at}"
        assert faults(store) == []
        shutil.rmtree(store)
    assert begun > 10
