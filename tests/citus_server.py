"""A Citus cluster that somebody runs, for tests: its databases are made on every machine, and their tables spread.

``LIMPET_TEST_CITUS`` is the address of its coordinator, where the workers were added to the database of that address.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from tests.postgres_server import ServerAt

CITUS_URL = "LIMPET_TEST_CITUS"
CITUS_NOT_TESTED = "Citus was not tested"
CITUS_VIEWS = ("citus_schemas", "citus_tables")  # which the extension puts beside our tables


class CitusAt(ServerAt):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        first = urlsplit(url).path.removeprefix("/") or "postgres"
        rows = self.run(
            "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY groupid", database=first
        )
        self._workers = [(str(host), int(port)) for host, port in rows]

    def create_database(self, name: str | None = None, *, template: str = "template1") -> str:
        url = super().create_database(name, template=template)
        name = urlsplit(url).path.removeprefix("/")
        for server in self._machines()[1:]:
            ServerAt.create_database(server, name)
        for server in self._machines():
            server.run("CREATE EXTENSION IF NOT EXISTS citus", database=name)
        self.run(f"SELECT citus_set_coordinator_host('{self._url.hostname}', {self._url.port or 5432})", database=name)
        for host, port in self._workers:
            self.run(f"SELECT citus_add_node('{host}', {port})", database=name)
        return url

    def drop_database(self, url_or_name: str) -> None:
        for server in self._machines():
            ServerAt.drop_database(server, url_or_name)

    def _machines(self) -> list[ServerAt]:
        user = "" if self._url.username is None else f"{self._url.username}@"
        places = [self._url._replace(netloc=f"{user}{host}:{port}") for host, port in self._workers]
        return [self, *(ServerAt(place.geturl()) for place in places)]


def empty_tables(connection: Any) -> None:
    """Delete all rows. References between tables hold on every machine: what refers goes first."""
    from limpet.store.tables import TABLES

    connection.execute(b"SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
    for table in ("limpet_writers", *(table.name for table in reversed(TABLES))):
        connection.execute(f'DELETE FROM "{table}"'.encode())
