"""What a process remembers of a space: the catalogue, the vectors, and how much of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from limpet import Config, Limpet, Message
from limpet.model.chunk import SourceKind
from limpet.model.scope import Level, Partition
from limpet.search import vectors
from limpet.search.analysis import TextFlag, extract_terms
from limpet.search.catalogue import _TYPES, NO_MESSAGE, RECORD_SPEAKER, Catalogue, CatalogueRow, make_empty_catalogue
from limpet.search.chunk_repository import Chunks
from limpet.search.vectors import PartitionVectors, VectorPage, VectorScores, VectorsVersion, pack_vector
from limpet.search.word_index import TAILS, load_postings, load_tail
from limpet.store.sqlite.connection import SqliteDb
from limpet.store.tx import Cache, Tx

NAMES = (None, "Ann", "Ben")


def facts(chance: random.Random, count: int) -> list[CatalogueRow]:
    """Messages of a few sessions with one to three chunks each, and records between them, as a store reads them."""
    found: list[CatalogueRow] = []
    last = dict.fromkeys(("s1", "s2", "s3"), 0)
    while len(found) < count:
        if chance.random() < 0.3:
            words, flags, kind = chance.randint(1, 9), chance.randint(0, 15), chance.choice(("record", "document"))
            found.append(CatalogueRow(0, None, None, None, None, len(found), words, flags, kind))
            continue
        session = chance.choice(tuple(last))
        last[session] += chance.choice((1, 1, 1, 5))
        role, name, flags = chance.choice(("user", "assistant")), chance.choice(NAMES), chance.randint(0, 15)
        found += [
            CatalogueRow(0, session, last[session], role, name, last[session] * 1_000_000, chance.randint(1, 99), flags)
            for _ in range(chance.randint(1, 3))
        ]
    gaps = sorted(chance.sample(range(3 * len(found)), len(found)))
    return [fact._replace(ordinal=ordinal) for fact, ordinal in zip(found, gaps, strict=True)]


def plain(catalogue: Catalogue) -> list[dict[str, Any]]:
    """Each chunk with all that is known of it, names instead of numbers, neighbours as (session, sequence)."""
    sessions = {number: name for name, number in catalogue.sessions.items()}

    def message(at: int) -> tuple[str | None, int] | None:
        return None if at == NO_MESSAGE else (sessions.get(int(catalogue.session[at])), int(catalogue.sequence[at]))

    def speaker(at: int) -> str | int | None:
        number = int(catalogue.speaker[at])
        return catalogue.names[number] if number >= 0 else (RECORD_SPEAKER if number == RECORD_SPEAKER else None)

    return [
        {
            "ordinal": int(catalogue.ordinals[at]),
            "message": message(of),
            "speaker": speaker(of),
            "time": float(catalogue.time[of]),
            "kinds": [kind.value for kind in SourceKind if catalogue.mark_kinds([kind])[at]],
            "user": bool(catalogue.is_user[of]),
            "asks": (bool(catalogue.ends_asking[of]), bool(catalogue.only_asks[of])),
            "own": (int(catalogue.words[at]), bool(catalogue.time_word[at]), bool(catalogue.standing_wish[at])),
            "previous": message(int(catalogue.previous[of])),
            "following": message(int(catalogue.following[of])),
        }
        for at, of in enumerate(catalogue.message.tolist())
    ]


def expected(given: Iterable[CatalogueRow]) -> list[dict[str, Any]]:
    rows = list(given)
    there = {(fact.session, fact.sequence) for fact in rows if fact.session}
    first: dict[tuple[Any, ...], CatalogueRow] = {}
    for fact in rows:
        first.setdefault((fact.session, fact.sequence) if fact.session else (fact.ordinal,), fact)

    def beside(fact: CatalogueRow, step: int) -> tuple[str | None, int] | None:
        at = (fact.session, (fact.sequence or 0) + step)
        return at if at in there else None

    return [
        {
            "ordinal": fact.ordinal,
            "message": (fact.session, fact.sequence or 0),
            "speaker": whole.name if fact.session else RECORD_SPEAKER,
            "time": whole.created_at / 1e6,
            "kinds": [fact.kind],
            "user": whole.role == "user" or not fact.session,
            "asks": (bool(whole.flags & TextFlag.ENDS_ASKING), bool(whole.flags & TextFlag.ONLY_ASKS)),
            "own": (fact.words, bool(fact.flags & TextFlag.TIME_WORD), bool(fact.flags & TextFlag.STANDING_WISH)),
            "previous": beside(fact, -1),
            "following": beside(fact, 1),
        }
        for fact in rows
        for whole in [first[(fact.session, fact.sequence) if fact.session else (fact.ordinal,)]]
    ]


@pytest.mark.parametrize("seed", range(8))
def test_catalogue_updated_incrementally_equals_catalogue_read_at_once(seed: int) -> None:
    chance = random.Random(seed)
    everything = facts(chance, 120)
    catalogue, alive, at, removals = make_empty_catalogue(0), list[CatalogueRow](), 0, 0
    while at < len(everything):
        step = chance.randint(0, 25)
        catalogue = catalogue.append_rows(everything[at : at + step])
        alive, at = alive + everything[at : at + step], at + step
        if chance.random() < 0.5:
            gone = {chance.choice((None, "s1", "s2", "s3"))}
            alive = [fact for fact in alive if fact.session not in gone or chance.random() < 0.3]
            removals += 1
            catalogue = catalogue.filter_ordinals(np.array([fact.ordinal for fact in alive], dtype="i8"), removals)
        assert plain(catalogue) == expected(alive)
        whole = make_empty_catalogue(removals).append_rows(alive)
        for name, kind in _TYPES.items():
            assert (len(getattr(catalogue, name)), getattr(catalogue, name).dtype) == (len(getattr(whole, name)), kind)
        assert set(catalogue.names) == set(whole.names)
        assert (catalogue.sessions.keys(), catalogue.session_count) == (whole.sessions.keys(), whole.session_count)


def test_catalogue_truncate_returns_earlier_state() -> None:
    everything = facts(random.Random(3), 40)
    whole = make_empty_catalogue(0).append_rows(everything)
    for count in (0, 1, 20, len(everything)):
        last = everything[count].ordinal if count < len(everything) else everything[-1].ordinal + 1
        part = whole.truncate(last)
        assert part.ordinals.tolist() == [fact.ordinal for fact in everything[:count]]
        assert len(part.message) == len(part.words) == part.chunks == count
    assert whole.chunks == len(everything)


def test_catalogue_updates_do_not_change_older_copies() -> None:
    everything = facts(random.Random(4), 40)
    old = make_empty_catalogue(0).append_rows(everything[:20])
    before = plain(old)
    old.append_rows(everything[20:])
    old.filter_ordinals(np.zeros(0, dtype="i8"), 1)
    assert plain(old) == before


class Table:
    """Vectors as a store has them: by ordinal, and in which order the late ones came."""

    def __init__(self, dimension: int = 32) -> None:
        self.dimension = dimension
        self.rows: dict[int, np.ndarray[Any, Any] | None] = {}
        self.late: list[int] = []
        self.next = 0
        self.removals = 0
        self.loads = 0
        self.chance = np.random.default_rng(1)

    def add(self, count: int, *, embedded: bool = True) -> None:
        start = self.next + 1  # with gaps, and none given out twice
        self.next = start + count
        for ordinal in range(start, start + count):
            self.rows[ordinal] = self.vector() if embedded else None

    def vector(self, near: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        vector = self.chance.normal(size=self.dimension)
        if near is not None:
            vector = vector / np.linalg.norm(vector) + near
        scaled: np.ndarray[Any, Any] = (vector / np.linalg.norm(vector)).astype(np.float32)
        return scaled

    def embed(self, ordinal: int) -> None:
        self.rows[ordinal] = self.vector()
        self.late.append(ordinal)

    def remove(self, *ordinals: int) -> None:
        for ordinal in ordinals:
            del self.rows[ordinal]
        self.removals += 1

    def _page(self, ordinals: Iterable[int]) -> Iterable[VectorPage]:
        found = [(at, vector) for at in ordinals if (vector := self.rows.get(at)) is not None]
        if found:
            self.loads += len(found)
            stored = b"".join(pack_vector(vector.tolist()) for _, vector in found)
            yield VectorPage(np.array([at for at, _ in found]), np.frombuffer(stored, "u1").reshape(len(found), -1))

    def ask(self, space: PartitionVectors, question: np.ndarray[Any, Any]) -> VectorScores | None:
        ordinals = np.array(sorted(self.rows), dtype=np.int64)
        return space.score(
            ordinals,
            VectorsVersion(self.removals, len(self.late)),
            lambda first: self._page(at for at in sorted(self.rows) if at >= first),
            lambda number: self._page(self.late[number:]),
            question,
        )

    def agrees(self, space: PartitionVectors) -> None:
        question = self.vector()
        found = self.ask(space, question)
        vectors = [self.rows[at] for at in sorted(self.rows)]
        wanted = [np.nan if vector is None else float(vector @ question) for vector in vectors]
        if all(vector is None for vector in vectors):
            assert found is None
        else:
            assert found is not None
            np.testing.assert_allclose(found.cosines, wanted, atol=0.03)


def test_vector_cache_follows_changes_and_loads_only_new_rows() -> None:
    table, space = Table(), PartitionVectors(32)
    table.add(10)
    table.agrees(space)
    assert table.loads == 10
    table.agrees(space)
    assert table.loads == 10
    table.add(5, embedded=False)
    table.agrees(space)
    table.embed(13)
    table.embed(14)
    table.agrees(space)
    assert table.loads == 12
    table.add(1)
    table.remove(1, 3, 14)
    table.agrees(space)
    assert table.loads == 13
    table.remove(*list(table.rows))
    table.add(3)
    table.agrees(space)
    table.embed(max(table.rows))
    table.agrees(space)


def test_vector_cache_accepts_vectors_added_late() -> None:
    table, space = Table(), PartitionVectors(32)
    table.add(4, embedded=False)
    table.agrees(space)
    for ordinal in list(table.rows):
        table.embed(ordinal)
        table.agrees(space)


def test_vector_cache_reloads_after_failed_read() -> None:
    table, space = Table(), PartitionVectors(32)
    table.add(10)

    def broken(_: int) -> Iterable[VectorPage]:
        yield from table._page(range(3))
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        space.score(np.array(sorted(table.rows)), VectorsVersion(0, 0), broken, broken, table.vector())
    table.agrees(space)


def test_vector_cache_serves_snapshot_older_than_a_delete() -> None:
    table, space = Table(), PartitionVectors(32)
    table.add(6)
    table.agrees(space)
    past = Table()
    past.rows = dict(table.rows)
    table.remove(2)
    table.agrees(space)
    past.agrees(space)
    assert past.loads == 6
    table.agrees(space)


def test_vector_cache_reports_its_memory_use() -> None:
    table, space = Table(64), PartitionVectors(64)
    assert space.nbytes == 0
    table.add(1000)
    table.agrees(space)
    assert 1000 * (64 + 4 + 8) <= space.nbytes <= 1000 * (64 + 4 + 8 + 8) * 1.6


@pytest.mark.parametrize("one_by_one", [False, True])
def test_vector_cache_approximate_scan_keeps_best_matches(one_by_one: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a space that was small when it was first looked at."""
    monkeypatch.setattr(vectors, "FULL_SCAN_LIMIT", 1000)
    table, space = Table(256), PartitionVectors(256)
    if one_by_one:
        for _ in range(3):
            table.add(1)
            table.agrees(space)
    table.add(6000)
    middle = table.vector()  # all of them lie to one side, as those of a language model do
    topics = [table.vector() for _ in range(100)]
    for at in sorted(table.rows)[10:]:
        table.rows[at] = table.vector(near=middle + topics[at % 100])
    matrix = np.array([table.rows[at] for at in sorted(table.rows)])
    for topic in topics[:5]:
        question = table.vector(near=middle + topic)
        found = table.ask(space, question)
        assert found is not None
        assert found.rough
        best = np.argsort(-found.cosines)[:300]
        wanted = np.argsort(-(matrix @ question))[:10]
        assert set(wanted.tolist()) <= set(best.tolist())
        np.testing.assert_allclose(found.rescore(wanted), matrix[wanted] @ question, atol=0.02)


