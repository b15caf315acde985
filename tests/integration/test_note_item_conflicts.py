"""Files of records that cannot be taken as they are: bad lines, conflicts, links, and failures on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from limpet import Limpet, Record
from limpet.errors import StorageError
from limpet.notes import files as note_files
from limpet.store import files as atomic_files
from limpet.testing import FakeClock
from tests.integration.test_note_items import items, lines, memory, save

pytestmark = pytest.mark.usefixtures("no_worker")


__all__ = ["memory"]  # fixtures


def test_import_items_deletes_nothing_if_a_line_is_unreadable(memory: Limpet) -> None:
    memory.remember("a dog", user="alice")
    memory.notes.export_items(user="alice")
    (items(memory) / "semantic.jsonl").write_text('{"id": broken\n')
    done = memory.notes.import_items(user="alice", delete_missing=True)
    assert done.removed == 0
    assert len(done.problems) == 1


def test_import_items_reports_bad_lines_and_imports_the_rest(memory: Limpet) -> None:
    bad = [
        b"not json",
        b"[1]",
        b'{"content": 5}',
        b'{"content": ""}',
        b"{}",
        b'{"content": "x", "colour": "red"}',
        b'{"content": "x", "confidence": 2}',
        b'{"content": "x", "layer": "working"}',
        b'{"content": "x", "level": "global"}',
        b'{"content": "x", "created_at": "yesterday"}',
        b'{"content": "x", "created_at": "2026-01-01T00:00:00"}',
        b'{"content": "x", "id": "../../x"}',
        b'{"content": "x", "source": 5}',
        b'{"content": "x", "version": -1}',
        b'{"content": "caf\xe9"}',
        b'{"content": "x", "content": "y"}',
        b'{"content": "a\\u0000b"}',
        b'{"content": "x", "key": "Not A Key"}',
        b'{"content": "x", "session_id": "01890000-0000-7000-8000-000000000000"}',
    ]
    path = items(memory) / "semantic.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"content": "first"}\n' + b"\n".join(bad) + b'\n{"content": "last"}\n')
    done = memory.notes.import_items(user="alice")
    assert done.added == 2
    assert sorted(problem.line for problem in done.problems) == list(range(2, len(bad) + 2))
    assert {record.content for record in memory.records(user="alice")} == {"first", "last"}
    kept = path.read_bytes().splitlines()
    assert [line for line in kept if line in bad] == bad
    assert len(kept) == len(bad) + 2


def test_import_items_rejects_duplicate_line_for_record(memory: Limpet) -> None:
    record = memory.remember("a dog", user="alice")
    memory.notes.export_items(user="alice")
    told = lines(items(memory) / "semantic.jsonl")
    save(items(memory) / "semantic.jsonl", [*told, {**told[0], "content": "a cat"}])
    [problem] = memory.notes.import_items(user="alice").problems
    assert problem.line == 2
    assert "twice" in problem.reason
    assert memory.records.get(record.id).content == "a dog"


def test_import_items_rejects_line_with_key_in_use(memory: Limpet) -> None:
    record = memory.remember("a dog", user="alice", key="pet")
    save(items(memory) / "semantic.jsonl", [{"content": "a cat", "key": "pet"}, {"content": "a bird"}])
    done = memory.notes.import_items(user="alice")
    assert done.added == 1
    assert [problem.reason for problem in done.problems] == [f"the key 'pet' belongs to record {record.id}"]
    assert memory.records.get(record.id).content == "a dog"


def test_import_items_conflict_keeps_store_version_and_saves_edit(memory: Limpet) -> None:
    record = memory.remember("a dog", user="alice")
    memory.notes.export_items(user="alice")
    [told] = lines(items(memory) / "semantic.jsonl")
    save(items(memory) / "semantic.jsonl", [{**told, "content": "a cat"}])
    memory.records.update(record.id, content="a walrus")
    done = memory.notes.import_items(user="alice")
    assert (done.changed, done.conflicts) == (0, 1)
    assert memory.records.get(record.id).content == "a walrus"
    assert lines(items(memory) / "semantic.jsonl")[0]["content"] == "a walrus"
    assert [value["content"] for value in lines(items(memory) / "semantic.jsonl.conflict")] == ["a cat"]
    assert memory.notes.import_items(user="alice").conflicts == 0


def test_export_items_keeps_edit_waiting_for_import(memory: Limpet) -> None:
    record = memory.remember("a dog", user="alice")
    memory.notes.export_items(user="alice")
    [told] = lines(items(memory) / "semantic.jsonl")
    save(items(memory) / "semantic.jsonl", [{**told, "content": "a cat"}])
    for _ in range(2):
        assert memory.notes.export_items(user="alice").waiting == 1
    assert lines(items(memory) / "semantic.jsonl")[0]["content"] == "a cat"
    assert memory.notes.import_items(user="alice").changed == 1
    assert memory.records.get(record.id).content == "a cat"


def test_import_items_with_damaged_sync_file_reports_conflict(memory: Limpet, caplog: pytest.LogCaptureFixture) -> None:
    record = memory.remember("a dog", user="alice")
    memory.notes.export_items(user="alice")
    (items(memory) / ".sync.json").write_text("{broken")
    [told] = lines(items(memory) / "semantic.jsonl")
    save(items(memory) / "semantic.jsonl", [{**told, "content": "a cat"}])
    assert memory.notes.import_items(user="alice").conflicts == 1
    assert "damaged" in caplog.text
    assert memory.records.get(record.id).content == "a dog"
    assert "a cat" in (items(memory) / "semantic.jsonl.conflict").read_text()


def test_export_items_keeps_edit_made_just_before_rename(
    memory: Limpet, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("a dog", user="alice")
    memory.notes.export_items(user="alice")
    clock.advance(1)
    memory.remember("a cat", user="alice")
    path, real = items(memory) / "semantic.jsonl", atomic_files._write_temporary
    saved: list[bool] = []

    def slow(target: Path, data: bytes) -> Path:
        temporary = real(target, data)
        if target == path and not saved:
            saved.append(True)
            path.write_bytes(path.read_bytes() + b'{"content": "by hand"}\n')
        return temporary

    monkeypatch.setattr(atomic_files, "_write_temporary", slow)
    assert memory.notes.export_items(user="alice").waiting == 1
    assert [value["content"] for value in lines(path)] == ["a dog", "a cat", "by hand"]


@pytest.mark.parametrize("name", ["semantic.jsonl", "episodic", ".sync.json", "semantic.jsonl.conflict"])
def test_export_items_refuses_symlinks(memory: Limpet, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    record = memory.remember("a dog", user="alice")
    memory.notes.export_items(user="alice")
    [told] = lines(items(memory) / "semantic.jsonl")
    save(items(memory) / "semantic.jsonl", [{**told, "content": "a cat"}])
    memory.records.update(record.id, content="a walrus")
    (items(memory) / name).unlink(missing_ok=True)
    (items(memory) / name).symlink_to(outside)
    with pytest.raises(StorageError, match="behind a link"):
        memory.notes.export_items(user="alice")
    assert not outside.exists()


def test_import_items_failure_changes_nothing(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    from limpet.knowledge import remember

    save(items(memory) / "semantic.jsonl", [{"content": "one"}, {"content": "two"}])
    real, calls = remember.insert, []

    def fail(*args: Any) -> Record:
        calls.append(args)
        if len(calls) % 2 == 0:
            raise RuntimeError("the machine is on fire")
        return real(*args)

    monkeypatch.setattr(remember, "insert", fail)
    with pytest.raises(RuntimeError):
        memory.notes.import_items(user="alice")
    assert memory.records.count(user="alice") == 0
    assert [value["content"] for value in lines(items(memory) / "semantic.jsonl")] == ["one", "two"]


def test_export_items_is_busy_if_file_keeps_changing(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(path: Path, before: bytes) -> Any:
        def look() -> None:
            raise note_files.EditConflict

        return look

    memory.remember("a dog", user="alice")
    monkeypatch.setattr(note_files, "make_unchanged_check", changed)
    with pytest.raises(StorageError, match="again and again"):
        memory.notes.export_items(user="alice")
