from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import Limpet, Message
from limpet.errors import InvalidInput, StorageError, Unsupported
from limpet.lifecycle.transfer_repository import Imports
from limpet.model.chunk import Vector
from limpet.model.scope import Level, Partition, Scope
from limpet.schedules.runner import RunHandlers, Runner
from limpet.search.chunk_repository import Chunks
from limpet.store.copy import copy_store
from limpet.store.jobs import Jobs
from tests.contract.rows import every_row, faults

pytestmark = pytest.mark.every_backend


class Embedder:
    name = "letters-3"
    dimension = 3

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[len(text) / 7, text.count("a") / 3, -0.1] for text in texts]


def fill(memory: Limpet, chats: int = 3, messages: int = 20) -> None:
    """Something in every table, of every tenant."""
    for tenant in ("default", "other"):
        view = memory.tenant(tenant)
        for chat in range(chats):
            session = view.session("t", f"chat:{chat}", None if chat % 2 else "thread", user=f"user {chat % 2}")
            session.extend([Message.new("user", f"walrus {chat} {number} é 日本語 \x1b") for number in range(messages)])
            session.append("tool", "result", tool_call_id="c", is_error=True, idempotency_key="k")
            session.set_summary("walruses", 3)
            session.kv.set("k", {"deep": [1, None]})
            session.add_usage("model", input_tokens=5, cost=0.25)
        view.session("t", "chat:0", "thread", user="user 0").clear()
        view.privacy.purge_user("nobody")
        view.remember("for all", scope="global", title="T", references=["r"], ttl=1000, pinned=True)
        record = view.remember("walrus one", user="user 1", key="k", tags=["a", "b.c"], metadata={"m.n": "é"})
        view.records.update(record.id, content="walrus two")
        view.notes.long_term("user 1").write("- keeps a walrus é\n")
        view.remember("My sister Anna lives in Porto", user="user 1", idempotency_key="once")
        memory.jobs.run()  # what is left over would be done by whoever opens a copy
        _fill_background(memory, Partition(tenant, Level.USER, "user 1"))
        view.schedules.create(
            "user 1", goal="water the walrus é", cadence="every: 1h", timezone="Europe/Lisbon", metadata={"a": [1]}
        )
        view.access.keys.create("laptop", user="user 1", grants=["read:global"], expires_in=1000)
    _run_schedules(memory)


def _run_schedules(memory: Limpet) -> None:
    """As in two hours."""
    runtime = memory._runtime
    later = runtime.clock() + timedelta(hours=2)
    runner = Runner(runtime.store, lambda: later, memory.config.schedules, runtime.new_id)
    assert runner.run(RunHandlers(lambda firing: "watered 日本", None, lambda schedule: None), until_idle=True) == 2


def _fill_background(memory: Limpet, space: Partition) -> None:
    """A vector that came late, a job that nobody here does, and an import under way."""
    late = {0: Vector(Embedder.name, tuple(Embedder().embed(["late"])[0]))}
    store, now = memory._runtime.store, memory._runtime.clock()
    store.write(lambda tx: Chunks(tx).put_vectors(space, late))
    store.write(lambda tx: Jobs(tx).enqueue(space, "for nobody here", "", now))
    owner = Scope(space.tenant, user=space.owner)
    store.write(lambda tx: Imports(tx).save_progress(owner, "digest", "an import under way", "{}", now))


@pytest.fixture
def filled(store_url: str) -> Any:
    with Limpet.open(store_url, embedder=Embedder()) as memory:
        fill(memory)
        yield memory


def rows(memory: Limpet) -> dict[str, list[tuple[Any, ...]]]:
    return every_row(memory)


def test_backup_contains_all_rows_and_opens_as_store(filled: Limpet, tmp_path: Path) -> None:
    target = tmp_path / "copies" / "backup.db"
    filled.admin.backup(target)
    assert [path.name for path in target.parent.iterdir()] == ["backup.db"]
    with Limpet.open(target, embedder=Embedder()) as copy:
        assert rows(copy) == rows(filled)
        assert faults(copy) == []
        assert copy.recall("walrus", user="user 1", k=100) == filled.recall("walrus", user="user 1", k=100)
        session = copy.session("t", "chat:1", user="user 1")
        assert session.append("user", "goes on").sequence == 22
        copy.remember("new", user="somebody new")
        assert faults(copy) == []


