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
from limpet.model.receipt import ErasureState
from limpet.providers.fake import FakeEmbedder
from limpet.store.atomic_files import folder_name
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


def talk(hf: Limpet, user: str, mark: str, chance: random.Random) -> None:
    """A user's marks in every place there is."""
    session = hf.session("telegram", f"chat {mark}", f"thread {mark}", user=user, metadata={mark: [mark]})
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
    record = hf.remember(f"{mark} likes it", user=user, key="likes", title=mark, tags=[mark], metadata={mark: mark})
    hf.records.update(record.id, content=f"{mark} likes it a lot " * chance.randrange(1, 60), references=[mark])
    hf.remember(f"in the chat {mark}", session=session.id)
    hf.records.promote(hf.remember(f"everybody knows {mark}", user=user, layer="episodic").id, scope="global")
    hf.documents.add(f"https://example.org/{mark}", text=f"The document of {mark}. " * 30, title=mark, user=user)
    if hf._runtime.folder is not None:
        hf.notes.long_term(user=user).write(f"# {mark}\n")
        hf.notes.export_items(user=user)
        folder = hf._runtime.folder / "sessions" / session.id
        folder.mkdir(parents=True)
        (folder / f"{mark}.txt").write_text(mark)
    hf.jobs.run()
    hf.profile(user=user)
    session.append("user", f"{mark}, and a job that waits")


@pytest.fixture
def hf(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Limpet]:
    monkeypatch.setattr(sqlite_store, "_MAX_INLINE_SCRUB_BYTES", 1 << 30)
    with Limpet.open(tmp_path, config=CONFIG, clock=clock, embedder=FakeEmbedder()) as opened:
        yield opened


