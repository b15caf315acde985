"""Repositories and the queries behind them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import limpet
from limpet import Limpet
from limpet.documents.repository import Documents
from limpet.knowledge.repository import Records
from limpet.lifecycle.purge_repository import Purges
from limpet.lifecycle.retention import ExpiredRows
from limpet.lifecycle.transfer_repository import Imports, Transfers
from limpet.model.scope import Owner, Partition, Scope
from limpet.schedules.repository import Schedules
from limpet.search.chunk_repository import Chunks
from limpet.search.graph_repository import GraphTables
from limpet.security.access_repository import ApiKeys, Grants
from limpet.security.audit import AuditEntries
from limpet.sessions.repository import Cursors, KeyValueEntries, Messages, Sessions, Summaries, UsageEntries
from limpet.store.idempotency import IdempotencyKeys
from limpet.store.jobs import Jobs
from limpet.store.tables import DIALECTS, TABLES, load_queries
from tests.citus_server import CITUS_VIEWS
from tests.contract.rows import sql

pytestmark = pytest.mark.every_backend

SOURCE = Path(limpet.__file__).parent
REPOSITORIES = (
    Sessions, Messages, Summaries, KeyValueEntries, UsageEntries, Cursors, Records, GraphTables, Chunks, Jobs,
    Documents, Imports, Transfers, Grants, AuditEntries, ApiKeys, IdempotencyKeys, Schedules, Purges, ExpiredRows,
)  # fmt: skip
# A job and a schedule name their owner themselves.
OWNERS = ("Scope", "Partition", "Sequence[Partition]", "Owner", "Job", "Schedule")
# Called by other repositories with an owner they have looked up already.
LOOKED_UP = {"Records": {"decrypt_records", "decrypt_version"}}


def methods(repository: type) -> dict[str, Any]:
    return {name: found for name, found in vars(repository).items() if inspect.isfunction(found) and name[0] != "_"}


@pytest.mark.parametrize("repository", REPOSITORIES, ids=lambda repository: repository.__name__)
def test_repository_methods_take_owner_as_first_parameter(repository: type) -> None:
    for name, method in methods(repository).items():
        if name in LOOKED_UP.get(repository.__name__, ()):
            continue
        parameters = list(inspect.signature(method).parameters.values())[1:]
        assert parameters, f"{repository.__name__}.{name} takes no owner"
        assert parameters[0].annotation in OWNERS, f"{repository.__name__}.{name}({parameters[0].name})"
        assert parameters[0].default is inspect.Parameter.empty, f"{repository.__name__}.{name} has a default owner"


def test_owner_types_require_arguments() -> None:
    kinds: tuple[Any, ...] = (Scope, Partition, Owner)
    for kind in kinds:
        with pytest.raises(TypeError):
            kind()


def test_both_sql_dialects_define_same_queries() -> None:
    sqlite, postgres = (load_queries(dialect) for dialect in DIALECTS)
    assert sqlite
    assert set(sqlite) == set(postgres)
    assert sqlite != postgres
    assert not any("|}" in text or "{|" in text for text in (*sqlite.values(), *postgres.values()))


def test_every_sql_file_is_loaded() -> None:
    assert {path.parent.name for path in SOURCE.glob("*/*.sql")} == {path.stem for path in SOURCE.glob("*/*.sql")}


def test_every_named_query_is_used() -> None:
    code = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    assert {name for name in load_queries("sqlite") if f'"{name}"' not in code} == set()


def test_sql_never_uses_replace() -> None:
    """``INSERT OR REPLACE`` skips delete triggers and fires cascades."""
    for name, text in [query for dialect in DIALECTS for query in load_queries(dialect).items()]:
        assert not re.search(r"\bREPLACE\b", text, re.IGNORECASE), name


def test_tables_match_database_schema(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        real = _postgres_tables(memory) if durable_url.startswith("postgres") else _sqlite_tables(memory)
    assert real.pop("limpet_migrations")
    real.pop("limpet_writers", None)  # PostgreSQL's own bookkeeping
    assert real.pop("encryption_changes")  # counts what happened to this store, and is not copied into another
    written = {table.name: (set(table.columns), table.key) for table in TABLES}
    assert {name: columns for name, (columns, _) in real.items()} == {
        name: columns for name, (columns, _) in written.items()
    }
    for name, (_, key) in written.items():
        assert set(key) == set(real[name][1]), name
    assert all(len(table.columns) == len(set(table.columns)) for table in TABLES)


def test_tables_list_parents_before_children(tmp_path: Any) -> None:
    order = [table.name for table in TABLES]
    with Limpet.open(tmp_path) as memory:
        for table in order:
            for row in sql(memory, f"PRAGMA foreign_key_list({table})"):
                parent = row[2]
                assert order.index(parent) < order.index(table), f"{table} before {parent}"


def _sqlite_tables(memory: Limpet) -> dict[str, tuple[set[str], tuple[str, ...]]]:
    names = [name for (name,) in sql(memory, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {}
    for name in names:
        if name.startswith("sqlite_"):
            continue
        columns = sql(memory, f"PRAGMA table_info({name})")
        keys = sorted((place, column) for _, column, _, _, _, place in columns if place)
        found[name] = ({column for _, column, *_ in columns}, tuple(column for _, column in keys))
    return found


def _postgres_tables(memory: Limpet) -> dict[str, tuple[set[str], tuple[str, ...]]]:
    columns = sql(
        memory,
        "SELECT table_name, column_name FROM information_schema.columns"
        f" WHERE table_schema = current_schema() AND table_name NOT IN {CITUS_VIEWS}",
    )
    keys = sql(
        memory,
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
def test_sqlite_and_postgres_schemas_match(tmp_path: Any, postgres_url: str) -> None:
    with Limpet.open(tmp_path) as one, Limpet.open(postgres_url) as two:
        postgres = _postgres_tables(two)
        assert postgres.pop("limpet_writers")  # bookkeeping that SQLite does not need
        assert _sqlite_tables(one) == postgres
