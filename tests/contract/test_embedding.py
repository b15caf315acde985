"""Vectors come at once or later, from an embedder that may fail in any way; a write never does because of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from limpet import Limpet, Message
from limpet.errors import ProviderError
from limpet.search import embed as use
from limpet.testing import FakeClock
from tests.contract.embedders import Topics, assert_exact, open_with, texts
from tests.contract.rows import faults, sql

pytestmark = pytest.mark.every_backend


@pytest.fixture
def topics() -> Topics:
    return Topics()


@pytest.fixture
def memory(store_url: str, topics: Topics, clock: FakeClock) -> Iterator[Limpet]:
    with open_with(store_url, topics, clock) as opened:
        yield opened


@pytest.fixture
def later(store_url: str, topics: Topics, clock: FakeClock) -> Iterator[Limpet]:
    with open_with(store_url, topics, clock, embedding__when="later") as opened:
        yield opened


def vectors(memory: Limpet) -> tuple[int, int]:
    stats = memory.admin.stats()
    return stats["vectors"], stats["chunks"]


def finding(memory: Limpet, *, repair: bool = False) -> Any:
    return next(found for found in memory.admin.doctor(repair=repair) if found.check == "vectors")


def jobs(memory: Limpet) -> list[tuple[Any, ...]]:
    return sql(memory, "SELECT attempts, dead, error FROM jobs WHERE tenant <> ' ' ORDER BY id")


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
def test_faulty_embedder_only_delays_vectors(
    store_url: str, topics: Topics, clock: FakeClock, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(use, "_REST_S", 0)
    with open_with(store_url, topics, clock, embedding__when="now") as memory:
        topics.fault = FAULTS[fault]
        session = memory.session("t", "1", user="alice")
        session.append("user", "puppy appended")
        session.extend([Message.new("user", f"puppy extended {number}") for number in range(3)])
        record = memory.remember("puppy remembered", user="alice")
        memory.records.update(record.id, content="puppy updated")
        memory.documents.add("note:1", "puppy document", user="alice")
        assert vectors(memory) == (0, 6)
        assert len(memory.recall("puppy", user="alice")) == 6  # by words
        assert memory.recall("canine", user="alice") == []
        assert memory.recall("canine", user="alice", recipe="vectors") == []
        assert memory.jobs.run() == 1  # which fails as well
        assert vectors(memory) == (0, 6)
        topics.fault = None
        assert memory.jobs.run() == 0  # not yet due again
        clock.advance(minutes=1)
        assert memory.jobs.run() == 1
        assert len(assert_exact(memory, topics, "canine")) == 6
        assert jobs(memory) == []
        assert faults(memory) == []


def test_changed_dimension_of_same_model_fails_job_without_looping(durable_url: str, clock: FakeClock) -> None:
    with open_with(durable_url, Topics("m", 16), clock) as memory:
        memory.session("t", "1", user="alice").append("user", "puppy one")
    with open_with(durable_url, Topics("m", 24), clock, embedding__when="later") as memory:
        memory.session("t", "1", user="alice").extend([Message.new("user", f"puppy {number}") for number in range(600)])
        assert memory.jobs.run() == 1
        assert "dimension" in jobs(memory)[0][2]
        assert len(memory.recall("puppy", user="alice")) == 10
        assert vectors(memory) == (1, 601)
    with open_with(durable_url, Topics("m", 24), clock, embedding__when="now") as memory:
        memory.session("t", "1", user="alice").append("user", "puppy at once")
        assert texts(memory.recall("once", user="alice")) == ["puppy at once"]
    with open_with(durable_url, Topics("m", 16), clock) as memory:
        assert finding(memory, repair=True).repaired is not None
        assert memory.jobs.run() > 0
        assert len(assert_exact(memory, Topics("m", 16), "canine", k=1000)) == 602


def test_text_that_cannot_be_embedded_does_not_block_others(later: Limpet, topics: Topics, clock: FakeClock) -> None:
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


def test_many_texts_that_cannot_be_embedded_are_skipped_eventually(
    later: Limpet, topics: Topics, clock: FakeClock
) -> None:
    topics.refuse = lambda text: "poison" in text
    later.session("t", "1", user="alice").extend([Message.new("user", f"poison {number}") for number in range(7)])
    later.session("t", "1", user="alice").append("user", "puppy behind them")
    for _ in range(5):
        later.jobs.run()
        clock.advance(hours=1)
    assert vectors(later) == (1, 8)


def test_failing_embedder_is_not_tried_with_every_text(later: Limpet, topics: Topics, clock: FakeClock) -> None:
    topics.fault = FAULTS["raises"]
    later.session("t", "1", user="alice").extend([Message.new("user", f"puppy {number}") for number in range(200)])
    assert later.jobs.run() == 1
    assert len(topics.calls) <= 5


def test_recall_does_not_retry_failing_embedder_for_each_query(memory: Limpet, topics: Topics) -> None:
    memory.session("t", "1", user="alice").append("user", "the puppy slept")
    topics.fault = FAULTS["raises"]
    calls = len(topics.calls)
    for _ in range(5):
        assert texts(memory.recall("puppy", user="alice")) == ["the puppy slept"]
    assert len(topics.calls) == calls + 1


def test_recall_embeds_same_query_only_once(memory: Limpet, topics: Topics) -> None:
    memory.session("t", "1", user="alice").append("user", "the puppy slept")
    calls = len(topics.calls)
    for recipe in ("default", "vectors", "weighted", "default"):
        memory.recall("canine", user="alice", recipe=recipe)
    assert len(topics.calls) == calls + 1
    memory.recall("canine", user="alice", recipe="words")
    assert len(topics.calls) == calls + 1


# When


def test_embedding_when_now_stores_vector_with_write(store_url: str, topics: Topics) -> None:
    with open_with(store_url, topics, embedding__when="now") as memory:
        memory.session("t", "1", user="alice").append("user", "the puppy slept")
        assert vectors(memory) == (1, 1)
        assert memory.jobs.run() == 0


def test_embedding_when_later_stores_vectors_only_in_jobs(later: Limpet, topics: Topics) -> None:
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


def test_embedding_when_auto_defers_for_slow_embedder(
    memory: Limpet, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = memory.session("t", "1", user="alice")
    session.append("user", "puppy one")
    assert vectors(memory) == (1, 1)
    now = [0.0]
    monkeypatch.setattr(use, "monotonic", lambda: now[0])
    # A call that takes a second a text, whether it works or not.
    topics.fault = lambda found: (now.__setitem__(0, now[0] + len(found)), found)[1]
    session.append("user", "puppy two")
    calls = len(topics.calls)
    session.append("user", "puppy three")
    assert len(topics.calls) == calls
    assert vectors(memory) == (2, 3)
    topics.fault = None
    assert memory.jobs.run() == 1  # and is seen to be quick again
    session.append("user", "puppy four")
    assert vectors(memory) == (4, 4)


def test_embedding_when_auto_defers_after_embedder_timeout(
    memory: Limpet, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = memory.session("t", "1", user="alice")
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
    assert vectors(memory) == (1, 3)


def test_embedding_when_auto_defers_for_embedder_declared_slow(store_url: str) -> None:
    slow = Topics()
    slow.quick = False  # type: ignore[attr-defined]
    with open_with(store_url, slow) as memory:
        memory.session("t", "1", user="alice").append("user", "the puppy slept")
        assert slow.calls == []
        memory.jobs.run()
        assert texts(memory.recall("canine", user="alice")) == ["the puppy slept"]


BACKGROUND = {"embedding__when": "later", "embedding__background": True, "jobs__worker": True}


def test_background_worker_embeds_missing_chunks(store_url: str, topics: Topics) -> None:
    with open_with(store_url, topics, **BACKGROUND) as memory:
        memory.session("t", "1", user="alice").append("user", "the puppy slept")
        _wait(lambda: vectors(memory) == (1, 1))
        assert texts(memory.recall("canine", user="alice")) == ["the puppy slept"]


def test_start_worker_embeds_chunks_left_by_previous_process(durable_url: str, topics: Topics) -> None:
    with open_with(durable_url, topics, embedding__when="later") as memory:
        memory.session("t", "1", user="alice").append("user", "the puppy slept")
    with open_with(durable_url, topics, embedding__when="later") as memory:
        assert topics.calls == []
        memory.jobs.start_worker()
        memory.jobs.start_worker()
        _wait(lambda: vectors(memory) == (1, 1))
    with open_with(durable_url, topics, **BACKGROUND) as memory:
        memory.session("t", "1", user="alice").append("user", "another")
        _wait(lambda: vectors(memory) == (2, 2))


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_extend_reports_embedding_progress(store_url: str, topics: Topics) -> None:
    seen: list[tuple[str, int, int]] = []
    with open_with(store_url, topics, embedding__batch=4) as memory:
        session = memory.session("t", "1", user="alice")
        session.extend([Message.new("user", f"puppy {n}") for n in range(10)], lambda *step: seen.append(step))
        assert seen == [("embedding", 4, 10), ("embedding", 8, 10), ("embedding", 10, 10)]


def test_no_embedder_enqueues_no_jobs(store_url: str) -> None:
    with open_with(store_url, None) as memory:
        memory.session("t", "1", user="alice").append("user", "the puppy slept")
        assert memory.jobs.run() == 0
        memory.jobs.start_worker()


def test_partly_embedded_space_ranks_by_words_until_most_have_vectors(memory: Limpet, topics: Topics) -> None:
    session = memory.session("t", "1", user="alice")
    topics.refuse = lambda _: True
    session.extend([Message.new("user", f"hound {number} at the lake") for number in range(20)])
    topics.refuse = lambda _: False
    session.append("user", "a canine in the car")
    assert vectors(memory) == (1, 21)
    by_words = memory.recall("hound at the lake", user="alice", k=30, recipe="words")
    assert len(by_words) == 20
    hits = memory.recall("hound at the lake", user="alice", k=30)
    assert {hit.text for hit in hits} == {hit.text for hit in by_words}
    assert not any("vectors" in hit.signals for hit in hits)
    assert texts(memory.recall("hound", user="alice", recipe="vectors")) == ["a canine in the car"]
    memory.jobs.run()
    assert vectors(memory) == (21, 21)
    hits = memory.recall("hound at the lake", user="alice", k=30)
    assert len(hits) == 21
    assert all("vectors" in hit.signals for hit in hits)


# Another model


def test_recall_works_while_new_embedding_model_takes_over(durable_url: str, clock: FakeClock) -> None:
    old, new = Topics("old"), Topics("new")
    with open_with(durable_url, old, clock) as memory:
        session = memory.session("t", "1", user="alice")
        session.extend([Message.new("user", f"puppy {number}") for number in range(600)])
        memory.remember("puppy of bob", user="bob")
        assert finding(memory).ok
    with open_with(durable_url, new, clock) as memory:
        assert len(memory.recall("puppy", user="alice")) == 10  # by words: no vector of the new model yet
        assert memory.recall("canine", user="alice") == []
        assert "0 of 601" in finding(memory).detail
        assert "2 jobs at work" in finding(memory).detail
        assert [memory.jobs.run(until_idle=False) for _ in range(2)] == [1, 1]  # a batch of each user's, in any order
        assert "513 of 601" in finding(memory).detail
        assert len(assert_exact(memory, new, "canine", k=1000)) == 512
        assert len(memory.recall("puppy", user="alice", k=600, recipe="words")) == 600
        memory.session("t", "1", user="alice").append("user", "puppy meanwhile")
        memory.jobs.run()
        assert len(assert_exact(memory, new, "canine", k=1000)) == 601
        after = finding(memory)
        assert (after.ok, "601 vectors of old are no longer used" in after.detail) == (False, True)
        assert finding(memory, repair=True).repaired
        assert finding(memory).ok
        assert vectors(memory) == (602, 602)


def test_recall_never_compares_vectors_of_two_models(durable_url: str, clock: FakeClock) -> None:
    """The same directions under another name mean something else: here, the very opposite."""
    one, other = Topics("one"), Topics("other")
    with open_with(durable_url, one, clock) as memory:
        memory.session("t", "1", user="alice").append("user", "puppy one")
    other.vector = lambda text: -Topics.vector(one, text)  # type: ignore[method-assign]
    with open_with(durable_url, other, clock) as memory:
        assert memory.recall("puppy one", user="alice", recipe="vectors") == []
        memory.session("t", "1", user="alice").append("user", "puppy two")
        assert texts(memory.recall("puppy one", user="alice", recipe="vectors")) == ["puppy two"]
        memory.jobs.run()
        assert texts(assert_exact(memory, other, "puppy one")) == ["puppy one", "puppy two"]
        assert vectors(memory) == (3, 2)


def test_previous_embedding_model_reuses_its_vectors(durable_url: str, clock: FakeClock) -> None:
    old, new = Topics("old"), Topics("new")
    with open_with(durable_url, old, clock) as memory:
        session = memory.session("t", "1", user="alice")
        session.extend([Message.new("user", f"puppy {number}") for number in range(10)])
    with open_with(durable_url, new, clock) as memory:
        memory.load_session(session.id).append("user", "puppy of the new")
        memory.jobs.run(until_idle=True)
        memory.forget(memory.remember("puppy forgotten", user="alice").id)
    calls = len(old.calls)
    with open_with(durable_url, old, clock) as memory:
        assert len(assert_exact(memory, old, "canine", k=100)) == 10  # at once
        assert memory.jobs.run() == 1
        assert [text for call in old.calls[calls:] for text in call if text != "canine"] == ["puppy of the new"]
        assert len(assert_exact(memory, old, "canine", k=100)) == 11


def test_process_without_embedder_leaves_vectors_to_one_that_has_it(
    durable_url: str, topics: Topics, clock: FakeClock
) -> None:
    with open_with(durable_url, topics, clock) as memory:
        memory.session("t", "1", user="alice").append("user", "puppy one")
    with open_with(durable_url, None, clock) as memory:
        memory.session("t", "1", user="alice").append("user", "puppy two")
        memory.remember("puppy three", user="alice")
        memory.documents.add("note:1", "puppy four", user="alice")
        assert finding(memory).ok
        assert memory.jobs.run() == 0
    with open_with(durable_url, topics, clock) as memory:
        assert memory.jobs.run() == 1
        assert len(assert_exact(memory, topics, "canine")) == 4
