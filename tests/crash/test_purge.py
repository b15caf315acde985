"""A purge that is killed at any point is finished by the next call, or by the next worker."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from limpet import Limpet
from limpet.model.privacy import ErasureState
from tests.crash import crash_points
from tests.crash.fork_server import Nursery
from tests.crash.test_crash import Scene, faults

MARKS = (b"Biscuit", b"topic3", b"alice", b"green")


@pytest.fixture
def scene(nursery: Nursery, tmp_path: Path) -> Scene:
    folder = tmp_path / "before"
    with Limpet.open(folder, config=crash_points.QUIET, clock=lambda: crash_points.NOW) as memory:
        crash_points.furnish(memory)
        memory.notes.long_term(user="alice").write("Biscuit\n")
        memory.notes.add_turn("alice", "Biscuit", "green")
        memory.notes.export_items(user="alice")
        memory.session("test", "chat", user="bob").append("user", "bob stays")
    return Scene(nursery, "purge", folder, tmp_path)


def traces(folder: Path) -> list[str]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in found if any(mark in path.read_bytes() for mark in MARKS)] + [
        path.name for path in folder.rglob("*") if path.name == "alice"
    ]


@pytest.mark.slow
def test_purge_killed_at_any_point_is_completed(scene: Scene) -> None:
    store, status = scene.play(at=0)
    assert status == 0
    assert traces(store) == []
    begun = 0
    for at, store in scene.play_killed():
        assert faults(store) == []
        with Limpet.open(
            store, config=crash_points.QUIET, clock=lambda: crash_points.NOW + timedelta(hours=1)
        ) as memory:
            marked = memory.privacy.receipts()
            begun += bool(marked)
            if at % 2 and marked:
                memory.jobs.run()
            else:
                memory.privacy.purge_user("alice")
            assert all(receipt.done_at and receipt.verified for receipt in memory.privacy.receipts())
            memory.jobs.run()
            assert {receipt.bytes for receipt in memory.privacy.receipts()} == {ErasureState.GONE}
            assert memory.recall("stays", user="bob")
        assert traces(store) == [], f"killed at {at}"
        assert faults(store) == []
    assert begun > 10
