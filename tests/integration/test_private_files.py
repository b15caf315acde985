"""Other accounts of the machine cannot read a store, whatever the umask is."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet import Config, Limpet
from limpet.cli.main import main
from tests.served import served

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
SETTINGS = Config.load(overrides={"notes.enabled": True, "jobs.worker": False})


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def shared_paths(folder: Path) -> list[str]:
    """What is not 0700 for a folder, and 0600 for a file."""
    found = [folder, *folder.rglob("*")]
    wrong = [each for each in found if stat.S_IMODE(each.stat().st_mode) != (0o700 if each.is_dir() else 0o600)]
    return [f"{each.relative_to(folder.parent)} {stat.S_IMODE(each.stat().st_mode):o}" for each in wrong]


def use(memory: Limpet) -> None:
    session = memory.session(user="alice")
    with session.turn("My PIN is secret, and I live in Oslo") as turn:
        turn.reply("Noted.")
    memory.notes.long_term("alice").append("- likes tea")
    memory.notes.export_items("alice")
    memory.remember("Alice keeps bees", user="alice")


@pytest.mark.parametrize("wal", [True, False])
def test_store_files_are_readable_by_others_at_no_time(tmp_path, wal):
    config = Config.load(overrides={"storage.wal": wal, "jobs.worker": False})
    with Limpet.open(tmp_path / "new" / "store", config=config) as memory:
        use(memory)
        names = {each.name for each in (tmp_path / "new" / "store").iterdir()}
        assert {"limpet.db", "memory"} | (
            {"limpet.db-wal", "limpet.db-shm", "limpet.db-queue"} if wal else set()
        ) <= names
        assert shared_paths(tmp_path / "new") == []
    assert shared_paths(tmp_path / "new") == []


def test_backup_is_not_readable_by_others(tmp_path):
    with Limpet.open(tmp_path / "store", config=SETTINGS) as memory:
        use(memory)
        memory.admin.backup(tmp_path / "backups" / "one.db")
    assert shared_paths(tmp_path / "backups") == []
    with Limpet.open(tmp_path / "restored") as memory:
        memory.admin.restore(tmp_path / "backups" / "one.db")
    assert shared_paths(tmp_path / "restored") == []


def test_export_is_not_readable_by_others(tmp_path):
    with Limpet.open(tmp_path / "store", config=SETTINGS) as memory:
        use(memory)
        memory.transfer.export(tmp_path / "exported", user="alice")
        with served(memory) as url, Limpet.connect(url, user="alice") as client:
            client.transfer.export(tmp_path / "downloaded", user="alice")
    assert shared_paths(tmp_path / "exported") == []
    assert shared_paths(tmp_path / "downloaded") == []
    with Limpet.open(tmp_path / "imported") as memory:
        memory.transfer.import_(tmp_path / "exported")
    assert shared_paths(tmp_path / "imported") == []


def test_commands_write_files_that_others_cannot_read(tmp_path, capsys):
    data = ["--data", str(tmp_path / "store")]
    assert main([*data, "remember", "Alice lives in Oslo", "--user", "alice"]) == 0
    assert main([*data, "graph", "--user", "alice", "--export", str(tmp_path / "graph.json")]) == 0
    assert stat.S_IMODE((tmp_path / "graph.json").stat().st_mode) == 0o600
    assert shared_paths(tmp_path / "store") == []


def test_database_file_is_private_before_anything_is_in_it(tmp_path, monkeypatch):
    import sqlite3

    modes: list[int] = []
    connect = sqlite3.connect

    def look(path, *args, **options):
        modes.append(stat.S_IMODE(os.stat(path).st_mode))
        return connect(path, *args, **options)

    monkeypatch.setattr(sqlite3, "connect", look)
    with Limpet.open(tmp_path / "store"):
        assert set(modes) == {0o600}


def test_store_that_its_owner_shared_stays_shared(tmp_path):
    database = tmp_path / "store" / "limpet.db"
    with Limpet.open(database.parent) as memory:
        use(memory)
    database.parent.chmod(0o770)
    database.chmod(0o660)
    with Limpet.open(database.parent) as memory:
        memory.remember("Alice keeps bees", user="alice")
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in database.parent.glob("limpet.db*")}
        names = ("limpet.db", "limpet.db-wal", "limpet.db-shm", "limpet.db-queue")
        assert modes == dict.fromkeys(names, 0o660)
        assert all(finding.ok for finding in memory.admin.doctor())


def test_doctor_names_database_that_others_can_read(tmp_path):
    database = tmp_path / "store" / "limpet.db"
    with Limpet.open(database.parent) as memory:
        database.chmod(0o644)
        assert all(finding.ok for finding in memory.admin.doctor())  # its folder lets nobody in
        database.parent.chmod(0o755)
        (wrong,) = [finding for finding in memory.admin.doctor() if not finding.ok]
    assert wrong.check == "file permissions"
    assert f"chmod 600 {database}" in wrong.detail
