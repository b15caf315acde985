"""Moving a whole store from one backend to another, losslessly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from limpet.config import StorageSettings
from limpet.errors import InvalidInput, Unsupported
from limpet.model.scope import STORE_PARTITION
from limpet.model.values import Clock
from limpet.security.telemetry import Progress
from limpet.store.files import create_database
from limpet.store.store import Store
from limpet.store.tables import TABLES, Table
from limpet.store.tx import Db, Row, Tx

_BATCH = 1000


def copy_store(source: Store, target: Store, progress: Progress | None = None) -> dict[str, int]:
    """Copy every row, from one consistent view, in one transaction. The target must be empty. Answers rows by table."""

    def from_source(reading: Tx) -> dict[str, int]:
        return target.write(lambda writing: _copy_all(reading.db, writing.db, progress), exclusive=True)

    return source.read(from_source)


def restore_file(
    target: Store,
    path: str,
    config: StorageSettings,
    clock: Clock,
    progress: Progress | None = None,
    *,
    overwrite: bool,
) -> dict[str, int]:
    """Put a backup in place of what the store holds, in one transaction. Answers rows by table.

    The rows are read from a checked copy of the file, which itself is not touched.
    """
    from limpet.store.sqlite.store import SqliteStore, copy_file

    if target.backend == "postgres":
        raise Unsupported(
            "restore takes SQLite backups: for a dump of the server use pg_restore;"
            " `limpet copy FILE postgresql://…` takes a file that `limpet backup` made"
        )

    def replace_rows(reading: Tx) -> dict[str, int]:
        replace = partial(_replace_all, reading.db, progress=progress, overwrite=overwrite)
        return target.write(lambda writing: replace(writing.db), exclusive=True)

    with TemporaryDirectory(prefix="limpet-") as folder:
        copied = Path(folder, "backup.db")
        copy_file(path, copied)
        with closing(SqliteStore(str(copied), config, clock)) as source:
            rows = source.read(replace_rows)
    for partition_id in target.caches.list_partitions():
        target.caches.drop_partition(partition_id)
    return rows


def _replace_all(source: Db, target: Db, progress: Progress | None, *, overwrite: bool) -> dict[str, int]:
    used = [name for name in _list_used(target) if name != "audit"]
    if used and not overwrite:
        raise InvalidInput(
            f"the store is not empty: it has rows in {', '.join(used)}; restore into a new store, or with overwrite"
        )
    needs_keys = target.one("api_keys.required", {}) is not None
    for table in reversed(TABLES):
        target.execute_sql(f"DELETE FROM {table.name}")
    copied = _copy_all(source, target, progress)
    if needs_keys:  # a backup from before the first key must not open the server
        target.run("api_keys.require", {})
    return copied


def _list_used(target: Db) -> list[str]:
    """The tables that have rows which a new store does not have."""
    target.execute_sql("DELETE FROM jobs WHERE tenant = :nobody", {"nobody": STORE_PARTITION.tenant})
    return [table.name for table in TABLES if table.name != "properties" and _count_rows(target, table)]


def _copy_all(source: Db, target: Db, progress: Progress | None) -> dict[str, int]:
    if taken := _list_used(target):
        raise InvalidInput(f"the target is not empty: it has rows in {', '.join(taken)}; copy into a new store")
    target.execute_sql("DELETE FROM properties")
    copied = {table.name: _copy_table(source, target, table, progress) for table in TABLES}
    target.run("encryption.count_change", {})
    return copied


def _copy_table(source: Db, target: Db, table: Table, progress: Progress | None) -> int:
    total, done = _count_rows(source, table), 0
    names = ", ".join(table.columns)
    values = ", ".join(f":{_param_name(at)}" for at in range(len(table.columns)))
    insert = f"INSERT INTO {table.name} ({names}) VALUES ({values})"
    for batch in _iter_batches(source, table):
        rows = [{_param_name(at): value for at, value in enumerate(row)} for row in batch]
        target.execute_sql_many(insert, rows)
        done += len(batch)
        if progress is not None:
            progress(table.name, done, total)
    return done


def _iter_batches(source: Db, table: Table) -> Iterator[list[Row]]:
    """The rows in the order of their key, a batch at a time."""
    names, key = ", ".join(table.columns), ", ".join(table.key)
    width = len(table.key)
    first = f"SELECT {names} FROM {table.name} ORDER BY {key} LIMIT {_BATCH}"
    after = (
        f"SELECT {names} FROM {table.name} WHERE ({key}) > ({', '.join(':' + _param_name(at) for at in range(width))})"
    )
    batch = source.execute_sql(first)
    while batch:
        yield batch
        last = {_param_name(at): batch[-1][at] for at in range(width)}
        batch = source.execute_sql(f"{after} ORDER BY {key} LIMIT {_BATCH}", last)


def _param_name(at: int) -> str:
    return f"column_{at}"


def _count_rows(db: Db, table: Table) -> int:
    return int(db.execute_sql(f"SELECT count(*) FROM {table.name}")[0][0])


def copy_to_file(
    source: Store, path: str, config: StorageSettings, clock: Clock, progress: Progress | None = None
) -> None:
    """A new SQLite file with everything in it, which appears whole or not at all."""
    from limpet.store.sqlite.store import SqliteStore

    with create_database(path, "copy") as unfinished, closing(SqliteStore(str(unfinished), config, clock)) as target:
        copy_store(source, target, progress)
