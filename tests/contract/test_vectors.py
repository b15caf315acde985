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
from limpet.search import recipes
from limpet.search import vector_cache as remembered
from limpet.search.chunk_repository import Chunks
from limpet.search.vector_cache import VECTORS
from limpet.testing import FakeClock
from tests.contract.meaning import Topics, assert_exact, near, nearest, open_with, stored_vectors, texts
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
def hf(store_url: str, topics: Topics, clock: FakeClock) -> Iterator[Limpet]:
    with open_with(store_url, topics, clock) as opened:
        yield opened


def sentences(number: int, start: int = 0) -> list[str]:
    """Each of a few common words and one of its own."""
    return [
        f"{NOUNS[at % 10]} {NOUNS[at // 10 % 10]} {NOUNS[at // 100 % 10]} w{at}" for at in range(start, start + number)
    ]


def tell(hf: Limpet, *lines: str, chat: str = "1", user: str = "alice") -> Session:
    session = hf.session("t", chat, user=user)
    session.extend([Message.new("user", line) for line in lines])
    return session


# Found


def test_a_text_is_found_by_its_meaning_without_a_word_in_common(hf: Limpet) -> None:
    tell(hf, *[f"lamp bread w{number}" for number in range(9)], "the puppy slept", "an automobile stopped")
    for recipe in ("vectors", "weighted", "default"):
        for question, answer in (("canine", "the puppy slept"), ("vehicle", "an automobile stopped")):
            assert answer in texts(hf.recall(question, user="alice", recipe=recipe))[:2], recipe
            assert hf.recall(question, user="alice", recipe="words") == []


def test_records_and_documents_are_found_by_meaning_too(hf: Limpet) -> None:
    tell(hf, *sentences(10, 500))
    hf.remember("surgeon on call", user="alice", key="who")
    hf.documents.add("note:1", "cheerful afternoon", user="alice")
    assert texts(hf.recall("physician on duty", user="alice"))[0] == "surgeon on call"
    assert texts(hf.recall("glad evening", user="alice", kinds=["document"]))[0] == "cheerful afternoon"


def test_the_nearest_come_first_with_their_cosines(hf: Limpet, topics: Topics) -> None:
    tell(hf, *sentences(250))
    for question in ("dog", "sea lamp", "violin w17", "glad doctor on the ocean"):
        assert_exact(hf, topics, question)
    assert len(assert_exact(hf, topics, "dog", k=250)) == 250


