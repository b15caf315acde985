from __future__ import annotations

import itertools
import json
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.api.runtime import open_store
from limpet.model.job import RETENTION
from limpet.model.values import system_clock
from limpet.search import word_index
from limpet.store.store import Store
from limpet.store.tables import TABLES
from limpet.store.tx import Row
from tests.crash import crash_points
from tests.crash.check import Findings, check, check_file
from tests.crash.fork_server import Nursery
from tests.crash.torture import Postgres
from tests.crash.writer_fleet import Fleet, besiege
from tests.postgres_server import PostgresServer

KILLED = -signal.SIGKILL
FEW = 50  # points of a job that are all died at; of more, as many are chosen

Dump = dict[str, list[Row]]


on_disk = pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])


@pytest.fixture
def disk_url(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """What several processes can open at once."""
    if backend == "sqlite":
        return str(tmp_path / "data")
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def chance() -> Random:
    return Random()


def assert_kept(findings: Findings) -> None:
    assert {promise: faults[:5] for promise, faults in findings.faults().items() if faults} == {}
    assert findings.acknowledged > 0


# Killed at any moment


@pytest.mark.slow
def test_killed_writers_lose_no_acknowledged_write(nursery: Nursery, tmp_path: Path, chance: Random) -> None:
    store = str(tmp_path / "data")
    fleet = Fleet(nursery, store, tmp_path, chance, writers=3)
    besiege(fleet, kills=14)
    with Limpet.open(store) as memory:
        findings = check(memory, fleet.noted())
    findings.refused += fleet.accidents
    findings.unsound += check_file(tmp_path / "data" / "limpet.db")
    assert_kept(findings)


@pytest.mark.slow
@pytest.mark.postgres
def test_crashed_postgres_loses_no_acknowledged_write(
    nursery: Nursery, tmp_path: Path, chance: Random, private_postgres: PostgresServer
) -> None:
    server = Postgres(private_postgres)
    store = server.new_store()
    Limpet.open(store).close()
    fleet = Fleet(nursery, store, tmp_path, chance, writers=3)
    server.kill_server(fleet)
    besiege(fleet, kills=14, strike=server.strike)
    server.settle(store)
    with Limpet.open(store) as memory:
        findings = check(memory, fleet.noted(), may_be_unavailable=True)
    findings.refused += fleet.accidents
    assert_kept(findings)


@pytest.mark.slow
@on_disk
def test_several_processes_write_one_store_without_errors(
    nursery: Nursery, disk_url: str, tmp_path: Path, chance: Random
) -> None:
    """Two MCP clients on one file saw "database is locked"; on a server, deadlocks keep writers waiting."""
    Limpet.open(disk_url).close()
    fleet = Fleet(nursery, disk_url, tmp_path, chance, pace=0.001)
    fleet.at_work()
    time.sleep(2.5)
    assert fleet.stop_all() == [0, 0, 0, 0]
    with Limpet.open(disk_url) as memory:
        assert_kept(check(memory, fleet.noted()))
        if memory.admin.stats()["backend"] == "postgres":
            sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            assert raw_store(memory).read(lambda tx: tx.db.execute_sql(sql)) == [(0,)]


@pytest.mark.slow
def test_new_store_opened_by_many_processes_loses_no_write(nursery: Nursery, tmp_path: Path, chance: Random) -> None:
    for attempt in range(4):
        notes = tmp_path / f"notes-{attempt}"
        notes.mkdir()
        fleet = Fleet(nursery, str(tmp_path / f"data-{attempt}"), notes, chance, writers=6, threads=1, pace=0)
        fleet.at_work()
        assert fleet.stop_all() == [0] * 6
        with Limpet.open(tmp_path / f"data-{attempt}") as memory:
            assert_kept(check(memory, fleet.noted()))


@pytest.mark.slow
def test_power_cut_loses_no_acknowledged_write(nursery: Nursery, tmp_path: Path, chance: Random) -> None:
    """The database and its log as they are at one moment hold every write acknowledged before it."""
    store = tmp_path / "data"
    fleet = Fleet(nursery, str(store), tmp_path, chance, writers=3, pace=0.001)
    fleet.at_work()
    for cut in range(8):
        time.sleep(chance.uniform(0.1, 0.3))
        for pid in fleet.pids:
            nursery.pause(pid)
        copy = tmp_path / f"copy-{cut}"
        copy.mkdir()
        for name in ("limpet.db", "limpet.db-wal"):
            if (store / name).exists():
                shutil.copy(store / name, copy / name)
        noted = fleet.noted()
        for pid in fleet.pids:
            nursery.resume(pid)
        with Limpet.open(copy) as memory:
            assert_kept(check(memory, noted))
    fleet.kill_all()


@pytest.mark.slow
@on_disk
def test_doctor_finds_no_fault_during_writes(nursery: Nursery, disk_url: str, tmp_path: Path, chance: Random) -> None:
    with Limpet.open(disk_url) as memory:
        fleet = Fleet(nursery, disk_url, tmp_path, chance, writers=2, pace=0.001)
        fleet.at_work()
        deadline = time.monotonic() + 1.5
        found = []
        while time.monotonic() < deadline:
            found += [finding for finding in memory.admin.doctor() if not finding.ok]
        fleet.stop_all()
        assert_kept(check(memory, fleet.noted()))
    assert found == []


@on_disk
@pytest.mark.parametrize("repair", [False, True])
def test_doctor_repair_keeps_concurrent_writes(repair: bool, disk_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two transactions of the doctor somebody else writes, to every space."""
    with Limpet.open(disk_url) as memory, Limpet.open(disk_url) as other:
        numbers = itertools.count()

        def write_beside() -> None:
            for user in ("alice", "bob"):
                other.session("test", "chat", user=user).append("user", f"said beside {next(numbers)}")
                other.remember(f"kept beside {next(numbers)}", user=user, tags=["beside"])

        def interrupted(call: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any, **options: Any) -> Any:
                answer = call(*args, **options)
                write_beside()
                return answer

            return run

        write_beside()
        store = raw_store(memory)
        with monkeypatch.context() as patch:
            for name in ("read", "write"):
                patch.setattr(store, name, interrupted(getattr(store, name)))
            found = [finding for finding in memory.admin.doctor(repair=repair) if not finding.ok or finding.repaired]
        write_beside()
        assert found == []
        assert [finding for finding in memory.admin.doctor() if not finding.ok] == []


@pytest.mark.postgres
def test_doctor_reads_labels_from_one_snapshot(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written while the labels were read must not be taken for wrong, and repaired away."""
    with Limpet.open(postgres_url) as memory, Limpet.open(postgres_url) as other:
        db = raw_store(memory)._connection.db
        read = type(db).all
        keeping = threading.Thread(
            target=lambda: other.remember("kept beside", user="alice", tags=["beside"], metadata={"a": "b"})
        )

        def all_then_write(self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            rows = read(self, name, *args, **kwargs)
            if name == "records.labels" and not keeping.ident:
                keeping.start()
                keeping.join(0.3)
            return rows

        with monkeypatch.context() as patch:
            patch.setattr(type(db), "all", all_then_write)
            found = [finding for finding in memory.admin.doctor(repair=True) if not finding.ok]
        keeping.join()
        assert found == []
        assert [finding for finding in memory.admin.doctor() if not finding.ok] == []
        assert len(memory.records.search_metadata("a", "b", user="alice")) == 1


@on_disk
def test_doctor_repair_keeps_chunks_of_concurrent_message(disk_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message comes in after the doctor has read the others and before it reads their chunks, unless it must wait."""
    with Limpet.open(disk_url) as memory, Limpet.open(disk_url) as other:
        session = other.session("test", "chat", user="alice")
        session.append("user", "said before")
        db = raw_store(memory)._connection.db
        read = type(db).all
        saying = threading.Thread(target=lambda: session.append("user", "said beside"))

        def all_then_say(self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            rows = read(self, name, *args, **kwargs)
            if name == "messages.select" and not saying.ident:
                saying.start()
                saying.join(0.3)
            return rows

        with monkeypatch.context() as patch:
            patch.setattr(type(db), "all", all_then_say)
            found = [finding for finding in memory.admin.doctor(repair=True) if not finding.ok]
            saying.join()
        assert found == []
        assert [finding for finding in memory.admin.doctor() if not finding.ok] == []
        assert [hit.text for hit in memory.recall("beside", user="alice")] == ["said beside"]


# Killed at every point


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("furnished")
    with pytest.MonkeyPatch.context() as patch, Limpet.open(folder, clock=lambda: crash_points.NOW) as memory:
        patch.setattr(word_index, "MAX_TAIL", crash_points.TAIL)
        crash_points.furnish(memory)
    return folder


class Scene:
    """A job, done again and again on a copy of the same folder."""

    def __init__(self, nursery: Nursery, job: str, scene: Path | None, folder: Path) -> None:
        self._nursery, self._job, self._scene, self._folder = nursery, job, scene, folder
        self.attempts = 0

    def play(self, at: int, target: str = "") -> tuple[Path, int]:
        """Where it was done, and how it ended."""
        self.attempts += 1
        store = self._folder / f"attempt-{self.attempts}"
        if self._scene is not None:
            shutil.copytree(self._scene, store)
        where = {"store": str(store), "target": target.format(self.attempts), "count": str(self._folder / "count")}
        return store, self._nursery.run("tests.crash.crash_points:run", job=self._job, at=at, **where)

    def points(self) -> list[int]:
        """Where to die, known from a performance that was survived."""
        total = int((self._folder / "count").read_text())
        chosen = range(1, total + 1)
        return list(chosen) if total <= FEW else sorted(Random().sample(chosen, FEW))

    def play_killed(self, every: int = 1) -> Iterator[tuple[int, Path]]:
        """Every point where it died, and the store as it was left, which is removed afterwards."""
        for at in self.points()[::every]:
            store, status = self.play(at)
            assert status == KILLED
            yield at, store
            shutil.rmtree(store)


@pytest.mark.slow
@pytest.mark.parametrize("verb", crash_points.VERBS)
def test_operation_killed_at_any_point_is_atomic(verb: str, nursery: Nursery, furnished: Path, tmp_path: Path) -> None:
    scene = Scene(nursery, verb, furnished, tmp_path)
    before = dump(furnished)
    store, status = scene.play(at=0)
    after = dump(store)
    assert status == 0
    assert after != before
    if verb == "merge":
        assert after["postings"] != before["postings"]
    for _, store in scene.play_killed():
        assert dump(store) in (before, after)
        assert faults(store) == []


@pytest.mark.slow
def test_migration_killed_at_any_point_is_completed_on_next_open(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, "open new", None, tmp_path)
    store, status = scene.play(at=0)
    whole = dump(store)
    assert status == 0
    for _, store in scene.play_killed():
        assert faults(store) == []
        assert dump(store) == whole


@pytest.mark.slow
def test_snapshot_import_killed_at_any_point_happens_once(nursery: Nursery, tmp_path: Path) -> None:
    folder = tmp_path / "found"
    folder.mkdir()
    (folder / "sessions.json").write_text(json.dumps(SNAPSHOT))
    scene = Scene(nursery, "import", folder, tmp_path)
    store, status = scene.play(at=0)
    whole = dump(store)
    assert status == 0
    assert len(whole["messages"]) == 9
    for at in scene.points():
        store, status = scene.play(at)
        assert status == KILLED
        left = imported(dump_if_any(store))
        assert not any(left.values()) or left == imported(whole)
        assert faults(store) == []
        assert imported(dump(store)) == imported(whole)
        assert sorted(path.name for path in store.glob("*.json*")) == ["sessions.json.migrated"]


def imported(rows: Dump | None) -> Dump:
    """What came of the import; not from where, which is another place every time."""
    tables = {name: (rows or {}).get(name, []) for name in ("sessions", "messages", "summaries", "chunks", "imports")}
    return tables | {
        "imports": [(digest, sessions, messages) for _, digest, _, sessions, messages, _ in tables["imports"]]
    }


SNAPSHOT = [
    {
        "id": f"00000000-0000-7000-8000-00000000000{number}",
        "channel": "telegram",
        "chat": str(number),
        "created_at": "2026-01-01T00:00:00Z",
        "summary": "they met",
        "messages": [{"role": "user", "content": f"hello {number} {line}"} for line in range(3)],
    }
    for number in range(3)
]


@pytest.mark.slow
def test_backup_killed_at_any_point_is_complete_or_absent(nursery: Nursery, furnished: Path, tmp_path: Path) -> None:
    scene = Scene(nursery, "backup", furnished, tmp_path)
    before = dump(furnished)
    folder = tmp_path / "backups"
    assert scene.play(at=0, target=str(folder / "{}" / "copy.db"))[1] == 0
    for at in scene.points():
        store, status = scene.play(at, target=str(folder / "{}" / "copy.db"))
        target = folder / str(scene.attempts) / "copy.db"
        assert status == KILLED
        assert dump(store) == before
        if not target.exists():
            with Limpet.open(store, config=crash_points.QUIET) as memory:
                memory.admin.backup(target)
        assert check_file(target) == []
        assert dump(target) == before
        left = {path.name for path in target.parent.iterdir()}
        own = {"copy.db", "copy.db-wal", "copy.db-shm", "copy.db-queue"}
        assert left <= own, "a killed backup left files that stay for ever"
        shutil.rmtree(store)


@pytest.mark.slow
def test_copy_killed_at_any_point_is_complete_or_empty(nursery: Nursery, furnished: Path, tmp_path: Path) -> None:
    scene = Scene(nursery, "copy", furnished, tmp_path)
    before = dump(furnished)
    assert scene.play(at=0, target=str(tmp_path / "target-{}"))[1] == 0
    for at in scene.points():
        store, status = scene.play(at, target=str(tmp_path / "target-{}"))
        target = tmp_path / f"target-{scene.attempts}"
        assert status == KILLED
        left = dump_if_any(target)
        assert left is None or is_empty(left) or left == before
        assert faults(target) == []
        shutil.rmtree(store)


@pytest.mark.slow
@pytest.mark.postgres
def test_copy_to_postgres_killed_at_any_point_is_complete_or_empty(
    nursery: Nursery, furnished: Path, tmp_path: Path, postgres_url: str
) -> None:
    """Into the same database every time, one point later each, until one copy is there, and that whole."""
    scene = Scene(nursery, "copy", furnished, tmp_path)
    whole = in_any_order(dump(furnished))
    with Limpet.open(postgres_url) as memory:
        left: Dump = {}
        for at in range(1, 1000, 3):
            store, _ = scene.play(at, target=postgres_url)
            shutil.rmtree(store)
            until_alone(memory)
            left = in_any_order(raw_store(memory).read(dump_tx))
            if not is_empty(left):
                break
        assert left == whole
        assert [finding for finding in memory.admin.doctor() if not finding.ok] == []


# Looking into a store


def raw_store(memory: Limpet) -> Any:
    return memory._runtime.store


def dump_tx(tx: Any) -> Dump:
    """But for who looked at it, and for the job that every opening asks for."""
    rows: Dump = {}
    for table in TABLES:
        if table.name == "audit":
            continue
        found = tx.db.execute_sql(
            f"SELECT {', '.join(table.columns)} FROM {table.name} ORDER BY {', '.join(table.key)}"
        )
        rows[table.name] = [
            tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)
            for row in found
            if table.name != "jobs" or RETENTION not in row
        ]
    return rows


def in_any_order(rows: Dump) -> Dump:
    """Two databases need not agree on which text is the greater."""
    return {table: sorted(found, key=repr) for table, found in rows.items()}


def dump(place: Path) -> Dump:
    """Every row, read through a store: a log that a killed process left is taken in on the way."""
    store, _ = open_store(str(place), Config(), system_clock)
    assert isinstance(store, Store)
    try:
        return store.read(dump_tx)
    finally:
        store.close()


def dump_if_any(folder: Path) -> Dump | None:
    """The rows of a store that may not have come into being, looked at without bringing it into being."""
    if not (folder / "limpet.db").exists():
        return None
    with closing(sqlite3.connect(folder / "limpet.db")) as raw:
        if not raw.execute("SELECT 1 FROM sqlite_master").fetchone():
            return None
    return dump(folder)


def is_empty(rows: Dump) -> bool:
    return not any(found for table, found in rows.items() if table != "properties")


def faults(folder: Path) -> list[Any]:
    with Limpet.open(folder, clock=lambda: crash_points.NOW) as memory:
        return [finding for finding in memory.admin.doctor() if not finding.ok]


def until_alone(memory: Limpet) -> None:
    sql = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"
    )
    while raw_store(memory).read(lambda tx: tx.db.execute_sql(sql)) != [(0,)]:
        time.sleep(0.01)
