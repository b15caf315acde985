"""SQLite prepares a statement again at every run if a bound value might decide whether a partial index serves it."""

from __future__ import annotations

import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import limpet
from limpet import Config, Limpet
from limpet.knowledge.repository import Records
from limpet.store.migrate import load_migrations
from limpet.store.tables import load_queries
from limpet.store.tx import Query, Tx

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)

PACKAGE = Path(limpet.__file__).parent
TABLES = load_migrations("sqlite")[0].sql
EQUALS = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+)[^;]*?WHERE (\w+) = [^;]+;")


def test_no_statement_binds_a_value_to_the_column_of_a_partial_index() -> None:
    queries = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.glob("*/*.sql"))
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    found = EQUALS.findall(TABLES)
    assert found
    for index, column in found:
        bound = re.search(rf"\b{column} = :", queries + code)
        assert bound is None, f"{index}: write its condition as an expression, such as length({column}) = 0"


def test_search_for_hidden_chunks_begins_with_the_indexes_of_what_is_hidden() -> None:
    """SQLite took the chunks first: every recall walked the whole partition, to find nothing in most stores."""
    raw = sqlite3.connect(":memory:")
    raw.executescript(TABLES)
    query = load_queries("sqlite")["chunks.unseen"]
    plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {query}", {"bucket": 1, "partition_id": 1, "now": 1})]
    tables = [step.split()[1] for step in plan if step.startswith(("SEARCH", "SCAN"))]
    assert tables == ["d", "c", "s", "c", "r", "c", "r", "c"], plan
    for index in ("documents_unsettled", "sessions_deleted", "records_that_end", "records_that_begin"):
        assert index in "".join(plan)


def test_chunks_of_a_record_are_found_by_their_own_index() -> None:
    """SQLite took the order of all chunks: a check of 17,000 records read their partitions 17,000 times."""
    raw = sqlite3.connect(":memory:")
    raw.executescript(TABLES)
    query = load_queries("sqlite")["chunks.texts"].replace("{where}", "record_id = :id")
    plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {query}", {"bucket": 1, "partition_id": 1, "id": "x"})]
    assert "chunks_by_record" in plan[0], plan


def test_what_stands_about_a_user_is_found_without_the_records_of_their_turns() -> None:
    """SQLite read them all, and each turn adds one: 0.65 ms of every context after 3,300 turns."""
    with Limpet.open(":memory:", config=Config.load(env={}, overrides={"embedding.model": "none"})) as memory:
        session = memory.session("app", user="ana")
        session.append("user", "I have a dog.")
        store, ana = memory._runtime.store, session.info.partition

        def explain(tx: Tx) -> list[str]:
            standing = Records(tx).build_standing_query(ana, session.id, ("fact",), ("pet",), 9, NOON)
            assert standing is not None
            return [find_plan(tx, query) for query in (standing, Records.ended_query(ana, session.id, NOON))]

        standing, ended = store.read(explain)
    assert "records_standing" in standing
    assert "records_by_source" in ended


def find_plan(tx: Tx, query: Query) -> str:
    sql = tx.db._sql[query.name, query.where, query.order]
    return " ".join(row[3] for row in tx.db.execute(f"EXPLAIN QUERY PLAN {sql}", query.params))
