"""The statements that calls send to PostgreSQL, and on how many shards of a Citus cluster each runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from limpet.store.postgres.db import PostgresDb, load_statements
from limpet.store.tx import Params

_TASKS = re.compile(r"Task Count: (\d+)")
_SEVERAL_STEPS = ("Distributed Subplan", "INSERT ... SELECT", "repartition")


class Recorder:
    """The text of each statement, with parameters that it was sent with."""

    def __init__(self) -> None:
        self._sent: dict[str, Params] = {}

    @contextmanager
    def record(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with monkeypatch.context() as patched:
            for name in ("_execute", "bind"):
                patched.setattr(PostgresDb, name, self._wrap(getattr(PostgresDb, name)))
            yield

    def _wrap(self, method: Any) -> Any:
        def wrapper(db: PostgresDb, sql: str, params: Any) -> Any:
            self._sent.setdefault(sql, params)
            return method(db, sql, params)

        return wrapper

    def list_named(self) -> list[tuple[str, str, Params]]:
        """Name, text and parameters of those that have a name."""
        names = {sql: name for (name, _, _), sql in load_statements().items()}
        return [(names[sql], sql, params) for sql, params in self._sent.items() if sql in names]


def count_shards(db: PostgresDb, sql: str, params: Params) -> int:
    """How many shards the statement asks; more than one, too, where its parts run one after another."""
    from psycopg import ClientCursor

    text = ClientCursor(db.raw).mogrify(sql.encode(), params)  # not every statement is explained with parameters
    plan = "\n".join(str(line) for (line,) in db.execute(f"EXPLAIN {text}"))
    tasks = sum(map(int, _TASKS.findall(plan)))
    return max(tasks, 2) if any(step in plan for step in _SEVERAL_STEPS) else tasks


def find_several(db: PostgresDb, sent: Sequence[tuple[str, str, Params]]) -> dict[str, tuple[int, str]]:
    """Those that ask more than one shard: how many, and the text."""
    counted = {(name, sql): count_shards(db, sql, params) for name, sql, params in sent}
    return {name: (shards, sql) for (name, sql), shards in counted.items() if shards > 1}
