"""Nothing that can be done outside the write lock is done inside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.knowledge.graph import extract
from limpet.knowledge.learn import Learner
from limpet.knowledge.remaining import RemainingFinder
from limpet.security import mask
from limpet.store.sqlite import scrub

CONFIG = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Limpet]:
    with Limpet.open(tmp_path, config=CONFIG) as opened:
        yield opened


def test_emptying_the_log_does_not_wait_for_readers_with_the_lock_held(memory: Limpet, tmp_path: Path) -> None:
    path = str(tmp_path / "limpet.db")
    memory.remember("I keep bees", user="ana")
    with closing(scrub.connect(path)) as reader, closing(scrub.connect(path, 5.0)) as copier:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM records").fetchall()
        memory.remember("I keep hens", user="ana")
        assert not scrub.truncate_wal(copier, 0)
        assert copier.execute("PRAGMA busy_timeout").fetchone() == (0,)
        reader.execute("COMMIT")
        assert scrub.truncate_wal(copier)


def test_each_turn_of_a_backlog_is_learned_in_a_write_of_its_own(
    memory: Limpet, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = memory.session("app", "main", user="ana")
    for pet in ("dog", "cat", "hen"):
        with session.turn(f"I have a {pet}.") as turn:
            turn.reply("How nice!")
    taught: list[int] = []
    write = Learner._write

    def count(self: Learner, tx: Any, batch: Any, finish: Any = lambda _: None) -> Any:
        taught.append(len(batch.found.candidates))
        return write(self, tx, batch, finish)

    monkeypatch.setattr(Learner, "_write", count)
    learned = session.learn()
    assert len(learned.added) == 3
    assert taught == [1, 1, 1]


def test_records_are_read_for_the_graph_outside_the_write(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[bool] = []
    real = extract.extract_from_record

    def watch(*arguments: Any) -> Any:
        inside.append(memory._runtime.store._writer._busy is not None)  # type: ignore[union-attr]
        return real(*arguments)

    monkeypatch.setattr(extract, "extract_from_record", watch)
    record = memory.remember("My sister Clara lives in Porto", user="ana")
    memory.jobs.run()
    assert inside == [False]
    assert any(entity.name == "Clara" for entity in memory.graph(user="ana").entities)
    memory.records.update(record.id, content="My sister Vera lives in Porto")
    memory.jobs.run()
    assert {entity.name for entity in memory.graph(user="ana").entities} >= {"Vera"}


def test_dry_run_of_forget_leaves_the_write_lock_to_others(
    memory: Limpet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = memory.remember("I keep bees", user="ana")
    with closing(scrub.connect(str(tmp_path / "limpet.db"), 0)) as other:
        find = RemainingFinder.find_stored

        def write_meanwhile(self: RemainingFinder, tx: Any) -> Any:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
            return find(self, tx)

        monkeypatch.setattr(RemainingFinder, "find_stored", write_meanwhile)
        assert memory.forget(record.id, user="ana", dry_run=True).ids == (record.id,)
    assert memory.records.get(record.id).content == "I keep bees"


def test_texts_of_a_turn_are_masked_once_and_outside_the_write(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[tuple[str, bool]] = []
    real = mask.mask_secrets

    def watch(text: str) -> mask.MaskedText:
        masked.append((text, memory._runtime.store._writer._busy is not None))  # type: ignore[union-attr]
        return real(text)

    monkeypatch.setattr(mask, "mask_secrets", watch)
    said, answer = "The wifi password: x1Y2z3W4", "I will keep x1Y2z3W4 for you, password: x1Y2z3W4"
    with memory.session("app", "main", user="ana").turn(said) as turn:
        turn.reply(answer)
    assert masked == [(said, False), (answer, False)]
    [record] = memory.records(user="ana")
    assert "x1Y2z3W4" not in record.content + memory.notes.day("ana")
