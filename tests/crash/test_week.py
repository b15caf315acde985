"""Two runners through a week whose clocks jump, killed at random moments: each firing once in effect, none lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count, islice
from pathlib import Path
from random import Random

import pytest

from tests.crash import week
from tests.crash.nursery import Nursery
from tests.crash.torture import Postgres
from tests.postgres_server import PostgresServer


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as opened:
        yield opened


def lived(nursery: Nursery, stores: Iterator[str], folder: Path, server: Postgres | None = None) -> None:
    """A clock that jumps ahead for days may let most of a week pass: then another is lived. Each of them is checked."""
    for number, store in enumerate(islice(stores, 3)):
        (place := folder / f"week-{number}").mkdir()
        chance = Random()
        week.fill(store, chance, short=True)
        crew = week.Crew(nursery, store, place, chance)
        with week.open_patiently(store, crew.time) as hf:
            week.live(crew, hf, week.Crew.kill_one if server is None else server.strike)
        crew.stop()
        with week.catch_up(store) as hf:
            found = week.Found(hf)
            faults = week.check(hf, crew, found)
        assert {name: broken[:5] for name, broken in faults.items() if broken} == {}
        assert crew.kills > 5
        assert crew.begun > found.fired  # some were begun more than once
        if found.fired > found.meant * 0.7:
            return
    pytest.fail("three weeks were slept through")


@pytest.mark.slow
def test_a_week_with_kills_and_jumping_clocks(nursery: Nursery, tmp_path: Path) -> None:
    lived(nursery, (str(tmp_path / f"data-{number}") for number in count()), tmp_path)


@pytest.mark.slow
@pytest.mark.postgres
def test_a_week_on_a_server_that_is_struck(nursery: Nursery, tmp_path: Path, private_postgres: PostgresServer) -> None:
    server = Postgres(private_postgres)
    lived(nursery, (server.new_store() for _ in count()), tmp_path, server)


def test_the_check_would_show_what_fired_twice_or_never(tmp_path: Path) -> None:
    """A week of which nobody ran anything, and then one firing is recorded twice and another is lost."""
    store = str(tmp_path / "data")
    week.fill(store, Random(1), short=True)
    with week.open_patiently(store, lambda: week.START + timedelta(hours=3)) as hf:
        while hf.schedules.run(lambda firing: firing.key):
            pass
        keeper = hf._runtime.store
        keeper.write(  # a second end of the same firing
            lambda tx: tx.db.execute_sql(
                "INSERT INTO schedule_runs (bucket, partition_id, id, schedule_id, due_at, started_at, ended_at,"
                " status, attempt, missed, summary, output, characters, turns, cost_nanos)"
                " SELECT bucket, partition_id, 'second', schedule_id, due_at, 0, 0, 'ok', 1, 0, '', '', 0, 0, 0"
                " FROM schedule_runs LIMIT 1"
            )
        )
        crew = type("Crew", (), {"accidents": ["one"]})
        broken = {name for name, faults in week.check(hf, crew, week.Found(hf)).items() if faults}  # type: ignore[arg-type]
    assert broken == {
        "no firing came about twice",
        "no firing is lost: each came about, or was counted as missed",
        "what comes once came once",
        "no runner ended by itself",
    }