class Thing:
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def test_cache_evicts_least_recently_used_and_keeps_latest() -> None:
    cache: Cache[Thing] = Cache(100)
    for name in "abc":
        cache.put(name, Thing(40))
    assert (cache.get("a"), cache.nbytes) == (None, 80)
    assert cache.get("b") is not None
    cache.put("d", Thing(40))
    assert cache.get("c") is None
    assert cache.get("b") is not None
    huge = Thing(1000)
    cache.put("e", huge)
    assert (cache.get("e"), cache.nbytes) == (huge, 1000)


def test_cache_setdefault_keeps_first_value() -> None:
    cache: Cache[Thing] = Cache(100)
    first = Thing(1)
    assert cache.setdefault("a", first) is first
    assert cache.setdefault("a", Thing(1)) is first


@pytest.fixture
def asked() -> Iterator[tuple[Limpet, list[str]]]:
    """A store somebody has spoken to, and the names of the rows it is asked for."""
    with Limpet.open(":memory:", config=Config.load(overrides={"embedding.model": "none"})) as memory:
        memory.session("chat", "1", user="ann").append("user", "The ferry leaves at noon")
        names: list[str] = []
        look_up = SqliteDb.all

        def one(self: SqliteDb, name: str, *args: Any, **kwargs: Any) -> Any:
            names.append(name)
            return look_up(self, name, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SqliteDb, "all", one)
            yield memory, names


