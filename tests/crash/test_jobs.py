"""Two workers, killed and held up at random moments: every job is done, none twice in effect."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.crash import job_workers
from tests.crash.fork_server import Nursery
from tests.crash.torture import Postgres
from tests.postgres_server import PostgresServer

JOBS = 300


def test_job_check_detects_jobs_done_twice_or_never(tmp_path: Path) -> None:
    with job_workers.open_patiently(str(tmp_path / "data")) as memory:
        job_workers.ask(memory, 3)
        for detail in ("0", "1", "1"):
            memory._runtime.store.write(lambda tx, detail=detail: job_workers.count(tx, detail))  # type: ignore[misc]
        gang = type("Gang", (), {"accidents": []})
        found = job_workers.check(memory, gang, 3)  # type: ignore[arg-type]
    broken = {name: faults for name, faults in found.items() if faults}
    assert broken["every job was done"] == ["2"]
    assert broken["no job was done twice in effect"] == ["1: 2"]
    assert len(broken["no job is left"]) == 3


def done_under_fire(nursery: Nursery, store: str, folder: Path, server: Postgres | None = None) -> None:
    with job_workers.open_patiently(store) as memory:
        job_workers.ask(memory, JOBS)
        gang = job_workers.Gang(nursery, store, folder, Random(), step=0.02)
        gang.pause_one()
        job_workers.torment(gang, memory, job_workers.Gang.kill_one if server is None else server.strike)
        gang.stop()
        assert {name: faults[:5] for name, faults in job_workers.check(memory, gang, JOBS).items() if faults} == {}
    assert gang.kills > 0
    assert gang.begun > JOBS  # some were begun more than once


@pytest.mark.slow
def test_killed_workers_run_every_job_once(nursery: Nursery, tmp_path: Path) -> None:
    done_under_fire(nursery, str(tmp_path / "data"), tmp_path)


@pytest.mark.slow
@pytest.mark.postgres
def test_killed_workers_run_every_job_once_on_crashing_postgres(
    nursery: Nursery, tmp_path: Path, private_postgres: PostgresServer
) -> None:
    server = Postgres(private_postgres)
    done_under_fire(nursery, server.new_store(), tmp_path, server)
