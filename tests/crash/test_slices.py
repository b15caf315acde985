"""What is written in slices is seen whole or not at all, and finished by the next worker, wherever it is killed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from limpet import Limpet, Message
from tests.crash import crash_points, writes
from tests.crash.fork_server import Nursery
from tests.crash.test_crash import Scene, faults

OLD, NEW = writes.document("op0x0x0x1"), writes.document("op0x0x0x2")
SAID = 30


@pytest.fixture
def scene(nursery: Nursery, tmp_path: Path) -> Scene:
    folder = tmp_path / "before"
    with Limpet.open(folder, config=crash_points.QUIET, clock=lambda: crash_points.NOW) as memory:
        memory.documents.add("paper://letter", OLD, user="alice")
        messages = [Message.new("user", f"message {number} about herons") for number in range(SAID)]
        memory.session("test", "long", user="alice").extend(messages)
        memory.session("test", "other", user="alice").append("user", "otters stay")
    return Scene(nursery, "slices", folder, tmp_path)


@pytest.mark.slow
def test_slices_killed_at_any_point_are_whole_or_absent_and_completed(scene: Scene) -> None:
    store, status = scene.play(at=0)
    assert status == 0
    states = set()
    for at, store in scene.play_killed():
        with Limpet.open(
            store, config=crash_points.QUIET, clock=lambda: crash_points.NOW + timedelta(hours=1)
        ) as memory:
            for _ in range(2):  # before a worker has finished it, and afterwards
                text = memory.documents.text("paper://letter", user="alice")
                listed = [document.uri for document in memory.documents.list(user="alice")]
                session = memory.find_session("test", "long", user="alice")
                said = 0 if session is None else session.count()
                found = memory.recall("herons", user="alice", k=50, kinds=["message"])
                assert (text in (OLD, NEW), listed) == (True, ["paper://letter"]), f"killed at {at}"
                assert said in (0, SAID), f"killed at {at}"
                assert bool(found) == bool(said), f"killed at {at}"
                assert memory.recall("otters", user="alice")
                states.add((text == NEW, said == 0))
                memory.jobs.run()
        assert faults(store) == []
    assert states >= {(False, False), (True, False), (True, True)}