def test_a_recall_looks_its_partition_up_once_and_the_next_one_again(asked: tuple[Limpet, list[str]]) -> None:
    memory, names = asked
    assert [hit.text for hit in memory.recall("ferry", user="ann")] == ["The ferry leaves at noon"]
    assert names.count("partitions.get") == 1
    memory.session("chat", "2", user="ann").append("user", "No ferry on Sunday")
    assert len(memory.recall("ferry", user="ann")) == 2


def test_catalogue_cache_is_invalidated_by_purge_counter(asked: tuple[Limpet, list[str]]) -> None:
    """What it remembers after others saw a purge is forgotten by whoever looks next."""
    memory, _ = asked
    store: Any = memory._runtime.store
    space = Partition("default", Level.USER, "ann")

    def read(tx: Tx) -> None:
        assert Chunks(tx).open_index(space) is not None
        mine, store.caches.purges = store.caches.purges, "another"
        Chunks(tx).open_index(space)
        assert store.caches.purges == mine

    store.read(read)


def test_cached_words_are_what_the_store_has_after_every_change() -> None:
    chance = random.Random(11)
    words = "apple bread cloud desk eagle forest garden honey".split()
    home = Partition("default", Level.USER, "ana")

    def compare(tx: Tx) -> None:
        row = Chunks(tx)._find_partition(home)
        assert row is not None
        if chance.random() < 0.5:
            Chunks(tx).open_index(home)  # grows the cached tail by what it reads for the catalogue
        cached, fresh = load_tail(tx, row, is_cached=True), load_tail(Tx(tx.db), row, is_cached=False)
        assert (cached.chunk_count, cached.word_count) == (fresh.chunk_count, fresh.word_count)
        assert np.array_equal(cached.terms, fresh.terms)
        assert np.array_equal(cached.entries, fresh.entries)
        terms = extract_terms(" ".join(words[::2]))
        kept, read = (
            load_postings(tx, row, terms, is_cached=True),
            load_postings(Tx(tx.db), row, terms, is_cached=False),
        )
        assert {term: entries.tolist() for term, entries in kept.items()} == {
            term: entries.tolist() for term, entries in read.items()
        }

    with Limpet.open(":memory:", config=Config.load(env={}, overrides={"embedding.model": "none"})) as memory:
        kept: list[str] = []
        for step in range(120):
            text = " ".join(chance.choices(words, k=chance.randint(1, 9))) + f" {step}"
            if kept and chance.random() < 0.2:
                memory.forget(kept.pop(chance.randrange(len(kept))), user="ana")
            elif chance.random() < 0.5:
                kept.append(memory.remember(text, user="ana").id)
            else:
                memory.session(user="ana").extend([Message.new("user", f"{text} {at}") for at in range(9)])
            memory._runtime.store.read(compare)


