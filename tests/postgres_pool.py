"""Databases that tests use one after another: to make one, and its schema, takes longer than most tests do.

A test takes one with today's schema and nothing in it, and gives it back. What it put in is taken out then; a database
whose schema was changed is dropped.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.citus_server import CitusAt, empty_tables
from tests.postgres_server import ServerAt

if TYPE_CHECKING:
    from psycopg import Connection

_OURS = "relnamespace = 'public'::regnamespace"
_TABLES = f"SELECT relname FROM pg_class WHERE {_OURS} AND relkind = 'r' ORDER BY relname"
_SPREAD = "SELECT logicalrelid::text FROM pg_dist_partition"
_SEQUENCES = f"SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE {_OURS} AND relkind = 'S'"
_THROW_OUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
_MANY = 5_000  # rows that were deleted are still in the way of whoever reads the table
_SCHEMA = f"""
SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY 1;
SELECT extname, extversion FROM pg_extension ORDER BY 1;
SELECT relname, relkind, reloptions::text FROM pg_class WHERE {_OURS} ORDER BY 1;
SELECT attrelid::regclass::text, attname, format_type(atttypid, atttypmod), attnotnull, attisdropped
  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE attnum > 0 AND {_OURS} ORDER BY 1, 2;
SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid), indisvalid
  FROM pg_index JOIN pg_class ON pg_class.oid = indrelid WHERE {_OURS} ORDER BY 1;
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2;
SELECT adrelid::regclass::text, adnum, pg_get_expr(adbin, adrelid) FROM pg_attrdef ORDER BY 1, 2;
SELECT tgrelid::regclass::text, tgname, tgenabled::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2
"""

# Nearly no test changes the schema. This is cheaper to compare than all of it: a row of the catalogue that was written
# again has another xmin.
_CHANGES = """
SELECT (SELECT count(*) || '/' || sum(xmin::text::bigint) FROM pg_namespace),
  (SELECT count(*) || '/' || sum(xmin::text::bigint) FROM pg_extension),
  (SELECT count(*) || '/' || sum(xmin::text::bigint) FROM pg_class WHERE oid >= 16384),
  (SELECT count(*) || '/' || sum(xmin::text::bigint) FROM pg_attribute WHERE attrelid >= 16384),
  (SELECT count(*) || '/' || sum(xmin::text::bigint) FROM pg_index WHERE indrelid >= 16384),
  (SELECT count(*) || '/' || sum(xmin::text::bigint) FROM pg_constraint WHERE oid >= 16384),
  (SELECT count(*) || '/' || sum(xmin::text::bigint) FROM pg_attrdef),
  (SELECT count(*) || '/' || sum(xmin::text::bigint) FROM pg_trigger)
"""


@dataclass(frozen=True, slots=True)
class _Fresh:
    """What a database is like that nobody has used."""

    schema: str
    local_tables: list[str]  # those that are whole on this server
    rows: dict[str, list[tuple[Any, ...]]]  # of each table that has some


class DatabasesAgain:
    def __init__(self, server: ServerAt) -> None:
        self._server = server
        self._free: list[str] = []
        self._fresh: _Fresh | None = None
        # One to each database, kept: a new one reads the whole catalogue before it deletes its first row.
        self._connections: dict[str, Connection[tuple[Any, ...]]] = {}
        self._changes: dict[str, Any] = {}  # of each database, when it was known to have the schema

    def take(self) -> str:
        from limpet import Limpet

        if self._free:
            return self._free.pop()
        url = self._server.create_database()
        with Limpet.open(url) as memory:
            if isinstance(self._server, CitusAt):
                memory._runtime.store.distribute()  # without an entry in the audit log
        connection = self._connections[url] = _connect(url)
        self._changes[url] = _all(connection, _CHANGES)
        if self._fresh is None:
            tables = [name for (name,) in _all(connection, _TABLES)]
            rows = {table: found for table in tables if (found := _all(connection, f'SELECT * FROM "{table}"'))}
            spread = {name for (name,) in _all(connection, _SPREAD)} if isinstance(self._server, CitusAt) else set()
            self._fresh = _Fresh(_schema(connection), [name for name in tables if name not in spread], rows)
        return url

    def give_back(self, url: str) -> None:
        import psycopg

        try:
            as_it_was = self._emptied(url)
        except psycopg.Error:  # a test may have dropped it, or this server lets us do less than ours does
            as_it_was = False
        if as_it_was:
            self._free.append(url)
        else:
            self._drop(url)

    def close(self) -> None:
        while self._free:
            self._drop(self._free.pop())

    def _drop(self, url: str) -> None:
        self._connections.pop(url).close()
        self._server.drop_database(url)

    def _emptied(self, url: str) -> bool:
        assert self._fresh is not None
        if self._connections[url].closed:  # a test that cuts connections cuts this one too
            self._connections[url] = _connect(url)
        connection = self._connections[url]
        with connection.transaction():
            _all(connection, "SET LOCAL lock_timeout = '10s'")
            _all(connection, _THROW_OUT)
            if (changes := _all(connection, _CHANGES)) != self._changes[url]:
                if _schema(connection) != self._fresh.schema:
                    return False
                self._changes[url] = changes
            # Not TRUNCATE, which makes new files for every table and index: that takes ten times as long.
            if isinstance(self._server, CitusAt):
                empty_tables(connection)
            _all(connection, "SET LOCAL session_replication_role = replica")  # in any order, whatever refers to what
            if _delete_rows(connection, self._fresh.local_tables) > _MANY:
                return False
            _all(connection, _SEQUENCES)
            for table, rows in self._fresh.rows.items():
                for row in rows:
                    places = ", ".join(["%s"] * len(row))
                    connection.execute(f'INSERT INTO "{table}" VALUES ({places})'.encode(), row)
        return True


def _delete_rows(connection: Connection[tuple[Any, ...]], tables: list[str]) -> int:
    """How many there were. One statement for all tables: most are empty, and each statement is a message and back."""
    deletions = ", ".join(f'd{at} AS (DELETE FROM "{table}" RETURNING 1)' for at, table in enumerate(tables))
    counts = " + ".join(f"(SELECT count(*) FROM d{at})" for at in range(len(tables)))
    [(count,)] = _all(connection, f"WITH {deletions} SELECT {counts}")
    return int(count)


def _connect(url: str) -> Connection[tuple[Any, ...]]:
    import psycopg

    return psycopg.connect(url, connect_timeout=60, autocommit=True)


def _all(connection: Connection[tuple[Any, ...]], sql: str) -> list[tuple[Any, ...]]:
    cursor = connection.execute(sql.encode())
    return cursor.fetchall() if cursor.description else []


def _schema(connection: Connection[tuple[Any, ...]]) -> str:
    return hashlib.sha256(repr([_all(connection, sql) for sql in _SCHEMA.split(";")]).encode()).hexdigest()
