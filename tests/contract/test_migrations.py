from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from limpet import Limpet
from limpet.errors import MigrationError
from limpet.store import migrate
from limpet.store.migrate import Migration
from limpet.store.tables import DIALECTS
from tests.citus_server import CITUS_VIEWS
from tests.conftest import _required_server
from tests.contract.processes import run_together
from tests.contract.rows import every_row, faults, sql

pytestmark = pytest.mark.every_backend

NEWEST = len(migrate.load_migrations("sqlite"))
SECOND = Migration(
    NEWEST + 1, "second", "CREATE TABLE second (id BIGINT PRIMARY KEY);\nINSERT INTO second (id) VALUES (7);\n"
)
BROKEN = Migration(
    NEWEST + 2,
    "broken",
    "CREATE TABLE third (id BIGINT PRIMARY KEY);\nINSERT INTO second (id) VALUES (8);\n"
    "ALTER TABLE sessions ADD COLUMN third TEXT;\nINSERT INTO nowhere (id) VALUES (1);\n",
)
MENDED = Migration(
    NEWEST + 2, "mended", "CREATE TABLE third (id BIGINT PRIMARY KEY);\nINSERT INTO second (id) VALUES (8);\n"
)


@pytest.fixture
def postgres_url(bare_postgres_url: str) -> str:
    """Here every store is made from nothing."""
    return bare_postgres_url


def knows(monkeypatch: pytest.MonkeyPatch, *more: Migration) -> None:
    """Let the program carry further migrations."""
    real = migrate.load_migrations
    monkeypatch.setattr("limpet.store.migrate.load_migrations", lambda dialect: [*real(dialect), *more])


def applied(memory: Limpet) -> list[tuple[Any, ...]]:
    return sql(memory, "SELECT version, name, checksum FROM limpet_migrations ORDER BY version")


