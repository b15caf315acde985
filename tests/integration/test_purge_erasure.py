"""After a purge no byte of it is found: in the database's file and log, in any other file, in PostgreSQL's tables."""

from __future__ import annotations

import json
import logging
import os
import random
import sqlite3
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, Message, ToolCall
from limpet.model.privacy import ErasureState
from limpet.providers.fakes import FakeEmbedder
from limpet.store.files import folder_name
from limpet.store.jobs import JobQueue
from limpet.store.sqlite import scrub
from limpet.store.sqlite import store as sqlite_store
from limpet.testing import FakeClock
from tests.postgres_server import PostgresServer

CONFIG = Config.load(overrides={"jobs.worker": False})
# Plain, in several bytes a letter, and as one is written in a file's name and in JSON.
MARKS = ("zebulonmark", "Žižkůvmark", "秘密の印", "مفتاحسري")


def traces(folder: Path, marks: tuple[str, ...]) -> list[str]:
    """Files of the folder in which a mark stands, in any spelling; or whose name has one."""
    found = []
    spelled_so = [
        spelled
        for mark in marks
        for text in {mark, mark.lower(), mark.upper(), mark.title()}
        for spelled in (text, folder_name(text), json.dumps(text)[1:-1])
    ]
    spellings = [spelled.encode() for spelled in spelled_so]
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        name = str(path.relative_to(folder)).encode()
        if any(spelled in data or spelled in name for spelled in spellings):
            found.append(str(path.relative_to(folder)))
    return found


def talk(memory: Limpet, user: str, mark: str, chance: random.Random) -> None:
    """A user's marks in every place there is."""
    session = memory.session("telegram", f"chat {mark}", f"thread {mark}", user=user, metadata={mark: [mark]})
    for number in range(3):
        with session.turn(f"My name is {mark} and I moved to {mark} Town. I love {mark} soup, {number}.") as turn:
            call = ToolCall("1", f"look_{number}", {mark: mark})
            turn.reply(f"Welcome to {mark}.", tool_calls=[call] if number == 0 else ())
    session.append("tool", f"found {mark}", tool_call_id=f"id {mark}", name=mark, idempotency_key=f"key {mark}")
    session.append("user", (mark + " ") * chance.randrange(1, 900))
    session.kv.set(mark, {mark: mark})
    session.set_working_memory(f"{mark} is working")
    session.add_usage(f"model of {mark}", input_tokens=1)
    session.compact(keep=1)
    record = memory.remember(f"{mark} likes it", user=user, key="likes", title=mark, tags=[mark], metadata={mark: mark})
    memory.records.update(record.id, content=f"{mark} likes it a lot " * chance.randrange(1, 60), references=[mark])
    memory.remember(f"in the chat {mark}", session=session.id)
    memory.records.promote(memory.remember(f"everybody knows {mark}", user=user, layer="episodic").id, scope="global")
    memory.documents.add(f"https://example.org/{mark}", text=f"The document of {mark}. " * 30, title=mark, user=user)
    if memory._runtime.folder is not None:
        memory.notes.long_term(user=user).write(f"# {mark}\n")
        memory.notes.export_items(user=user)
        folder = memory._runtime.folder / "sessions" / session.id
        folder.mkdir(parents=True)
        (folder / f"{mark}.txt").write_text(mark)
    memory.jobs.run()
    memory.profile(user=user)
    session.append("user", f"{mark}, and a job that waits")


@pytest.fixture
def memory(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Limpet]:
    monkeypatch.setattr(sqlite_store, "_MAX_INLINE_SCRUB_BYTES", 1 << 30)
    with Limpet.open(tmp_path, config=CONFIG, clock=clock, embedder=FakeEmbedder()) as opened:
        yield opened