def test_recall_reads_the_postings_of_a_word_once(asked: tuple[Limpet, list[str]]) -> None:
    memory, names = asked
    memory.session("chat", "2", user="ann").extend([Message.new("user", f"Boat {at} sails") for at in range(500)])
    names.clear()
    assert memory.recall("boat 7", user="ann")[0].text == memory.recall("7 boat", user="ann")[0].text == "Boat 7 sails"
    assert names.count("postings.find") == 1
    memory.recall("boat 8", user="ann")
    assert names.count("postings.find") == 2


def test_recall_sees_postings_that_doctor_has_repaired(asked: tuple[Limpet, list[str]]) -> None:
    memory, _ = asked
    memory.session("chat", "2", user="ann").extend([Message.new("user", f"Boat {at} sails") for at in range(500)])
    store: Any = memory._runtime.store
    row = store.read(lambda tx: Chunks(tx)._find_partition(Partition("default", Level.USER, "ann")))
    found = memory.recall("boat 7", user="ann")
    assert found[0].text == "Boat 7 sails"
    for _ in range(2):
        store.write(lambda tx: tx.db.run("postings.delete_all", row.key))
        store.caches.drop_partition(row.id)
        assert memory.recall("boat 7", user="ann") != found
        memory.admin.doctor(repair=True)
        assert memory.recall("boat 7", user="ann") == found


