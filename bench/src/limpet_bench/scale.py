"""``limpet bench scale``: what more processes, a slow network and more users do to a store, all as ratios.

Appends stand against bare inserts of a row as wide, by as many processes on the same network in the same run. On SQLite
only what does not need a server is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from limpet import Config, Limpet, Message
from limpet.cli import show
from limpet.testing import FakeEmbedder
from limpet_bench.scale_load import BARE, BARE_TABLE, Done, Load, SlowNetwork, run_all
from limpet_bench.speed import machine
from limpet_bench.workload import texts, time_call

_BARE_SQL = (
    f"CREATE TABLE {BARE_TABLE} (owner text, number bigint, text text, run text, PRIMARY KEY (run, owner, number))"
)
_DIMENSIONS = 384
_USERS, _MESSAGES, _TURNS = 10_000_000, 1_000, 2_000  # of the estimate
_BATCH = 500
_SETTINGS = {"jobs.worker": False, "retention.enabled": False, "embedding.model": "none"}


@dataclass(frozen=True, slots=True)
class Effort:
    seconds: float  # of each load
    processes: tuple[int, ...]
    latencies_ms: tuple[float, ...]
    users: tuple[int, ...]  # of each process, in turn
    threads: int
    histories: tuple[int, ...]  # messages of the users whose first recall is measured
    messages: int  # over which bytes are counted
    deleted: int


FULL = Effort(4.0, (1, 2, 4, 8), (0.0, 1.0), (1, 50), 16, (1_000, 10_000), 4_000, 10_000)
SHORT = Effort(0.5, (1, 2), (0.0, 1.0), (2,), 4, (200,), 300, 300)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: ``ratio`` is ours to that of ``against``."""

    name: str
    ours: float
    unit: str
    against: str = ""
    plain: float | None = None
    errors: int = 0

    @property
    def ratio(self) -> float | None:
        return round(self.ours / self.plain, 3) if self.plain else None


