"""Wrong files, folders that cannot be written, full disks, locks held by others, and forks."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, Message
from limpet.errors import (
    LimpetError,
    MigrationError,
    StorageError,
    StoreBusy,
    StoreCorrupt,
    StoreUnavailable,
)
from tests.contract.processes import start
from tests.contract.rows import every_row, faults, sql


def settings(**storage: Any) -> Config:
    return Config.load(overrides={f"storage.{name}": value for name, value in storage.items()})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# Wrong files


def other_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE sessions (id INTEGER PRIMARY KEY, precious TEXT)")
    connection.execute("INSERT INTO sessions (precious) VALUES ('mine')")
    connection.commit()
    connection.close()


def other_stamped_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA application_id = 12345")
    connection.execute("CREATE TABLE anything (id INTEGER PRIMARY KEY)")
    connection.commit()
    connection.close()


WRONG: dict[str, Any] = {
    "a text": lambda path: path.write_text("Dear diary, today I learned about databases.\n" * 200),
    "a short text": lambda path: path.write_text("hello"),
    "zeros": lambda path: path.write_bytes(bytes(8192)),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 64),
    "only a header": lambda path: path.write_bytes(b"SQLite format 3\x00" + bytes(84)),
    "another SQLite database": other_database,
    "a SQLite database with another stamp": other_stamped_database,
}


def test_open_says_how_to_move_a_store_of_an_earlier_layout(tmp_path: Path) -> None:
    path = tmp_path / "limpet.db"
    other_database(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {0x484F4C44}")
    before = contents(tmp_path)
    with pytest.raises(MigrationError, match="export it with the program that made it, and import the export"):
        Limpet.open(tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", WRONG)
def test_open_rejects_foreign_file_without_changing_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "limpet.db"
    WRONG[name](path)
    before = contents(tmp_path)
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=r"limpet\.db"):
            Limpet.open(tmp_path)
    assert contents(tmp_path) == before


def test_open_turns_empty_file_into_store(tmp_path: Path) -> None:
    (tmp_path / "limpet.db").touch()
    with Limpet.open(tmp_path) as memory:
        memory.session("t", "1").append("user", "hello")
        assert faults(memory) == []


def test_open_rejects_folder_in_place_of_database_file(tmp_path: Path) -> None:
    (tmp_path / "limpet.db").mkdir()
    with pytest.raises(StorageError, match=r"limpet\.db"):
        Limpet.open(tmp_path)
    assert list((tmp_path / "limpet.db").iterdir()) == []


def test_open_rejects_file_in_place_of_data_folder(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(LimpetError):
        Limpet.open(tmp_path / "data" / "inner")
    assert (tmp_path / "data").read_text() == "a file"


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with Limpet.open(tmp_path) as memory:
        session = memory.session("t", "1", user="alice")
        session.extend([Message.new("user", f"walrus {number} " * 20) for number in range(200)])
    return tmp_path


@pytest.mark.parametrize("left", [2, 50, 99, 100, 512, 4096, 5000, 20_000, 0.5, 0.9])
def test_truncated_database_is_reported_corrupt(left: float, filled: Path) -> None:
    """Refused when it is opened, or found by doctor and told by the call that needs what is missing."""
    path = filled / "limpet.db"
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * left if left < 1 else left)])
    try:
        with Limpet.open(filled) as memory:
            assert faults(memory) != []
            with pytest.raises(StoreCorrupt):
                memory.session("t", "1", user="alice").append("user", "x")
                memory.session("t", "1", user="alice").messages()
                memory.recall("walrus", user="alice", k=1000)
    except StorageError as error:
        assert isinstance(error, StoreCorrupt)  # noqa: PT017
    assert path.read_bytes()[:1] == data[:1]


def test_database_file_deleted_while_open_fails_cleanly_or_works(filled: Path) -> None:
    memory = Limpet.open(filled)
    session = memory.session("t", "1", user="alice")
    for path in filled.iterdir():
        path.unlink()
    try:
        session.append("user", "x")
        session.messages()
    except LimpetError:
        pass
    finally:
        memory.close()


# Locks


WITHOUT_DESCRIPTORS = """
    import io, os, resource, sys
    from limpet import Limpet
    from limpet.errors import StorageError

    memory = Limpet.open(sys.argv[1])
    session = memory.session(user="alice")
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass

    def take_turn():
        with session.turn("hello") as turn:
            turn.reply("good morning")

    calls = {
        "append": lambda: session.append("user", "hello"),
        "recall": lambda: memory.recall("hello", user="alice"),
        "context": lambda: session.context("hello"),
        "turn": take_turn,
        "learn": session.learn,
        "remember": lambda: memory.remember("Alice likes tea", user="alice"),
        "forget": lambda: memory.forget(query="tea", user="alice"),
        "backup": lambda: memory.admin.backup(sys.argv[1] + ".backup"),
        "export": lambda: memory.transfer.archive(io.BytesIO(), "alice"),
        "purge": lambda: memory.privacy.purge_user("alice"),
        "retention": memory.privacy.retention,
        "doctor": lambda: list(memory.admin.doctor()),
    }
    for name, call in calls.items():
        try:
            call()
        except StorageError as error:
            print(name, "ulimit -n" in str(error))
    for descriptor in taken:
        os.close(descriptor)
    take_turn()
    print([message.text for message in session.messages()])
    memory.close()
