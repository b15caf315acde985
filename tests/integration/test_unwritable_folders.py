"""Folders without permission, read-only file systems, and full disks."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet import Limpet
from limpet.errors import (
    LimpetError,
    StorageError,
    StoreFull,
    StoreReadOnly,
)
from tests.contract.rows import faults
from tests.integration.test_storage_faults import filled

__all__ = ["filled"]  # fixtures

ROOT = Path(__file__).parent.parent.parent


# Folders that cannot be written


def as_nobody(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the code as somebody whose rights the system enforces: root may write anywhere."""
    account = pwd.getpwnam("nobody")
    before = "import os, sys\n"
    if os.geteuid() == 0:
        # Everything is imported while root can still read it.
        before += (
            "import limpet.api, limpet.store.sqlite.store\n"
            "import difflib, numpy, Stemmer\n"
            "from limpet.search.analysis import analyse; analyse('warm é')\n"
            "from limpet.store.sqlite.connection import load_statements; load_statements()\n"
            "from limpet import Limpet; Limpet.open(':memory:').close()\n"
            "from limpet.store import migrate; loaded = migrate.load_migrations('sqlite')\n"
            "migrate.load_migrations = lambda dialect: loaded\n"
            f"os.setgroups([]); os.setgid({account.pw_gid}); os.setuid({account.pw_uid})\n"
        )
    return subprocess.run(
        [sys.executable, "-c", before + textwrap.dedent(code), *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


OPEN = """
from limpet import Limpet
from limpet.errors import LimpetError
try:
    with Limpet.open(sys.argv[1]) as memory:
        memory.session("t", "1", user="alice").append("user", "x")
    print("worked")
except LimpetError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """A folder everybody can reach: pytest's own are closed."""
    folder = Path("/tmp") / f"limpet-{tmp_path.name}-{os.getpid()}"
    folder.mkdir()
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)


def test_open_in_folder_without_permission_is_read_only_error(public: Path) -> None:
    if os.geteuid() != 0:
        public.chmod(0o555)
    done = as_nobody(OPEN, str(public / "new"))
    assert done.stdout.startswith("StoreReadOnly"), done
    assert str(public) in done.stdout
    done = as_nobody(OPEN, str(public))
    assert done.stdout.startswith("StoreReadOnly"), done
    assert list(public.iterdir()) == []


def test_open_of_read_only_store_fails_and_keeps_data(public: Path) -> None:
    with Limpet.open(public) as memory:
        memory.session("t", "1", user="alice").append("user", "mine")
    for path in public.iterdir():
        path.chmod(0o444)
    if os.geteuid() != 0:
        public.chmod(0o555)
    done = as_nobody(OPEN, str(public))
    assert done.stdout.startswith("StoreReadOnly"), done
    public.chmod(0o755)
    for path in public.iterdir():
        path.chmod(0o600)
    with Limpet.open(public) as memory:
        assert memory.admin.stats()["messages"] == 1
        assert faults(memory) == []


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of three megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("FULL AND READ-ONLY DISKS WERE NOT TESTED: this needs the right to mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True, capture_output=True)


def test_open_on_read_only_file_system_is_read_only_error(disk: Path) -> None:
    with Limpet.open(disk / "data") as memory:
        memory.session("t", "1", user="alice").append("user", "before")
    remount(disk, "ro")
    with pytest.raises(StoreReadOnly):
        Limpet.open(disk / "data")
    with pytest.raises(StoreReadOnly):
        Limpet.open(disk / "new")
    remount(disk, "rw")
    with Limpet.open(disk / "data") as memory:
        assert memory.session("t", "1", user="alice").count() == 1
        with pytest.raises(StorageError):
            memory.admin.backup("/proc/nowhere/b.db")


def test_full_disk_rejects_writes_and_recovers_without_loss(disk: Path) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(1_200_000))
    with Limpet.open(disk / "data") as memory:
        session = memory.session("t", "1", user="alice")
        acknowledged: list[str] = []
        refused: list[StorageError] = []
        for number in range(4000):
            text = f"walrus {number} " + "words " * 30
            try:
                session.append("user", text)
                acknowledged.append(text)
            except StorageError as error:
                refused.append(error)
                if len(refused) == 5:
                    break
        assert len(refused) == 5, "the disk never filled"
        assert all(isinstance(error, StoreFull) for error in refused), refused
        assert "free some space" in str(refused[0])
        assert [message.text for message in session.messages()] == acknowledged
        assert memory.recall("walrus", user="alice")
        with pytest.raises(StoreFull):
            memory.admin.backup(disk / "backup.db")
        assert not list(disk.glob("backup*"))
        ballast.unlink()
        text = "there is room again, says the walrus"
        session.append("user", text)
        assert [message.text for message in session.messages()] == [*acknowledged, text]
        assert session.refresh().last_sequence == len(acknowledged) + 1
        assert faults(memory) == []
    with Limpet.open(disk / "data") as memory:
        session = memory.session("t", "1", user="alice")
        assert [message.text for message in session.messages()] == [*acknowledged, text]
        assert len(memory.recall("room", user="alice")) == 1
        assert faults(memory) == []


def test_full_disk_reports_correct_outcome_to_every_thread(disk: Path) -> None:
    """In a group one may be refused and another not: who was told it is stored finds it, who was refused does not."""
    (disk / "ballast").write_bytes(bytes(1_200_000))
    with Limpet.open(disk / "data") as memory:
        session = memory.session("t", "1", user="alice")
        told: list[tuple[str, bool]] = []

        def write(thread: int) -> None:
            for number in range(1000):
                text = f"{thread} {number} " + "words " * 40
                try:
                    session.append("user", text)
                    told.append((text, True))
                except StoreFull:
                    told.append((text, False))
                    return

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (disk / "ballast").unlink()
        stored = [message.text for message in session.messages()]
        assert sorted(stored) == sorted(text for text, kept in told if kept)
        assert len(stored) == len(set(stored))
        assert faults(memory) == []


def test_open_on_full_disk_leaves_no_partial_store(disk: Path) -> None:
    free = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(free.f_bavail * free.f_bsize - 8 * 4096))
    with pytest.raises(LimpetError) as caught:
        Limpet.open(disk / "data")
    assert "full" in str(caught.value)
    (disk / "ballast").unlink()
    with Limpet.open(disk / "data") as memory:
        memory.session("t", "1").append("user", "works")
        assert faults(memory) == []
