from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import Limpet
from limpet.model.scope import Level, Partition
from limpet.model.values import system_clock
from limpet.store.jobs import JobQueue, Jobs


@pytest.fixture(autouse=True)
def no_graph(monkeypatch):
    """Whatever is said asks to be read for the graph; these tests count other jobs."""
    monkeypatch.setenv("LIMPET_GRAPH_ENABLED", "false")


@pytest.fixture
def failed(data: Path) -> list[int]:
    """Three jobs of a kind that always fails, two of which are dead; a tenant's own beside them."""
    with Limpet.open(data) as memory:
        store: Any = memory._runtime.store
        now = system_clock()
        owners = (("default", "ana"), ("default", "ben"), ("default", "cleo"), ("acme", "dan"))
        for at, (tenant, owner) in enumerate(owners):
            space, when = Partition(tenant, Level.USER, owner), now - timedelta(seconds=len(owners) - at)
            store.write(lambda tx, space=space, when=when: Jobs(tx).enqueue(space, "stubborn", "x", when))
        dead = []
        for _ in range(2):
            job = JobQueue(store).claim([("stubborn", "")], now, now - now)
            assert job is not None
            JobQueue(store).fail(job, "the model\nsaid no", now, dead=True)
            dead.append(job.id)
        [waiting] = [job.id for job in memory.jobs.list(state="waiting")]
    return [*dead, waiting]


def test_jobs_list_shows_waiting_and_dead_jobs(run, failed):
    done = run("jobs")
    header, *rows = done.out.splitlines()
    assert header.split() == ["ID", "KIND", "STATE", "RUNS", "NEXT", "OF", "LAST", "ERROR"]
    assert [row.split()[:3] for row in rows] == [
        [str(failed[2]), "stubborn", "waiting"],
        [str(failed[0]), "stubborn", "dead"],
        [str(failed[1]), "stubborn", "dead"],
    ]
    assert rows[1].split()[5:] == ["user", "ana", "the", "model", "said", "no"]
    dead = run("jobs", "list", "--state", "dead", "--json").json
    assert [(job["id"], job["owner"], job["attempts"], job["error"]) for job in dead] == [
        (failed[0], "ana", 1, "the model\nsaid no"),
        (failed[1], "ben", 1, "the model\nsaid no"),
    ]
    assert run("jobs", "--kind", "embed").out == "No such jobs.\n"
    assert run("jobs", "--offset", "9").out == "No entries so far down. Leave --offset out to see the first.\n"
    assert "--offset 1 shows the next" in run("jobs", "--limit", "1").out
    assert [job["owner"] for job in run("jobs", "--tenant", "acme", "--json").json] == ["dan"]


def test_jobs_list_reports_empty_queue(run, talk):
    assert run("jobs").out == "No jobs: all background work is done.\n"
    assert run("jobs", "--json").json == []


def test_jobs_retry_and_drop_only_dead_jobs(run, failed):
    assert run("jobs", "retry").status == 2
    first, second, third = map(str, failed)
    assert run("jobs", "retry", first, "--all").status == 2
    assert run("jobs", "retry", first, "--tenant", "acme").out == "0 jobs queued to run again.\n"
    assert run("jobs", "retry", first, third).out == "1 job queued to run again.\n"
    assert run("jobs", "drop", first, second, third, "--json").json == {"dropped": 1}
    assert [job["id"] for job in run("jobs", "--json").json] == [int(third), int(first)]
    assert run("jobs", "retry", "--all", "--json").json == {"retried": 0}
    assert run("jobs", "drop").status == 2


def test_jobs_run_and_worker_run_pending_jobs(run, talk, monkeypatch):
    monkeypatch.setenv("LIMPET_EMBEDDING_MODEL", "hashed")
    assert run("jobs", "run", "--json").json["jobs"] == 1
    assert run("jobs", "run", "--until-idle").out == "0 jobs run.\n"
    assert run("worker", "--once").out == "0 jobs run.\n"
    assert run("worker", "--once", "--until-idle").status == 2


def test_worker_and_jobs_run_fail_without_store(run):
    assert run("worker").status == 1
    assert "no store" in run("jobs", "run").err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_worker_exits_cleanly_on_signal(talk, data, number):
    command = [sys.executable, "-m", "limpet", "worker", "-v"]
    env = {**os.environ, "LIMPET_EMBEDDING_MODEL": "hashed"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True) as process:
        assert process.stderr is not None
        assert "(embed) ran for" in process.stderr.readline()
        time.sleep(0.2)  # it waits for more now
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "1 job run.\n")
    with Limpet.open(data) as memory:
        assert memory.jobs.list() == []
