"""Vectors come at once or later, from an embedder that may fail in any way; a write never does because of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from limpet import Limpet, Message
from limpet.errors import ProviderError, StorageError
from limpet.model.times import from_micros
from limpet.providers import embedding as use
from limpet.testing import FakeClock
from tests.contract.meaning import Topics, assert_exact, open_with, texts
from tests.contract.processes import run_together
from tests.contract.rows import faults, sql
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend


@pytest.fixture
def topics() -> Topics:
    return Topics()


@pytest.fixture
def hf(store_url: str, topics: Topics, clock: FakeClock) -> Iterator[Limpet]:
    with open_with(store_url, topics, clock) as opened:
        yield opened


@pytest.fixture
def later(store_url: str, topics: Topics, clock: FakeClock) -> Iterator[Limpet]:
    with open_with(store_url, topics, clock, embedding__when="later") as opened:
        yield opened


def vectors(hf: Limpet) -> tuple[int, int]:
    stats = hf.admin.stats()
    return stats["vectors"], stats["chunks"]


def finding(hf: Limpet, *, repair: bool = False) -> Any:
    return next(found for found in hf.admin.doctor(repair=repair) if found.check == "vectors")


def jobs(hf: Limpet) -> list[tuple[Any, ...]]:
    return sql(hf, "SELECT attempts, dead, error FROM jobs WHERE tenant <> ' ' ORDER BY id")


# Faults of an embedder

FAULTS: dict[str, Callable[[list[list[float]]], Any]] = {
    "raises": lambda _: _raise(RuntimeError("broken")),
    "raises ours": lambda _: _raise(ProviderError("down")),
    "one too few": lambda found: found[1:],
    "one too many": lambda found: [*found, found[0]],
    "none": lambda _: None,
    "empty vectors": lambda found: [[] for _ in found],
    "not a number": lambda found: [[float("nan"), *vector[1:]] for vector in found],
    "infinite": lambda found: [[float("inf"), *vector[1:]] for vector in found],
    "far too large": lambda found: [[1e38, *vector[1:]] for vector in found],
    "larger than a float": lambda found: [[10**400, *vector[1:]] for vector in found],
    "words": lambda found: [["x"] * len(vector) for vector in found],
    "mixed lengths": lambda found: [*found[1:], found[0][1:]] if len(found) > 1 else [found[0][1:]],
    "another dimension": lambda found: [vector[:10] for vector in found],
    "very many dimensions": lambda found: [[0.5] * 17_000 for _ in found],
}


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_embedder_costs_the_vectors_only_and_they_come_later(
    store_url: str, topics: Topics, clock: FakeClock, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(use, "_REST_S", 0)
    with open_with(store_url, topics, clock, embedding__when="now") as hf:
        topics.fault = FAULTS[fault]
        session = hf.session("t", "1", user="alice")
        session.append("user", "puppy appended")
        session.extend([Message.new("user", f"puppy extended {number}") for number in range(3)])
        record = hf.remember("puppy remembered", user="alice")
        hf.records.update(record.id, content="puppy updated")
        hf.documents.add("note:1", "puppy document", user="alice")
        assert vectors(hf) == (0, 6)
        assert len(hf.recall("puppy", user="alice")) == 6  # by words
        assert hf.recall("canine", user="alice") == []
        assert hf.recall("canine", user="alice", recipe="vectors") == []
        assert hf.jobs.run() == 1  # which fails as well
        assert vectors(hf) == (0, 6)
        topics.fault = None
        assert hf.jobs.run() == 0  # not yet due again
        clock.advance(minutes=1)
        assert hf.jobs.run() == 1
        assert len(assert_exact(hf, topics, "canine")) == 6
        assert jobs(hf) == []
        assert faults(hf) == []


def test_a_dimension_that_changed_under_the_same_name_is_an_end_not_a_loop(durable_url: str, clock: FakeClock) -> None:
    with open_with(durable_url, Topics("m", 16), clock) as hf:
        hf.session("t", "1", user="alice").append("user", "puppy one")
    with open_with(durable_url, Topics("m", 24), clock, embedding__when="later") as hf:
        hf.session("t", "1", user="alice").extend([Message.new("user", f"puppy {number}") for number in range(600)])
        assert hf.jobs.run() == 1
        assert "dimension" in jobs(hf)[0][2]
        assert len(hf.recall("puppy", user="alice")) == 10
        assert vectors(hf) == (1, 601)
    with open_with(durable_url, Topics("m", 24), clock, embedding__when="now") as hf:
        hf.session("t", "1", user="alice").append("user", "puppy at once")
        assert texts(hf.recall("once", user="alice")) == ["puppy at once"]
    with open_with(durable_url, Topics("m", 16), clock) as hf:
        assert finding(hf, repair=True).repaired is not None
        assert hf.jobs.run() > 0
        assert len(assert_exact(hf, Topics("m", 16), "canine", k=1000)) == 602


def test_a_text_that_cannot_be_embedded_holds_up_no_other(later: Limpet, topics: Topics, clock: FakeClock) -> None:
    topics.refuse = lambda text: "poison" in text
    session = later.session("t", "1", user="alice")
    session.extend([Message.new("user", f"{'poison' if number == 5 else 'puppy'} {number}") for number in range(150)])
    assert later.jobs.run() == 1
    assert vectors(later) == (149, 150)
    assert texts(later.recall("poison", user="alice")) == ["poison 5"]
    session.append("user", "puppy after it")  # asks again, and meets the same text first
    later.jobs.run()
    assert vectors(later) == (150, 151)
    clock.advance(days=1)
    later.jobs.run()
    assert not finding(later).ok
    topics.refuse = lambda _: False
    finding(later, repair=True)
    clock.advance(days=1)
    later.jobs.run()
    assert finding(later).ok


def test_many_texts_that_cannot_be_embedded_are_passed_over_in_the_end(
    later: Limpet, topics: Topics, clock: FakeClock
) -> None:
    topics.refuse = lambda text: "poison" in text
    later.session("t", "1", user="alice").extend([Message.new("user", f"poison {number}") for number in range(7)])
    later.session("t", "1", user="alice").append("user", "puppy behind them")
    for _ in range(5):
        later.jobs.run()
        clock.advance(hours=1)
    assert vectors(later) == (1, 8)


def test_an_embedder_that_fails_is_not_tried_with_every_text(later: Limpet, topics: Topics, clock: FakeClock) -> None:
    topics.fault = FAULTS["raises"]
    later.session("t", "1", user="alice").extend([Message.new("user", f"puppy {number}") for number in range(200)])
    assert later.jobs.run() == 1
    assert len(topics.calls) <= 5


def test_a_question_is_not_asked_of_a_failing_embedder_again_and_again(hf: Limpet, topics: Topics) -> None:
    hf.session("t", "1", user="alice").append("user", "the puppy slept")
    topics.fault = FAULTS["raises"]
    calls = len(topics.calls)
    for _ in range(5):
        assert texts(hf.recall("puppy", user="alice")) == ["the puppy slept"]
    assert len(topics.calls) == calls + 1


def test_the_same_question_is_embedded_once(hf: Limpet, topics: Topics) -> None:
    hf.session("t", "1", user="alice").append("user", "the puppy slept")
    calls = len(topics.calls)
    for recipe in ("default", "vectors", "weighted", "default"):
        hf.recall("canine", user="alice", recipe=recipe)
    assert len(topics.calls) == calls + 1
    hf.recall("canine", user="alice", recipe="words")
    assert len(topics.calls) == calls + 1


# When


def test_now_waits_and_later_does_not(store_url: str, topics: Topics) -> None:
    with open_with(store_url, topics, embedding__when="now") as hf:
        hf.session("t", "1", user="alice").append("user", "the puppy slept")
        assert vectors(hf) == (1, 1)
        assert hf.jobs.run() == 0


def test_later_makes_vectors_only_when_jobs_run(later: Limpet, topics: Topics) -> None:
    session = later.session("t", "1", user="alice")
    session.append("user", "the puppy slept")
    later.remember("an automobile", user="alice")
    assert topics.calls == []
    assert vectors(later) == (0, 2)
    seen: list[tuple[str, int, int]] = []
    assert later.jobs.run(progress=lambda *step: seen.append(step)) == 1
    assert seen == [("jobs", 1, 1)]
    assert vectors(later) == (2, 2)
    assert later.jobs.run() == 0


def test_auto_waits_for_a_quick_embedder_and_not_for_a_slow_one(
    hf: Limpet, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = hf.session("t", "1", user="alice")
    session.append("user", "puppy one")
    assert vectors(hf) == (1, 1)
    now = [0.0]
    monkeypatch.setattr(use, "monotonic", lambda: now[0])
    # A call that takes a second a text, whether it works or not.
    topics.fault = lambda found: (now.__setitem__(0, now[0] + len(found)), found)[1]
    session.append("user", "puppy two")
    calls = len(topics.calls)
    session.append("user", "puppy three")
    assert len(topics.calls) == calls
    assert vectors(hf) == (2, 3)
    topics.fault = None
    assert hf.jobs.run() == 1  # and is seen to be quick again
    session.append("user", "puppy four")
    assert vectors(hf) == (4, 4)


def test_auto_does_not_wait_again_for_one_that_hangs_and_fails(
    hf: Limpet, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = hf.session("t", "1", user="alice")
    session.append("user", "puppy one")
    now = [0.0]
    monkeypatch.setattr(use, "monotonic", lambda: now[0])

    def hang(_: object) -> None:
        now[0] += 30
        raise TimeoutError("no answer")

    topics.fault = hang
    session.append("user", "puppy two")
    calls = len(topics.calls)
    session.append("user", "puppy three")
    assert len(topics.calls) == calls
    assert vectors(hf) == (1, 3)


def test_one_that_says_it_is_not_quick_is_never_waited_for(store_url: str) -> None:
    slow = Topics()
    slow.quick = False  # type: ignore[attr-defined]
    with open_with(store_url, slow) as hf:
        hf.session("t", "1", user="alice").append("user", "the puppy slept")
        assert slow.calls == []
        hf.jobs.run()
        assert texts(hf.recall("canine", user="alice")) == ["the puppy slept"]


def test_a_worker_in_the_background_makes_what_is_missing(store_url: str, topics: Topics) -> None:
    with open_with(store_url, topics, embedding__when="later", embedding__background=True) as hf:
        hf.session("t", "1", user="alice").append("user", "the puppy slept")
        _wait(lambda: vectors(hf) == (1, 1))
        assert texts(hf.recall("canine", user="alice")) == ["the puppy slept"]


def test_a_worker_can_be_started_and_takes_over_what_was_left(durable_url: str, topics: Topics) -> None:
    with open_with(durable_url, topics, embedding__when="later") as hf:
        hf.session("t", "1", user="alice").append("user", "the puppy slept")
    with open_with(durable_url, topics, embedding__when="later") as hf:
        assert topics.calls == []
        hf.jobs.start_worker()
        hf.jobs.start_worker()
        _wait(lambda: vectors(hf) == (1, 1))
    with open_with(durable_url, topics, embedding__when="later", embedding__background=True) as hf:
        hf.session("t", "1", user="alice").append("user", "another")
        _wait(lambda: vectors(hf) == (2, 2))


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_extend_tells_how_far_the_embedding_is(store_url: str, topics: Topics) -> None:
    seen: list[tuple[str, int, int]] = []
    with open_with(store_url, topics, embedding__batch=4) as hf:
        session = hf.session("t", "1", user="alice")
        session.extend([Message.new("user", f"puppy {n}") for n in range(10)], lambda *step: seen.append(step))
        assert seen == [("embedding", 4, 10), ("embedding", 8, 10), ("embedding", 10, 10)]


def test_without_an_embedder_there_is_nothing_to_do(store_url: str) -> None:
    with open_with(store_url, None) as hf:
        hf.session("t", "1", user="alice").append("user", "the puppy slept")
        assert hf.jobs.run() == 0
        hf.jobs.start_worker()


# Jobs


def test_a_job_is_laid_aside_after_its_last_attempt_and_revived_when_asked_again(
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


def test_doctor_revives_what_was_laid_aside(later: Limpet, topics: Topics, clock: FakeClock) -> None:
    topics.fault = FAULTS["raises"]
    later.session("t", "1", user="alice").append("user", "the puppy slept")
    while later.jobs.run():
        clock.advance(hours=2)
    topics.fault = None
    assert finding(later, repair=True).repaired
    assert later.jobs.run() == 1
    assert finding(later).ok


def test_a_worker_that_dies_leaves_its_job_to_the_next_when_its_lease_ends(
    later: Limpet, topics: Topics, clock: FakeClock
) -> None:
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


def test_a_message_that_comes_while_its_job_runs_is_not_forgotten(later: Limpet, topics: Topics) -> None:
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


def test_a_chunk_that_is_gone_before_its_vector_comes_leaves_nothing(later: Limpet, topics: Topics) -> None:
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


def test_threads_and_handles_share_jobs_without_doing_one_twice(durable_url: str, topics: Topics) -> None:
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


def test_processes_share_jobs_without_doing_one_twice(durable_url: str, topics: Topics) -> None:
    with open_with(durable_url, topics, embedding__when="later") as hf:
        for user in range(20):
            hf.session("t", "1", user=f"user {user}").append("user", f"puppy {user}")
        code = """
