"""Kill writers without mercy, and count what is missing.

    python -m tests.crash.torture [--short] [--kills N] [--jobs N] [--weeks N] [--http N] [--mcp N]
                                  [--seed S] [--backend sqlite|postgres|both]

Writers in several processes, each with several threads, write to one store and note every call before it and after
its answer. They are killed with SIGKILL at random moments and replaced at once. Against PostgreSQL their connections
are cut and the server process behind one is killed, too, which makes the whole server start again. After each round
the store is compared with the notes. Then two workers share the jobs of a store, and are struck the same way until all
are done; and two runners share its schedules through simulated weeks in which their clocks jump. At last clients
of HTTP and of MCP write through a server that is killed while it answers, and ask again until the next one answers;
and MCP clients do so whose servers are processes of their own. Exit status 1 when anything acknowledged is missing,
there twice, or unsound, a job was not done once, or a firing came twice or was lost.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from limpet import Limpet
from tests.crash import job_workers, schedule_runners
from tests.crash.check import Findings, check, check_file
from tests.crash.fork_server import Nursery
from tests.crash.job_workers import Gang
from tests.crash.mcp_clients import ServerSiege, StdioSiege
from tests.crash.schedule_runners import Crew
from tests.crash.writer_fleet import Fleet, besiege
from tests.postgres_server import PostgresMissing, PostgresServer

SHORT = {"sqlite": 200, "postgres": 200}
LONG = {"sqlite": 2000, "postgres": 1000}
WEEKS = {True: 1, False: 10}
HTTP = {True: 5, False: 100}  # servers of HTTP and MCP killed
MCP = {True: 5, False: 100}  # MCP servers of one client killed
JOBS = {True: 1000, False: 10_000}  # in the short form, and in the long one
ROUND = 40  # kills on one store before it is looked at: it stays small, and its words are merged all the same
SHOWN = 10


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    backends = ("sqlite", "postgres") if options.backend == "both" else (options.backend,)
    print(f"seed {seed}")
    passed = failed = 0
    folder = Path(tempfile.mkdtemp(prefix="limpet-torture-"))
    with Nursery() as nursery:
        for backend in backends:
            kills = (SHORT if options.short else LONG)[backend] if options.kills is None else options.kills
            started = time.monotonic()
            with open_siege(backend, folder) as siege:
                findings = _torture(siege, nursery, folder, kills, Random(f"{seed}/{backend}"))
                _report(backend, findings, time.monotonic() - started)
                jobs = JOBS[options.short] if options.jobs is None else options.jobs
                kept = _labour(backend, siege, nursery, folder, jobs, Random(f"{seed}/{backend}/jobs"))
                weeks = WEEKS[options.short] if options.weeks is None else options.weeks
                chance = Random(f"{seed}/{backend}/weeks")
                lived = [_week(backend, siege, nursery, folder, chance, short=options.short) for _ in range(weeks)]
                servers = HTTP[options.short] if options.http is None else options.http
                served = _serve(backend, siege, servers, Random(f"{seed}/{backend}/http"), ServerSiege)
                processes = MCP[options.short] if options.mcp is None else options.mcp
                piped = _serve(backend, siege, processes, Random(f"{seed}/{backend}/mcp"), StdioSiege)
            lists = (findings.faults(), kept, *lived, served, piped)
            promises = [faults for promised in lists for faults in promised.values()]
            broken = sum(map(bool, promises))
            passed, failed = passed + len(promises) - broken, failed + broken
    if failed:
        print(f"the stores and what their writers noted are kept in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="torture", description="Kill writers without mercy, and count what is missing."
    )
    parser.add_argument("--short", action="store_true", help="the form for every day: about two minutes")
    parser.add_argument("--kills", type=int, help="how many writers on each backend")
    parser.add_argument("--jobs", type=int, help="how many on each backend")
    parser.add_argument("--weeks", type=int, help="simulated weeks of schedules on each backend")
    parser.add_argument("--http", type=int, help="servers of HTTP and MCP killed on each backend")
    parser.add_argument("--mcp", type=int, help="MCP servers over standard streams killed on each backend")
    parser.add_argument("--backend", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--seed", type=int, help="repeat the choices of a run, though never its timing")
    return parser.parse_args(arguments)


class Sqlite:
    """One file, several processes."""

    may_be_unavailable = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rounds = 0

    def new_store(self) -> str:
        self._rounds += 1
        return str(self._folder / f"sqlite-{self._rounds}")

    def strike(self, fleet: Fleet | Gang | Crew) -> None:
        fleet.kill_one()

    def settle(self, store: str) -> None:
        pass

    def look_into(self, store: str) -> list[str]:
        return check_file(Path(store) / "limpet.db")


class Postgres:
    """A server of its own that keeps its promises to the disk, and is itself struck now and then."""

    may_be_unavailable = True

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def new_store(self) -> str:
        return self._server.create_database()

    def strike(self, fleet: Fleet | Gang | Crew) -> None:
        kind = fleet.chance.choices(("writer", "connection", "server"), (50, 40, 10))[0]
        if kind == "writer":
            fleet.kill_one()
        elif kind == "connection":
            self.cut_connection(fleet)
        else:
            self.kill_server(fleet)

    def cut_connection(self, fleet: Fleet | Gang | Crew) -> None:
        if pids := self._backends():
            self._run(f"SELECT pg_terminate_backend({fleet.chance.choice(pids)})")
            fleet.kills += 1

    def kill_server(self, fleet: Fleet | Gang | Crew) -> None:
        """One of the processes behind the connections: the server cuts all the others and recovers."""
        if pids := self._backends():
            # The connection may have been closed since.
            with suppress(ProcessLookupError):
                os.kill(fleet.chance.choice(pids), signal.SIGKILL)
                fleet.kills += 1

    def settle(self, store: str) -> None:
        """A killed client's last statement may still be running on the server."""
        while self._backends():
            self._run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'limpet%'")

    def look_into(self, store: str) -> list[str]:
        self._server.drop_database(store)
        return []

    def _backends(self) -> list[int]:
        sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname LIKE 'limpet%'"
        return [pid for (pid,) in self._run(sql)]

    def _run(self, sql: str) -> list[tuple[int]]:
        """Patient: the server may just be recovering."""
        import psycopg

        deadline = time.monotonic() + 60
        while True:
            try:
                return self._server.run(sql)
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


