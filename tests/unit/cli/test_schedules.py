from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import Limpet
from limpet.cli import serve as worker
from limpet.model.values import system_clock
from limpet.providers.fakes import FakeLlm
from limpet.schedules.runner import RunHandlers, Runner

UNKNOWN = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def made(run: Any) -> dict[str, Any]:
    found: dict[str, Any] = run(
        *("schedule", "create", "Water the plants", "--user", "ana", "--cadence", "cron: 0 9 * * *"),
        *("--timezone", "Europe/Lisbon", "--channel", "telegram", "--chat", "12", "--notify", "conditional", "--json"),
    ).json
    return found


def ran(data: Path, said: str) -> None:
    """All that is due in two days has run by then."""
    with Limpet.open(data) as memory:
        later = system_clock() + timedelta(days=2)
        runtime = memory._runtime
        runner = Runner(runtime.store, lambda: later, memory.config.schedules, runtime.new_id)
        runner.run(RunHandlers(lambda firing: said, None, lambda schedule: None), until_idle=True)


def test_schedule_commands_report_empty_results(run):
    assert run("schedule").out == "No schedules yet: limpet schedule create makes one.\n"
    assert run("schedule", "list", "--user", "ana").out == "No such schedules.\n"
    assert run("schedule", "--offset", "3").out.startswith("No entries so far down.")
    assert run("schedule", "due").out == "Nothing is due.\n"
    assert run("schedule", "list", "--json").json == []


def test_schedule_create_and_show_use_schedule_timezone(run, made):
    assert (made["user"], made["timezone"], made["notify"]) == ("ana", "Europe/Lisbon", "conditional")
    listed = run("schedule").out.splitlines()
    assert listed[0].split() == ["ID", "STATE", "USER", "NEXT", "CADENCE", "FAILED", "GOAL"]
    assert " 09:00 WE" in listed[1]  # the terminal is in Tokyo
    shown = run("schedule", "show", made["id"]).out
    assert "telegram 12" in shown
    assert " 09:00 WE" in shown
    assert "nothing has run schedules" in made["note"]
    stored = {**made, "note": None}  # only creating one says so
    assert run("schedule", "show", made["id"], "--json").json == stored
    assert run("schedule", "--text", "PLANTS", "--json").json == [stored]
    assert run("schedule", "create", "x", "--user", "ana", "--cadence", "every: 1h").out.startswith("Schedule ")


def test_schedule_pause_resume_edit_and_delete(run, made):
    assert run("schedule", "pause", made["id"]).out == f"Schedule {made['id']}: paused.\n"
    assert run("schedule", "--state", "paused", "--json").json[0]["next_run_at"] is None
    assert "active, runs next at" in run("schedule", "resume", made["id"], "--user", "ana").out
    edited = run(
        "schedule", "edit", made["id"], "--cadence", "every: 2h", "--max-runs", "3", "--goal", "Rest", "--json"
    )
    assert (edited.json["cadence"], edited.json["max_runs"], edited.json["goal"]) == ("every: 2h", 3, "Rest")
    assert run("schedule", "delete", made["id"]).out == f"Schedule {made['id']} deleted.\n"
    assert run("schedule", "--json").json == []


def test_schedule_runs_and_output_show_results(run, made, data):
    assert run("schedule", "runs", made["id"]).out == "It has not run yet.\n"
    ran(data, "line one\nline two\x1b[2J" + "x" * 9000)
    header, row = run("schedule", "runs", made["id"]).out.splitlines()
    assert header.split()[:3] == ["RUN", "STATUS", "DUE"]
    assert " ok " in row
    [found] = run("schedule", "runs", made["id"], "--json").json
    assert (found["status"], found["output_characters"]) == ("ok", 9021)
    said = run("schedule", "output", found["id"]).out
    assert said.startswith("line one\nline two\\x1b[2Jxxx")
    assert len(run("schedule", "output", found["id"], "--json").json["output"]) == 9021


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("create", "x", "--user", "u"), 2, "--cadence"),
        (("create", "x", "--user", "u", "--cadence", "now and then"), 1, "cron: 0 9 * * 1-5"),
        (("create", "x", "--user", "u", "--cadence", "every: 1s"), 1, "at least 60"),
        (("edit", UNKNOWN), 2, "what to change"),
        (("show", UNKNOWN), 1, "no schedule"),
        (("output", UNKNOWN), 1, "no run"),
    ],
)
def test_schedule_errors_are_one_line(run, made, arguments, status, says):
    done = run("schedule", *arguments)
    assert done.status == status
    assert says in done.err
    assert len(done.err.splitlines()) == 1


def test_schedule_of_another_user_is_not_found(run, made):
    assert "no schedule" in run("schedule", "show", made["id"], "--user", "ben").err
    assert "no schedule" in run("schedule", "delete", made["id"], "--tenant", "acme").err


def test_worker_without_llm_warns_that_schedules_wait(run, made):
    done = run("worker", "--schedules", "--until-idle")
    assert "schedules wait" in done.err
    assert run("worker", "--until-idle").err == ""


def test_worker_runs_due_schedule_with_llm(run, data, monkeypatch):
    made = run(
        "schedule", "create", "Say hello", "--user", "ana", "--cadence", "every: 1h", "--chat", "12", "--json"
    ).json
    with Limpet.open(data) as memory:  # an hour ago
        past = system_clock() - timedelta(minutes=1)
        memory._runtime.store.write(
            lambda tx: tx.db.execute_sql(
                "UPDATE schedules SET next_run_at = :at, due_at = :at", {"at": int(past.timestamp() * 1e6)}
            )
        )
    model = FakeLlm(["[NOTIFY] Hello, Ana!"])
    monkeypatch.setattr("limpet.api.runtime.select_llm", lambda given, config: model)
    done = run("worker", "--schedules", "--until-idle", "--json")
    assert done.json["schedules"] == 1
    [told] = done.json["notifications"]
    assert (told["user"], told["chat"], told["text"]) == ("ana", "12", "Hello, Ana!")
    with Limpet.open(data) as memory:
        [run_] = memory.schedules.runs(made["id"])
        assert (run_.status, run_.notified, run_.turns) == ("ok", True, 1)
        [session] = memory.sessions(user="ana", channel=worker.CHANNEL)
        kept = memory.load_session(session.id).messages()
        assert [message.role.value for message in kept] == ["user", "assistant"]
        assert kept[0].text.endswith("Say hello")
    assert json.loads(run("schedule", "show", made["id"], "--json").out)["run_count"] == 1


def test_schedule_create_says_once_that_nothing_runs_schedules(run):
    told = run("schedule", "create", "x", "--user", "ana", "--cadence", "every: 1h")
    assert told.status == 0
    assert told.err.count("nothing has run schedules in this store yet: `limpet worker --schedules` does") == 1
