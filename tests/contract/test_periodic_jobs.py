"""Every periodic job runs in a program that is never restarted: while it only appends, and when it runs jobs itself."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.api import jobs
from limpet.api.runtime import Runtime
from limpet.model.job import CONSOLIDATE, DECAY, RETENTION
from limpet.store.jobs import JobLease
from limpet.testing import FakeClock

pytestmark = pytest.mark.every_backend

PERIODIC = (RETENTION, CONSOLIDATE, DECAY)


class Watched:
    """A kind of job that says how often it ran."""

    def __init__(self, kind: jobs.JobKind) -> None:
        self._run, self.runs, self.ran = kind.run, 0, threading.Event()

    def run(self, runtime: Runtime, lease: JobLease) -> datetime | None:
        again = self._run(runtime, lease)
        self.runs += 1
        self.ran.set()
        return again


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> dict[str, Watched]:
    found = {name: Watched(jobs.KINDS[name]) for name in PERIODIC}
    kinds: dict[str, Any] = {name: jobs.KINDS[name]._replace(run=each.run) for name, each in found.items()}
    monkeypatch.setattr(jobs, "KINDS", {**jobs.KINDS, **kinds})
    return found


def open_new_store(url: str, clock: FakeClock, *, worker: bool) -> Limpet:
    settings = {"embedding.model": "none", "jobs.worker": worker, "retention.messages_days": 90, "learn.decay": True}
    memory = Limpet.open(url, config=Config.load(overrides=settings), clock=clock)
    memory.remember("We deployed on Friday", user="alice", layer="episodic")
    return memory


@pytest.mark.parametrize("name", PERIODIC)
def test_periodic_job_runs_in_program_that_stays_open_and_only_appends(
    store_url: str, clock: FakeClock, watched: dict[str, Watched], name: str
) -> None:
    with open_new_store(store_url, clock, worker=True) as memory:
        session = memory.session("c", "1", user="alice")
        for _ in range(4):
            clock.advance(days=2)
            session.append("user", "and on")
            if watched[name].ran.wait(1):
                break
        assert watched[name].ran.wait(60)


def test_periodic_jobs_run_without_worker_each_time_they_are_due(
    store_url: str, clock: FakeClock, watched: dict[str, Watched]
) -> None:
    with open_new_store(store_url, clock, worker=False) as memory:
        memory.jobs.run()
        assert [each.runs for each in watched.values()] == [0, 0, 0]
        for count in (1, 2):
            clock.advance(days=2)
            memory.jobs.run()
            assert {name: each.runs >= count for name, each in watched.items()} == dict.fromkeys(PERIODIC, True)
            memory.remember(f"We deployed on Friday {count}", user="alice", layer="episodic")
