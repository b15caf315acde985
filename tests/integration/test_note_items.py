"""Records as lines in files, and back: nothing is lost on the way, and nobody's change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, ItemExportResult, ItemImportResult, Limpet, Record
from limpet.lifecycle.item_sync import LineStatus, decide_line_status
from limpet.testing import FakeClock
from tests.contract.processes import run_together
from tests.contract.rows import faults

pytestmark = pytest.mark.usefixtures("no_worker")


@pytest.fixture
def memory(tmp_path: Path, clock: FakeClock) -> Iterator[Limpet]:
    with Limpet.open(tmp_path / "data", clock=clock) as opened:
        yield opened
        assert faults(opened) == []


def items(memory: Limpet, user: str = "alice") -> Path:
    assert memory._runtime.folder is not None
    return memory._runtime.folder / "memory" / "users" / user / "items"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def save(path: Path, values: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")


def everything(memory: Limpet, user: str = "alice") -> dict[str, Record]:
    return {record.id: record for record in memory.records(user=user, history=True, limit=1000)}


def fill(memory: Limpet, clock: FakeClock) -> Record:
    """Records of every kind; answers one of them."""
    session = memory.session("t", "1", user="alice")
    dog = memory.remember(
        'A "dog"\nnamed Biscuit | 犬 🐕',
        user="alice",
        key="dog",
        title="The dog",
        tags=["b", "a"],
        metadata={"x.y": "z", "a": "'"},
        confidence=0.1,
        salience=1 / 3,
        references=["https://example.org"],
        pinned=True,
        ttl=timedelta(days=400),
    )
    memory.remember("Feed it", user="alice", layer="procedural", type="command_result")
    memory.remember("It barked", user="alice", layer="episodic", type="note", session=session.id)
    clock.advance(days=1, seconds=0.000001)
    memory.remember("It slept", user="alice", layer="episodic")
    memory.records.update(dog.id, content="A dog named Crumb")
    ended = memory.remember("It is a puppy", user="alice")
    memory.records.update(ended.id, valid_to=clock.advance(1))
    clock.advance(1)
    memory.remember("in my head", user="alice", layer="working")
    memory.remember("not alice's", user="bob")
    return memory.records.get(dog.id)


def test_export_items_writes_files_by_layer_and_day(memory: Limpet, clock: FakeClock) -> None:
    dog = fill(memory, clock)
    assert memory.notes.export_items(user="alice").records == 5
    assert sorted(str(path.relative_to(items(memory))) for path in items(memory).rglob("*.jsonl")) == [
        "episodic/2026-03-10.jsonl",
        "episodic/2026-03-11.jsonl",
        "procedural.jsonl",
        "semantic.jsonl",
    ]
    first, second = lines(items(memory) / "semantic.jsonl")
    assert first["id"] == dog.id
    assert first["content"] == "A dog named Crumb"
    assert second["content"] == "It is a puppy"
    assert list(first)[:6] == ["id", "session_id", "level", "layer", "type", "content"]


def test_export_items_again_changes_only_new_lines(memory: Limpet, clock: FakeClock) -> None:
    fill(memory, clock)
    memory.notes.export_items(user="alice")
    before = {path: path.read_bytes() for path in items(memory).rglob("*.jsonl")}
    memory.notes.export_items(user="alice")
    assert {path: path.read_bytes() for path in items(memory).rglob("*.jsonl")} == before
    memory.remember("news", user="alice")
    memory.notes.export_items(user="alice")
    semantic = items(memory) / "semantic.jsonl"
    assert semantic.read_bytes().startswith(before[semantic])
    assert len(lines(semantic)) == 3


def test_import_items_into_another_store_keeps_every_record(memory: Limpet, clock: FakeClock, tmp_path: Path) -> None:
    fill(memory, clock)
    memory.notes.export_items(user="alice")
    with Limpet.open(tmp_path / "other", clock=clock) as other:
        shutil.copytree(items(memory), items(other))
        done = other.notes.import_items(user="alice")
        wanted = {
            id: record
            for id, record in everything(memory).items()
            if record.layer != "working" and not record.session_id
        }
        assert done.added == len(wanted)
        assert everything(other) == wanted
        [problem] = done.problems
        assert "session" in problem.reason
        assert problem.file == "episodic/2026-03-10.jsonl"
        assert other.recall("Crumb", user="alice")[0].text.endswith("Crumb")
        assert faults(other) == []
        again = other.notes.import_items(user="alice")
        assert (again.added, again.changed, again.conflicts) == (0, 0, 0)


def test_import_items_restores_session_record_to_its_session(memory: Limpet, clock: FakeClock) -> None:
    fill(memory, clock)
    memory.notes.export_items(user="alice")
    told = lines(items(memory) / "episodic" / "2026-03-10.jsonl")
    before = everything(memory)[told[0]["id"]]
    shutil.rmtree(items(memory) / "episodic")
    (items(memory) / ".sync.json").unlink()
    memory.forget(before.id)
    save(items(memory) / "episodic" / "2026-03-10.jsonl", told)
    assert memory.notes.import_items(user="alice").added == 1
    assert everything(memory)[before.id] == before


def test_import_items_applies_changed_line_and_keeps_history(memory: Limpet, clock: FakeClock) -> None:
    dog = fill(memory, clock)
    memory.notes.export_items(user="alice")
    first, *others = lines(items(memory) / "semantic.jsonl")
    save(
        items(memory) / "semantic.jsonl",
        [{**first, "content": "A cat named Crumb", "title": None, "tags": ["cat"], "pinned": False}, *others],
    )
    done = memory.notes.import_items(user="alice")
    assert (done.added, done.changed, done.conflicts, done.problems) == (0, 1, 0, ())
    now = memory.records.get(dog.id)
    assert (now.content, now.title, now.tags, now.pinned) == ("A cat named Crumb", None, ("cat",), False)
    assert now.created_at == dog.created_at
    assert [version.content for version in memory.records.history(dog.id)][-2:] == [
        "A dog named Crumb",
        "A cat named Crumb",
    ]
    assert lines(items(memory) / "semantic.jsonl")[0]["version"] == dog.version + 1
    assert memory.recall("cat", user="alice")
    assert memory.notes.import_items(user="alice").changed == 0


def test_import_items_ignores_whitespace_and_field_order(memory: Limpet, clock: FakeClock) -> None:
    dog = fill(memory, clock)
    memory.notes.export_items(user="alice")
    told = lines(items(memory) / "semantic.jsonl")
    text = "\r\n\r\n".join(json.dumps(dict(reversed(value.items())), separators=(" , ", " : ")) for value in told)
    (items(memory) / "semantic.jsonl").write_bytes(b"\xef\xbb\xbf" + text.encode())
    done = memory.notes.import_items(user="alice")
    assert (done.added, done.changed, done.conflicts, done.problems) == (0, 0, 0, ())
    assert memory.records.get(dog.id) == dog


def test_import_items_adds_hand_written_line_once(memory: Limpet) -> None:
    save(items(memory) / "semantic.jsonl", [{"content": "written by hand"}, {"content": "so is this", "tags": ["x"]}])
    assert memory.notes.export_items(user="alice").waiting == 2
    assert memory.notes.import_items(user="alice").added == 2
    assert {record.content for record in memory.records(user="alice")} == {"written by hand", "so is this"}
    told = lines(items(memory) / "semantic.jsonl")
    assert all(value["id"] and value["version"] == 1 for value in told)
    save(items(memory) / "semantic.jsonl", [{"content": "written by hand"}])  # as after a crash between store and files
    assert memory.notes.import_items(user="alice").added == 0
    assert memory.records.count(user="alice") == 2


def test_import_items_keeps_ids_of_other_programs(memory: Limpet) -> None:
    memory.notes.export_items("alice")
    told = "1712345678901234567-0-3"
    path = items(memory) / "semantic.jsonl"
    path.write_text(json.dumps({"id": told, "content": "Alice likes tea"}) + "\n")
    assert memory.notes.import_items("alice").added == 1
    record = memory.records.get(told)
    assert json.loads(path.read_text())["id"] == record.id
    done = memory.notes.import_items("alice")
    assert (done.added, done.changed, done.problems) == (0, 0, ())


def test_import_items_deletes_missing_line_only_on_request(memory: Limpet, clock: FakeClock) -> None:
    fill(memory, clock)
    memory.notes.export_items(user="alice")
    count = len(everything(memory))
    (items(memory) / "procedural.jsonl").unlink()
    assert memory.notes.import_items(user="alice").removed == 0
    assert len(everything(memory)) == count
    assert lines(items(memory) / "procedural.jsonl")
    (items(memory) / "procedural.jsonl").unlink()
    assert memory.notes.import_items(user="alice", delete_missing=True).removed == 1
    assert len(everything(memory)) == count - 1
    assert not (items(memory) / "procedural.jsonl").exists()


def test_import_items_keeps_record_changed_since_export(memory: Limpet) -> None:
    record = memory.remember("a dog", user="alice")
    memory.notes.export_items(user="alice")
    (items(memory) / "semantic.jsonl").unlink()
    memory.records.update(record.id, content="two dogs")
    assert memory.notes.import_items(user="alice", delete_missing=True).removed == 0
    assert memory.records.get(record.id).content == "two dogs"


def test_import_items_does_not_restore_forgotten_record(memory: Limpet) -> None:
    record = memory.remember("a secret", user="alice")
    memory.notes.export_items(user="alice")
    memory.forget(record.id)
    assert memory.notes.import_items(user="alice").added == 0
    assert memory.records.count(user="alice") == 0
    assert not any(b"secret" in path.read_bytes() for path in items(memory).rglob("*") if path.is_file())


def told_anywhere(memory: Limpet, word: str) -> list[str]:
    return [path.name for path in items(memory).rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


@pytest.mark.parametrize("named", [{"user": "alice"}, {}])
def test_forget_removes_record_from_item_files(memory: Limpet, clock: FakeClock, named: dict[str, Any]) -> None:
    record = memory.remember("a secret", user="alice")
    clock.advance(1)
    other = memory.remember("a dog", user="alice")
    memory.notes.export_items(user="alice")
    told = lines(items(memory) / "semantic.jsonl")
    save(items(memory) / "semantic.jsonl", [{**told[0], "content": "another secret"}, told[1]])
    memory.records.update(record.id, content="a new secret")
    memory.notes.import_items(user="alice")
    assert sorted(told_anywhere(memory, "secret")) == ["semantic.jsonl", "semantic.jsonl.conflict"]
    assert memory.forget(record.id, **named).ids == (record.id,)
    assert told_anywhere(memory, "secret") == []
    assert [value["id"] for value in lines(items(memory) / "semantic.jsonl")] == [other.id]
    done = memory.notes.import_items(user="alice")
    assert (done.added, done.changed, done.problems) == (0, 0, ())


def test_session_delete_removes_records_from_item_files(memory: Limpet, clock: FakeClock) -> None:
    fill(memory, clock)
    memory.notes.export_items(user="alice")
    assert told_anywhere(memory, "It barked") == ["2026-03-10.jsonl"]
    memory.session("t", "1", user="alice").delete()
    assert told_anywhere(memory, "It barked") == []
    assert len(lines(items(memory) / "semantic.jsonl")) == 2


def test_forget_creates_no_item_files(memory: Limpet) -> None:
    memory.forget(memory.remember("a secret", user="alice").id)
    assert not items(memory).exists()


def test_import_items_moves_line_when_layer_changes(memory: Limpet) -> None:
    record = memory.remember("feed the dog", user="alice")
    memory.notes.export_items(user="alice")
    [told] = lines(items(memory) / "semantic.jsonl")
    save(items(memory) / "semantic.jsonl", [{**told, "layer": "procedural"}])
    assert memory.notes.import_items(user="alice").changed == 1
    assert memory.records.get(record.id).layer == "procedural"
    assert not (items(memory) / "semantic.jsonl").exists()
    assert len(lines(items(memory) / "procedural.jsonl")) == 1


def test_export_items_uses_days_of_configured_timezone(tmp_path: Path, clock: FakeClock) -> None:
    clock.advance(hours=4)
    config = Config.load(overrides={"notes.timezone": "Asia/Tokyo"})
    with Limpet.open(tmp_path, clock=clock, config=config) as memory:
        memory.remember("it barked", user="alice", layer="episodic")
        memory.notes.export_items(user="alice")
        assert (items(memory) / "episodic" / "2026-03-11.jsonl").is_file()


def test_import_items_cannot_change_records_of_other_users(memory: Limpet) -> None:
    theirs = memory.remember("bob's dog", user="bob")
    elsewhere = memory.tenant("other").remember("a dog elsewhere", user="alice")
    stolen = [{"id": theirs.id, "content": "mine now"}, {"id": elsewhere.id, "content": "mine now"}]
    save(items(memory) / "semantic.jsonl", [*stolen, {"content": "my own"}])
    done = memory.notes.import_items(user="alice")
    assert done.added == 1
    assert [problem.line for problem in done.problems] == [1, 2]
    assert memory.records.get(theirs.id) == theirs
    assert memory.tenant("other").records.get(elsewhere.id) == elsewhere
    assert [record.content for record in memory.records(user="alice")] == ["my own"]


def test_items_export_and_import_from_two_processes(tmp_path: Path) -> None:
    code = """
