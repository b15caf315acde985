"""Search by meaning: exact, up to date whoever wrote, and nobody else's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import numpy as np
import pytest

from limpet import Limpet, Message, Session
from limpet.errors import InvalidInput, Unsupported
from limpet.model.scope import Level, Partition
from limpet.search import index, recipes, vectors
from limpet.search.chunk_repository import Chunks
from limpet.search.vectors import VECTORS, VectorScores
from limpet.store.tx import Tx
from limpet.testing import FakeClock
from tests.contract.embedders import Topics, assert_exact, near, nearest, open_with, stored_vectors, texts
from tests.contract.processes import run_together
from tests.contract.rows import faults
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend

ALICE = Partition("default", Level.USER, "alice")
NOUNS = ("dog", "car", "doctor", "sea", "lamp", "bread", "violin", "ticket", "glacier", "ladder")


@pytest.fixture
def topics() -> Topics:
    return Topics()


@pytest.fixture
def memory(store_url: str, topics: Topics, clock: FakeClock) -> Iterator[Limpet]:
    with open_with(store_url, topics, clock) as opened:
        yield opened


def sentences(number: int, start: int = 0) -> list[str]:
    """Each of a few common words and one of its own."""
    return [
        f"{NOUNS[at % 10]} {NOUNS[at // 10 % 10]} {NOUNS[at // 100 % 10]} w{at}" for at in range(start, start + number)
    ]


def tell(memory: Limpet, *lines: str, chat: str = "1", user: str = "alice") -> Session:
    session = memory.session("t", chat, user=user)
    session.extend([Message.new("user", line) for line in lines])
    return session


# Found


def test_recall_finds_text_by_meaning_without_shared_word(memory: Limpet) -> None:
    tell(memory, *[f"lamp bread w{number}" for number in range(9)], "the puppy slept", "an automobile stopped")
    for recipe in ("vectors", "weighted", "default"):
        for question, answer in (("canine", "the puppy slept"), ("vehicle", "an automobile stopped")):
            assert answer in texts(memory.recall(question, user="alice", recipe=recipe))[:2], recipe
            assert memory.recall(question, user="alice", recipe="words") == []


def test_recall_finds_records_and_documents_by_meaning(memory: Limpet) -> None:
    tell(memory, *sentences(10, 500))
    memory.remember("surgeon on call", user="alice", key="who")
    memory.documents.add("note:1", "cheerful afternoon", user="alice")
    assert texts(memory.recall("physician on duty", user="alice"))[0] == "surgeon on call"
    assert texts(memory.recall("glad evening", user="alice", kinds=["document"]))[0] == "cheerful afternoon"


def test_vector_search_ranks_by_exact_cosine(memory: Limpet, topics: Topics) -> None:
    tell(memory, *sentences(250))
    for question in ("dog", "sea lamp", "violin w17", "glad doctor on the ocean"):
        assert_exact(memory, topics, question)
    assert len(assert_exact(memory, topics, "dog", k=250)) == 250


def test_vectors_of_many_pages_are_all_found(
    durable_url: str, topics: Topics, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_VECTOR_PAGE", 7)
    with open_with(durable_url, topics, clock) as first:
        tell(first, *sentences(21))  # as many as three pages hold
    with open_with(durable_url, topics, clock) as later:
        assert len(assert_exact(later, topics, "dog lamp", k=21)) == 21


def test_vector_search_in_large_partition_is_exact(
    memory: Limpet, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(memory, "dog dog dog")
    assert_exact(memory, topics, "dog")  # the first look is at a single vector
    monkeypatch.setattr(vectors, "FULL_SCAN_LIMIT", 50)
    monkeypatch.setitem(recipes.RECIPES, "vectors", replace(recipes.VECTORS, candidates=50))
    tell(memory, *sentences(1500))
    for question in ("dog", "sea lamp", "violin w17 ladder", "puppy waves w1234", "bread"):
        assert_exact(memory, topics, question)

    def score(tx: Tx) -> VectorScores | None:
        index = Chunks(tx).open_index(ALICE)
        return None if index is None else index.score_vectors(_vector(topics, "dog"))

    rough = memory._runtime.store.read(score)
    assert rough is not None
    assert rough.rough


def _vector(topics: Topics, text: str) -> Any:
    from limpet.model.chunk import Vector

    return Vector(topics.name, tuple(topics.vector(text).tolist()))


def test_recall_returns_nothing_when_no_vector_is_near(memory: Limpet) -> None:
    tell(memory, *sentences(300))
    assert memory.recall("zzz yyy xxx", user="alice") == []
    assert memory.recall("zzz yyy xxx", user="alice", recipe="weighted") == []


def test_recall_without_embedder_uses_words_and_rejects_vectors_recipe(durable_url: str, topics: Topics) -> None:
    with open_with(durable_url, topics) as memory:
        tell(memory, "the puppy slept")
    with open_with(durable_url, None) as memory:
        assert texts(memory.recall("puppy", user="alice")) == ["the puppy slept"]
        assert memory.recall("canine", user="alice") == []
        with pytest.raises(Unsupported, match=r"set embedding\.model"):
            memory.recall("puppy", user="alice", recipe="vectors")


# Kept up to date


def test_vector_search_sees_every_write_immediately(memory: Limpet, topics: Topics) -> None:
    first, second = tell(memory, *sentences(20)), tell(memory, *sentences(20, 50), chat="2")
    record = memory.remember("dog of the record", user="alice", key="k")
    assert_exact(memory, topics, "dog", k=50)
    writes: dict[str, Any] = {
        "append": lambda: first.append("user", "a dog more"),
        "the same again": lambda: first.append("user", "a dog more"),
        "update": lambda: memory.records.update(record.id, content="puppy of the record"),
        "labels only": lambda: memory.records.update(record.id, tags=["x"]),
        "remember again": lambda: memory.remember("hound of the record", user="alice", key="k"),
        "document": lambda: memory.documents.add("note:1", "dog of the document", user="alice"),
        "document changed": lambda: memory.documents.add("note:1", "puppy of the document", user="alice"),
        "document removed": lambda: memory.documents.remove("note:1", user="alice"),
        "clear": first.clear,
        "after clearing": lambda: first.append("user", "dog anew"),
        "forget": lambda: memory.forget(record.id),
        "delete": second.delete,
        "empty": first.clear,
        "begin anew": lambda: tell(memory, *sentences(5)),
    }
    for name, write in writes.items():
        write()
        found = assert_exact(memory, topics, "dog", k=100)
        assert len(found) == memory.admin.stats()["chunks"] == memory.admin.stats()["vectors"], name
    assert faults(memory) == []


def test_vector_search_sees_writes_of_other_handle_immediately(durable_url: str, topics: Topics) -> None:
    with open_with(durable_url, topics) as one, open_with(durable_url, topics, embedding__when="later") as two:
        session = tell(one, *sentences(20))
        assert_exact(one, topics, "dog", k=100)
        theirs = two.load_session(session.id)
        theirs.append("user", "hound late")
        assert "hound late" not in texts(assert_exact(one, topics, "dog", k=100))
        assert two.jobs.run() == 1
        assert "hound late" in texts(assert_exact(one, topics, "dog", k=100))
        theirs.clear()
        assert one.recall("dog", user="alice", recipe="vectors") == []
        theirs.append("user", "puppy later")
        two.jobs.run()
        one.remember("dog at once", user="alice")
        assert len(assert_exact(one, topics, "dog", k=100)) == len(assert_exact(two, topics, "dog", k=100)) == 2


def test_vector_search_sees_writes_of_other_process_immediately(durable_url: str, topics: Topics) -> None:
    with open_with(durable_url, topics) as memory:
        kept, cleared = tell(memory, *sentences(20)), tell(memory, *sentences(20, 40), chat="2")
        assert_exact(memory, topics, "dog", k=100)
        code = """
