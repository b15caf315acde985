"""A note whose writer is killed at any point is whole in the store, and its file says the same after the next open."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from limpet import Limpet
from tests.crash import crash_points
from tests.crash.fork_server import Nursery
from tests.crash.test_crash import Scene, faults

OLD, NEW = "- old\n", "- new\n"


@pytest.fixture
def scene(nursery: Nursery, tmp_path: Path) -> Scene:
    folder = tmp_path / "before"
    with Limpet.open(folder, config=crash_points.QUIET, clock=lambda: crash_points.NOW) as memory:
        memory.notes.long_term(user="alice").write(OLD)
    return Scene(nursery, "notes", folder, tmp_path)


def files(store: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (store / "memory" / "users" / "alice").glob("*.md")}


@pytest.mark.slow
@pytest.mark.parametrize("edited", [False, True])
def test_note_killed_between_commit_and_file_is_repaired_on_next_open(scene: Scene, edited: bool) -> None:
    store, status = scene.play(at=0)
    assert status == 0
    day = f"{crash_points.NOW.date()}.md"
    assert files(store) == {"MEMORY.md": NEW, day: "[12:00] User: hello | Assistant: hi\n"}
    repaired = 0
    for at, store in scene.play_killed():
        before = files(store)
        assert before["MEMORY.md"] in (OLD, NEW)
        if edited:  # by a person, before the next program runs
            (store / "memory" / "users" / "alice" / "MEMORY.md").write_text("- by hand\n")
        with Limpet.open(
            store, config=crash_points.QUIET, clock=lambda: crash_points.NOW + timedelta(hours=1)
        ) as memory:
            opened = files(store)
            repaired += opened != before
            text = memory.notes.long_term("alice").read()
            assert opened == {
                "MEMORY.md": text,
                **({day: found} if (found := memory.notes.day("alice", crash_points.NOW.date())) else {}),
            }, f"killed at {at}"
            assert text == "- by hand\n" if edited else text in (OLD, NEW)
            copies = [path.read_text() for path in store.rglob("*.conflict")]
            assert copies in ([], [NEW]) if edited else copies == []
            assert list(store.rglob("*.tmp")) == [] or not repaired
        assert faults(store) == []
    assert repaired > 0