def test_purge_removes_text_from_freed_pages(memory: Limpet, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(1)
    for mark in MARKS:
        talk(memory, f"user of {mark}", mark, chance)
    talk(memory, "somebody", "stays", chance)
    assert len(traces(tmp_path, MARKS)) > 10
    with caplog.at_level(logging.DEBUG):
        receipts = [memory.privacy.purge_user(f"user of {mark}") for mark in MARKS]
    assert all(receipt.verified and receipt.bytes is ErasureState.GONE for receipt in receipts), receipts
    assert traces(tmp_path, MARKS) == []
    assert not any(mark in caplog.text for mark in MARKS)
    assert traces(tmp_path, ("stays",))
    assert memory.recall("stays", user="somebody")
    assert [finding for finding in memory.admin.doctor() if not finding.ok] == []
    memory.close()
    assert traces(tmp_path, MARKS) == []


def churn(memory: Limpet, users: list[str], rounds: int, chance: random.Random) -> None:
    """Rows of several users between each other: added, changed, removed, so that pages split and join."""
    records: dict[str, list[str]] = {user: [] for user in users}
    for number in range(rounds):
        user = chance.choice(users)
        session = memory.session("c", f"{user} {number % 7}", user=user)
        words = f"{user} said " * chance.randrange(1, 90)
        session.extend([Message.new("user", f"{words} {number} {each}") for each in range(chance.randrange(1, 8))])
        session.kv.set(f"{user} key {number % 30}", words)
        record = memory.remember(
            f"{user} fact {number} " * chance.randrange(1, 40), user=user, tags=[f"{user} {number}"]
        )
        records[user].append(record.id)
        if chance.random() < 0.5:
            memory.records.update(
                chance.choice(records[user]), content=f"{user} changed {number} " * chance.randrange(1, 60)
            )
        if chance.random() < 0.2 and len(records[user]) > 2:
            memory.forget(records[user].pop(0))
        if chance.random() < 0.05:
            session.delete()


@pytest.mark.parametrize("seed", range(2))
def test_purge_removes_text_from_pages_shared_with_other_rows(memory: Limpet, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    users = [f"marker{number}z" for number in range(8)]
    churn(memory, users, 300, chance)
    for user in users[:4]:
        assert memory.privacy.purge_user(user).bytes is ErasureState.GONE
        churn(memory, users[4:], 20, chance)
        assert traces(tmp_path, (user,)) == [], "also after others wrote to the same pages"
    for user in users[4:]:
        assert traces(tmp_path, (user,))
    assert [finding for finding in memory.admin.doctor() if not finding.ok] == []


def test_purge_without_scrub_leaves_text_in_pages(
    memory: Limpet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the scrub is for: shows that the tests above can fail."""
    monkeypatch.setattr(scrub, "_find_free_ranges", lambda *_: iter(()))
    chance, users = random.Random(3), [f"marker{number}z" for number in range(8)]
    churn(memory, users, 400, chance)
    for user in users[:6]:
        memory.privacy.purge_user(user)
    assert any(traces(tmp_path, (user,)) for user in users[:6])


def test_purge_of_large_file_is_scrubbed_by_job(
    memory: Limpet, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "_MAX_INLINE_SCRUB_BYTES", 0)
    monkeypatch.setattr(scrub, "_SLICE", 16)
    users = [f"marker{number}z" for number in range(4)]
    churn(memory, users, 150, random.Random(5))
    assert memory.privacy.purge_user(users[0]).bytes is ErasureState.WAITING
    assert JobQueue(memory._runtime.store).count([("scrub", "")]) == 1
    memory.jobs.run()
    assert memory.privacy.receipts()[0].bytes is ErasureState.GONE
    assert JobQueue(memory._runtime.store).count([("scrub", "")]) == 0
    assert traces(tmp_path, (users[0],)) == []
    assert [finding for finding in memory.admin.doctor() if not finding.ok] == []


def test_purge_blocked_by_reader_is_finished_by_job(memory: Limpet, tmp_path: Path, clock: FakeClock) -> None:
    talk(memory, "alice", MARKS[0], random.Random(1))
    reader = sqlite3.connect(tmp_path / "limpet.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM messages").fetchone()
    receipt = memory.privacy.purge_user("alice")
    assert receipt.verified
    assert receipt.bytes is ErasureState.WAITING
    memory.jobs.run()
    assert memory.privacy.receipts()[0].bytes is ErasureState.WAITING
    reader.execute("ROLLBACK")
    reader.close()
    clock.advance(minutes=1)
    memory.jobs.run()
    assert memory.privacy.receipts()[0].bytes is ErasureState.GONE
    assert traces(tmp_path, MARKS[:1]) == []


def test_purge_cleans_store_created_without_secure_delete(memory: Limpet, tmp_path: Path) -> None:
    users = [f"marker{number}z" for number in range(4)]
    raw: Any = memory._runtime.store
    raw._connection.raw.execute("PRAGMA secure_delete = OFF")
    churn(memory, users, 100, random.Random(7))
    memory.privacy.purge_user(users[0])
    raw._connection.raw.execute("PRAGMA secure_delete = ON")
    memory.privacy.purge_user(users[1], vacuum=True)
    assert traces(tmp_path, (users[0], users[1])) == []


def test_purge_scrub_allows_concurrent_reads_and_writes(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "_SLICE", 8)
    with Limpet.open(tmp_path, config=CONFIG) as memory, Limpet.open(tmp_path, config=CONFIG) as other:
        churn(memory, ["goes", "stays"], 80, random.Random(1))
        stop, faults = threading.Event(), []

        def write() -> None:
            number = 0
            try:
                while not stop.is_set():
                    number += 1
                    session = other.session("c", "busy", user="writer")
                    session.append("user", f"message {number} " * 20)
                    assert other.recall(f"message {number}", user="writer")
            except Exception as error:  # why: whatever goes wrong in the thread is the test's failure
                faults.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        for _ in range(5):
            memory.session("c", "again", user="goes").append("user", "goes again " * 30)
            memory.privacy.purge_user("goes")
        stop.set()
        thread.join()
        assert faults == []
        assert memory._runtime.store.erase(whole=True) is ErasureState.GONE
        assert [finding for finding in memory.admin.doctor() if not finding.ok] == []
        assert traces(tmp_path, ("goes again",)) == []


def test_scrub_overwrites_only_unused_bytes(tmp_path: Path) -> None:
    """Every row reads the same after a scrub, and every place between cells is zero."""
    path = tmp_path / "some.db"
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("PRAGMA secure_delete = OFF")
    raw.execute("CREATE TABLE properties (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
    raw.execute("CREATE TABLE t (a TEXT, b INTEGER, c TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID")
    raw.execute("CREATE INDEX t_c ON t (c)")
    chance = random.Random(2)
    for number in range(3000):
        row = (f"key{chance.randrange(40)}", number, "x" * chance.randrange(9000 if number % 50 == 0 else 300))
        raw.execute("INSERT INTO t VALUES (?, ?, ?)", row)
        if number % 3 == 0:
            raw.execute("DELETE FROM t WHERE b = ?", (chance.randrange(number + 1),))
    before = raw.execute("SELECT * FROM t ORDER BY a, b").fetchall()
    key = scrub.FILES.acquire(str(path))
    try:
        assert scrub.scrub(str(path), key, 1.0)
        assert raw.execute("SELECT * FROM t ORDER BY a, b").fetchall() == before
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert scrub.scrub(str(path), key, 1.0) in (0, 1, 2), "all but what the count of the scrub itself left"
    finally:
        raw.close()
        scrub.FILES.release(key)
    data = path.read_bytes()
    size = struct.unpack_from(">H", data, 16)[0]
    for at in range(size, len(data), size):
        page = data[at : at + size]
        if page[0] in (10, 13):
            cells, content = struct.unpack_from(">HH", page, 3)
            assert not page[8 + 2 * cells : content].strip(b"\0")


def test_scrub_does_not_drop_file_locks_of_process(tmp_path: Path) -> None:
    """Closing a file drops the locks SQLite holds on it in the same process: that must not happen."""
    with Limpet.open(tmp_path, config=CONFIG) as one, Limpet.open(tmp_path, config=CONFIG) as two:
        one.session("c", "1", user="alice").append("user", "hello")
        one.privacy.purge_user("alice")
        key = two._runtime.store._file  # type: ignore[attr-defined]
        one.close()
        assert scrub.FILES._opened[key]
        os.fstat(scrub.FILES._opened[key])
    assert key not in scrub.FILES._opened


def test_purge_with_vacuum_removes_text_from_postgres_files(private_postgres: PostgresServer, clock: FakeClock) -> None:
    url = private_postgres.create_database("purged")
    [(oid,)] = private_postgres.run("SELECT oid FROM pg_database WHERE datname = 'purged'")
    folder = private_postgres.data / "base" / str(oid)
    chance = random.Random(1)
    with Limpet.open(url, config=CONFIG, clock=clock, embedder=FakeEmbedder()) as memory:
        for mark in MARKS:
            talk(memory, f"user of {mark}", mark, chance)
        talk(memory, "somebody", "stays", chance)
        private_postgres.run("CHECKPOINT")
        assert traces(folder, MARKS)
        for mark in MARKS[1:]:
            assert memory.privacy.purge_user(f"user of {mark}").bytes is ErasureState.VACUUM
        private_postgres.run("CHECKPOINT")
        assert traces(folder, MARKS[1:]), "PostgreSQL keeps dead rows until a vacuum"
        assert memory.privacy.purge_user(f"user of {MARKS[0]}", vacuum=True).bytes is ErasureState.GONE
        private_postgres.run("CHECKPOINT")
        assert traces(folder, MARKS) == []
        assert traces(folder, ("stays",))
        assert [finding for finding in memory.admin.doctor() if not finding.ok] == []
