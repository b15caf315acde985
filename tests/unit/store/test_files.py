from __future__ import annotations

import errno
import multiprocessing
import os
import stat
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NoReturn

import pytest

from limpet.errors import LimpetError, StorageError, StoreBusy, StoreFull, StoreReadOnly
from limpet.store.files import is_bookkeeping, lock_file, make_folder, read_bytes, write_atomic


def test_write_atomic_replaces_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    write_atomic(path, b"a longer first version")
    write_atomic(path, b"short")
    assert path.read_bytes() == b"short"
    assert [file.name for file in tmp_path.iterdir()] == ["note.md"]


def test_read_bytes_returns_none_for_missing_file(tmp_path: Path) -> None:
    assert read_bytes(tmp_path / "none") is None


def test_read_bytes_of_folder_is_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot read"):
        read_bytes(tmp_path)


def test_write_atomic_creates_private_file_and_keeps_existing_mode(tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    write_atomic(path, b"1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    write_atomic(path, b"2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_write_atomic_writes_through_symlink(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "note.md", tmp_path / "note.md"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with lock_file(link):
        write_atomic(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EACCES, StoreReadOnly),
        (errno.EPERM, StoreReadOnly),
        (errno.EROFS, StoreReadOnly),
        (errno.EIO, StorageError),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_write_atomic_failure_names_path_and_keeps_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[LimpetError], call: str
) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    path = tmp_path / "note.md"
    write_atomic(path, b"old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StorageError, match=r"note\.md: .*; ") as caught:
        write_atomic(path, b"new")
    assert type(caught.value) is kind
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["note.md"]


def test_write_atomic_and_lock_file_report_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="check that the folder exists"):
        write_atomic(tmp_path / "no" / "note.md", b"")
    with pytest.raises(StorageError, match="check that the folder exists"), lock_file(tmp_path / "no" / "note.md"):
        pass


def test_write_atomic_tolerates_folder_that_cannot_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not here")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomic(tmp_path / "note.md", b"x")
    assert (tmp_path / "note.md").read_bytes() == b"x"


def test_make_folder_creates_parents_and_is_idempotent(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        make_folder(tmp_path / "file")


def test_lock_file_excludes_other_threads(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "n", [0], [0]

    def work() -> None:
        for _ in range(20):
            with lock_file(path):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0005)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_lock_file_times_out_as_store_busy(tmp_path: Path) -> None:
    path = tmp_path / "n"
    with lock_file(path), pytest.raises(StoreBusy, match=r"n\.lock has been held"), lock_file(path, timeout=0.02):
        pass
    with lock_file(path, timeout=0):
        pass


def test_lock_file_releases_on_exception(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mine"), lock_file(tmp_path / "n"):
        raise OSError("mine")
    with lock_file(tmp_path / "n", timeout=0):
        pass


def _hold(path: Path, held: Event) -> None:
    with lock_file(path):
        held.set()
        time.sleep(60)


def test_lock_file_of_killed_process_is_released(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "n", held))
    holder.start()
    try:
        assert held.wait(60)
        with pytest.raises(StoreBusy), lock_file(tmp_path / "n", timeout=0.01):
            pass
    finally:
        holder.kill()
        holder.join()
    with lock_file(tmp_path / "n", timeout=1):
        pass


def test_lock_file_removes_leftover_temporary_file(tmp_path: Path) -> None:
    left, other = tmp_path / ".kv.json.abc.tmp", tmp_path / ".else.json.abc.tmp"
    left.write_text("half a secret")
    other.write_text("somebody else's")
    with lock_file(tmp_path / "kv.json"):
        pass
    assert not left.exists()
    assert other.exists()


def test_is_bookkeeping_matches_lock_and_temporary_files() -> None:
    assert is_bookkeeping("kv.json.lock")
    assert is_bookkeeping(".kv.json.x1.tmp")
    assert not is_bookkeeping("kv.json")
    assert not is_bookkeeping("notes.tmp")