memory = Limpet.open(given)
begin()
for at in range(10):
    memory.remember(f"{number} said {at}", user="alice")
    memory.notes.export_items(user="alice")
    memory.notes.import_items(user="alice")
answer(True)
"""
    run_together(code, str(tmp_path))
    with Limpet.open(tmp_path) as memory:
        said = {f"{number} said {at}" for number in range(2) for at in range(10)}
        assert sorted(record.content for record in memory.records(user="alice")) == sorted(said)
        memory.notes.export_items(user="alice")
        assert {value["content"] for value in lines(items(memory) / "semantic.jsonl")} == said
        assert not list(items(memory).rglob("*.conflict"))
        assert faults(memory) == []


@pytest.mark.parametrize(
    ("line", "record", "agreed", "expected"),
    [
        ("a", "a", None, LineStatus.SAME),
        ("a", "a", "b", LineStatus.SAME),
        ("a", None, None, LineStatus.NEW),
        ("a", None, "a", LineStatus.FORGOTTEN),
        ("a", None, "b", LineStatus.CONFLICT),
        ("a", "b", "b", LineStatus.EDITED),
        ("a", "b", "a", LineStatus.OUTDATED),
        ("a", "b", "c", LineStatus.CONFLICT),
        ("a", "b", None, LineStatus.CONFLICT),
    ],
)
def test_decide_line_status(line: str, record: str | None, agreed: str | None, expected: LineStatus) -> None:
    assert decide_line_status(line, record, agreed) is expected


def test_items_of_a_store_without_a_folder_are_in_the_store_only() -> None:
    with Limpet.open(":memory:") as memory:
        memory.remember("a dog", user="alice")
        assert memory.notes.export_items(user="alice") == ItemExportResult(0, has_folder=False)
        assert memory.notes.import_items(user="alice", delete_missing=True) == ItemImportResult(has_folder=False)
        assert len(memory.records(user="alice")) == 1