def test_a_large_space_is_looked_through_twice_and_loses_nothing(
    hf: Limpet, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(hf, "dog dog dog")
    assert_exact(hf, topics, "dog")  # the first look is at a single vector
    monkeypatch.setattr(remembered, "FULL_SCAN_LIMIT", 50)
    monkeypatch.setitem(recipes.RECIPES, "vectors", replace(recipes.VECTORS, candidates=50))
    tell(hf, *sentences(1500))
    for question in ("dog", "sea lamp", "violin w17 ladder", "puppy waves w1234", "bread"):
        assert_exact(hf, topics, question)
    [rough] = [hf._runtime.store.read(lambda tx: Chunks(tx).score_vectors(ALICE, _vector(topics, "dog")))]
    assert rough is not None
    assert rough.rough


def _vector(topics: Topics, text: str) -> Any:
    from limpet.model.chunk import Vector

    return Vector(topics.name, tuple(topics.vector(text).tolist()))


def test_nothing_near_is_nothing_found(hf: Limpet) -> None:
    tell(hf, *sentences(300))
    assert hf.recall("zzz yyy xxx", user="alice") == []
    assert hf.recall("zzz yyy xxx", user="alice", recipe="weighted") == []


def test_without_an_embedder_words_answer_and_vectors_are_refused(durable_url: str, topics: Topics) -> None:
    with open_with(durable_url, topics) as hf:
        tell(hf, "the puppy slept")
    with open_with(durable_url, None) as hf:
        assert texts(hf.recall("puppy", user="alice")) == ["the puppy slept"]
        assert hf.recall("canine", user="alice") == []
        with pytest.raises(Unsupported, match="minilm"):
            hf.recall("puppy", user="alice", recipe="vectors")


# Kept up to date


def test_every_write_and_removal_shows_at_once(hf: Limpet, topics: Topics) -> None:
    first, second = tell(hf, *sentences(20)), tell(hf, *sentences(20, 50), chat="2")
    record = hf.remember("dog of the record", user="alice", key="k")
    assert_exact(hf, topics, "dog", k=50)
    writes: dict[str, Any] = {
        "append": lambda: first.append("user", "a dog more"),
        "the same again": lambda: first.append("user", "a dog more"),
        "update": lambda: hf.records.update(record.id, content="puppy of the record"),
        "labels only": lambda: hf.records.update(record.id, tags=["x"]),
        "remember again": lambda: hf.remember("hound of the record", user="alice", key="k"),
        "document": lambda: hf.documents.add("note:1", "dog of the document", user="alice"),
        "document changed": lambda: hf.documents.add("note:1", "puppy of the document", user="alice"),
        "document removed": lambda: hf.documents.remove("note:1", user="alice"),
        "clear": first.clear,
        "after clearing": lambda: first.append("user", "dog anew"),
        "forget": lambda: hf.forget(record.id),
        "delete": second.delete,
        "empty": first.clear,
        "begin anew": lambda: tell(hf, *sentences(5)),
    }
    for name, write in writes.items():
        write()
        found = assert_exact(hf, topics, "dog", k=100)
        assert len(found) == hf.admin.stats()["chunks"] == hf.admin.stats()["vectors"], name
    assert faults(hf) == []


def test_what_another_handle_does_shows_at_once(durable_url: str, topics: Topics) -> None:
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


def test_what_another_process_does_shows_at_once(durable_url: str, topics: Topics) -> None:
    with open_with(durable_url, topics) as hf:
        kept, cleared = tell(hf, *sentences(20)), tell(hf, *sentences(20, 40), chat="2")
        assert_exact(hf, topics, "dog", k=100)
        code = """
from tests.contract.meaning import Topics, open_with
with open_with(given[0], Topics(), embedding__when="later") as hf:
    begin()
    hf.load_session(given[1]).append("user", "hound of another process")
    hf.load_session(given[2]).clear()
    answer(hf.jobs.run())
"""
        assert run_together(code, [durable_url, kept.id, cleared.id], count=1) == [1]
        assert len(assert_exact(hf, topics, "dog", k=100)) == 21
        assert "hound of another process" in texts(hf.recall("canine of", user="alice", recipe="vectors"))


def test_a_view_from_before_a_write_neither_sees_it_nor_spoils_it_for_others(durable_url: str, topics: Topics) -> None:
    with open_with(durable_url, topics) as hf:
        session = tell(hf, *sentences(20))
        asked = _vector(topics, "dog")

        def look(tx: Any) -> int:
            nearness, catalogue = Chunks(tx).score_vectors(ALICE, asked), Chunks(tx).load_catalogue(ALICE)
            assert nearness is not None
            assert catalogue is not None
            assert len(nearness.cosines) == catalogue.chunks
            return int((~np.isnan(nearness.cosines)).sum())

        def during(write: Any) -> tuple[int, int]:
            def work(tx: Any) -> tuple[int, int]:
                before = look(tx)
                # In a thread of its own: it sees what this view does not, and remembers it for everybody.
                worker = threading.Thread(target=lambda: (write(), hf.recall("dog", user="alice", recipe="words")))
                worker.start()
                worker.join()
                return before, look(tx)

            return hf._runtime.store.read(work)

        assert during(lambda: session.append("user", "puppy new")) == (20, 20)
        assert len(assert_exact(hf, topics, "dog", k=100)) == 21
        assert during(session.clear) == (21, 21)
        assert hf.recall("dog", user="alice", recipe="vectors") == []
        tell(hf, *sentences(5))
        assert len(assert_exact(hf, topics, "dog", k=100)) == 5


def test_threads_recall_while_others_append_and_remove(hf: Limpet, topics: Topics) -> None:
    tell(hf, *sentences(100))
    numbers = count()

    def act(at: int) -> None:
        session = hf.session("t", f"thread {at}", user="alice")
        for turn in range(8):
            if at % 2:
                found = hf.recall("dog", user="alice", recipe="vectors", k=100)
                scores = [hit.score for hit in found]
                assert scores == sorted(scores, reverse=True)
                assert len(found) == 100
            elif turn % 4 == 3:
                session.clear()
            else:
                session.append("user", f"puppy {next(numbers)}")
                hf.remember(f"hound {next(numbers)}", user="alice", key=f"k_{at}")

    at_once(act, 6)
    found = assert_exact(hf, topics, "dog", k=500)
    assert len(found) == hf.admin.stats()["chunks"]
    assert faults(hf) == []


def test_a_cache_that_holds_one_space_is_right_for_all(store_url: str) -> None:
    wide = Topics(dimension=640)
    with open_with(store_url, wide, search__cache_mb=1) as hf:
        for user in ("alice", "bob", "carol"):
            tell(hf, *sentences(500), f"puppy of {user}", user=user)
        store: Any = hf._runtime.store
        for _ in range(2):
            for user in ("alice", "bob", "carol"):
                found = hf.recall(f"canine of {user}", user=user, recipe="vectors", k=5)
                assert [hit.score for hit in found] == [
                    near(cosine) for cosine, _ in nearest(hf, wide, f"canine of {user}", user=user)[:5]
                ]
        assert len(store.caches.get(VECTORS).list_keys()) < 3


# Nothing allowed is lost, nothing else is seen


def test_filters_lose_nothing_however_large_the_rest_is(hf: Limpet, topics: Topics, clock: FakeClock) -> None:
    begun = clock.now
    tell(hf, *[f"dog dog puppy w{number}" for number in range(1300)])  # all of them nearer than what is wanted
    clock.advance(days=10)
    small = tell(hf, "dog bread lamp", "ladder violin", chat="2")
    hf.remember("dog glacier ticket", user="alice", type="preference", layer="procedural", tags=["a", "b"])
    hf.remember("dog glacier lamp", user="alice", tags=["a"], metadata={"m.n": "1"})
    clock.advance(days=10)
    tell(hf, "dog sea sea", chat="3")
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
        assert set(texts(assert_exact(hf, topics, "dog", expected.__contains__, **filters))) == expected, name
        if name != "session":
            about = {text for text in expected if "dog" in text}
            assert set(texts(hf.recall("dog", user="alice", **filters))) >= about, name
    past = hf.recall("dog", user="alice", recipe="vectors", as_of=begun, k=1000)
    assert len(past) == 1000
    assert all("puppy" in hit.text for hit in past)


def test_nobody_elses_vectors_are_seen_or_change_anything(hf: Limpet, topics: Topics) -> None:
    tell(hf, *sentences(40))
    alone = [(hit.text, hit.score) for hit in hf.recall("dog sea", user="alice", k=40)]
    by_vectors = [(hit.text, hit.score) for hit in hf.recall("dog sea", user="alice", k=40, recipe="vectors")]
    tell(hf, *["dog sea"] * 1, *[f"dog sea {number}" for number in range(100)], user="bob", chat="b")
    other = hf.tenant("acme")
    other.session("t", "1", user="alice").extend([Message.new("user", f"dog sea {number}") for number in range(50)])
    hf.remember("dog sea of the agent", agent="alice")
    hf.remember("dog sea of all", scope="global")
    assert [(hit.text, hit.score) for hit in hf.recall("dog sea", user="alice", k=40)] == alone
    assert [(hit.text, hit.score) for hit in hf.recall("dog sea", user="alice", k=40, recipe="vectors")] == by_vectors
    assert len(other.recall("dog sea", user="alice", k=100, recipe="vectors")) == 50
    assert texts(hf.recall("canine sea", agent="alice", recipe="vectors")) == ["dog sea of the agent"]
    assert texts(hf.recall("canine sea", scope="global", recipe="vectors")) == ["dog sea of all"]
    assert len(stored_vectors(hf, topics.name, "alice", "acme")) == 50


@pytest.mark.postgres
def test_every_backend_finds_the_same_by_every_recipe(postgres_url: str, clock: FakeClock) -> None:
    def fill(hf: Limpet) -> None:
        for chat in range(4):
            lines = sentences(60, 100 * chat)
            names = ("Ann", "Ben") if chat % 2 else (None, None)
            hf.session("t", str(chat), user="alice").extend(
                [Message.new(("user", "assistant")[at % 2], line, name=names[at % 2]) for at, line in enumerate(lines)]
            )
        for number in range(10):
            hf.remember(f"dog record {number}", user="alice", key=f"k_{number}")
        hf.session("t", "3", user="alice").clear()

    def answers(hf: Limpet, recipe: str, question: str) -> list[Any]:
        hits = hf.recall(question, user="alice", recipe=recipe, k=50)
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


def test_neighbours_are_the_messages_before_and_after(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    session.extend([Message.new("user", f"w{number}", sequence=number * 10) for number in range(1, 6)])
    session.append("assistant", "the puppy slept", sequence=77)
    session.append("user", "after", sequence=90)
    hf.remember("canine record", user="alice")
    [hit] = hf.recall("hound slept", user="alice", neighbours=2, k=1, recipe="vectors")
    assert hit.text == "the puppy slept"
    assert [message.text for message in hit.neighbours] == ["w4", "w5", "after"]
    assert hf.recall("hound slept", user="alice", k=1)[0].neighbours == ()
    [known] = hf.recall("canine", user="alice", neighbours=3, kinds=["record"])
    assert known.neighbours == ()
    wrong: list[Any] = [-1, 101, 1.5, True, "2"]
    for bad in wrong:
        with pytest.raises(InvalidInput, match="neighbours"):
            hf.recall("x", user="alice", neighbours=bad)


class Longest:
    """The longer a text, the better it answers."""

    name = "longest"

    def __init__(self, scores: Any = None) -> None:
        self.seen: list[int] = []
        self._scores = scores

    def scores(self, question: str, lines: Any) -> Any:
        self.seen.append(len(lines))
        return [len(line) for line in lines] if self._scores is None else self._scores(lines)


def test_a_reranker_looks_at_more_than_is_asked_for_and_has_the_last_word(hf: Limpet) -> None:
    tell(hf, *[f"dog {'x' * number}" for number in range(60)])
    reranker = Longest()
    hits = hf.recall("dog", user="alice", k=3, rerank=reranker)
    assert reranker.seen == [50]
    assert [hit.signals["rerank"].rank for hit in hits] == [1, 2, 3]
    lengths = [len(hit.text) for hit in hits]
    assert lengths == sorted(lengths, reverse=True)
    assert [hit.score for hit in hits] == lengths


def test_a_reranker_that_fails_changes_nothing(hf: Limpet) -> None:
    tell(hf, *sentences(20))
    plain = hf.recall("dog", user="alice", k=5)
    faulty: list[Any] = [
        lambda _: 1 / 0,
        lambda lines: [1.0] * (len(lines) + 1),
        lambda lines: [float("nan")] * len(lines),
        lambda lines: ["x"] * len(lines),
        lambda lines: None,
    ]
    for scores in faulty:
        assert hf.recall("dog", user="alice", k=5, rerank=Longest(scores)) == plain
