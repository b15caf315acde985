"""A forget that is killed at any point leaves no words that a second one would not find."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from limpet import Config, Limpet
from tests.crash import crash_points
from tests.crash.fork_server import Nursery
from tests.crash.test_crash import Scene, faults

LEARNING = Config.load(overrides={"jobs.worker": False, "retention.enabled": False, "learn.extractor": "rules"})


@pytest.fixture
def scene(nursery: Nursery, tmp_path: Path) -> Scene:
    folder = tmp_path / "before"
    with Limpet.open(folder, config=LEARNING, clock=lambda: crash_points.NOW) as memory:
        with memory.session("test", "chat", user="alice").turn("I am allergic to peanuts.") as turn:
            turn.reply("Noted. The weather is fine.")
        memory.jobs.run()
        memory.notes.export_items(user="alice")
        assert [one for one in memory.records(user="alice") if "allergic" in one.content], "nothing was learned"
    assert {path.suffix for path in telling(folder)} >= {".md", ".jsonl"}
    return Scene(nursery, "forget files", folder, tmp_path)


def telling(folder: Path) -> list[Path]:
    plain = [path for path in folder.rglob("*") if path.suffix in (".md", ".jsonl", ".json", ".conflict")]
    return [path for path in plain if b"peanuts" in path.read_bytes()]


@pytest.mark.slow
def test_forget_killed_at_any_point_is_completed_by_second_forget(scene: Scene) -> None:
    store, status = scene.play(at=0)
    assert status == 0
    assert telling(store) == []
    again = 0
    for at, store in scene.play_killed(every=2):
        with Limpet.open(store, config=LEARNING, clock=lambda: crash_points.NOW + timedelta(hours=1)) as memory:
            again += memory.forget(query="allergic", user="alice").total > 0
            said = " ".join(message.text for message in memory.session("test", "chat", user="alice").messages())
            assert "peanuts" not in said
            assert "fine" in said
            assert [record for record in memory.records(user="alice") if "peanuts" in record.content] == []
        assert telling(store) == [], f"killed at {at}"
        assert faults(store) == []
    assert again > 5
