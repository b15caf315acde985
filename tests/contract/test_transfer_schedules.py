"""Schedules and their runs, exported and taken in; and imports that meet a purge."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from limpet import Limpet, Message
from limpet.config import Config, ScheduleSettings
from limpet.errors import LeaseLost
from limpet.lifecycle.lines import KINDS
from limpet.model.schedule import Run, RunStatus, Schedule
from limpet.schedules.repository import Schedules
from limpet.testing import FakeClock
from tests.contract.exports import START, chat, contents, edited, scheduled
from tests.contract.rows import every_row, faults
from tests.contract.schedule_bench import Bench

SAID = "All of them, and the cactus. 🌵 " * 40


@pytest.fixture
def bench(store_url: str, clock: FakeClock) -> Any:
    with Limpet.open(store_url, clock=clock) as memory:
        yield Bench(memory, clock)


def by_attempt(run: Run) -> int:
    return run.attempt


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "data" / f"{kind}.jsonl").read_bytes().splitlines()]


def test_export_covers_every_schedule_field() -> None:
    told = {kind.name: set(kind.line.fields) for kind in KINDS}
    of_schedule = {field.name for field in fields(Schedule)} - {"tenant", "session", "running_until", "note"} | {
        "session_id"
    }
    of_run = {field.name for field in fields(Run)} - {"output_characters"} | {"output"}
    assert told["schedules"] == of_schedule
    assert told["schedule_runs"] == of_run


def test_import_restores_schedules_and_runs_of_purged_user(memory: Limpet, tmp_path: Path) -> None:
    made = scheduled(memory, chat(memory, "alice", 1), "Water the plants", SAID, START, [1, None])
    runs = memory.schedules.runs(made.id)
    other = memory.schedules.create("bob", goal="Feed the cat", cadence="cron: 0 9 * * *")
    memory.transfer.export(tmp_path / "one", "alice")
    assert memory.privacy.purge_user("alice").verified
    assert memory.schedules.search() == [other]
    done = memory.transfer.import_(tmp_path / "one")
    assert (done.schedules, done.left_out, done.already) == (1, 0, False)
    assert memory.schedules.get(made.id, user="alice") == made
    assert memory.schedules.runs(made.id) == runs
    assert {memory.schedules.run_output(run.id, limit=1_000_000).text for run in runs} == {
        SAID * times for times in (1, 101, 201)
    }
    memory.transfer.export(tmp_path / "two", "alice")
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert "Water the plants" in (tmp_path / "one" / "readable" / "schedules.md").read_text()
    assert faults(memory) == []


def test_import_keeps_existing_schedule_unchanged(memory: Limpet, tmp_path: Path) -> None:
    made = scheduled(memory, chat(memory, "alice", 1), "Water the plants", SAID, START, 1)
    memory.transfer.export(tmp_path / "one", "alice")
    memory.schedules.edit(made.id, goal="Water the trees")
    rows = every_row(memory)
    assert memory.transfer.import_(tmp_path / "one").already
    assert every_row(memory) == rows


def test_import_schedules_under_another_user_assigns_new_ids(memory: Limpet, tmp_path: Path) -> None:
    made = scheduled(memory, chat(memory, "alice", 1), "Water the plants", SAID, START, 1)
    runs = memory.schedules.runs(made.id)
    memory.transfer.export(tmp_path / "one", "alice")
    memory.transfer.import_(tmp_path / "one", user="carol")
    [theirs] = memory.schedules.search(user="carol")
    [session] = memory.sessions(user="carol")
    assert theirs == replace(made, id=theirs.id, user="carol", session=session.id)
    assert theirs.id != made.id
    copied = memory.schedules.runs(theirs.id, user="carol")
    own = {run.attempt: run.id for run in copied}
    expected = [replace(run, id=own[run.attempt], schedule_id=theirs.id) for run in runs]
    assert sorted(copied, key=by_attempt) == sorted(expected, key=by_attempt)
    assert not {run.id for run in copied} & {run.id for run in runs}
    assert memory.transfer.import_(tmp_path / "one", user="carol").already
    assert memory.schedules.get(made.id) == made
    assert memory.schedules.runs(made.id) == runs
    with Limpet.open(":memory:") as empty:  # where no id is taken they stay
        empty.transfer.import_(tmp_path / "one", user="carol")
        assert empty.schedules.get(made.id, user="carol").user == "carol"


def test_import_drops_lease_of_running_schedule(bench: Bench, tmp_path: Path) -> None:
    """The lease stays behind: whoever had it has lost it, and the next runner takes the firing."""
    made = bench.make()
    bench.clock.advance(hours=1)
    held = bench.taken()
    bench.memory.transfer.export(tmp_path / "one", "alice")
    assert "running_until" not in lines(tmp_path / "one", "schedules")[0]
    bench.memory.privacy.purge_user("alice")
    bench.memory.transfer.import_(tmp_path / "one")
    assert bench.now(made).running_until is None
    with pytest.raises(LeaseLost):
        bench.store.write(lambda tx: Schedules(tx).lock_leased(made.scope, made.id, held.token))
    assert bench.run() == 1
    [run] = bench.schedules.runs(made.id)
    assert (run.status, run.due_at) == (RunStatus.OK, held.schedule.due_at)
    assert len(bench.told) == 1


def test_import_delivers_pending_run_output_once(bench: Bench, tmp_path: Path) -> None:
    made = bench.make(chat="12", channel="telegram")
    bench.clock.advance(hours=1)
    bench.memory.schedules.run(bench.callback)  # nobody is told
    bench.memory.transfer.export(tmp_path / "one", "alice")
    with Limpet.open(":memory:", clock=bench.clock) as there:
        there.transfer.import_(tmp_path / "one")
        told: list[Any] = []
        there.schedules.run(bench.callback, told.append)
        assert [(one.schedule.id, one.text, one.chat) for one in told] == [(made.id, "done", "12")]
        there.schedules.run(bench.callback, told.append)
        there.transfer.export(tmp_path / "two", "alice")
        with Limpet.open(":memory:", clock=bench.clock) as third:
            third.transfer.import_(tmp_path / "two")
            third.schedules.run(bench.callback, told.append)
    assert len(told) == 1


def test_import_ignores_schedule_limits(memory: Limpet, tmp_path: Path) -> None:
    for number in range(3):
        memory.schedules.create("alice", goal=f"goal {number} " + "long " * 20, cadence="every: 1h")
    memory.transfer.export(tmp_path / "one", "alice")
    strict = Config(schedules=ScheduleSettings(per_user=1, goal_bytes=20, smallest_gap_s=7200))
    with Limpet.open(":memory:", config=strict) as small:
        assert small.transfer.import_(tmp_path / "one").schedules == 3
        assert small.schedules.count(user="alice") == 3


def test_import_keeps_unknown_timezone(memory: Limpet, tmp_path: Path) -> None:
    made = memory.schedules.create("alice", goal="goal", cadence="cron: 0 9 * * *", timezone="Europe/Lisbon")
    memory.transfer.export(tmp_path / "one", "alice")
    edited(tmp_path / "one", "schedules", 0, timezone="Mars/Olympus")
    memory.privacy.purge_user("alice")
    assert memory.transfer.import_(tmp_path / "one").schedules == 1
    assert memory.schedules.get(made.id).timezone == "Mars/Olympus"


def add_run(tx: Any, schedule: Schedule, run: Run) -> None:
    Schedules(tx).add_run(schedule, run, "x" * 1_000_000)


@pytest.mark.long
def test_export_and_import_of_run_outputs_use_constant_memory(tmp_path: Path) -> None:
    peaks = []
    for count in (12, 36):  # a batch is about four
        with Limpet.open(tmp_path / f"from {count}") as source, Limpet.open(tmp_path / f"to {count}") as to:
            made = source.schedules.create("alice", goal="goal", cadence="every: 1h")
            for _ in range(count):
                run = Run(source._runtime.new_id(), made.id, START, START, START, RunStatus.OK)
                source._runtime.store.write(partial(add_run, schedule=made, run=run))
            folder = tmp_path / f"export {count}"
            tracemalloc.start()
            source.transfer.export(folder, "alice")
            exporting = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            to.transfer.import_(folder)
            peaks.append((exporting, tracemalloc.get_traced_memory()[1]))
            tracemalloc.stop()
            assert len(to.schedules.runs(made.id, limit=100)) == count
    (small_out, small_in), (large_out, large_in) = peaks
    assert large_out < 1.2 * small_out + 1_000_000
    assert large_in < 1.2 * small_in + 1_000_000


# An import that was interrupted, and a purge before it goes on


class Stop(Exception):
    pass


def stop_at(kind: str) -> Callable[[str, int, int], None]:
    def progress(stage: str, done: int, total: int) -> None:
        if stage == kind:
            raise Stop

    return progress


@pytest.mark.parametrize("user", ["alice", None])
def test_interrupted_import_restarts_after_purge(memory: Limpet, tmp_path: Path, user: str | None) -> None:
    """Its mark says that what the purge removed is here."""
    for name in ("alice", "bob"):
        chat(memory, name, 1).extend([Message.new("user", f"{name} has a walrus")])
        scheduled(memory, chat(memory, name, 1), f"Wash the walrus of {name}", SAID, START, 1)
    memory.transfer.export(tmp_path / "one", user)
    memory.transfer.export(tmp_path / "all")
    for name in ("alice", "bob"):
        memory.privacy.purge_user(name)
    with pytest.raises(Stop):
        memory.transfer.import_(tmp_path / "one", progress=stop_at("schedules"))
    assert len(every_row(memory)["transfers"]) == 1
    assert memory.privacy.purge_user("alice").verified
    assert every_row(memory)["transfers"] == []
    done = memory.transfer.import_(tmp_path / "one")
    assert done.continued == 0
    memory.transfer.export(tmp_path / "two", user)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    memory.transfer.import_(tmp_path / "all")
    memory.transfer.export(tmp_path / "all again")
    assert contents(tmp_path / "all again") == contents(tmp_path / "all")


def test_import_can_be_repeated_after_purge(memory: Limpet, tmp_path: Path) -> None:
    scheduled(memory, chat(memory, "alice", 1), "Wash the walrus", SAID, START, 1)
    memory.transfer.export(tmp_path / "one")
    for _ in range(2):
        memory.privacy.purge_user("alice")
        assert not memory.transfer.import_(tmp_path / "one").already
        assert memory.transfer.import_(tmp_path / "one").already
    assert faults(memory) == []


def test_export_after_purge_omits_user(memory: Limpet, tmp_path: Path) -> None:
    chat(memory, "bob", 1).append("user", "I stay")
    memory.transfer.export(tmp_path / "one")
    memory.remember("A walrus", user="alice")
    scheduled(memory, chat(memory, "alice", 1), "Wash the walrus", SAID, START + timedelta(days=1), 1)
    memory.privacy.purge_user("alice")
    memory.transfer.export(tmp_path / "two")
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
