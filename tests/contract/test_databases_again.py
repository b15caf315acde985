"""A database that is used again is as good as new."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from limpet import Limpet
from tests.postgres_again import DatabasesAgain
from tests.postgres_server import ServerAt

pytestmark = [pytest.mark.postgres, pytest.mark.every_backend]


@pytest.fixture
def databases(postgres_url: str) -> Iterator[DatabasesAgain]:
    made = DatabasesAgain(ServerAt(postgres_url))
    yield made
    made.close()


def test_what_a_test_left_is_gone_and_numbers_begin_anew(databases: DatabasesAgain) -> None:
    url = databases.take()
    with Limpet.open(url) as hf:
        first = _said(hf)
    left_open = Limpet.open(url)
    databases.give_back(url)
    assert databases.take() == url
    with Limpet.open(url) as hf:
        assert hf.sessions() == []
        assert hf.recall("Porto", user="ann") == []
        assert _said(hf) == first
        assert all(finding.ok for finding in hf.admin.doctor())
    left_open.close()
    databases.give_back(url)


def test_one_with_another_schema_is_not_used_again(databases: DatabasesAgain) -> None:
    url = databases.take()
    server = ServerAt(url)
    name = url.partition("?")[0].rpartition("/")[2]
    server.run("CREATE INDEX mine ON sessions (state)", database=name)
    databases.give_back(url)
    other = databases.take()
    databases.give_back(other)
    assert other != url
    assert not server.run("SELECT 1 FROM pg_database WHERE datname = %(name)s", {"name": name})


def _said(hf: Limpet) -> int:
    """Number of the job that learns from it."""
    with hf.session("web", "1", user="ann").turn("I live in Porto") as turn:
        turn.reply("A fine town.")
    return hf.jobs.list(kind="extract")[0].id