from tests.contract.embedders import Topics, open_with
with open_with(given[0], Topics(), embedding__when="later") as memory:
    begin()
    memory.load_session(given[1]).append("user", "hound of another process")
    memory.load_session(given[2]).clear()
    answer(memory.jobs.run())
"""
        assert run_together(code, [durable_url, kept.id, cleared.id], count=1) == [1]
        assert len(assert_exact(memory, topics, "dog", k=100)) == 21
        assert "hound of another process" in texts(memory.recall("canine of", user="alice", recipe="vectors"))


def test_vector_cache_respects_read_snapshot(durable_url: str, topics: Topics) -> None:
    with open_with(durable_url, topics) as memory:
        session = tell(memory, *sentences(20))
        asked = _vector(topics, "dog")

        def look(tx: Any) -> int:
            index = Chunks(tx).open_index(ALICE)
            assert index is not None
            nearness = index.score_vectors(asked)
            assert nearness is not None
            assert len(nearness.cosines) == index.catalogue.chunks
            return int((~np.isnan(nearness.cosines)).sum())

        def during(write: Any) -> tuple[int, int]:
            def work(tx: Any) -> tuple[int, int]:
                before = look(tx)
                # In a thread of its own: it sees what this view does not, and remembers it for everybody.
                worker = threading.Thread(target=lambda: (write(), memory.recall("dog", user="alice", recipe="words")))
                worker.start()
                worker.join()
                return before, look(tx)

            return memory._runtime.store.read(work)

        assert during(lambda: session.append("user", "puppy new")) == (20, 20)
        assert len(assert_exact(memory, topics, "dog", k=100)) == 21
        assert during(session.clear) == (21, 21)
        assert memory.recall("dog", user="alice", recipe="vectors") == []
        tell(memory, *sentences(5))
        assert len(assert_exact(memory, topics, "dog", k=100)) == 5


def test_vector_search_is_exact_under_concurrent_writes(memory: Limpet, topics: Topics) -> None:
    tell(memory, *sentences(100))
    numbers = count()

    def act(at: int) -> None:
        session = memory.session("t", f"thread {at}", user="alice")
        for turn in range(8):
            if at % 2:
                found = memory.recall("dog", user="alice", recipe="vectors", k=100)
                scores = [hit.score for hit in found]
                assert scores == sorted(scores, reverse=True)
                assert len(found) == 100
            elif turn % 4 == 3:
                session.clear()
            else:
                session.append("user", f"puppy {next(numbers)}")
                memory.remember(f"hound {next(numbers)}", user="alice", key=f"k_{at}")

    at_once(act, 6)
    found = assert_exact(memory, topics, "dog", k=500)
    assert len(found) == memory.admin.stats()["chunks"]
    assert faults(memory) == []


def test_vector_cache_smaller_than_data_stays_exact(store_url: str) -> None:
    wide = Topics(dimension=800)
    with open_with(store_url, wide, search__cache_mb=1) as memory:
        for user in ("alice", "bob", "carol"):
            tell(memory, *sentences(500), f"puppy of {user}", user=user)
        store: Any = memory._runtime.store
        for _ in range(2):
            for user in ("alice", "bob", "carol"):
                found = memory.recall(f"canine of {user}", user=user, recipe="vectors", k=5)
                assert [hit.score for hit in found] == [
                    near(cosine) for cosine, _ in nearest(memory, wide, f"canine of {user}", user=user)[:5]
                ]
        assert len(store.caches.get(VECTORS).list_keys()) < 3


# Nothing allowed is lost, nothing else is seen


def test_vector_search_filter_is_exact_in_large_partition(memory: Limpet, topics: Topics, clock: FakeClock) -> None:
    begun = clock.now
    tell(memory, *[f"dog dog puppy w{number}" for number in range(1300)])  # all of them nearer than what is wanted
    clock.advance(days=10)
    small = tell(memory, "dog bread lamp", "ladder violin", chat="2")
    memory.remember("dog glacier ticket", user="alice", type="preference", layer="procedural", tags=["a", "b"])
    memory.remember("dog glacier lamp", user="alice", tags=["a"], metadata={"m.n": "1"})
    clock.advance(days=10)
    tell(memory, "dog sea sea", chat="3")
    wanted: dict[str, tuple[dict[str, Any], set[str]]] = {
        "session": ({"session": small.id}, {"dog bread lamp", "ladder violin"}),
        "kinds": ({"kinds": ["record"]}, {"dog glacier ticket", "dog glacier lamp"}),
        "layers": ({"layers": ["procedural"]}, {"dog glacier ticket"}),
        "types": ({"types": ["fact"]}, {"dog glacier lamp"}),
        "tags": ({"tags": ["a", "b"]}, {"dog glacier ticket"}),
        "metadata": ({"metadata": {"m.n": "1"}}, {"dog glacier lamp"}),
        "since": ({"since": clock.now}, {"dog sea sea"}),
        "since and until": (
            {"since": begun + timedelta(days=5), "until": clock.now, "kinds": ["message"]},
            {"dog bread lamp", "ladder violin"},
        ),
    }
    for name, (filters, expected) in wanted.items():
        assert set(texts(assert_exact(memory, topics, "dog", expected.__contains__, **filters))) == expected, name
        if name != "session":
            about = {text for text in expected if "dog" in text}
            assert set(texts(memory.recall("dog", user="alice", **filters))) >= about, name
    past = memory.recall("dog", user="alice", recipe="vectors", as_of=begun, k=1000)
    assert len(past) == 1000
    assert all("puppy" in hit.text for hit in past)


def test_vector_search_is_isolated_by_user_and_tenant(memory: Limpet, topics: Topics) -> None:
    tell(memory, *sentences(40))
    alone = [(hit.text, hit.score) for hit in memory.recall("dog sea", user="alice", k=40)]
    by_vectors = [(hit.text, hit.score) for hit in memory.recall("dog sea", user="alice", k=40, recipe="vectors")]
    tell(memory, *["dog sea"] * 1, *[f"dog sea {number}" for number in range(100)], user="bob", chat="b")
    other = memory.tenant("acme")
    other.session("t", "1", user="alice").extend([Message.new("user", f"dog sea {number}") for number in range(50)])
    memory.remember("dog sea of the agent", agent="alice")
    memory.remember("dog sea of all", scope="global")
    assert [(hit.text, hit.score) for hit in memory.recall("dog sea", user="alice", k=40)] == alone
    assert [
        (hit.text, hit.score) for hit in memory.recall("dog sea", user="alice", k=40, recipe="vectors")
    ] == by_vectors
    assert len(other.recall("dog sea", user="alice", k=100, recipe="vectors")) == 50
    assert texts(memory.recall("canine sea", agent="alice", recipe="vectors")) == ["dog sea of the agent"]
    assert texts(memory.recall("canine sea", scope="global", recipe="vectors")) == ["dog sea of all"]
    assert len(stored_vectors(memory, topics.name, "alice", "acme")) == 50


@pytest.mark.postgres
def test_every_recipe_ranks_same_on_every_backend(postgres_url: str, clock: FakeClock) -> None:
    def fill(memory: Limpet) -> None:
        for chat in range(4):
            lines = sentences(60, 100 * chat)
            names = ("Ann", "Ben") if chat % 2 else (None, None)
            memory.session("t", str(chat), user="alice").extend(
                [Message.new(("user", "assistant")[at % 2], line, name=names[at % 2]) for at, line in enumerate(lines)]
            )
        for number in range(10):
            memory.remember(f"dog record {number}", user="alice", key=f"k_{number}")
        memory.session("t", "3", user="alice").clear()

    def answers(memory: Limpet, recipe: str, question: str) -> list[Any]:
        hits = memory.recall(question, user="alice", recipe=recipe, k=50)
        return [(hit.text, near(hit.score), hit.source.first_sequence) for hit in hits]

    with open_with(":memory:", Topics(), clock) as one, open_with(postgres_url, Topics(), clock) as two:
        fill(one)
        fill(two)
        for recipe in recipes.RECIPES:
            for question in ("dog", "what did Ann say about the ocean", "physician lamp w12", "record", "violin"):
                found = answers(two, recipe, question)
                mine = [(hit.text, hit.score) for hit in one.recall(question, user="alice", recipe=recipe, k=50)]
                assert [(score, text) for text, score, _ in found] == [(score, text) for text, score in mine], recipe


# What a hit brings along


def test_recall_neighbours_are_messages_before_and_after_hit(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    session.extend([Message.new("user", f"w{number}", sequence=number * 10) for number in range(1, 6)])
    session.append("assistant", "the puppy slept", sequence=77)
    session.append("user", "after", sequence=90)
    memory.remember("canine record", user="alice")
    [hit] = memory.recall("hound slept", user="alice", neighbours=2, k=1, recipe="vectors")
    assert hit.text == "the puppy slept"
    assert [message.text for message in hit.neighbours] == ["w4", "w5", "after"]
    assert memory.recall("hound slept", user="alice", k=1)[0].neighbours == ()
    [known] = memory.recall("canine", user="alice", neighbours=3, kinds=["record"])
    assert known.neighbours == ()
    wrong: list[Any] = [-1, 101, 1.5, True, "2"]
    for bad in wrong:
        with pytest.raises(InvalidInput, match="neighbours"):
            memory.recall("x", user="alice", neighbours=bad)


class Longest:
    """The longer a text, the better it answers."""

    name = "longest"

    def __init__(self, scores: Any = None) -> None:
        self.seen: list[int] = []
        self._scores = scores

    def scores(self, question: str, lines: Any) -> Any:
        self.seen.append(len(lines))
        return [len(line) for line in lines] if self._scores is None else self._scores(lines)


def test_reranker_sees_more_candidates_and_decides_order(memory: Limpet) -> None:
    tell(memory, *[f"dog {'x' * number}" for number in range(60)])
    reranker = Longest()
    hits = memory.recall("dog", user="alice", k=3, rerank=reranker)
    assert reranker.seen == [50]
    assert [hit.signals["rerank"].rank for hit in hits] == [1, 2, 3]
    lengths = [len(hit.text) for hit in hits]
    assert lengths == sorted(lengths, reverse=True)
    assert [hit.score for hit in hits] == lengths


def test_reranker_failure_keeps_original_order(memory: Limpet) -> None:
    tell(memory, *sentences(20))
    plain = memory.recall("dog", user="alice", k=5)
    faulty: list[Any] = [
        lambda _: 1 / 0,
        lambda lines: [1.0] * (len(lines) + 1),
        lambda lines: [float("nan")] * len(lines),
        lambda lines: ["x"] * len(lines),
        lambda lines: None,
    ]
    for scores in faulty:
        assert memory.recall("dog", user="alice", k=5, rerank=Longest(scores)) == plain