from tests.contract.meaning import Topics, open_with
topics = Topics()
with open_with(given, topics) as hf:
    begin()
    answer([hf.jobs.run(), topics.calls])
"""
        answers = run_together(code, durable_url, count=2)
        assert sum(begun for begun, _ in answers) == 20
        assert len({text for _, calls in answers for call in calls for text in call}) == 20
        assert vectors(hf) == (20, 20)
        assert jobs(hf) == []


def test_a_worker_outlives_a_store_that_cannot_be_reached_for_a_while(
    store_url: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_with(store_url, topics, embedding__when="later") as hf:
        store: Any = hf._runtime.store
        real, failures = store.claim_job, iter([True] * 3)

        def take(*arguments: Any) -> Any:
            if next(failures, False):
                raise StorageError("gone for now")
            return real(*arguments)

        monkeypatch.setattr(store, "claim_job", take)
        hf.session("t", "1", user="alice").append("user", "the puppy slept")
        for _ in range(4):
            hf.jobs.start_worker()  # wakes it
            time.sleep(0.05)
        _wait(lambda: vectors(hf) == (1, 1))


# Another model


def test_search_goes_on_while_another_model_takes_over(durable_url: str, clock: FakeClock) -> None:
    old, new = Topics("old"), Topics("new")
    with open_with(durable_url, old, clock) as hf:
        session = hf.session("t", "1", user="alice")
        session.extend([Message.new("user", f"puppy {number}") for number in range(600)])
        hf.remember("puppy of bob", user="bob")
        assert finding(hf).ok
    with open_with(durable_url, new, clock) as hf:
        assert len(hf.recall("puppy", user="alice")) == 10  # by words: no vector of the new model yet
        assert hf.recall("canine", user="alice") == []
        assert "0 of 601" in finding(hf).detail
        assert "2 jobs at work" in finding(hf).detail
        assert [hf.jobs.run(until_idle=False) for _ in range(2)] == [1, 1]  # a batch of each user's, in any order
        assert "513 of 601" in finding(hf).detail
        assert len(assert_exact(hf, new, "canine", k=1000)) == 512
        assert len(hf.recall("puppy", user="alice", k=600, recipe="words")) == 600
        hf.session("t", "1", user="alice").append("user", "puppy meanwhile")
        hf.jobs.run()
        assert len(assert_exact(hf, new, "canine", k=1000)) == 601
        after = finding(hf)
        assert (after.ok, "601 vectors of old are no longer used" in after.detail) == (False, True)
        assert finding(hf, repair=True).repaired
        assert finding(hf).ok
        assert vectors(hf) == (602, 602)


def test_vectors_of_two_models_are_never_compared(durable_url: str, clock: FakeClock) -> None:
    """The same directions under another name mean something else: here, the very opposite."""
    one, other = Topics("one"), Topics("other")
    with open_with(durable_url, one, clock) as hf:
        hf.session("t", "1", user="alice").append("user", "puppy one")
    other.vector = lambda text: -Topics.vector(one, text)  # type: ignore[method-assign]
    with open_with(durable_url, other, clock) as hf:
        assert hf.recall("puppy one", user="alice", recipe="vectors") == []
        hf.session("t", "1", user="alice").append("user", "puppy two")
        assert texts(hf.recall("puppy one", user="alice", recipe="vectors")) == ["puppy two"]
        hf.jobs.run()
        assert texts(assert_exact(hf, other, "puppy one")) == ["puppy one", "puppy two"]
        assert vectors(hf) == (3, 2)


def test_going_back_to_a_model_finds_its_vectors_again(durable_url: str, clock: FakeClock) -> None:
    old, new = Topics("old"), Topics("new")
    with open_with(durable_url, old, clock) as hf:
        session = hf.session("t", "1", user="alice")
        session.extend([Message.new("user", f"puppy {number}") for number in range(10)])
    with open_with(durable_url, new, clock) as hf:
        hf.load_session(session.id).append("user", "puppy of the new")
        hf.jobs.run(until_idle=True)
        hf.forget(hf.remember("puppy forgotten", user="alice").id)
    calls = len(old.calls)
    with open_with(durable_url, old, clock) as hf:
        assert len(assert_exact(hf, old, "canine", k=100)) == 10  # at once
        assert hf.jobs.run() == 1
        assert [text for call in old.calls[calls:] for text in call if text != "canine"] == ["puppy of the new"]
        assert len(assert_exact(hf, old, "canine", k=100)) == 11


def test_a_process_without_the_embedder_leaves_its_vectors_to_one_that_has_it(
    durable_url: str, topics: Topics, clock: FakeClock
) -> None:
    with open_with(durable_url, topics, clock) as hf:
        hf.session("t", "1", user="alice").append("user", "puppy one")
    with open_with(durable_url, None, clock) as hf:
        hf.session("t", "1", user="alice").append("user", "puppy two")
        hf.remember("puppy three", user="alice")
        hf.documents.add("note:1", "puppy four", user="alice")
        assert finding(hf).ok
        assert hf.jobs.run() == 0
    with open_with(durable_url, topics, clock) as hf:
        assert hf.jobs.run() == 1
        assert len(assert_exact(hf, topics, "canine")) == 4
