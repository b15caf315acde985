"""Each test is named after a fault that cost somebody their memory, and fails if Limpet has it."""

from __future__ import annotations

import os
import re
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import FilePart, ImagePart, Limpet, Message, TextPart
from limpet.errors import SequenceConflict, StorageError
from limpet.testing import FakeClock
from tests.contract.processes import run_together, start
from tests.contract.rows import every_row, faults, sql
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend


def test_insert_or_replace_corrupts_index_and_deletes_summary(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    record = memory.remember("the walrus at first", user="alice", key="k", tags=["a"], metadata={"m": "1"})
    session.append("user", "hello walrus")
    session.set_summary("a summary", 1)
    session.kv.set("k", 1)
    session.add_usage("model", input_tokens=1)
    writes: dict[str, Any] = {
        "append": lambda: session.append("user", "more walrus"),
        "append the same": lambda: session.append("user", "more walrus"),
        "append once": lambda: session.append("user", "walrus once", idempotency_key="k"),
        "append again": lambda: session.append("user", "walrus once", idempotency_key="k"),
        "extend": lambda: session.extend([Message.new("user", f"walrus {number}") for number in range(5)]),
        "metadata": lambda: session.update_metadata({"a": 1}),
        "pause": session.pause,
        "resume": session.resume,
        "kv": lambda: session.kv.set("k", 2),
        "usage": lambda: session.add_usage("model", input_tokens=1),
        "expiry": lambda: session.expire_in(timedelta(days=1)),
        "get or create": lambda: memory.session("t", "1", user="alice", metadata={"x": 1}),
        "remember by key": lambda: memory.remember("the walrus again", user="alice", key="k"),
        "remember by id": lambda: memory.remember("the walrus by id", user="alice", id=record.id),
        "update text": lambda: memory.records.update(record.id, content="the walrus updated"),
        "update labels": lambda: memory.records.update(record.id, tags=["b"], metadata={"m": "2"}),
        "another record": lambda: memory.remember("another walrus", user="alice"),
        "forget": lambda: memory.forget(query="another", user="alice"),
        "summary": lambda: session.set_summary("a summary", 2),
        "delete another": lambda: memory.session("t", "2", user="alice").delete(),
    }
    for name, write in writes.items():
        write()
        assert faults(memory) == [], name
        summary = session.summary()
        assert summary is not None, name
        assert summary.text == "a summary"
    assert session.kv.get("k") == 2
    assert session.usage().input_tokens == 2
    assert len(memory.records.history(record.id)) == 5
    texts = {hit.text for hit in memory.recall("walrus", user="alice", k=100)}
    assert texts == {message.text for message in session.messages()} | {"the walrus updated"}
    session.clear()
    assert faults(memory) == []
    session.delete()
    assert faults(memory) == []


def test_session_save_rewrites_all_messages_with_new_date(timed: Limpet, clock: FakeClock) -> None:
    session = timed.session("t", "1", user="alice")
    old = datetime(2020, 1, 1, tzinfo=UTC)
    given = session.append("user", "long ago", created_at=old)
    stored = session.append("user", "now")
    for _ in range(3):
        clock.advance(days=100)
        session.append("user", "again")
        session.update_metadata({"saved": str(clock.now)})
        session.set_summary("s", 2)
        timed.session("t", "1", user="alice")
    assert [message.created_at for message in session.messages()[:2]] == [old, stored.created_at]
    assert given.created_at == old
    assert session.refresh().created_at == stored.created_at
    assert timed.recall("ago", user="alice", recipe="words")[0].source.created_at == old


def test_sequence_read_and_written_in_separate_statements_collides(durable_url: str) -> None:
    with Limpet.open(durable_url) as one, Limpet.open(durable_url) as two:
        session = one.session("t", "1", user="alice")
        handles = [session, two.load_session(session.id)]
        numbers = at_once(lambda at: [handles[at].append("user", f"{at} {n}").sequence for n in range(50)], 2)
        assert sorted([*numbers[0], *numbers[1]]) == list(range(1, 101))
        # Also when both write in batches, one of them with numbers of its own.
        won = at_once(lambda at: _batch(handles[at]), 2)
        assert sorted(won) in ([False, True], [True, True])
        stored = session.messages(after=100)
        assert len(stored) == 10 * sum(won)
        assert [message.sequence for message in stored] == sorted({message.sequence for message in stored})
        assert faults(one) == []


def _batch(session: Any) -> bool:
    try:
        session.extend([Message.new("user", "x", sequence=200 + number) for number in range(10)])
    except SequenceConflict:
        return False
    return True


def test_sequence_from_list_position_breaks_after_restart_or_failed_turn(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        session = memory.session("t", "1", user="alice")
        session.extend([Message.new("user", str(number)) for number in range(5)])
        with pytest.raises(SequenceConflict):
            session.extend([Message.new("user", "5"), Message.new("user", "bad", sequence=2)])
        assert session.append("user", "5").sequence == 6
        session.clear()
        assert session.append("user", "6").sequence == 7
    with Limpet.open(durable_url) as memory:
        session = memory.load_session(session.id)
        assert [(message.sequence, message.text) for message in session.messages()] == [(7, "6")]
        assert [(message.sequence, message.text) for message in session.recent(1)] == [(7, "6")]
        assert session.append("user", "7").sequence == 8
        assert session.swap_summary("s", 7, 0)
    with Limpet.open(durable_url) as memory:
        assert memory.load_session(session.id).append("user", "8").sequence == 9


def test_missing_wal_and_busy_timeout_raise_database_is_locked(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        session = memory.session("t", "1", user="alice")
        if durable_url.startswith("postgres"):
            assert memory.admin.stats()["backend"] == "postgres"
        else:
            assert sql(memory, "PRAGMA journal_mode") == [("wal",)]
            assert sql(memory, "PRAGMA foreign_keys") == [(1,)]
        code = """
import threading, time
with Limpet.open(given) as memory:
    session = memory.session("t", "1", user="alice")
    stop = threading.Event()
    def read():
        while not stop.is_set():
            assert memory.recall("walrus", user="alice") is not None
            assert len(session.recent(5)) <= 5
            time.sleep(0.002)
    reader = threading.Thread(target=read)
    begin()
    reader.start()
    for at in range(20):
        session.append("user", f"walrus {number} {at}")
        session.kv.set(f"k{number}", at)
        memory.remember(f"walrus {number} {at}", user="alice", key=f"key_{number}")
    stop.set()
    reader.join()
    answer(session.count() >= 20)
"""
        assert run_together(code, durable_url, count=3) == [True] * 3
        assert session.count() == 60
        assert dict(sorted(session.kv.items().items())) == {f"k{number}": 19 for number in range(3)}
        assert faults(memory) == []


def test_processes_with_private_copies_overwrite_each_others_file(durable_url: str, tmp_path: Path) -> None:
    with Limpet.open(durable_url) as one, Limpet.open(durable_url) as two:
        mine = one.session("t", "1", user="alice")
        theirs = two.session("t", "1", user="alice")
        for number in range(5):
            mine.append("user", f"mine {number}")
            theirs.append("user", f"theirs {number}")
            mine.kv.set(f"mine {number}", number)
            theirs.kv.set(f"theirs {number}", number)
            mine.update_metadata({f"mine {number}": 1})
            theirs.update_metadata({f"theirs {number}": 1})
            assert theirs.messages() == mine.messages()
            assert theirs.kv.items() == mine.kv.items()
        assert len(mine.messages()) == len(mine.kv.items()) == len(mine.refresh().metadata) == 10
        record = one.remember("first", user="alice", key="k")
        two.records.update(record.id, content="second")
        assert one.records.get(record.id).content == "second"
        assert [hit.text for hit in one.recall("second", user="alice")] == ["second"]
        two.forget(record.id)
        assert one.records(user="alice") == []
    # The same promise for sessions kept in plain files.
    code = """
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from limpet.model.values import uuid7
from limpet.sessions.files import FileSessions
ids = count(number * 1000)
clock = lambda: datetime.now(UTC)
files = FileSessions(Path(given), clock=clock, new_id=lambda: uuid7(clock(), next(ids).to_bytes(10, "big")))
begin()
made = []
for at in range(10):
    session = files.create_session()
    session.kv_set(f"k{number}", at)
    made.append(session.id)
answer(made)
"""
    folder = str(tmp_path / "files")
    answers = run_together(code, folder, count=2)
    index = (Path(folder) / "sessions.json").read_text()
    assert all(id in index for own in answers for id in own)


def _statements(memory: Limpet, fail_at: int) -> tuple[Any, list[int]]:
    """Let the n-th statement of the write connection fail. Answers how to undo it, and what was counted."""
    store: Any = memory._runtime.store
    db = store._connection.db
    counted = [0]
    real = {name: getattr(db, name) for name in ("one", "all", "run", "run_many")}

    def wrap(name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            counted[0] += 1
            if counted[0] == fail_at:
                raise StorageError("the disk is gone")
            return real[name](*arguments, **options)

        return call

    for name in real:
        setattr(db, name, wrap(name))

    def undo() -> None:
        for name in real:
            delattr(db, name)

    return undo, counted


def test_crash_between_delete_and_insert_of_update_loses_record(memory: Limpet) -> None:
    """Whichever statement of the update fails, the record is what it was before."""
    record = memory.remember("the first walrus", user="alice", key="k", tags=["a", "b"], metadata={"m": "1"})
    before = every_row(memory)
    fail_at = 0
    while True:
        fail_at += 1
        undo, counted = _statements(memory, fail_at)
        try:
            memory.records.update(record.id, content="the second penguin", tags=["c"], metadata={"n": "2"}, key="l")
        except StorageError:
            undo()
            assert every_row(memory) == before, f"statement {fail_at}"
            assert memory.records.get(record.id) == record
        else:
            undo()
            break
    assert fail_at > 8
    assert counted[0] < fail_at
    assert memory.records.get(record.id).content == "the second penguin"
    assert faults(memory) == []


@pytest.mark.slow
def test_kill_during_updates_loses_record(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        ids = [
            memory.remember("version 0", user="alice", key=f"k_{at}", tags=["t"], metadata={"m": "0"}).id
            for at in range(5)
        ]
    code = """
memory = Limpet.open(given[0])
print("ready", flush=True)
version = 0
while True:
    version += 1
    for id in given[1]:
        memory.records.update(id, content=f"version {version}", tags=[f"t{version}"], metadata={"m": str(version)})
    print(version, flush=True)
"""
    process = start(code, [durable_url, ids])
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(5):
            process.stdout.readline()
        time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        told = process.stdout.read().split()
        acknowledged = int(told[-1]) if told else 5
    finally:
        process.kill()
        process.communicate()
    with Limpet.open(durable_url) as memory:
        for id in ids:
            record = memory.records.get(id)
            version = int(record.content.split()[1])
            assert version >= acknowledged
            assert (record.tags, record.metadata) == ((f"t{version}",), {"m": str(version)})
            assert [past.content for past in memory.records.history(id)] == [
                f"version {number}" for number in range(version + 1)
            ]
        assert memory.records.count(user="alice") == 5
        assert faults(memory) == []


def test_json_path_from_metadata_key_breaks_on_dots_and_quotes(memory: Limpet) -> None:
    keys = ["a.b", 'a"b', "a'b", "a\\b", "$.a", "a[0]", "a b", "é.ü", '$."a.b"', "a.b.c"]
    for key in keys:
        memory.remember(f"under {key}", user="alice", metadata={key: "yes", "a": "no"})
    for key in keys:
        assert [record.content for record in memory.records.search_metadata(key, "yes", user="alice")] == [
            f"under {key}"
        ]
        assert len(memory.recall("under", user="alice", metadata={key: "yes"})) == 1
    assert memory.records.search_metadata("b", "yes", user="alice") == []


def test_images_and_files_of_message_are_empty_after_restart(durable_url: str) -> None:
    parts = (
        TextPart("see"),
        ImagePart("https://x/y.png", "image/png", "a cat"),
        FilePart("f.pdf", "application/pdf", "F"),
    )
    with Limpet.open(durable_url) as memory:
        session = memory.session("t", "1")
        session.append("user", parts)
        session.append("user", "between")
        session.set_summary("s", 1)
        session.update_metadata({"saved": 1})
    with Limpet.open(durable_url) as memory:
        session = memory.load_session(session.id)
        assert session.messages()[0].content == parts
        assert session.restore(1000)[0].content == parts
        assert session.context().messages[0].content == parts
        assert re.search(r"!\[a cat\]\(https://x/y.png\)\n\[F\]\(f.pdf\)", session.export_transcript())
