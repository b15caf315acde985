"""Two workers, killed and held up at random moments: every job is done, none twice in effect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.crash import labour
from tests.crash.nursery import Nursery
from tests.crash.torture import Postgres
from tests.postgres_server import PostgresServer

JOBS = 300


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as opened:
        yield opened


def test_count_would_show_a_job_that_was_done_twice(tmp_path: Path) -> None:
    with labour.open_patiently(str(tmp_path / "data")) as hf:
        labour.ask(hf, 3)
        for detail in ("0", "1", "1"):
            hf._runtime.store.write(lambda tx, detail=detail: labour.count(tx, detail))  # type: ignore[misc]
        gang = type("Gang", (), {"accidents": []})
        found = labour.check(hf, gang, 3)  # type: ignore[arg-type]
    broken = {name: faults for name, faults in found.items() if faults}
    assert broken["every job was done"] == ["2"]
    assert broken["no job was done twice in effect"] == ["1: 2"]
    assert len(broken["no job is left"]) == 3


def done_under_fire(nursery: Nursery, store: str, folder: Path, server: Postgres | None = None) -> None:
    with labour.open_patiently(store) as hf:
        labour.ask(hf, JOBS)
        gang = labour.Gang(nursery, store, folder, Random(), step=0.02)
        gang.pause_one()
        labour.torment(gang, hf, labour.Gang.kill_one if server is None else server.strike)
        gang.stop()
        assert {name: faults[:5] for name, faults in labour.check(hf, gang, JOBS).items() if faults} == {}
    assert gang.kills > 0
    assert gang.begun > JOBS  # some were begun more than once


@pytest.mark.slow
def test_killed_workers_do_every_job_once(nursery: Nursery, tmp_path: Path) -> None:
    done_under_fire(nursery, str(tmp_path / "data"), tmp_path)


@pytest.mark.slow
@pytest.mark.postgres
def test_killed_workers_do_every_job_once_on_a_server_that_is_struck(
    nursery: Nursery, tmp_path: Path, private_postgres: PostgresServer
) -> None:
    server = Postgres(private_postgres)
    done_under_fire(nursery, server.new_store(), tmp_path, server)
