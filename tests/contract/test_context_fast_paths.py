"""What makes a context quick changes nothing in it: each short way beside the long one, on every backend."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest

from limpet import Limpet, Record
from limpet.knowledge.repository import Records
from limpet.model.chunk import ChunkQuery, SourceKind
from limpet.model.record import Layer
from limpet.model.scope import Level, Partition
from limpet.search import recipes, search
from limpet.search.analysis import Question
from limpet.search.index import SearchIndex
from limpet.testing import FakeClock
from tests.contract.embedders import Topics, open_with

ALICE = Partition("default", Level.USER, "alice")
HELPER = Partition("default", Level.AGENT, "assistant")
EVERYBODY = Partition("default", Level.GLOBAL, "")
MIXED = {Layer.WORKING: 5, Layer.SEMANTIC: 1, Layer.EPISODIC: 2}
LAYERS = ("semantic", "episodic", "procedural", "working")


@pytest.fixture
def topics() -> Topics:
    return Topics()


@pytest.fixture
def memory(store_url: str, topics: Topics, clock: FakeClock) -> Iterator[Limpet]:
    with open_with(store_url, topics, clock) as opened:
        yield opened


# The records that stand in every context


def remembered(memory: Limpet, clock: FakeClock, chance: random.Random, layers: tuple[str, ...]) -> list[str]:
    """Records of every kind of owner; many at the same moment, some that are over. Answers the sessions."""
    sessions = [memory.session("t", str(number), user="alice").id for number in range(2)]
    homes: list[dict[str, Any]] = [{"user": "alice"}] * 5
    homes += [{"session": session, "user": "alice"} for session in sessions]
    homes += [{"user": "bob"}, {"agent": "assistant"}, {"scope": "global"}]
    for at in range(60):
        layer, pinned = chance.choice(layers), chance.random() < 0.2
        key = f"k{chance.randint(0, 25)}" if chance.random() < 0.3 else None
        ttl = timedelta(minutes=chance.choice((5, 5000))) if chance.random() < 0.2 else None
        memory.remember(f"w{at}", **chance.choice(homes), layer=layer, pinned=pinned, key=key, ttl=ttl)
        clock.advance(minutes=chance.randint(0, 1))
    return sessions


def newest(records: list[Record], session: str, keyed: int, most: dict[Layer, int], ids: list[str]) -> list[str]:
    """What ``standing`` says of itself, spelled out."""
    mine = [record for record in records if record.session_id in (None, session)]
    mine.sort(key=lambda record: (record.updated_at, record.id), reverse=True)
    groups: defaultdict[tuple[bool, str], list[Record]] = defaultdict(list)
    for record in mine:
        groups[record.pinned, "" if record.key else record.layer].append(record)
    first = {
        record.id
        for (_, layer), group in groups.items()
        for record in group[: most.get(Layer(layer), 0) if layer else keyed]
    }
    return [record.id for record in mine if record.id in first or record.id in ids]


@pytest.mark.parametrize(("seed", "layers"), [(0, LAYERS), (1, LAYERS[:1]), (2, LAYERS[:2] + LAYERS[:1] * 6)])
def test_always_included_records_are_newest_of_each_layer(store_url: str, seed: int, layers: tuple[str, ...]) -> None:
    chance, clock = random.Random(seed), FakeClock()
    with Limpet.open(store_url, clock=clock) as memory:
        sessions = remembered(memory, clock, chance, layers)
        owners: list[tuple[Partition, dict[str, Any]]] = [
            (ALICE, {"user": "alice"}),
            (HELPER, {"agent": "assistant"}),
            (EVERYBODY, {}),
            (Partition("default", Level.USER, "nobody"), {"user": "nobody"}),
        ]
        for space, whose in owners:
            everything = [
                record
                for record in memory.records(**whose, limit=1000)
                if record.home.space == space and record.is_valid_at(clock.now)
            ]
            for keyed, most in ((4, dict.fromkeys(Layer, 3)), (0, {}), (1, MIXED), (100, dict.fromkeys(Layer, 100))):
                ids = [record.id for record in chance.sample(everything, min(3, len(everything)))]
                asked = (space, sessions[0], keyed, most, ids, clock.now)
                found = memory._runtime.store.read(lambda tx, asked=asked: Records(tx).find_always_included(*asked))  # type: ignore[misc]
                assert [record.id for record in found] == newest(everything, sessions[0], keyed, most, ids)
                assert all(record == memory.records.get(record.id) for record in found)


# Spaces without anything in them


def test_context_skips_embedding_and_search_for_empty_partition(
    memory: Limpet, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = memory.session("t", "1", user="alice")
    session.append("user", "my puppy is called Biscuit", name="Alice")
    session.append("user", "the sea was calm", name="Bob")
    searched: list[Partition] = []
    signals = search._compute_signals

    def looked(index: SearchIndex, *rest: Any) -> Any:
        searched.append(index.partition)
        return signals(index, *rest)

    monkeypatch.setattr(search, "_compute_signals", looked)
    topics.calls.clear()
    context = memory.session("t", "2", user="alice").context("What is the puppy of Alice called?")
    assert "Biscuit" in context.text
    # Without the name, as in the only space there is: elsewhere nobody is called Alice, and the text would be another.
    assert topics.calls == [["What is the puppy of called?"]]
    assert searched == [ALICE]
    topics.calls.clear()
    assert memory.recall("where is the lighthouse", user="nobody") == []
    assert topics.calls == []


def test_context_embeds_query_once_for_all_partitions_without_names(memory: Limpet, topics: Topics) -> None:
    memory.session("t", "1", user="alice").append("user", "my puppy is called Biscuit")
    memory.remember("the hound sleeps outside", agent="assistant")
    memory.remember("the canine is fed at noon", scope="global")
    topics.calls.clear()
    context = memory.session("t", "2", user="alice").context("hound noon Biscuit")
    assert all(said in context.text for said in ("puppy", "sleeps", "fed"))
    assert topics.calls == [["hound noon Biscuit"]]


# One look for two questions


def test_search_with_signal_cache_returns_same_hits(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    for at in range(30):
        session.append("user", f"the puppy sat by the sea w{at}")
        memory.remember(f"the doctor saw the hound w{at}", user="alice")
    meaning = search.embed_question(memory._runtime.embedder, [ALICE], "dog doctor w7").get(ALICE)

    def both(tx: Any) -> tuple[list[Any], list[Any]]:
        known: search.SignalCache = {}
        queries = [ChunkQuery(), ChunkQuery(kinds=(SourceKind.RECORD,))]
        wanted = [
            search.SearchRequest(
                Question.parse("dog doctor w7", None),
                query,
                recipes.DEFAULT,
                5,
                memory.config.search,
                memory._now(),
                meaning,
            )
            for query in queries
        ]
        together = [search.search(tx, ALICE, one, known) for one in wanted]
        return together, [search.search(tx, ALICE, one) for one in wanted]

    together, apart = memory._runtime.store.read(both)
    assert together == apart
    assert all(together)


def test_kind_filter_from_cache_matches_filter_from_store(memory: Limpet, clock: FakeClock) -> None:
    session = memory.session("t", "1", user="alice")
    for at in range(12):
        session.append("user", f"the sea is w{at}")
        gone = memory.remember(f"the waves are w{at}", user="alice", ttl=timedelta(minutes=at % 3 + 1))
        memory.documents.add(f"file{at}", f"An ocean of w{at}", user="alice")
        if at % 4 == 0:
            memory.forget(gone.id)
    clock.advance(minutes=2)
    always = clock.now + timedelta(days=1)
    for count in (1, 2, 3):
        for kinds in combinations(("message", "record", "document"), count):
            short = memory.recall("sea waves ocean", user="alice", k=50, kinds=kinds)
            assert short == memory.recall("sea waves ocean", user="alice", k=50, kinds=kinds, until=always)
            assert {hit.source.kind.value for hit in short} == set(kinds)
