"""How often a call asks the database. On a network every statement is a round trip, so that one more is a regression.

Lower the figures where you can. Who has to raise one says why in the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from limpet import Config, Limpet, Message
from limpet.errors import StorageError
from limpet.model.scope import Level, Partition
from limpet.store.postgres.connection import PostgresConnection, PostgresDb
from limpet.store.sqlite.connection import SqliteConnection, SqliteDb
from limpet.store.tx import Query, partition_params

CONFIG = Config.load(
    env={},
    overrides={"embedding.model": "none", "jobs.worker": False, "retention.enabled": False, "audit.enabled": False},
)
# The most that each may need: transactions begin and end with a statement each.
MOST = {
    "append": {"sqlite": 8, "postgres": 8},
    "recall": {"sqlite": 9, "postgres": 8},
    "context": {"sqlite": 15, "postgres": 11},
    "turn": {"sqlite": 67, "postgres": 44},
}


class Trips:
    def __init__(self) -> None:
        self.statements: list[str] = []

    @contextmanager
    def counted(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with monkeypatch.context() as patched:
            for kind, names in (
                (SqliteDb, ("execute", "run", "execute_many")),
                (PostgresDb, ("execute", "run", "execute_many", "fetch_last_value", "fetch_raw_value")),
                (PostgresDb, ("lock_and_read", "all_together")),
            ):
                for name in names:
                    patched.setattr(kind, name, self._wrap(getattr(kind, name)))
            patched.setattr(SqliteConnection, "rollback", self._wrap_rollback(SqliteConnection.rollback))
            patched.setattr(PostgresConnection, "rollback", self._wrap_rollback(PostgresConnection.rollback))
            yield

    def _wrap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(db: Any, statement: Any, *args: Any, **kwargs: Any) -> Any:
            # One statement alone, or none, is not sent together.
            is_sent = len(statement) > 1 if method.__name__ == "all_together" else True
            if is_sent and (method.__name__ != "execute_many" or args[0]):
                self.statements.append(" ".join(str(statement).split())[:120])
            return method(db, statement, *args, **kwargs)

        return wrapper

    def _wrap_rollback(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(connection: Any) -> None:
            before = is_open(connection)
            method(connection)
            if before:
                self.statements.append("ROLLBACK")

        return wrapper


def is_open(connection: SqliteConnection | PostgresConnection) -> bool:
    if isinstance(connection, SqliteConnection):
        return connection.raw.in_transaction
    return not connection.db.raw.closed and connection.db.raw.info.transaction_status != 0


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


@pytest.mark.every_backend
def test_call_needs_no_more_round_trips_than_agreed(filled: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    session, backend = filled.session("app", "main", user="ana"), filled._runtime.store.backend
    question = "Which islands did we sail to?"
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: session.append("assistant", "The seals were asleep."),
        "recall": lambda: filled.recall(question, user="ana"),
        "context": lambda: session.context(question),
        "turn": lambda: take_turn(filled),
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
