"""Named queries. A feature's are in ``FEATURE/FEATURE.sql``, each under ``-- name: noun.verb``.

A statement that the dialects say differently stands there once for each, under ``-- name: noun.verb sqlite`` and
``-- name: noun.verb postgres``. ``{where}`` and ``{order}`` are filled from fixed clauses in the code beside;
``IN :names[]`` takes a list, which each dialect passes its own way. ``@columns(r records)`` stands for the columns of
the noun that the table holds, ``@values(records)`` for its parameters, ``@set(records)`` for what a change sets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from limpet.model.columns import RowCodec
from limpet.model.values import PageCursor, to_micros
from limpet.store.tables import TABLES

DIALECTS = ("sqlite", "postgres")
_NAME = re.compile(r"^-- name: (\S+)(?: (\w+))?[ \t]*\n", re.MULTILINE)
_LIST = re.compile(r"IN :([a-z_0-9]+)\[\]")
_NOUN = re.compile(r"@(columns|values|set)\((?:(\w+) )?(\w+)\)")
_PARAMETER = re.compile(r"(?<!:):([a-z_0-9]+)")


def load_queries(dialect: str) -> dict[str, str]:
    """The queries of every feature, by name, as this dialect says them."""
    found: dict[str, str] = {}
    for name, of, sql in iter_queries():
        if of in ("", dialect):
            if name in found:
                raise ValueError(f"the query {name} is defined twice")
            found[name] = sql
    return found


def iter_queries() -> Iterator[tuple[str, str, str]]:
    """Each query's name, its dialect or "" where both understand it, and its text."""
    for package in Path(__file__).parents[1].iterdir():
        file = package.joinpath(f"{package.name}.sql")
        if package.is_dir() and file.is_file():
            pieces = _NAME.split(file.read_text(encoding="utf-8"))[1:]
            for name, dialect, sql in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
                yield name, dialect or "", _NOUN.sub(_expand, sql.strip().rstrip(";"))


@cache
def _nouns() -> dict[str, RowCodec[Any]]:
    return {table.name: table.rows for table in TABLES if table.rows is not None}


def _expand(found: re.Match[str]) -> str:
    what, alias, table = found.groups()
    columns = _nouns()[table].columns
    if what == "set":
        return ", ".join(f"{each.name} = :{each.name}" for each in columns if not each.is_set_once)
    prefix = ":" if what == "values" else f"{alias}." if alias else ""
    return ", ".join(f"{prefix}{each.name}" for each in columns)


def to_sqlite(sql: str) -> str:
    return _LIST.sub(r"IN (SELECT value FROM json_each(:\1))", sql)


def to_postgres(sql: str) -> str:
    """``:name`` parameters as psycopg writes them."""
    listed = _LIST.sub(r"= ANY (:\1)", sql.replace("%", "%%"))
    return _PARAMETER.sub(r"%(\1)s", listed)


class Statements(dict[tuple[str, str, str], str]):
    """Each query as its driver takes it, by its name and clauses: ``statements[name, where, order]``. Made once."""

    def __init__(self, dialect: str, finish: Callable[[str], str]) -> None:
        super().__init__()
        self._queries = load_queries(dialect)
        self.finish = finish

    def __missing__(self, key: tuple[str, str, str]) -> str:
        name, where, order = key
        text = self._queries[name].replace("{where}", where or "TRUE").replace("{order}", order)
        made = self[key] = self.finish(text)
        return made


def build_keyset_clause(place: PageCursor | None, time: str, id: str) -> tuple[str, dict[str, Any]]:
    """Return the clause that continues a list after a position, latest first."""
    if place is None:
        return "", {}
    clause = f" AND ({time} < :end_at OR ({time} = :end_at AND {id} < :end_id))"
    return clause, {"end_at": to_micros(place.at), "end_id": place.id}