@contextmanager
def open_siege(backend: str, folder: Path) -> Iterator[Sqlite | Postgres]:
    if backend == "sqlite":
        yield Sqlite(folder)
        return
    try:
        server = PostgresServer.start_private(durable=True)
    except PostgresMissing as error:
        sys.exit(f"PostgreSQL cannot be tortured here: {error}")
    with server:
        yield Postgres(server)


def _torture(siege: Sqlite | Postgres, nursery: Nursery, folder: Path, kills: int, chance: Random) -> Findings:
    total = Findings()
    while total.kills < kills:
        notes = Path(tempfile.mkdtemp(prefix="notes-", dir=folder))
        total += _round(siege, nursery, notes, min(ROUND, kills - total.kills), chance)
        print(f"  {total.kills} kills, {total.acknowledged} acknowledged, {len(total.lost)} lost", flush=True)
    return total


def _round(siege: Sqlite | Postgres, nursery: Nursery, notes: Path, kills: int, chance: Random) -> Findings:
    store = siege.new_store()
    Limpet.open(store).close()
    fleet = Fleet(nursery, store, notes, chance)
    besiege(fleet, kills, siege.strike)
    siege.settle(store)
    with Limpet.open(store) as memory:
        findings = check(memory, fleet.noted(), may_be_unavailable=siege.may_be_unavailable)
    findings.kills = fleet.kills
    findings.refused += fleet.accidents
    findings.unsound += siege.look_into(store)
    return findings


