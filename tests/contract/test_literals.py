"""Values written into statements come back as they were, whatever they hold and however the server reads them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from limpet.errors import StorageError
from limpet.store.postgres.db import PostgresDb, bind_values

pytestmark = pytest.mark.postgres

VALUES: list[Any] = [
    None,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    0.1,
    float("inf"),
    True,
    "",
    "plain",
    "O'Brien'' \\' \\\\ \\",
    "'; DROP TABLE messages; --",
    "100 % %(name)s %s $1 :name",
    "line\nbreak\ttab\r\x01",
    "žluťoučký 🦭 \u202e",
    b"",
    b"\\'\x00\xff\x27",
    ["a", "b'c\\", '"{}'],
    [1, -2],
]


@pytest.mark.parametrize("conforming", ["on", "off"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_value_comes_back_as_it_was(postgres_url: str, value: Any, conforming: str) -> None:
    kind = type(value[0] if isinstance(value, list) else value)
    cast = {str: "::text", float: "::float8"}.get(kind, "") + "[]" * (isinstance(value, list) and kind is str)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"SET standard_conforming_strings = {conforming}".encode())
        db = PostgresDb(connection)
        db.begin_later(db.send)  # so that the values go with the statement
        sql = f"SELECT 5 -%(number)s, %(value)s{cast}, '100 %%'"
        assert db.execute(sql, {"number": -3, "value": value}) == [(8, value, "100 %")]


def test_text_with_a_nul_is_refused(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        db = PostgresDb(connection)
        db.begin_later(db.send)
        with pytest.raises(StorageError, match="NUL"):
            db.execute("SELECT %(value)s", {"value": "a\0b"})


def test_value_is_never_read_as_a_placeholder() -> None:
    params = {"a": "%(b)s", "b": "%(a)s %%"}
    assert str(bind_values("SELECT %(a)s, %(b)s, %(a)s", params, repr)) == "SELECT '%(b)s', '%(a)s %%', '%(b)s'"
