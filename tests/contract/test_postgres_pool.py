"""A database that is used again is as good as new."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from limpet import Config, Limpet
from tests.postgres_pool import DatabasesAgain
from tests.postgres_server import ServerAt

pytestmark = [pytest.mark.postgres, pytest.mark.every_backend]

IDLE = Config.load(overrides={"jobs.worker": False})  # a worker writes while the database is emptied


@pytest.fixture
def databases(postgres_url: str) -> Iterator[DatabasesAgain]:
    made = DatabasesAgain(ServerAt(postgres_url))
    yield made
    made.close()


def test_pooled_database_is_emptied(databases: DatabasesAgain) -> None:
    url = databases.take()
    with Limpet.open(url, config=IDLE) as memory:
        first = _said(memory)
    with Limpet.open(url, config=IDLE):  # left open
        databases.give_back(url)
        assert databases.take() == url
        with Limpet.open(url, config=IDLE) as memory:
            assert memory.sessions() == []
            assert memory.recall("Porto", user="ann") == []
            assert _said(memory) == first
            assert all(finding.ok for finding in memory.admin.doctor())
    databases.give_back(url)


def test_pooled_database_with_changed_schema_is_dropped(databases: DatabasesAgain) -> None:
    url = databases.take()
    server = ServerAt(url)
    name = url.partition("?")[0].rpartition("/")[2]
    server.run("CREATE INDEX mine ON sessions (state)", database=name)
    databases.give_back(url)
    other = databases.take()
    databases.give_back(other)
    assert other != url
    assert not server.run("SELECT 1 FROM pg_database WHERE datname = %(name)s", {"name": name})


def _said(memory: Limpet) -> int:
    """Number of the partition that has it."""
    with memory.session("web", "1", user="ann").turn("I live in Porto") as turn:
        turn.reply("A fine town.")
    [(number,)] = memory._runtime.store.read(lambda tx: tx.db.all("partitions.ids", {}))
    return int(number)
