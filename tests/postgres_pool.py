"""Databases that tests use one after another: to make one, and its schema, takes longer than most tests do.

A test takes one with today's schema and nothing in it, and gives it back. What it put in is taken out then; a database
whose schema was changed is dropped.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.postgres_server import ServerAt

if TYPE_CHECKING:
    from psycopg import Connection

_OURS = "relnamespace = 'public'::regnamespace"
_TABLES = f"SELECT relname FROM pg_class WHERE {_OURS} AND relkind = 'r' ORDER BY relname"
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


@dataclass(frozen=True, slots=True)
class _Fresh:
    """What a database is like that nobody has used."""

    schema: str
    rows: dict[str, list[tuple[Any, ...]]]  # of each table that has some


class DatabasesAgain:
    def __init__(self, server: ServerAt) -> None:
        self._server = server
        self._free: list[str] = []
        self._fresh: _Fresh | None = None

    def take(self) -> str:
        from limpet import Limpet

        if self._free:
            return self._free.pop()
        url = self._server.create_database()
        Limpet.open(url).close()
        if self._fresh is None:
            with _connected(url) as connection:
                tables = _tables(connection)
                rows = {table: found for table in tables if (found := _all(connection, f'SELECT * FROM "{table}"'))}
                self._fresh = _Fresh(_schema(connection), rows)
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
            self._server.drop_database(url)

    def close(self) -> None:
        while self._free:
            self._server.drop_database(self._free.pop())

    def _emptied(self, url: str) -> bool:
        assert self._fresh is not None
        with _connected(url) as connection:
            _all(connection, "SET lock_timeout = '10s'")
            _all(connection, _THROW_OUT)
            if _schema(connection) != self._fresh.schema:
                return False
            # Not TRUNCATE, which makes new files for every table and index: that takes ten times as long.
            _all(connection, "SET session_replication_role = replica")  # in any order, whatever refers to what
            gone = sum(connection.execute(f'DELETE FROM "{table}"'.encode()).rowcount for table in _tables(connection))
            if gone > _MANY:
                return False
            _all(connection, _SEQUENCES)
            for table, rows in self._fresh.rows.items():
                for row in rows:
                    places = ", ".join(["%s"] * len(row))
                    connection.execute(f'INSERT INTO "{table}" VALUES ({places})'.encode(), row)
        return True


def _connected(url: str) -> Connection[tuple[Any, ...]]:
    import psycopg

    return psycopg.connect(url, connect_timeout=10)


def _all(connection: Connection[tuple[Any, ...]], sql: str) -> list[tuple[Any, ...]]:
    cursor = connection.execute(sql.encode())
    return cursor.fetchall() if cursor.description else []


def _tables(connection: Connection[tuple[Any, ...]]) -> list[str]:
    return [name for (name,) in _all(connection, _TABLES)]


def _schema(connection: Connection[tuple[Any, ...]]) -> str:
    return hashlib.sha256(repr([_all(connection, sql) for sql in _SCHEMA.split(";")]).encode()).hexdigest()
