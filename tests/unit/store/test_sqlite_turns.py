"""How processes take turns at one SQLite file: in equal short steps, and not twice in a row while others wait."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from limpet.config import StorageSettings
from limpet.errors import StoreBusy
from limpet.store.sqlite import connection as connection_module
from limpet.store.sqlite.connection import SqliteConnection


class Time:
    """Time that passes only while somebody sleeps; ``on_sleep`` is what happens meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps.append(seconds)
        self.on_sleep()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(connection_module, "time", made)
    return made


@pytest.fixture
def writer(tmp_path: Path, time: Time) -> Iterator[SqliteConnection]:
    made = SqliteConnection(str(tmp_path / "a.db"), StorageSettings())
    made.poll_for_turn()
    yield made
    made.close()


@pytest.fixture
def other(tmp_path: Path, writer: SqliteConnection) -> Iterator[sqlite3.Connection]:
    """Another process."""
    made = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    made.execute("PRAGMA busy_timeout = 0")
    yield made
    made.close()


def take_turn(writer: SqliteConnection) -> None:
    writer.begin()
    writer.commit()


def test_writer_without_others_never_sleeps(writer: SqliteConnection, time: Time) -> None:
    for _ in range(3):
        take_turn(writer)
    assert time.sleeps == []


def test_writer_that_has_waited_longer_looks_more_often(
    writer: SqliteConnection, other: sqlite3.Connection, time: Time
) -> None:
    other.execute("BEGIN IMMEDIATE")
    time.on_sleep = lambda: other.commit() if time.now >= 0.3 else None
    take_turn(writer)
    assert time.sleeps == sorted(time.sleeps, reverse=True)
    assert time.sleeps[0] <= 0.001
    assert time.sleeps[-1] <= time.sleeps[0] / 5


def test_writer_that_had_to_wait_lets_others_take_their_turn(
    writer: SqliteConnection, other: sqlite3.Connection, time: Time
) -> None:
    other.execute("BEGIN IMMEDIATE")
    time.on_sleep = other.commit
    take_turn(writer)
    turns: list[str] = []

    def take_other_turn() -> None:
        other.execute("BEGIN IMMEDIATE")
        other.execute("COMMIT")
        turns.append("other")

    time.on_sleep = take_other_turn
    for _ in range(3):
        take_turn(writer)
        turns.append("writer")
    assert turns == ["other", "writer"] * 3
    time.now += 60  # nobody came for a minute
    turns.clear()
    take_turn(writer)
    assert turns == []


def test_writer_gives_up_after_busy_timeout(writer: SqliteConnection, other: sqlite3.Connection, time: Time) -> None:
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        writer.begin()
    assert 5.0 <= time.now <= 5.1
    other.execute("COMMIT")
    take_turn(writer)
