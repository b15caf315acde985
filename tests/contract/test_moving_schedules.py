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
from tests.contract.rows import every_row, faults
from tests.contract.scheduling import Bench
from tests.contract.whole import START, chat, contents, edited, scheduled

SAID = "All of them, and the cactus. 🌵 " * 40


@pytest.fixture
def bench(store_url: str, clock: FakeClock) -> Any:
    with Limpet.open(store_url, clock=clock) as hf:
        yield Bench(hf, clock)


def by_attempt(run: Run) -> int:
    return run.attempt


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "data" / f"{kind}.jsonl").read_bytes().splitlines()]


def test_every_field_is_exported() -> None:
    told = {kind.name: set(kind.line.fields) for kind in KINDS}
    of_schedule = {field.name for field in fields(Schedule)} - {"tenant", "session", "running_until"} | {"session_id"}
    of_run = {field.name for field in fields(Run)} - {"output_characters"} | {"output"}
    assert told["schedules"] == of_schedule
    assert told["schedule_runs"] == of_run


def test_a_purged_users_schedules_come_back_with_all_they_said(hf: Limpet, tmp_path: Path) -> None:
    made = scheduled(hf, chat(hf, "alice", 1), "Water the plants", SAID, START, [1, None])
    runs = hf.schedules.runs(made.id)
    other = hf.schedules.create("bob", "Feed the cat", "cron: 0 9 * * *")
    hf.transfer.export(tmp_path / "one", "alice")
    assert hf.privacy.purge_user("alice").verified
    assert hf.schedules.search() == [other]
    done = hf.transfer.import_(tmp_path / "one")
    assert (done.schedules, done.left_out, done.already) == (1, 0, False)
    assert hf.schedules.get(made.id, user="alice") == made
    assert hf.schedules.runs(made.id) == runs
    assert {hf.schedules.run_output(run.id, limit=1_000_000).text for run in runs} == {
        SAID * times for times in (1, 101, 201)
    }
    hf.transfer.export(tmp_path / "two", "alice")
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert "Water the plants" in (tmp_path / "one" / "readable" / "schedules.md").read_text()
    assert faults(hf) == []


def test_one_that_is_here_is_neither_doubled_nor_changed(hf: Limpet, tmp_path: Path) -> None:
    made = scheduled(hf, chat(hf, "alice", 1), "Water the plants", SAID, START, 1)
    hf.transfer.export(tmp_path / "one", "alice")
    hf.schedules.edit(made.id, goal="Water the trees")
    rows = every_row(hf)
    assert hf.transfer.import_(tmp_path / "one").already
    assert every_row(hf) == rows


def test_under_another_name_they_are_the_others_own(hf: Limpet, tmp_path: Path) -> None:
    made = scheduled(hf, chat(hf, "alice", 1), "Water the plants", SAID, START, 1)
    runs = hf.schedules.runs(made.id)
    hf.transfer.export(tmp_path / "one", "alice")
    hf.transfer.import_(tmp_path / "one", user="carol")
    [theirs] = hf.schedules.search(user="carol")
    [session] = hf.sessions(user="carol")
    assert theirs == replace(made, id=theirs.id, user="carol", session=session.id)
    assert theirs.id != made.id
    copied = hf.schedules.runs(theirs.id, user="carol")
    own = {run.attempt: run.id for run in copied}
    expected = [replace(run, id=own[run.attempt], schedule_id=theirs.id) for run in runs]
    assert sorted(copied, key=by_attempt) == sorted(expected, key=by_attempt)
    assert not {run.id for run in copied} & {run.id for run in runs}
    assert hf.transfer.import_(tmp_path / "one", user="carol").already
    assert hf.schedules.get(made.id) == made
    assert hf.schedules.runs(made.id) == runs
    with Limpet.open(":memory:") as empty:  # where no id is taken they stay
        empty.transfer.import_(tmp_path / "one", user="carol")
        assert empty.schedules.get(made.id, user="carol").user == "carol"


def test_what_runs_elsewhere_does_not_run_here(bench: Bench, tmp_path: Path) -> None:
    """The lease stays behind: whoever had it has lost it, and the next runner takes the firing."""
    made = bench.make()
    bench.clock.advance(hours=1)
    held = bench.taken()
    bench.hf.transfer.export(tmp_path / "one", "alice")
    assert "running_until" not in lines(tmp_path / "one", "schedules")[0]
    bench.hf.privacy.purge_user("alice")
    bench.hf.transfer.import_(tmp_path / "one")
    assert bench.now(made).running_until is None
    with pytest.raises(LeaseLost):
        bench.store.write(lambda tx: Schedules(tx).lock_leased(made.scope, held))
    assert bench.run() == 1
    [run] = bench.schedules.runs(made.id)
    assert (run.status, run.due_at) == (RunStatus.OK, held.schedule.due_at)
    assert len(bench.told) == 1


