"""What an import refuses, and leaves as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from limpet import Limpet
from limpet.errors import InvalidInput, LimpetError, StorageError
from tests.contract.exports import edited, remove_everything, rewritten
from tests.contract.rows import every_row
from tests.contract.test_transfer import Folders, filled, folders

pytestmark = pytest.mark.every_backend


__all__ = ["folders"]  # fixtures


# What is refused


def test_export_never_overwrites_existing_files(memory: Limpet, folders: Folders, tmp_path: Path) -> None:
    there = folders()
    there.mkdir()
    memory.transfer.export(there)  # empty, so nothing is lost
    with pytest.raises(InvalidInput, match="not empty"):
        memory.transfer.export(there)
    (tmp_path / "file").write_text("precious")
    with pytest.raises(InvalidInput):
        memory.transfer.export(tmp_path / "file")
    with pytest.raises(StorageError):
        memory.transfer.export(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "precious"
    assert list(tmp_path.glob("*.unfinished")) == []


def test_import_dry_run_stores_nothing(memory: Limpet, folders: Folders) -> None:
    filled(memory)
    folder = folders()
    memory.transfer.export(folder, "alice")
    remove_everything(memory)
    rows = every_row(memory)
    done = memory.transfer.import_(folder, dry_run=True)
    assert (done.sessions, done.messages, done.dry_run) == (1, 4, True)
    assert every_row(memory) == rows


def spoilt(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


DEEP = '{"session_id": "x", "metadata": ' + '{"a":' * 3000 + "1" + "}" * 3000 + "}"
BAD: dict[str, tuple[str, Callable[[Path], None]]] = {
    "not json": ("messages.jsonl, line 2", lambda at: rewritten(at, "messages", lambda lines: [lines[0], b"{\n"])),
    "a list": ("kv.jsonl, line 1", lambda at: rewritten(at, "kv", lambda _: [b"[]\n"])),
    "deep": ("messages.jsonl, line 1", lambda at: rewritten(at, "messages", lambda _: [DEEP.encode() + b"\n"])),
    "an unknown field": ("messages.jsonl, line 3", lambda at: edited(at, "messages", 2, colour="red")),
    "a nul": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, content="a\x00b")),
    "a surrogate": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, content="\ud800")),
    "not utf-8": ("messages.jsonl, line 1", lambda at: rewritten(at, "messages", lambda _: [b'{"a":"\xff"}\n'])),
    "a wrong role": ("messages.jsonl, line 4", lambda at: edited(at, "messages", 3, role="wizard")),
    "a number for text": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, content=5)),
    "a sequence below 1": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, sequence=-1)),
    "a huge sequence": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, sequence=2**70)),
    "no time": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, created_at="2026-01-01T00:00:00")),
    "another user": ("sessions.jsonl, line 1", lambda at: edited(at, "sessions", 0, user="bob")),
    "another user's record": ("records.jsonl, line 2", lambda at: edited(at, "records", 1, user="bob")),
    "the tenant's record": ("records.jsonl, line 1", lambda at: edited(at, "records", 0, level="global")),
    "a wrong id": ("sessions.jsonl, line 1", lambda at: edited(at, "sessions", 0, id="../../etc")),
    "a wrong state": ("sessions.jsonl, line 1", lambda at: edited(at, "sessions", 0, state="asleep")),
    "a list of users": ("sessions.jsonl, line 1", lambda at: edited(at, "sessions", 0, user=["alice"])),
    "an infinite bill": (
        "sessions.jsonl, line 1",
        lambda at: edited(at, "sessions", 0, usage=[{"model": "m", "cost": 1e300}]),
    ),
    "a wrong confidence": ("records.jsonl, line 1", lambda at: edited(at, "records", 0, confidence=7)),
    "versions of another": (
        "records.jsonl, line 1",
        lambda at: edited(at, "records", 0, versions=[{"id": "x"}]),
    ),
    "a wrong hash": ("documents.jsonl, line 1", lambda at: edited(at, "documents", 0, content_hash="zz")),
    "the tenant's document": ("documents.jsonl, line 1", lambda at: edited(at, "documents", 0, level="global")),
    "a wrong cadence": ("schedules.jsonl, line 1", lambda at: edited(at, "schedules", 0, cadence="now and then")),
    "another user's schedule": ("schedules.jsonl, line 1", lambda at: edited(at, "schedules", 0, user="bob")),
    "half a firing": (
        "schedules.jsonl, line 1",
        lambda at: edited(at, "schedules", 0, due_at=None, next_run_at="2026-01-01T00:00:00Z"),
    ),
    "a lease": ("schedules.jsonl, line 1", lambda at: edited(at, "schedules", 0, running_until="2026-01-01T00:00:00Z")),
    "a priceless run": ("schedule_runs.jsonl, line 2", lambda at: edited(at, "schedule_runs", 1, cost=-1)),
    "a run of bytes": ("schedule_runs.jsonl, line 3", lambda at: edited(at, "schedule_runs", 2, output=[1])),
    "a wrong offset": ("pieces.jsonl, line 2", lambda at: edited(at, "pieces", 1, offset="far")),
    "a relation to nobody": (
        "graph.jsonl, line 1",
        lambda at: edited(at, "graph", 0, relations=[{"subject": "nobody", "predicate": "is", "kind": "fact"}]),
    ),
    "no manifest": ("manifest.json", lambda at: spoilt(at / "manifest.json", lambda _: b"{}")),
    "a path in the manifest": (
        "manifest.json",
        lambda at: spoilt(at / "manifest.json", lambda data: data.replace(b"data/kv.jsonl", b"../../kv.jsonl")),
    ),
    "a newer version": (
        "manifest.json",
        lambda at: spoilt(at / "manifest.json", lambda data: data.replace(b'"version": 1', b'"version": 2')),
    ),
    "a file that is gone": ("kv.jsonl", lambda at: (at / "data" / "kv.jsonl").unlink()),
    "cut off": ("messages.jsonl", lambda at: spoilt(at / "data" / "messages.jsonl", lambda data: data[:-40])),
    "edited": (
        "messages.jsonl",
        lambda at: spoilt(at / "data" / "messages.jsonl", lambda data: data.replace(b"Anna", b"Hans")),
    ),
    "longer": ("messages.jsonl", lambda at: spoilt(at / "data" / "messages.jsonl", lambda data: data + b"{}\n")),
}


@pytest.fixture(scope="module")
def good_export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "export"
    with Limpet.open(":memory:") as memory:
        filled(memory)
        memory.transfer.export(folder, "alice")
    return folder


@pytest.mark.parametrize("name", BAD)
def test_import_rejects_invalid_export_and_changes_nothing(good_export: Path, tmp_path: Path, name: str) -> None:
    place, spoil = BAD[name]
    folder = tmp_path / "bad"
    shutil.copytree(good_export, folder)
    spoil(folder)
    with Limpet.open(":memory:") as memory:
        memory.session("t", "1", user="alice").append("user", "here")
        rows = every_row(memory)
        with pytest.raises(InvalidInput) as caught:
            memory.transfer.import_(folder, format="limpet-export")
        assert place in str(caught.value)
        assert every_row(memory) == rows


def test_import_accepts_valid_export(good_export: Path) -> None:
    with Limpet.open(":memory:") as memory:
        assert memory.transfer.import_(good_export).messages == 4


def test_import_rejects_line_over_size_limit(good_export: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("limpet.lifecycle.export_folder.MAX_LINE_BYTES", 50)
    with Limpet.open(":memory:") as memory, pytest.raises(InvalidInput, match=r"sessions.jsonl, line 1: it is longer"):
        memory.transfer.import_(good_export)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "../../escaped.md"},
        {"name": "..\\escaped.md"},
        {"name": ".."},
        {"owner": "bob"},
        {"session_id": "../x"},
        {"sha256": "0" * 64},
        {"bytes": 1},
        {"name": "plan.lock"},
    ],
)
def test_import_rejects_file_path_outside_folder(tmp_path: Path, fields: dict[str, Any]) -> None:
    folder = tmp_path / "export"
    with Limpet.open(tmp_path / "one") as memory:
        filled(memory)
        memory.transfer.export(folder, "alice")
    edited(folder, "files", 0, **fields)
    with Limpet.open(tmp_path / "two") as memory:
        with pytest.raises(InvalidInput):
            memory.transfer.import_(folder)
        assert memory.sessions() == []
    assert list(tmp_path.rglob("*escaped*")) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "../../escaped.md"},
        {"name": "other.txt"},
        {"name": "2026-02-31.md"},
        {"owner": "bob"},
        {"level": "global", "owner": ""},
        {"level": "session"},
        {"pending": True},
        {"text": None},
    ],
)
def test_import_rejects_note_that_is_not_the_owners(tmp_path: Path, fields: dict[str, Any]) -> None:
    folder = tmp_path / "export"
    with Limpet.open(tmp_path / "one") as memory:
        filled(memory)
        memory.transfer.export(folder, "alice")
    edited(folder, "notes", 1, **fields)
    with Limpet.open(tmp_path / "two") as memory:
        with pytest.raises(InvalidInput):
            memory.transfer.import_(folder)
        assert memory.sessions() == []
        assert memory.notes.long_term("alice").read() == ""
    assert list(tmp_path.rglob("*escaped*")) == []


def test_import_does_not_follow_symlinks(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    with Limpet.open(tmp_path / "one") as memory:
        filled(memory)
        memory.transfer.export(folder, "alice")
    [copy] = [path for path in (folder / "files").rglob("*") if path.is_file()]
    copy.unlink()
    (tmp_path / "secret").write_bytes(b"\x00any bytes")
    copy.symlink_to(tmp_path / "secret")
    with Limpet.open(tmp_path / "two") as memory, pytest.raises(LimpetError, match="link"):
        memory.transfer.import_(folder)


def test_import_keeps_existing_memory_file(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    with Limpet.open(tmp_path / "one") as memory:
        filled(memory)
        memory.transfer.export(folder, "alice")
    with Limpet.open(tmp_path / "two") as memory:
        memory.notes.long_term(user="carol").write("# Carol\n")
        done = memory.transfer.import_(folder, user="carol")
        assert memory.notes.long_term(user="carol").read() == "# Carol\n"
        [note] = [one for one in done.skipped if "notes.jsonl" in one.place]
        assert "another MEMORY.md is here" in note.reason
        assert "hello" in memory.notes.day(user="carol")
        [info] = memory.sessions(user="carol")
        assert [file.name for file in memory.load_session(info.id).list_files()] == ["plan of it.txt"]