class Bench:
    def __init__(self, url: str, effort: Effort) -> None:
        self._url = url
        self._effort = effort
        self.cpu_ms: dict[str, float] = {}  # of a process, for a call
        self.bytes: dict[str, float] = {}  # of a message, by table

    @property
    def _has_server(self) -> bool:
        return "://" in self._url

    def measure(self) -> Iterator[Row]:
        if self._has_server:
            yield from self._measure_loads()
            yield self._measure_neighbour()
        yield from self._measure_recalls()
        yield from self._measure_bytes()

    def _measure_loads(self) -> Iterator[Row]:
        run_sql(self._url, _BARE_SQL)
        for latency in self._effort.latencies_ms:
            with self._network(latency) as url:
                for users in self._effort.users:
                    yield from self._measure_appends(url, latency, users)
                for kind in ("turn", "recall"):
                    yield from self._measure_against_one(kind, url, latency)

    @contextmanager
    def _network(self, latency_ms: float) -> Iterator[str]:
        with ExitStack() as stack:
            yield stack.enter_context(SlowNetwork(self._url, latency_ms)).url if latency_ms else self._url

    def _measure_appends(self, url: str, latency: float, users: int) -> Iterator[Row]:
        where = f"{latency:g} ms, {users} user{'s' * (users > 1)} each"
        one = 0.0
        for processes in self._effort.processes:
            bare = self._run(BARE, url, processes)
            ours = self._run("append", url, processes, users=users)
            one = one or rate(ours)
            name = f"append, {count_of(processes)}, {where}"
            yield Row(name, rate(ours), "/s", f"{BARE}s", rate(bare), errors(ours))
            if processes > 1:
                yield Row(name, rate(ours), "/s", "1 process", one, errors(ours))
        threads = self._run("append", url, 1, threads=self._effort.threads, users=users)
        name = f"append, 1 process of {self._effort.threads} threads, {where}"
        yield Row(name, rate(threads), "/s", "1 thread", one, errors(threads))

    def _measure_against_one(self, kind: str, url: str, latency: float) -> Iterator[Row]:
        one: list[Done] = []
        for processes in (self._effort.processes[0], self._effort.processes[-1]):
            done = self._run(kind, url, processes, users=self._effort.users[-1])
            name = f"{kind}, {count_of(processes)}, {latency:g} ms"
            yield Row(name, rate(done), "/s", "1 process" if one else "", rate(one) if one else None, errors(done))
            one = one or done

    def _run(self, kind: str, url: str, processes: int, *, threads: int = 1, users: int = 1) -> list[Done]:
        run, seconds = uuid4().hex[:8], self._effort.seconds
        done = run_all([Load(url, kind, f"{run}-{each}", threads, users, seconds) for each in range(processes)])
        if processes == 1 and threads == 1:
            self.cpu_ms.setdefault(kind, 1000 * done[0].cpu_s / max(1, done[0].calls))
        return done

    def _measure_neighbour(self) -> Row:
        """Appends of one tenant while another one deletes a long session."""
        with self._open(tenant="deleter") as memory:
            session = memory.session("bench", "long", user="victim")
            fill(session, self._effort.deleted)
            quiet = self._append_beside(lambda: None)
            busy = self._append_beside(session.delete)
        name = f"append p99 while another tenant deletes {self._effort.deleted} messages"
        return Row(name, busy, "ms", "when nothing is deleted", quiet)

    def _append_beside(self, action: Any) -> float:
        load = Load(self._url, "append", f"beside-{uuid4().hex[:8]}", 1, 1, max(2.0, self._effort.seconds)).start()
        load.go()
        action()
        return load.result().p99_ms

    def _measure_recalls(self) -> Iterator[Row]:
        for messages in self._effort.histories:
            user = f"history-{messages}"
            with self._open(dimensions=_DIMENSIONS) as memory:
                fill(memory.session("bench", "history", user=user), messages)
            with self._open(dimensions=_DIMENSIONS) as memory:

                def ask(memory: Limpet = memory, user: str = user) -> object:
                    return memory.recall("where did the two of them meet", user=user)

                memory.recall("anything", user="nobody")  # the process is warm, the user is not
                cold, warm = time_call(ask), statistics.median(time_call(ask) for _ in range(9))
            yield Row(f"first recall, {messages} messages", cold * 1000, "ms", "the next ones", warm * 1000)

    def _measure_bytes(self) -> Iterator[Row]:
        before = read_sizes(self._url)
        with self._open(dimensions=_DIMENSIONS) as memory:
            for user in range(4):
                fill(memory.session("bench", "bytes", user=f"bytes-{user}"), self._effort.messages // 4)
        after = read_sizes(self._url)
        grown = {table: (size - before.get(table, 0)) / self._effort.messages for table, size in after.items()}
        self.bytes = {table: size for table, size in sorted(grown.items(), key=lambda each: -each[1]) if size >= 1}
        text = statistics.fmean(len(line.encode()) for line in texts(self._effort.messages // 4))
        yield Row("bytes a message", sum(self.bytes.values()), "bytes", "its text", text)
        for table, size in self.bytes.items():
            yield Row(f"bytes a message, {table}", size, "bytes", "all tables", sum(self.bytes.values()))

    def _open(self, *, tenant: str = "default", dimensions: int = 0) -> Limpet:
        embedder = FakeEmbedder(dimensions) if dimensions else None
        return Limpet.open(self._url, config=Config.load(env={}, overrides=_SETTINGS), embedder=embedder, tenant=tenant)

    def estimate(self) -> dict[str, float]:
        """What many users need, should all of this grow in proportion."""
        found = {"terabytes": sum(self.bytes.values()) * _USERS * _MESSAGES / 1e12}
        if "turn" in self.cpu_ms:
            found["python_cores"] = _TURNS * self.cpu_ms["turn"] / 1000
        return {name: round(value, 1) for name, value in found.items()}


def count_of(processes: int) -> str:
    return f"{processes} process{'es' * (processes > 1)}"


def rate(done: list[Done]) -> float:
    return sum(each.calls / each.seconds for each in done)


def errors(done: list[Done]) -> int:
    return sum(each.errors for each in done)


def fill(session: Any, messages: int) -> None:
    lines = texts(messages)
    for start in range(0, messages, _BATCH):
        session.extend([Message.new("user", line) for line in lines[start : start + _BATCH]])


def run_sql(url: str, *statements: str) -> list[Any]:
    """What the last of them answers."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        *first, last = statements
        for statement in first:
            connection.execute(statement.encode())
        cursor = connection.execute(last.encode())
        return cursor.fetchall() if cursor.description else []


def read_sizes(url: str) -> Mapping[str, int]:
    """Bytes by table with its indexes, without what is dead."""
    if "://" in url:
        sizes = "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' AND relnamespace ="
        return dict(run_sql(url, "VACUUM FULL", f"{sizes} current_schema()::regnamespace"))
    import sqlite3

    with sqlite3.connect(url) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return dict(
            connection.execute(
                "SELECT m.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_schema m ON m.name = d.name GROUP BY 1"
            )
        )


@contextmanager
def make_store(url: str | None, folder: Path | None) -> Iterator[str]:
    """A database of our own on the server, or a file, which is gone afterwards."""
    if url is None:
        with tempfile.TemporaryDirectory(dir=folder, prefix="limpet-bench-") as made:
            file = str(Path(made, "limpet.db"))
            Limpet.open(file, config=Config.load(env={}, overrides=_SETTINGS)).close()
            yield file
        return
    from urllib.parse import urlsplit, urlunsplit

    name = f"limpet_bench_{uuid4().hex[:12]}"
    run_sql(url, f"CREATE DATABASE {name}")
    try:
        own = urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
        Limpet.open(own, config=Config.load(env={}, overrides=_SETTINGS)).close()
        yield own
    finally:
        run_sql(url, f"DROP DATABASE {name} WITH (FORCE)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url", help="a PostgreSQL server, where a database is made and dropped (default: SQLite, without loads)"
    )
    parser.add_argument("--short", action="store_true", help="a quick look whose figures mean little")
    parser.add_argument("--folder", type=Path, help="where the SQLite file goes (default: a temporary folder)")


def main(args: argparse.Namespace) -> int:
    with make_store(args.url, args.folder) as url:
        bench = Bench(url, SHORT if args.short else FULL)
        rows = []
        for row in bench.measure():
            rows.append(row)
            print(f"{row.name}: {row.ours:,.4g} {row.unit}", file=sys.stderr, flush=True)
    if getattr(args, "json", False):
        listed = [{**asdict(row), "ratio": row.ratio} for row in rows]
        whole = {"machine": machine(), "rows": listed, "cpu_ms": bench.cpu_ms, "estimate": bench.estimate()}
        print(json.dumps(whole, indent=2))
    else:
        print("\n".join(show.format_table(("MEASURE", ">OURS", "UNIT", ">RATIO", "AGAINST"), list(map(_cells, rows)))))
        print(_describe(bench.estimate()))
        print(f"\n{machine()}; {'short' if args.short else 'full'} run.")
    return 1 if any(row.errors for row in rows) else 0


def _cells(row: Row) -> tuple[str, ...]:
    failed = f"; {row.errors} failed" if row.errors else ""
    against = "" if row.plain is None else f"{row.against} ({row.plain:,.4g})"
    return row.name, f"{row.ours:,.4g}", row.unit, "" if row.ratio is None else f"{row.ratio:.2f}", against + failed


def _describe(estimate: Mapping[str, float]) -> str:
    needs = f"{estimate['terabytes']:g} TB"
    if "python_cores" in estimate:
        needs += f", and {estimate['python_cores']:g} cores for Limpet at {_TURNS:,} turns a second"
    return f"\n{_USERS:,} users with {_MESSAGES:,} messages each, without what is learned from them: {needs}."
