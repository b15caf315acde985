"""The port as it is written down, and what stands behind it."""

from __future__ import annotations

import inspect
import re
import typing
from pathlib import Path
from typing import Any, Protocol

import pytest

from limpet import Limpet
from limpet.model.job import Job
from limpet.model.scope import Home, Scope, Space
from limpet.store import base, queries, tx
from limpet.store.tables import TABLES
from tests.contract.rows import sql

PROTOCOLS = {
    name: found for name, found in vars(base).items() if inspect.isclass(found) and Protocol in found.__bases__
}


def methods(facet: type) -> dict[str, Any]:
    return {name: found for name, found in vars(facet).items() if inspect.isfunction(found) and name[0] != "_"}


def facets_of_a_transaction() -> dict[str, type]:
    hints = {
        name: typing.get_type_hints(found.fget) for name, found in vars(base.Tx).items() if isinstance(found, property)
    }
    return {name: hint["return"] for name, hint in hints.items()}


def test_every_method_of_the_port_takes_whose_memory_it_touches_first() -> None:
    """A job names its space itself."""
    facets = facets_of_a_transaction()
    assert len(facets) >= 8
    assert set(facets.values()) == {found for name, found in PROTOCOLS.items() if name not in ("Tx", "Store")}
    for facet in facets.values():
        assert methods(facet)
        for name, method in methods(facet).items():
            parameters = list(inspect.signature(method).parameters.values())[1:]
            hints = typing.get_type_hints(method)
            assert parameters, f"{facet.__name__}.{name} takes nothing"
            first = parameters[0]
            assert hints[first.name] in (Scope, Space, Home, Job), f"{facet.__name__}.{name}({first.name})"
            assert first.default is inspect.Parameter.empty, f"{facet.__name__}.{name} has a default owner"


def test_whose_memory_cannot_be_left_empty() -> None:
    kinds: tuple[Any, ...] = (Scope, Space, Home)
    for kind in kinds:
        with pytest.raises(TypeError):
            kind()


def test_the_implementation_takes_what_the_port_says() -> None:
    made = tx.SqlTx(_Nothing())
    for name, facet in facets_of_a_transaction().items():
        behind = getattr(made, name)
        for method, declared in methods(facet).items():
            expected = list(inspect.signature(declared).parameters.values())[1:]
            real = list(inspect.signature(getattr(behind, method)).parameters.values())
            assert [(one.name, one.default) for one in real] == [(one.name, one.default) for one in expected], method


class _Nothing:
    def __getattr__(self, name: str) -> Any:
        return ""


def test_both_dialects_define_the_same_names() -> None:
    sqlite, postgres = queries.load("limpet.store.sqlite"), queries.load("limpet.store.postgres")
    shared = queries.load("limpet.store")
    assert set(sqlite) == set(postgres)
    assert set(shared) & set(sqlite) == set()


def test_every_named_query_is_used_and_every_used_one_is_there() -> None:
    names = {*queries.load("limpet.store"), *queries.load("limpet.store.sqlite")}
    folder = Path(base.__file__).parent
    code = "\n".join(path.read_text() for path in folder.rglob("*.py"))
    assert {name for name in names if f'"{name}"' not in code} - {"vectors.all"} == set()


def test_sql_replaces_no_row() -> None:
    """``INSERT OR REPLACE`` skips delete triggers and fires cascades."""
    for package in ("sql", "sqlite", "postgres"):
        for name, text in queries.load(f"limpet.store.{package}").items():
            assert not re.search(r"\bREPLACE\b", text, re.IGNORECASE), name


def test_the_tables_are_those_of_the_schema(durable_url: str) -> None:
    with Limpet.open(durable_url) as hf:
        real = _postgres_tables(hf) if durable_url.startswith("postgres") else _sqlite_tables(hf)
    assert real.pop("limpet_migrations")
    real.pop("limpet_writers", None)  # PostgreSQL's own bookkeeping
    assert real.pop("seal_changes")  # counts what happened to this store, and is not copied into another
    written = {table.name: (set(table.columns), table.key) for table in TABLES}
    assert {name: columns for name, (columns, _) in real.items()} == {
        name: columns for name, (columns, _) in written.items()
    }
    for name, (_, key) in written.items():
        assert set(key) == set(real[name][1]), name
    assert all(len(table.columns) == len(set(table.columns)) for table in TABLES)


def test_parents_come_before_children(tmp_path: Any) -> None:
    order = [table.name for table in TABLES]
    with Limpet.open(tmp_path) as hf:
        for table in order:
            for row in sql(hf, f"PRAGMA foreign_key_list({table})"):
                parent = row[2]
                assert order.index(parent) < order.index(table), f"{table} before {parent}"


def _sqlite_tables(hf: Limpet) -> dict[str, tuple[set[str], tuple[str, ...]]]:
    names = [name for (name,) in sql(hf, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {}
    for name in names:
        if name.startswith("sqlite_"):
            continue
        columns = sql(hf, f"PRAGMA table_info({name})")
        keys = sorted((place, column) for _, column, _, _, _, place in columns if place)
        found[name] = ({column for _, column, *_ in columns}, tuple(column for _, column in keys))
    return found


def _postgres_tables(hf: Limpet) -> dict[str, tuple[set[str], tuple[str, ...]]]:
    columns = sql(
        hf, "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
    )
    keys = sql(
        hf,
        "SELECT k.table_name, k.column_name FROM information_schema.table_constraints t"
        " JOIN information_schema.key_column_usage k ON k.constraint_name = t.constraint_name"
        " AND k.table_name = t.table_name WHERE t.constraint_type = 'PRIMARY KEY' AND t.table_schema = current_schema()"
        " ORDER BY k.ordinal_position",
    )
    names = {table for table, _ in columns}
    return {
        name: (
            {column for table, column in columns if table == name},
            tuple(column for table, column in keys if table == name),
        )
        for name in names
    }


@pytest.mark.postgres
def test_both_schemas_are_one(tmp_path: Any, postgres_url: str) -> None:
    with Limpet.open(tmp_path) as one, Limpet.open(postgres_url) as two:
        postgres = _postgres_tables(two)
        assert postgres.pop("limpet_writers")  # bookkeeping that SQLite does not need
        assert _sqlite_tables(one) == postgres