def test_what_was_to_be_told_is_told_there(bench: Bench, tmp_path: Path) -> None:
    made = bench.make(chat="12", channel="telegram")
    bench.clock.advance(hours=1)
    bench.hf.schedules.run(bench.callback)  # nobody is told
    bench.hf.transfer.export(tmp_path / "one", "alice")
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


def test_a_limit_loses_nothing(hf: Limpet, tmp_path: Path) -> None:
    for number in range(3):
        hf.schedules.create("alice", f"goal {number} " + "long " * 20, "every: 1h")
    hf.transfer.export(tmp_path / "one", "alice")
    strict = Config(schedules=ScheduleSettings(per_user=1, goal_bytes=20, smallest_gap_s=7200))
    with Limpet.open(":memory:", config=strict) as small:
        assert small.transfer.import_(tmp_path / "one").schedules == 3
        assert small.schedules.count(user="alice") == 3


def test_a_zone_nobody_knows_here_is_kept(hf: Limpet, tmp_path: Path) -> None:
    made = hf.schedules.create("alice", "goal", "cron: 0 9 * * *", "Europe/Lisbon")
    hf.transfer.export(tmp_path / "one", "alice")
    edited(tmp_path / "one", "schedules", 0, timezone="Mars/Olympus")
    hf.privacy.purge_user("alice")
    assert hf.transfer.import_(tmp_path / "one").schedules == 1
    assert hf.schedules.get(made.id).timezone == "Mars/Olympus"


def add_run(tx: Any, schedule: Schedule, run: Run) -> None:
    Schedules(tx).add_run(schedule.scope, run, "x" * 1_000_000)


@pytest.mark.slow
def test_memory_stays_flat_however_much_runs_said(tmp_path: Path) -> None:
    peaks = []
    for count in (12, 36):  # a batch is about four
        with Limpet.open(tmp_path / f"from {count}") as source, Limpet.open(tmp_path / f"to {count}") as to:
            made = source.schedules.create("alice", "goal", "every: 1h")
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
def test_an_interrupted_import_begins_anew_after_a_purge(hf: Limpet, tmp_path: Path, user: str | None) -> None:
    """Its mark says that what the purge removed is here."""
    for name in ("alice", "bob"):
        chat(hf, name, 1).extend([Message.new("user", f"{name} has a walrus")])
        scheduled(hf, chat(hf, name, 1), f"Wash the walrus of {name}", SAID, START, 1)
    hf.transfer.export(tmp_path / "one", user)
    hf.transfer.export(tmp_path / "all")
    for name in ("alice", "bob"):
        hf.privacy.purge_user(name)
    with pytest.raises(Stop):
        hf.transfer.import_(tmp_path / "one", progress=stop_at("schedules"))
    assert len(every_row(hf)["transfers"]) == 1
    assert hf.privacy.purge_user("alice").verified
    assert every_row(hf)["transfers"] == []
    done = hf.transfer.import_(tmp_path / "one")
    assert done.continued == 0
    hf.transfer.export(tmp_path / "two", user)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    hf.transfer.import_(tmp_path / "all")
    hf.transfer.export(tmp_path / "all again")
    assert contents(tmp_path / "all again") == contents(tmp_path / "all")


def test_an_import_that_is_done_can_be_done_again_after_a_purge(hf: Limpet, tmp_path: Path) -> None:
    scheduled(hf, chat(hf, "alice", 1), "Wash the walrus", SAID, START, 1)
    hf.transfer.export(tmp_path / "one")
    for _ in range(2):
        hf.privacy.purge_user("alice")
        assert not hf.transfer.import_(tmp_path / "one").already
        assert hf.transfer.import_(tmp_path / "one").already
    assert faults(hf) == []


def test_what_is_left_of_a_purged_user_is_not_exported(hf: Limpet, tmp_path: Path) -> None:
    chat(hf, "bob", 1).append("user", "I stay")
    hf.transfer.export(tmp_path / "one")
    hf.remember("A walrus", user="alice")
    scheduled(hf, chat(hf, "alice", 1), "Wash the walrus", SAID, START + timedelta(days=1), 1)
    hf.privacy.purge_user("alice")
    hf.transfer.export(tmp_path / "two")
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
