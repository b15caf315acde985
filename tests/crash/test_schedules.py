"""Two runners through a week whose clocks jump, killed at random moments: each firing once in effect, none lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count, islice
from pathlib import Path
from random import Random

import pytest

from tests.crash import schedule_runners
from tests.crash.fork_server import Nursery
from tests.crash.torture import Postgres
from tests.postgres_server import PostgresServer


def lived(nursery: Nursery, stores: Iterator[str], folder: Path, server: Postgres | None = None) -> None:
    """A clock that jumps ahead for days may let most of a week pass: then another is lived. Each of them is checked."""
    for number, store in enumerate(islice(stores, 3)):
        (place := folder / f"week-{number}").mkdir()
        chance = Random()
        schedule_runners.fill(store, chance, short=True)
        crew = schedule_runners.Crew(nursery, store, place, chance)
        with schedule_runners.open_patiently(store, crew.time) as memory:
            schedule_runners.live(crew, memory, schedule_runners.Crew.kill_one if server is None else server.strike)
        crew.stop()
        with schedule_runners.catch_up(store) as memory:
            found = schedule_runners.Found(memory)
            faults = schedule_runners.check(memory, crew, found)
        assert {name: broken[:5] for name, broken in faults.items() if broken} == {}
        assert crew.kills > 5
        assert crew.begun > found.fired  # some were begun more than once
        if found.fired > found.meant * 0.7:
            return
    pytest.fail("three weeks were slept through")


@pytest.mark.slow
def test_schedules_fire_once_with_killed_runners_and_clock_jumps(nursery: Nursery, tmp_path: Path) -> None:
    lived(nursery, (str(tmp_path / f"data-{number}") for number in count()), tmp_path)


@pytest.mark.slow
@pytest.mark.postgres
def test_schedules_fire_once_on_crashing_postgres(
    nursery: Nursery, tmp_path: Path, private_postgres: PostgresServer
) -> None:
    server = Postgres(private_postgres)
    lived(nursery, (server.new_store() for _ in count()), tmp_path, server)


def test_schedule_check_detects_firings_run_twice_or_never(tmp_path: Path) -> None:
    """A week of which nobody ran anything, and then one firing is recorded twice and another is lost."""
    store = str(tmp_path / "data")
    schedule_runners.fill(store, Random(1), short=True)
    with schedule_runners.open_patiently(store, lambda: schedule_runners.START + timedelta(hours=3)) as memory:
        while memory.schedules.run(lambda firing: firing.key):
            pass
        keeper = memory._runtime.store
        keeper.write(  # a second end of the same firing
            lambda tx: tx.db.execute_sql(
                "INSERT INTO schedule_runs (bucket, partition_id, id, schedule_id, due_at, started_at, ended_at,"
                " status, attempt, missed, summary, output, characters, turns, cost_nanos)"
                " SELECT bucket, partition_id, 'second', schedule_id, due_at, 0, 0, 'ok', 1, 0, '', '', 0, 0, 0"
                " FROM schedule_runs LIMIT 1"
            )
        )
        crew = type("Crew", (), {"accidents": ["one"]})
        found = schedule_runners.Found(memory)
        faults = schedule_runners.check(memory, crew, found)  # type: ignore[arg-type]
        broken = {name for name, examples in faults.items() if examples}
    assert broken == {
        "no firing came about twice",
        "no firing is lost: each came about, or was counted as missed",
        "what comes once came once",
        "no runner ended by itself",
    }