def test_writing_transaction_does_not_cache_a_tail() -> None:
    home = Partition("default", Level.USER, "ana")
    with Limpet.open(":memory:", config=Config.load(env={}, overrides={"embedding.model": "none"})) as memory:
        memory.remember("Ana eats bread", user="ana")

        def look(tx: Tx) -> None:
            row = Chunks(tx)._find_partition(home)
            assert row is not None
            load_tail(tx, row, is_cached=True)

        memory._runtime.store.write(look)
        assert memory._runtime.store.caches.get(TAILS).nbytes == 0
        memory._runtime.store.read(look)
        assert memory._runtime.store.caches.get(TAILS).nbytes > 0


def test_names_are_those_of_the_catalogue_after_every_message() -> None:
    chance = random.Random(3)
    home = Partition("default", Level.USER, "ana")

    def compare(tx: Tx) -> None:
        names = Chunks(tx).names(home)
        fresh = Chunks(Tx(tx.db)).open_index(home)
        assert fresh is not None
        assert names == fresh.catalogue.names

    with Limpet.open(":memory:", config=Config.load(env={}, overrides={"embedding.model": "none"})) as memory:
        kept: list[str] = []
        for step in range(150):
            if kept and chance.random() < 0.1:
                memory.forget(kept.pop(), user="ana")
            elif chance.random() < 0.2:
                kept.append(memory.remember(f"fact {step}", user="ana").id)
            else:
                memory.session(user="ana").append(
                    "user", f"text {step}", name=chance.choice((None, f"Name {step // 9}"))
                )
            if chance.random() < 0.05:
                memory.recall("text", user="ana")  # the catalogue grows
            memory._runtime.store.read(compare)
