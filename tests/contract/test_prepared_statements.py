"""What is sent often is prepared by PostgreSQL, where the connection is a session of its own."""

from __future__ import annotations

from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.store.postgres import db as statement
from limpet.store.tx import Tx

pytestmark = pytest.mark.postgres


def open_memory(url: str, **settings: Any) -> Limpet:
    return Limpet.open(url, config=Config.load(env={}, overrides={"embedding.model": "none", **settings}))


def list_prepared(tx: Tx) -> set[str]:
    return {sql for (sql,) in tx.db.execute("SELECT statement FROM pg_prepared_statements")}


def append(memory: Limpet, count: int) -> None:
    session = memory.session("app", "main", user="ana")
    for number in range(count):
        session.append("user", f"We sailed to island {number}")


def test_statements_of_an_append_are_prepared_once_they_are_frequent(postgres_url: str) -> None:
    with open_memory(postgres_url) as memory:
        append(memory, 12)
        prepared = memory._runtime.store.write(list_prepared)
        tables = ("encryption_changes", "partitions", "sessions", "messages", "chunks", "limpet_writers")
        assert all(any(table in sql for sql in prepared) for table in tables)
        assert memory.session("app", "main", user="ana").count() == 12


def test_statements_are_not_prepared_where_the_settings_say_so(postgres_url: str) -> None:
    with open_memory(postgres_url, **{"storage.prepare_statements": False}) as memory:
        append(memory, 12)
        assert memory._runtime.store.write(list_prepared) == set()


def test_statements_are_prepared_again_and_again(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement, "_MAX_USES", 8)
    with open_memory(postgres_url) as memory:
        append(memory, 40)
        assert len(memory.session("app", "main", user="ana").messages()) == 40
        [(number,)] = memory._runtime.store.write(
            lambda tx: tx.db.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'limpet%'")
        )
        assert number < 20  # each is dropped before it is prepared again


def test_write_is_repeated_where_the_server_has_lost_what_it_prepared(postgres_url: str) -> None:
    with open_memory(postgres_url) as memory:
        append(memory, 12)
        memory._runtime.store.write(lambda tx: tx.db.execute("DEALLOCATE ALL"))
        append(memory, 12)
        assert memory._runtime.store.write(list_prepared) == set()  # nor is anything prepared again on that connection
        assert memory.session("app", "main", user="ana").count() == 24