"""


def test_process_without_descriptors_gets_clear_errors_and_goes_on(tmp_path: Path) -> None:
    code = textwrap.dedent(WITHOUT_DESCRIPTORS)
    command = [sys.executable, "-c", code, str(tmp_path / "data")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *answers, said = done.stdout.splitlines()
    assert len(answers) == 12
    assert all(answer.endswith(" True") for answer in answers), answers
    assert said == "['hello', 'good morning']"


def test_database_locked_too_long_is_busy_and_loses_nothing(tmp_path: Path) -> None:
    with Limpet.open(tmp_path, config=settings(busy_timeout_ms=200)) as memory:
        session = memory.session("t", "1", user="alice")
        session.append("user", "before")
        before = every_row(memory)
        code = """
import sqlite3
connection = sqlite3.connect(given, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
begin()
connection.execute("ROLLBACK")
answer("done")
"""
        holder = start(code, str(tmp_path / "limpet.db"))
        try:
            assert holder.stdout is not None
            assert holder.stdin is not None
            assert holder.stdout.readline() == "ready\n"
            begun = time.monotonic()
            with pytest.raises(StoreBusy, match="locked by another process"):
                session.append("user", "during")
            assert 0.15 < time.monotonic() - begun < 60
            for refused in (
                lambda: memory.remember("x", user="alice"),
                lambda: session.kv.set("k", 1),
                session.clear,
                session.delete,
                lambda: memory.session("t", "2", user="alice"),
            ):
                with pytest.raises(StoreBusy):
                    refused()
            # Reading goes on.
            assert [message.text for message in session.messages()] == ["before"]
            assert len(memory.recall("before", user="alice")) == 1
            with pytest.raises(StoreBusy):
                Limpet.open(tmp_path / "limpet.db", config=settings(busy_timeout_ms=100, wal=False))
        finally:
            holder.communicate("\n", timeout=60)
        assert every_row(memory) == before
        assert session.append("user", "after").sequence == 2
        assert faults(memory) == []


def test_database_locked_briefly_is_waited_for(tmp_path: Path) -> None:
    with Limpet.open(tmp_path) as memory:
        session = memory.session("t", "1", user="alice")
        connection = sqlite3.connect(tmp_path / "limpet.db", isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.3, connection.execute, ["ROLLBACK"])
        timer.start()
        try:
            assert session.append("user", "waited").sequence == 1
        finally:
            timer.join()
            connection.close()


def test_store_works_without_wal(tmp_path: Path) -> None:
    config = settings(wal=False, synchronous="normal", readers=1, group_size=1)
    with Limpet.open(tmp_path, config=config) as memory:
        session = memory.session("t", "1", user="alice")
        session.append("user", "the walrus")
        assert len(memory.recall("walrus", user="alice")) == 1
        assert not (tmp_path / "limpet.db-wal").exists()
    with Limpet.open(tmp_path) as memory:
        assert memory.session("t", "1", user="alice").count() == 1
        assert (tmp_path / "limpet.db-wal").exists()
    with Limpet.open(tmp_path, config=config) as memory:
        assert memory.session("t", "1", user="alice").append("user", "more").sequence == 2
        assert faults(memory) == []


# Closed stores


def test_closed_store_raises_store_unavailable(store_url: str) -> None:
    memory = Limpet.open(store_url)
    session = memory.session("t", "1", user="alice")
    session.append("user", "x")
    memory.close()
    memory.close()
    for call in (
        lambda: session.append("user", "y"),
        session.messages,
        session.count,
        lambda: session.kv.get("k"),
        lambda: memory.recall("x", user="alice"),
        lambda: memory.remember("x", user="alice"),
        memory.admin.stats,
        memory.admin.doctor,
        lambda: memory.session("t", "2"),
        lambda: memory.tenant("other").sessions(),
    ):
        with pytest.raises(StoreUnavailable, match="closed"):
            call()


def test_close_during_use_answers_every_thread(durable_url: str) -> None:
    memory = Limpet.open(durable_url)
    session = memory.session("t", "1", user="alice")
    stored: list[int] = []
    wrong: list[BaseException] = []

    def use() -> None:
        while True:
            try:
                stored.append(session.append("user", "x").sequence)
                session.recent(3)
            except StoreUnavailable:
                return
            except BaseException as error:
                wrong.append(error)
                return

    threads = [threading.Thread(target=use, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while len(stored) < 20:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    memory.close()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    with Limpet.open(durable_url) as again:
        assert sorted(stored) == [message.sequence for message in again.load_session(session.id).messages()]
        assert faults(again) == []


def test_sqlite_store_uses_wal_and_foreign_keys(tmp_path):
    with Limpet.open(tmp_path) as memory:
        assert sql(memory, "PRAGMA journal_mode") == [("wal",)]
        assert sql(memory, "PRAGMA foreign_keys") == [(1,)]
