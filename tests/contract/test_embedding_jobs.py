"""Jobs that embed: attempts, leases, and who does them."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from limpet import Limpet, Message
from limpet.errors import StorageError
from limpet.model.values import from_micros
from limpet.store.jobs import JobQueue
from limpet.testing import FakeClock
from tests.contract.embedders import Topics, assert_exact, open_with
from tests.contract.processes import run_together
from tests.contract.rows import faults, sql
from tests.contract.test_embedding import FAULTS, _wait, finding, jobs, later, memory, topics, vectors
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend


__all__ = ["later", "memory", "topics"]  # fixtures


# Jobs


def test_embedding_job_dies_after_last_attempt_and_revives_on_enqueue(
    later: Limpet, topics: Topics, clock: FakeClock
) -> None:
    topics.fault = FAULTS["raises"]
    session = later.session("t", "1", user="alice")
    session.append("user", "the puppy slept")
    waits = []
    while later.jobs.run():
        [(run_at,)] = sql(later, "SELECT run_at FROM jobs")
        waits.append(from_micros(run_at) - clock.now)
        clock.advance(hours=2)
    assert len(waits) == 50
    longest = [timedelta(seconds=min(2**attempt, 3600)) for attempt in range(1, 51)]
    assert all(timedelta(0) <= wait <= most for wait, most in zip(waits, longest, strict=True))
    assert len(set(waits)) > 40  # jobs that failed together do not come back together
    assert (jobs(later)[0][1], "broken" in jobs(later)[0][2]) == (1, True)
    assert not finding(later).ok
    assert "1 wait for nothing" in finding(later).detail
    topics.fault = None
    assert later.jobs.run() == 0
    session.append("user", "another")
    assert later.jobs.run() == 1
    assert vectors(later) == (2, 2)
    assert finding(later).ok


def test_doctor_revives_dead_embedding_job(later: Limpet, topics: Topics, clock: FakeClock) -> None:
    topics.fault = FAULTS["raises"]
    later.session("t", "1", user="alice").append("user", "the puppy slept")
    while later.jobs.run():
        clock.advance(hours=2)
    topics.fault = None
    assert finding(later, repair=True).repaired
    assert later.jobs.run() == 1
    assert finding(later).ok


def test_embedding_job_lease_expires_when_worker_dies(later: Limpet, topics: Topics, clock: FakeClock) -> None:
    later.session("t", "1", user="alice").extend([Message.new("user", f"puppy {number}") for number in range(100)])

    def die(found: list[list[float]]) -> Any:
        if len(topics.calls) == 2:
            raise KeyboardInterrupt  # as a kill does: nobody notes anything
        return found

    topics.fault = die
    with pytest.raises(KeyboardInterrupt):
        later.jobs.run()
    assert vectors(later) == (64, 100)
    assert later.jobs.run() == 0
    clock.advance(minutes=4)
    assert later.jobs.run() == 0
    clock.advance(minutes=2)
    assert later.jobs.run() == 1
    assert len(assert_exact(later, topics, "canine", k=200)) == 100
    assert [len(call) for call in topics.calls[:3]] == [64, 36, 36]


def test_embedding_job_picks_up_message_appended_while_it_runs(later: Limpet, topics: Topics) -> None:
    session = later.session("t", "1", user="alice")
    session.append("user", "puppy one")

    def meanwhile(found: list[list[float]]) -> Any:
        topics.fault = None
        session.append("user", "puppy two")
        return found

    topics.fault = meanwhile
    assert later.jobs.run() == 2
    assert vectors(later) == (2, 2)
    assert jobs(later) == []


def test_embedding_job_drops_vector_of_chunk_deleted_meanwhile(later: Limpet, topics: Topics) -> None:
    session = later.session("t", "1", user="alice")
    session.append("user", "puppy one")
    kept = later.remember("puppy kept", user="alice")

    def meanwhile(found: list[list[float]]) -> Any:
        session.clear()
        return found

    topics.fault = meanwhile
    later.jobs.run()
    assert vectors(later) == (1, 1)
    assert [hit.source.id for hit in assert_exact(later, topics, "canine")] == [kept.id]
    assert faults(later) == []


def test_embedding_jobs_run_once_across_threads_and_handles(durable_url: str, topics: Topics) -> None:
    with (
        open_with(durable_url, topics, embedding__when="later") as one,
        open_with(durable_url, topics, embedding__when="later") as two,
    ):
        for user in range(12):
            one.session("t", "1", user=f"user {user}").append("user", f"puppy {user}")
        begun = at_once(lambda at: (one, two)[at % 2].jobs.run(), 4)
        assert sum(begun) == 12
        assert sorted(text for call in topics.calls for text in call) == sorted(f"puppy {user}" for user in range(12))
        assert vectors(one) == (12, 12)


def test_embedding_jobs_run_once_across_processes(durable_url: str, topics: Topics) -> None:
    with open_with(durable_url, topics, embedding__when="later") as memory:
        for user in range(20):
            memory.session("t", "1", user=f"user {user}").append("user", f"puppy {user}")
        code = """
from tests.contract.embedders import Topics, open_with
topics = Topics()
with open_with(given, topics) as memory:
    begin()
    answer([memory.jobs.run(), topics.calls])
"""
        answers = run_together(code, durable_url, count=2)
        assert sum(begun for begun, _ in answers) == 20
        assert len({text for _, calls in answers for call in calls for text in call}) == 20
        assert vectors(memory) == (20, 20)
        assert jobs(memory) == []


def test_worker_survives_temporary_storage_error(
    store_url: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_with(store_url, topics, embedding__when="later") as memory:
        real, failures = JobQueue.claim, iter([True] * 3)

        def take(*arguments: Any) -> Any:
            if next(failures, False):
                raise StorageError("gone for now")
            return real(*arguments)

        monkeypatch.setattr(JobQueue, "claim", take)
        memory.session("t", "1", user="alice").append("user", "the puppy slept")
        for _ in range(4):
            memory.jobs.start_worker()  # wakes it
            time.sleep(0.05)
        _wait(lambda: vectors(memory) == (1, 1))
