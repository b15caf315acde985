"""The tables behind a store, past everything that guards them."""

from __future__ import annotations

from functools import partial
from typing import Any

from limpet import Limpet
from limpet.model.scope import STORE_PARTITION
from limpet.store.tables import TABLES
from limpet.testing import find_faults


def sql(memory: Limpet, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    """Run a statement on the store's own connection, parameters as ``:name``, and commit."""
    store: Any = memory._runtime.store
    rows: list[tuple[Any, ...]] = store.write(lambda tx: tx.db.execute_sql(statement, values))
    return rows


def every_row(memory: Limpet) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables, in the order of their keys, in plain Python values.

    But for the audit: who did what changes with every call.
    """
    store: Any = memory._runtime.store

    def read(tx: Any) -> dict[str, list[tuple[Any, ...]]]:
        found = {}
        for table in TABLES:
            if table.name == "audit":
                continue
            # What the files of notes say is of this store's folder alone.
            columns = ["NULL" if name in ("mirrored", "pending") else name for name in table.columns]
            rows = tx.db.execute_sql(f"SELECT {', '.join(columns)} FROM {table.name}")
            plain = [
                tuple(_plain(value) for value in row)
                for row in rows
                if not (table.name == "jobs" and STORE_PARTITION.tenant in row)  # when it is asked for differs
            ]
            found[table.name] = sorted(plain, key=partial(_key, len(table.key)))
        return found

    rows: dict[str, list[tuple[Any, ...]]] = store.read(read)
    return rows


def _key(width: int, row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[:width]


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, (memoryview, bytearray)) else value


faults = find_faults