def _labour(
    backend: str, siege: Sqlite | Postgres, nursery: Nursery, folder: Path, jobs: int, chance: Random
) -> dict[str, list[str]]:
    """Two workers share that many jobs and are struck until all are done."""
    started, store = time.monotonic(), siege.new_store()
    with job_workers.open_patiently(store) as memory:
        job_workers.ask(memory, jobs)
        gang = job_workers.Gang(nursery, store, Path(tempfile.mkdtemp(prefix="labour-", dir=folder)), chance)
        job_workers.torment(gang, memory, siege.strike)
        gang.stop()
        found = job_workers.check(memory, gang, jobs)
    found["the file is whole"] = siege.look_into(store)
    took = time.monotonic() - started
    print(f"{backend}: {jobs} jobs, {gang.kills} kills, {gang.pauses} workers held up, in {took:.0f} s")
    print(f"  runs begun     {gang.begun:>7}")
    print_faults(found)
    return found


def _week(
    backend: str, siege: Sqlite | Postgres, nursery: Nursery, folder: Path, chance: Random, *, short: bool
) -> dict[str, list[str]]:
    """Two runners through a simulated week, struck while their clocks jump."""
    started, store = time.monotonic(), siege.new_store()
    schedule_runners.fill(store, chance, short=short)
    crew = schedule_runners.Crew(nursery, store, Path(tempfile.mkdtemp(prefix="week-", dir=folder)), chance)
    with schedule_runners.open_patiently(store, crew.time) as memory:
        schedule_runners.live(crew, memory, siege.strike)
    crew.stop()
    siege.settle(store)
    with schedule_runners.catch_up(store) as memory:
        found = schedule_runners.Found(memory)
        faults = schedule_runners.check(memory, crew, found)
    faults["the file is whole"] = siege.look_into(store)
    took = time.monotonic() - started
    print(f"{backend}: a week of {found.meant} firings, {crew.kills} kills, in {took:.0f} s")
    print(f"  came about     {found.fired:>7}   (the others were counted as missed; runs begun: {crew.begun})")
    print_faults(faults)
    return faults


def _serve(
    backend: str, siege: Sqlite | Postgres, kills: int, chance: Random, kind: type[ServerSiege | StdioSiege]
) -> dict[str, list[str]]:
    """Clients of servers, of which so many are killed."""
    started, store = time.monotonic(), siege.new_store()
    clients = kind(store, chance)
    faults = clients.run(kills)
    faults["the file is whole"] = siege.look_into(store)
    print(f"{backend}: {kills} {kind.what} killed while they answered, in {time.monotonic() - started:.0f} s")
    print(f"  acknowledged   {clients.answered:>7}")
    print_faults(faults)
    return faults


def _report(backend: str, findings: Findings, seconds: float) -> None:
    found = findings.acknowledged - len(findings.lost)
    errors = ", ".join(f"{kind} {count}" for kind, count in findings.errors.most_common()) or "none"
    print(f"{backend}: {findings.kills} kills in {seconds:.0f} s")
    print(f"  acknowledged   {findings.acknowledged:>7}")
    print(f"  found          {found:>7}")
    print(f"  lost           {len(findings.lost):>7}")
    print(f"  doubled        {len(findings.doubled):>7}")
    print(f"  unacknowledged {findings.unanswered:>7}   (of which there: {findings.unanswered_found})")
    print(f"  errors raised  {findings.errors.total():>7}   ({errors})")
    print_faults(findings.faults())


def print_faults(promises: Mapping[str, list[str]]) -> None:
    for promise, faults in promises.items():
        print(f"  {'FAILED' if faults else 'ok    '} {promise}{f': {len(faults)} faults' if faults else ''}")
        for fault in faults[:SHOWN]:
            print(f"         {fault[:600]}")


if __name__ == "__main__":
    sys.exit(main())
