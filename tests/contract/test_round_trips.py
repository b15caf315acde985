"""How often a call asks the database. On a network every statement is a round trip, so that one more is a regression.

Lower the figures where you can. Who has to raise one says why in the commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from limpet import Config, Limpet, Message
from limpet.api.session import Session
from limpet.errors import StorageError
from limpet.model.note import Note
from limpet.model.scope import Level, Partition
from limpet.model.session import LearnResult
from limpet.notes.repository import Notes
from limpet.store.postgres.db import PostgresDb
from limpet.store.sqlite.connection import SqliteConnection, SqliteDb
from limpet.store.tx import Params, Partitions, Query, Tx, partition_params

CONFIG = Config.load(
    env={},
    overrides={"embedding.model": "none", "jobs.worker": False, "retention.enabled": False, "audit.enabled": False},
)
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
# The most that each may need. On SQLite a transaction begins and ends with a statement each.
MOST = {
    "append": {"sqlite": 8, "postgres": 2},
    "recall": {"sqlite": 9, "postgres": 3},
    "context": {"sqlite": 15, "postgres": 3},
    "turn": {"sqlite": 43, "postgres": 8},
    "learn": {"sqlite": 72, "postgres": 40},  # four claims; the append, and the mark of the turn before
}


class Trips:
    """The statements of SQLite, and how often a thread waits for PostgreSQL to answer.

    That a transaction which only read is over is sent without waiting, and its answer is there before the next one.
    """

    def __init__(self) -> None:
        self.statements: list[str] = []
        self._last = ""
        self._is_ending = False

    @contextmanager
    def counted(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with monkeypatch.context() as patched:
            for name in ("execute", "run", "execute_many"):
                patched.setattr(SqliteDb, name, self._wrap(getattr(SqliteDb, name)))
            patched.setattr(SqliteConnection, "rollback", self._wrap_rollback(SqliteConnection.rollback))
            patched.setattr(psycopg.Cursor, "execute", self._wrap_cursor(psycopg.Cursor.execute))
            patched.setattr(PostgresDb, "send", self._wrap_send(PostgresDb.send))
            patched.setattr(psycopg.Connection, "wait", self._wrap_wait(psycopg.Connection.wait))
            patched.setattr(PostgresDb, "_finish_ending", self._wrap_ending(PostgresDb._finish_ending))
            yield

    def _wrap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(db: Any, statement: str, *args: Any, **kwargs: Any) -> Any:
            if method.__name__ != "execute_many" or args[0]:
                self.statements.append(shorten(statement))
            return method(db, statement, *args, **kwargs)

        return wrapper

    def _wrap_rollback(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(connection: SqliteConnection) -> None:
            if connection.raw.in_transaction:
                self.statements.append("ROLLBACK")
            method(connection)

        return wrapper

    def _wrap_cursor(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(cursor: Any, statement: str, *args: Any, **kwargs: Any) -> Any:
            self._last = shorten(statement)
            return method(cursor, statement, *args, **kwargs)

        return wrapper

    def _wrap_send(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(db: PostgresDb, statements: Sequence[Any]) -> Any:
            self._last = shorten(";\n".join(map(str, statements)))
            return method(db, statements)

        return wrapper

    def _wrap_wait(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(connection: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_ending:
                self.statements.append(self._last)
            return method(connection, *args, **kwargs)

        return wrapper

    def _wrap_ending(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(db: PostgresDb) -> None:
            self._is_ending = True
            method(db)
            self._is_ending = False

        return wrapper


def shorten(statement: str) -> str:
    return " ".join(statement.split())[:300]


@pytest.fixture
def filled(durable_url: str) -> Iterator[Limpet]:
    with Limpet.open(durable_url, config=CONFIG) as memory:
        for number in range(4):
            memory.remember(f"The user has a boat named Number {number}.", user="ana", key=f"boat_{number}")
        session = memory.session("app", "main", user="ana")
        lines = [f"We sailed to island {number} and saw {number} seals." for number in range(12)]
        session.extend([Message.new(("user", "assistant")[at % 2], line) for at, line in enumerate(lines)])
        session.learn()
        yield memory


def take_turn(memory: Limpet) -> None:
    with memory.session("app", "main", user="ana").turn("Which islands did we sail to?") as turn:
        turn.reply("To all twelve of them.")


def tell_and_learn(session: Session) -> None:
    session.append("user", "I live in Lugo, work at Brightwater and play the clarinet. My dog is called Pickles.")
    assert session.learn() != LearnResult()


@pytest.mark.every_backend
def test_call_needs_no_more_round_trips_than_agreed(filled: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    session, backend = filled.session("app", "main", user="ana"), filled._runtime.store.backend
    question = "Which islands did we sail to?"
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: session.append("assistant", "The seals were asleep."),
        "recall": lambda: filled.recall(question, user="ana"),
        "context": lambda: session.context(question),
        "turn": lambda: take_turn(filled),
        "learn": lambda: tell_and_learn(session),
    }
    for call in calls.values():  # what is cached is cached now
        call()
    for name, call in calls.items():
        trips = Trips()
        with trips.counted(monkeypatch):
            call()
        assert len(trips.statements) <= MOST[name][backend], (name, len(trips.statements), trips.statements)


@pytest.mark.every_backend
def test_statements_sent_together_answer_as_each_alone(durable_url: str) -> None:
    owners = ["100% o'brien", "nobody", 'a "b"; SELECT 1 -- %(c)s', "ana"]
    with Limpet.open(durable_url, config=CONFIG) as memory:
        for owner in owners:
            if owner != "nobody":
                memory.session("app", "main", user=owner).append("user", "The seals were asleep.")
        queries = [Query("partitions.get", partition_params(Partition("default", Level.USER, each))) for each in owners]
        queries.append(Query("chunks.count", {}))
        store = memory._runtime.store
        together = store.read(lambda tx: tx.db.all_together(queries))
        alone = store.read(lambda tx: [tx.db.all(each.name, each.params) for each in queries])
        assert together == alone
        assert [len(rows) for rows in together] == [1, 0, 1, 1, 1]
        with pytest.raises(StorageError):
            store.read(lambda tx: tx.db.all_together([*queries, Query("sessions.locate", {}, "no such column")] * 2))
        assert store.read(lambda tx: tx.db.all_together(queries)) == alone


@pytest.mark.every_backend
def test_reads_sent_along_answer_as_each_alone_and_only_in_their_transaction(durable_url: str) -> None:
    with Limpet.open(durable_url, config=CONFIG) as memory:
        session = memory.session("app", "main", user="ana")
        session.append("user", "The seals were asleep.")
        users = [Partition("default", Level.USER, each) for each in ("ana", "nobody")]
        queries = [*(Query("partitions.get", partition_params(each)) for each in users), Query("chunks.count", {})]
        store = memory._runtime.store

        def read_alone(tx: Tx) -> list[Any]:
            return [tx.db.all(each.name, each.params) for each in queries]

        def read_ahead(tx: Tx) -> list[Any]:
            tx.db.prefetch(queries[1:])
            return read_alone(tx)

        before = store.read(read_alone)
        assert store.read(read_ahead) == before
        session.append("user", "Then they swam away.")
        after = store.read(read_ahead)
        assert after == store.read(read_alone) != before


def test_append_sets_the_oldest_moment_of_a_session_only_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """To set it writes its index again."""
    changes: list[str] = []
    run = SqliteDb.run

    def list_and_run(db: SqliteDb, name: str, params: Params) -> int:
        changes.append(name)
        return run(db, name, params)

    monkeypatch.setattr(SqliteDb, "run", list_and_run)
    with Limpet.open(":memory:", config=CONFIG) as memory:
        session = memory.session("t", "1", user="alice")
        session.append("user", "first", created_at=NOON)
        session.append("user", "second", created_at=NOON + timedelta(minutes=1))
        assert changes.count("sessions.set_oldest") == 1
        session.append("user", "said before", created_at=NOON - timedelta(days=1))
        assert changes.count("sessions.set_oldest") == 2


def test_reads_sent_along_with_a_lock_see_what_its_last_holder_wrote(postgres_url: str) -> None:
    """And what they answered is not answered again: the transaction itself may have changed it."""
    with (
        Limpet.open(postgres_url, config=CONFIG) as one,
        Limpet.open(postgres_url, config=CONFIG) as two,
        ThreadPoolExecutor(1) as threads,
    ):
        session = one.session("app", "main", user="ana")
        session.append("user", "The seals were asleep.")
        ana, note = session.info.partition, Note("2026-03-10.md", "old", NOON)
        one._runtime.store.write(lambda tx: Notes(tx).put(ana, note))
        is_locked, has_asked = threading.Event(), threading.Event()

        def hold_and_write(tx: Tx) -> None:
            Partitions(tx).lock(ana)
            is_locked.set()
            has_asked.wait(10)
            time.sleep(0.3)  # for the other one to wait for the lock
            Notes(tx).put(ana, replace(note, text="new", version=2))

        def read_twice(tx: Tx) -> list[str]:
            has_asked.set()
            Notes(tx).prefetch_locked(ana, note.name)
            found = [Notes(tx).lock(ana, note.name)]
            Notes(tx).put(ana, replace(note, text="newest", version=3))
            found.append(Notes(tx).lock(ana, note.name))
            return [each.text for each in found if each is not None]

        writing = threads.submit(one._runtime.store.write, hold_and_write)
        is_locked.wait(10)
        assert two._runtime.store.write(read_twice) == ["new", "newest"]
        writing.result(10)
