"""SQLite joins the columns of a query into single values; they are what its rows hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from limpet import Config
from limpet.store.sqlite.connection import MEMORY, SqliteConnection, SqliteDb
from limpet.store.tx import Query

KINDS = {"number": "number", "text": "text", "bytes": "bytes"}
ROWS = [
    (3, 'said "no", twice', b"\0\xff,\0"),
    (1, None, b"\xc3\x28\0\0"),
    (-(2**62), "", b"\0\0\0\0"),
    (2**53 + 1, "żółć 語\n", b"a,b\0"),
]


@pytest.fixture
def db() -> Iterator[SqliteDb]:
    made = SqliteConnection(MEMORY, Config().storage)
    made.db.execute("CREATE TABLE t (at INTEGER PRIMARY KEY DESC, number BIGINT, text TEXT, bytes BLOB)")
    queries = {("rows", "", "ORDER BY at"): "SELECT number, text, bytes FROM t ORDER BY at"}
    made.db._sql = queries  # type: ignore[assignment]  # all that is looked up
    yield made.db
    made.close()


@pytest.mark.parametrize("version", [sqlite3.sqlite_version_info, (3, 35, 0)])
@pytest.mark.parametrize("rows", [[], ROWS[:1], ROWS])
def test_columns_hold_the_values_of_all_rows_in_order(
    db: SqliteDb, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[Any, ...]], version: tuple[int, ...]
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    for at, row in reversed([*enumerate(rows)]):
        db.raw.execute("INSERT INTO t VALUES (?, ?, ?, ?)", (at, *row))
    number, text, packed = db.columns(Query("rows", {}, order="ORDER BY at"), **KINDS)
    assert list(zip(number.tolist(), text, map(bytes, packed), strict=True)) == rows
    assert number.dtype == "i8"
    assert packed.ndim == 2