def raw(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Past Limpet, on a store that is closed."""
    if url.startswith("postgres"):
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []
    opened = sqlite3.connect(Path(url) / "limpet.db", isolation_level=None)
    try:
        return opened.execute(statement).fetchall()
    finally:
        opened.close()


def objects(url: str) -> set[str]:
    """Every table, index and column there is."""
    if url.startswith("postgres"):
        tables = raw(url, "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()")
        columns = raw(
            url,
            "SELECT table_name || '.' || column_name FROM information_schema.columns"
            f" WHERE table_schema = current_schema() AND table_name NOT IN {CITUS_VIEWS}",
        )
        return {name for (name,) in [*tables, *columns]}
    return {f"{name} {text}" for name, text in raw(url, "SELECT name, sql FROM sqlite_master")}


# Numbered, checksummed, recorded


@pytest.mark.parametrize("dialect", DIALECTS)
def test_migrations_are_numbered_from_one(dialect: str) -> None:
    found = migrate.load_migrations(dialect)
    assert [migration.version for migration in found] == list(range(1, len(found) + 1))
    assert all(migration.checksum == hashlib.sha256(migration.sql.encode()).hexdigest() for migration in found)


def test_both_backends_have_same_migrations() -> None:
    one, two = (migrate.load_migrations(dialect) for dialect in DIALECTS)
    assert [(each.version, each.name) for each in one] == [(each.version, each.name) for each in two]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_migrations_split_into_complete_statements(dialect: str) -> None:
    for migration in migrate.load_migrations(dialect):
        for statement in migrate.split_statements(migration.sql):
            assert statement.count("(") == statement.count(")"), statement
            assert statement.count("'") % 2 == 0, statement


def test_load_migrations_rejects_gap_in_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "_FOLDER", tmp_path)
    for name in ("0001_one.sql", "0003_three.sql", "notes.txt", "0002_Upper.sql"):
        (tmp_path / name).write_text("SELECT 1;")
    with pytest.raises(MigrationError, match="numbered"):
        migrate.load_migrations("sqlite")
    (tmp_path / "0002_two.sql").write_text("SELECT {2|3};")
    assert [each.name for each in migrate.load_migrations("sqlite")] == ["one", "two", "three"]
    assert [migrate.load_migrations(dialect)[1].sql for dialect in DIALECTS] == ["SELECT 2;", "SELECT 3;"]


def test_new_store_records_applied_migrations(memory: Limpet) -> None:
    dialect = DIALECTS[memory.admin.stats()["backend"] == "postgres"]
    assert applied(memory) == [(each.version, each.name, each.checksum) for each in migrate.load_migrations(dialect)]


def test_reopen_applies_no_migration(durable_url: str) -> None:
    Limpet.open(durable_url).close()
    before = objects(durable_url), raw(durable_url, "SELECT * FROM limpet_migrations")
    Limpet.open(durable_url).close()
    assert (objects(durable_url), raw(durable_url, "SELECT * FROM limpet_migrations")) == before


# Transactional


def test_failed_migration_is_rolled_back_to_previous_schema(durable_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Limpet.open(durable_url) as memory:
        session = memory.session("t", "1", user="alice")
        session.append("user", "kept")
        data = every_row(memory)
    with monkeypatch.context() as patched:
        knows(patched, SECOND)
        Limpet.open(durable_url).close()
    before = objects(durable_url)
    with monkeypatch.context() as patched:
        knows(patched, SECOND, BROKEN)
        for _ in range(2):
            with pytest.raises(MigrationError, match=rf"{NEWEST + 2} \(broken\) failed and was undone"):
                Limpet.open(durable_url)
            assert [version for (version,) in raw(durable_url, "SELECT version FROM limpet_migrations")] == [
                *range(1, NEWEST + 2)
            ]
            assert objects(durable_url) == before
            assert raw(durable_url, "SELECT id FROM second") == [(7,)]
    with monkeypatch.context() as patched:
        knows(patched, SECOND, MENDED)
        with Limpet.open(durable_url) as memory:
            assert every_row(memory) == data
            assert [version for version, _, _ in applied(memory)] == [*range(1, NEWEST + 3)]
            assert sql(memory, "SELECT id FROM second ORDER BY id") == [(7,), (8,)]
            assert faults(memory) == []


def test_failed_first_migration_leaves_empty_database(durable_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Migration(1, "bad", "CREATE TABLE partitions (id BIGINT);\nCREATE TABLE partitions (id BIGINT);\n")
    with monkeypatch.context() as patched:
        patched.setattr("limpet.store.migrate.load_migrations", lambda _: [bad])
        with pytest.raises(MigrationError, match="undone"):
            Limpet.open(durable_url)
    assert objects(durable_url) == set()
    with Limpet.open(durable_url) as memory:
        memory.session("t", "1").append("user", "works")
        assert faults(memory) == []


# Refused


def test_open_rejects_newer_schema_and_changes_nothing(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        memory.session("t", "1").append("user", "from the future")
        data = every_row(memory)
    raw(durable_url, "INSERT INTO limpet_migrations (version, name, checksum, applied_at) VALUES (99, 'new', 'x', 0)")
    raw(durable_url, "CREATE TABLE of_the_future (id BIGINT)")
    before = objects(durable_url), raw(durable_url, "SELECT * FROM limpet_migrations ORDER BY version")
    file = Path(durable_url) / "limpet.db"
    content = file.read_bytes() if file.exists() else b""
    for _ in range(2):
        with pytest.raises(MigrationError, match=r"schema 99.*upgrade limpet.*nothing was changed"):
            Limpet.open(durable_url)
    assert (objects(durable_url), raw(durable_url, "SELECT * FROM limpet_migrations ORDER BY version")) == before
    assert (file.read_bytes() if file.exists() else b"") == content
    raw(durable_url, "DELETE FROM limpet_migrations WHERE version = 99")
    with Limpet.open(durable_url) as memory:
        assert every_row(memory) == data


def test_open_rejects_changed_migration_checksum(durable_url: str) -> None:
    Limpet.open(durable_url).close()
    [(checksum,)] = raw(durable_url, "SELECT checksum FROM limpet_migrations WHERE version = 1")
    raw(durable_url, f"UPDATE limpet_migrations SET checksum = '{'0' * 64}' WHERE version = 1")
    before = objects(durable_url)
    with pytest.raises(
        MigrationError, match=r"another layout.*export it with the program that made it, and import the export"
    ):
        Limpet.open(durable_url)
    assert objects(durable_url) == before
    raw(durable_url, f"UPDATE limpet_migrations SET checksum = '{checksum}' WHERE version = 1")
    Limpet.open(durable_url).close()


@pytest.mark.postgres
def test_open_rejects_foreign_tables_on_postgres(postgres_url: str) -> None:
    for table in ("sessions", "messages", "records", "usage"):
        raw(postgres_url, f"CREATE TABLE {table} (id INT)")
        before = objects(postgres_url)
        with pytest.raises(MigrationError):
            Limpet.open(postgres_url)
        assert objects(postgres_url) == before
        raw(postgres_url, f"DROP TABLE {table}")
    Limpet.open(postgres_url).close()


# At the same moment


def test_new_store_opened_by_many_processes_is_migrated_once(durable_url: str) -> None:
    code = """
begin()
with Limpet.open(given) as memory:
    answer(memory.session("t", str(number)).append("user", "hello").sequence)
"""
    assert run_together(code, durable_url, count=4) == [1, 1, 1, 1]
    with Limpet.open(durable_url) as memory:
        assert memory.admin.stats()["messages"] == 4
        assert [version for version, _, _ in applied(memory)] == list(
            range(1, len(migrate.load_migrations("sqlite")) + 1)
        )
        assert faults(memory) == []


def test_sqlite_store_created_meanwhile_is_not_rejected_as_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whatever statement of the opening the other one finishes."""
    real = sqlite3.connect
    statements = 0

    class Watched(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            nonlocal statements
            statements += 1
            if statements == stop and not self.in_transaction:
                with monkeypatch.context() as inner:
                    inner.setattr("limpet.store.sqlite.connection.sqlite3.connect", real)
                    Limpet.open(path).close()
            return super().execute(*arguments)

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        return real(*arguments, **options, factory=Watched)

    for stop in range(1, 9):
        statements = 0
        path = tmp_path / str(stop) / "limpet.db"
        path.parent.mkdir()
        with monkeypatch.context() as patched:
            patched.setattr("limpet.store.sqlite.connection.sqlite3.connect", connect)
            with Limpet.open(path) as memory:
                memory.session("t", "1").append("user", "hello")


@pytest.mark.postgres
def test_postgres_store_created_meanwhile_is_not_rejected_as_foreign(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from limpet.store.postgres.db import PostgresDb

    server = _required_server(request.config)
    real = PostgresDb.execute
    for stop in range(1, 6):
        url, statements = server.create_database(), 0

        def plain(self: PostgresDb, *arguments: Any) -> Any:
            nonlocal statements
            statements += 1
            if statements == stop and self.raw.info.transaction_status == 0:  # noqa: B023  # idle; nobody waits for us
                with monkeypatch.context() as inner:
                    inner.setattr(PostgresDb, "execute", real)
                    Limpet.open(url).close()  # noqa: B023
            return real(self, *arguments)

        try:
            with monkeypatch.context() as patched:
                patched.setattr(PostgresDb, "execute", plain)
                with Limpet.open(url) as memory:
                    memory.session("t", "1").append("user", "hello")
        finally:
            server.drop_database(url)