def test_backup_never_overwrites_existing_file(filled: Limpet, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    target.write_text("precious")
    with pytest.raises(InvalidInput, match="exists"):
        filled.admin.backup(target)
    assert target.read_text() == "precious"
    with pytest.raises(InvalidInput):
        filled.admin.backup(tmp_path)
    assert list(tmp_path.glob("*unfinished*")) == []


def test_backup_reports_progress(filled: Limpet, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    filled.admin.backup(tmp_path / "b.db", lambda what, done, total: seen.append((what, done, total)))
    assert seen
    assert all(0 <= done <= total for _, done, total in seen)
    assert seen[-1][1] == seen[-1][2]


def test_backup_interrupted_leaves_no_file(filled: Limpet, tmp_path: Path) -> None:
    def stop(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    target = tmp_path / "b.db"
    with pytest.raises(KeyboardInterrupt):
        filled.admin.backup(target, stop)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("b.db")] == []
    filled.session("t", "x").append("user", "the store goes on")
    filled.admin.backup(target)
    assert target.exists()


def test_backup_to_unwritable_path_raises_storage_error(filled: Limpet, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError):
        filled.admin.backup(tmp_path / "file" / "b.db")
    with pytest.raises(StorageError):
        filled.admin.backup("/proc/b.db")
    filled.session("t", "x").append("user", "the store goes on")


@pytest.mark.slow
def test_backup_during_writes_is_consistent_snapshot(store_url: str, tmp_path: Path) -> None:
    """Each turn is two messages in one transaction: a copy with an odd number is no moment that ever was."""
    with Limpet.open(store_url) as memory:
        session = memory.session("t", "1", user="alice")
        session.extend([Message.new("user", f"walrus {number} " * 20) for number in range(400)])
        stop = threading.Event()
        written = 0

        def write() -> None:
            nonlocal written
            while not stop.is_set():
                session.extend(
                    [Message.new("user", f"question {written}"), Message.new("assistant", f"answer {written}")]
                )
                written += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            copies = []
            for number in range(3):
                copies.append(tmp_path / f"copy{number}.db")
                before = session.count()
                memory.admin.backup(copies[-1])
                with Limpet.open(copies[-1]) as copy:
                    assert copy.admin.stats()["messages"] >= before
        finally:
            stop.set()
            writer.join()
        assert written > 5
        assert session.count() == 400 + 2 * written
        for path in copies:
            with Limpet.open(path) as copy:
                again = copy.session("t", "1", user="alice")
                assert again.count() % 2 == 0
                assert [message.sequence for message in again.messages()] == list(range(1, again.count() + 1))
                assert faults(copy) == []
        assert faults(memory) == []


def test_backup_is_single_file_without_wal(filled: Limpet, tmp_path: Path) -> None:
    target = tmp_path / "b.db"
    filled.admin.backup(str(target))
    assert not os.path.exists(f"{target}-wal")
    connection = sqlite3.connect(f"file:{target}?mode=ro", uri=True)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM messages").fetchone()[0] == filled.admin.stats()["messages"]
    finally:
        connection.close()


# Restore


def test_restore_puts_backup_into_new_store(filled: Limpet, store_url: str, tmp_path: Path) -> None:
    filled.admin.backup(tmp_path / "b.db")
    expected = filled.recall("walrus", user="user 1", k=100)
    with Limpet.open(tmp_path / "fresh", embedder=Embedder()) as fresh:
        fresh.admin.restore(tmp_path / "b.db")
        assert rows(fresh) == rows(filled)
        assert faults(fresh) == []
        assert fresh.recall("walrus", user="user 1", k=100) == expected
        fresh.session("t", "chat:1", user="user 1").append("user", "goes on")
        assert [entry.operation for entry in fresh.access.audit(operation="admin.restore")] == ["admin.restore"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("b.db")] == ["b.db"]


def test_restore_refuses_store_with_rows_unless_told_to_overwrite(filled: Limpet, tmp_path: Path) -> None:
    if filled.admin.stats()["backend"] == "postgres":
        pytest.skip("SQLite only")
    filled.admin.backup(tmp_path / "b.db")
    before = rows(filled)
    filled.remember("a walrus that came later", user="user 1")
    assert any("later" in hit.text for hit in filled.recall("walrus later", user="user 1"))
    with pytest.raises(InvalidInput, match=r"not empty: it has rows in .*overwrite"):
        filled.admin.restore(tmp_path / "b.db")
    assert any("later" in hit.text for hit in filled.recall("walrus later", user="user 1"))
    filled.admin.restore(tmp_path / "b.db", overwrite=True)
    assert rows(filled) == before
    assert not any("later" in hit.text for hit in filled.recall("walrus later", user="user 1"))
    assert faults(filled) == []


def test_restore_refuses_what_is_not_a_backup(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, and long enough to look at " * 10)
    sqlite3.connect(tmp_path / "foreign.db").execute("CREATE TABLE cookies (name)").connection.close()
    with Limpet.open(tmp_path / "data") as memory:
        memory.remember("stays", user="alice")
        for name, words in (
            ("none.db", "not a file"),
            ("foreign.db", "not a store of Limpet"),
            ("text", "not a database"),
        ):
            with pytest.raises((InvalidInput, StorageError), match=words):
                memory.admin.restore(tmp_path / name, overwrite=True)
        assert [record.content for record in memory.records("alice")] == ["stays"]


@pytest.mark.postgres
def test_restore_on_postgres_is_unsupported(postgres_url: str, tmp_path: Path) -> None:
    with Limpet.open(postgres_url) as memory:
        memory.admin.backup(tmp_path / "b.db")
        with pytest.raises(Unsupported, match="use pg_restore"):
            memory.admin.restore(tmp_path / "b.db")


# Copy


def store_of(memory: Limpet) -> Any:
    return memory._runtime.store


@pytest.mark.postgres
def test_copy_to_postgres_and_back_is_lossless(tmp_path: Path, postgres_url: str) -> None:
    with (
        Limpet.open(tmp_path / "first", embedder=Embedder()) as first,
        Limpet.open(postgres_url, embedder=Embedder()) as middle,
        Limpet.open(tmp_path / "last", embedder=Embedder()) as last,
    ):
        fill(first, chats=4, messages=300)
        seen: list[tuple[str, int, int]] = []
        copied = copy_store(store_of(first), store_of(middle), lambda *step: seen.append(step))
        assert rows(middle) == rows(first)
        told = {name: count for name, count in copied.items() if name not in ("audit", "jobs")}  # the store has its own
        assert told == {name: len(found) for name, found in rows(first).items() if name != "jobs"}
        assert {name for name, count in copied.items() if count} == {name for name, _, _ in seen}
        may_be_empty = "documents imports cursors record_inputs tenant_encryption transfers grants receipts".split()
        assert all(count for name, count in told.items() if name not in may_be_empty)
        copy_store(store_of(middle), store_of(last))
        assert rows(last) == rows(first)
        for recipe in ("words", "vectors", "weighted", "default"):
            expected = first.recall("walrus 3 277", user="user 1", k=50, recipe=recipe)
            assert last.recall("walrus 3 277", user="user 1", k=50, recipe=recipe) == expected
            found = middle.recall("walrus 3 277", user="user 1", k=50, recipe=recipe)
            assert found == expected
        for memory in (middle, last):
            assert faults(memory) == []
            memory.session("new", "chat", user="somebody new").append("user", "a number of its own")
            memory.session("t", "chat:1", user="user 1").append("user", "goes on")
            assert faults(memory) == []


def test_copy_requires_empty_target(filled: Limpet, tmp_path: Path) -> None:
    with Limpet.open(tmp_path / "target") as target:
        target.session("t", "1").append("user", "mine")
        before = rows(target)
        with pytest.raises(InvalidInput, match="not empty"):
            copy_store(store_of(filled), store_of(target))
        assert rows(target) == before


def test_copy_failure_leaves_target_empty(filled: Limpet, tmp_path: Path) -> None:
    with Limpet.open(tmp_path / "target") as target:
        before = rows(target)

        def fail(what: str, done: int, total: int) -> None:
            if what == "chunks":
                raise RuntimeError("broken off")

        with pytest.raises(RuntimeError):
            copy_store(store_of(filled), store_of(target), fail)
        assert rows(target) == before
        copy_store(store_of(filled), store_of(target))
        assert rows(target) == rows(filled)


def test_copy_of_empty_store_works(store_url: str, tmp_path: Path) -> None:
    with Limpet.open(store_url) as source, Limpet.open(tmp_path / "target") as target:
        copy_store(store_of(source), store_of(target))
        assert rows(target) == rows(source)
        target.session("t", "1").append("user", "works")
        assert faults(target) == []