def test_freed_pages_still_held_the_text(hf: Limpet, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(1)
    for mark in MARKS:
        talk(hf, f"user of {mark}", mark, chance)
    talk(hf, "somebody", "stays", chance)
    assert len(traces(tmp_path, MARKS)) > 10
    with caplog.at_level(logging.DEBUG):
        receipts = [hf.privacy.purge_user(f"user of {mark}") for mark in MARKS]
    assert all(receipt.verified and receipt.bytes is ErasureState.GONE for receipt in receipts), receipts
    assert traces(tmp_path, MARKS) == []
    assert not any(mark in caplog.text for mark in MARKS)
    assert traces(tmp_path, ("stays",))
    assert hf.recall("stays", user="somebody")
    assert [finding for finding in hf.admin.doctor() if not finding.ok] == []
    hf.close()
    assert traces(tmp_path, MARKS) == []


def churn(hf: Limpet, users: list[str], rounds: int, chance: random.Random) -> None:
    """Rows of several users between each other: added, changed, removed, so that pages split and join."""
    records: dict[str, list[str]] = {user: [] for user in users}
    for number in range(rounds):
        user = chance.choice(users)
        session = hf.session("c", f"{user} {number % 7}", user=user)
        words = f"{user} said " * chance.randrange(1, 90)
        session.extend([Message.new("user", f"{words} {number} {each}") for each in range(chance.randrange(1, 8))])
        session.kv.set(f"{user} key {number % 30}", words)
        record = hf.remember(f"{user} fact {number} " * chance.randrange(1, 40), user=user, tags=[f"{user} {number}"])
        records[user].append(record.id)
        if chance.random() < 0.5:
            hf.records.update(
                chance.choice(records[user]), content=f"{user} changed {number} " * chance.randrange(1, 60)
            )
        if chance.random() < 0.2 and len(records[user]) > 2:
            hf.forget(records[user].pop(0))
        if chance.random() < 0.05:
            session.delete()


@pytest.mark.parametrize("seed", range(2))
def test_rows_between_each_other_leave_nothing_in_any_page(hf: Limpet, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    users = [f"marker{number}z" for number in range(8)]
    churn(hf, users, 300, chance)
    for user in users[:4]:
        assert hf.privacy.purge_user(user).bytes is ErasureState.GONE
        churn(hf, users[4:], 20, chance)
        assert traces(tmp_path, (user,)) == [], "also after others wrote to the same pages"
    for user in users[4:]:
        assert traces(tmp_path, (user,))
    assert [finding for finding in hf.admin.doctor() if not finding.ok] == []


def test_without_the_scrub_old_copies_stay_in_pages(
    hf: Limpet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the scrub is for: shows that the tests above can fail."""
    monkeypatch.setattr(scrub, "_find_free_ranges", lambda *_: iter(()))
    chance, users = random.Random(3), [f"marker{number}z" for number in range(8)]
    churn(hf, users, 400, chance)
    for user in users[:6]:
        hf.privacy.purge_user(user)
    assert any(traces(tmp_path, (user,)) for user in users[:6])


def test_a_large_file_is_scrubbed_by_a_job(
    hf: Limpet, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "_MAX_INLINE_SCRUB_BYTES", 0)
    monkeypatch.setattr(scrub, "_SLICE", 16)
    users = [f"marker{number}z" for number in range(4)]
    churn(hf, users, 150, random.Random(5))
    assert hf.privacy.purge_user(users[0]).bytes is ErasureState.WAITING
    assert hf._runtime.store.count_jobs([("scrub", "")]) == 1
    hf.jobs.run()
    assert hf.privacy.receipts()[0].bytes is ErasureState.GONE
    assert hf._runtime.store.count_jobs([("scrub", "")]) == 0
    assert traces(tmp_path, (users[0],)) == []
    assert [finding for finding in hf.admin.doctor() if not finding.ok] == []


def test_a_reader_in_the_way_is_reported_and_a_job_finishes(hf: Limpet, tmp_path: Path, clock: FakeClock) -> None:
    talk(hf, "alice", MARKS[0], random.Random(1))
    reader = sqlite3.connect(tmp_path / "limpet.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM messages").fetchone()
    receipt = hf.privacy.purge_user("alice")
    assert receipt.verified
    assert receipt.bytes is ErasureState.WAITING
    hf.jobs.run()
    assert hf.privacy.receipts()[0].bytes is ErasureState.WAITING
    reader.execute("ROLLBACK")
    reader.close()
    clock.advance(minutes=1)
    hf.jobs.run()
    assert hf.privacy.receipts()[0].bytes is ErasureState.GONE
    assert traces(tmp_path, MARKS[:1]) == []


def test_a_store_that_was_made_without_secure_delete_is_cleaned_too(hf: Limpet, tmp_path: Path) -> None:
    users = [f"marker{number}z" for number in range(4)]
    raw: Any = hf._runtime.store
    raw._sqlite.raw.execute("PRAGMA secure_delete = OFF")
    churn(hf, users, 100, random.Random(7))
    hf.privacy.purge_user(users[0])
    raw._sqlite.raw.execute("PRAGMA secure_delete = ON")
    hf.privacy.purge_user(users[1], vacuum=True)
    assert traces(tmp_path, (users[0], users[1])) == []


def test_others_write_and_read_while_pages_are_scrubbed(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "_SLICE", 8)
    with Limpet.open(tmp_path, config=CONFIG) as hf, Limpet.open(tmp_path, config=CONFIG) as other:
        churn(hf, ["goes", "stays"], 80, random.Random(1))
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
            hf.session("c", "again", user="goes").append("user", "goes again " * 30)
            hf.privacy.purge_user("goes")
        stop.set()
        thread.join()
        assert faults == []
        assert hf._runtime.store.erase(whole=True) is ErasureState.GONE
        assert [finding for finding in hf.admin.doctor() if not finding.ok] == []
        assert traces(tmp_path, ("goes again",)) == []


def test_only_unused_places_are_overwritten(tmp_path: Path) -> None:
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


def test_the_locks_of_a_process_outlive_a_scrub(tmp_path: Path) -> None:
    """Closing a file drops the locks SQLite holds on it in the same process: that must not happen."""
    with Limpet.open(tmp_path, config=CONFIG) as one, Limpet.open(tmp_path, config=CONFIG) as two:
        one.session("c", "1", user="alice").append("user", "hello")
        one.privacy.purge_user("alice")
        key = two._runtime.store._file  # type: ignore[attr-defined]
        one.close()
        assert scrub.FILES._opened[key]
        os.fstat(scrub.FILES._opened[key])
    assert key not in scrub.FILES._opened


def test_postgres_table_files_hold_nothing_after_the_vacuum(private_postgres: PostgresServer, clock: FakeClock) -> None:
    url = private_postgres.create_database("purged")
    [(oid,)] = private_postgres.run("SELECT oid FROM pg_database WHERE datname = 'purged'")
    folder = private_postgres.data / "base" / str(oid)
    chance = random.Random(1)
    with Limpet.open(url, config=CONFIG, clock=clock, embedder=FakeEmbedder()) as hf:
        for mark in MARKS:
            talk(hf, f"user of {mark}", mark, chance)
        talk(hf, "somebody", "stays", chance)
        private_postgres.run("CHECKPOINT")
        assert traces(folder, MARKS)
        for mark in MARKS[1:]:
            assert hf.privacy.purge_user(f"user of {mark}").bytes is ErasureState.VACUUM
        private_postgres.run("CHECKPOINT")
        assert traces(folder, MARKS[1:]), "PostgreSQL keeps dead rows until a vacuum"
        assert hf.privacy.purge_user(f"user of {MARKS[0]}", vacuum=True).bytes is ErasureState.GONE
        private_postgres.run("CHECKPOINT")
        assert traces(folder, MARKS) == []
        assert traces(folder, ("stays",))
        assert [finding for finding in hf.admin.doctor() if not finding.ok] == []
