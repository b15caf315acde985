"""The writes of the speed bench, and the plain database it is compared with."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter

from limpet import Config, Limpet, Message
from limpet.api.runtime import DATABASE
from limpet.store.sqlite.connection import SqliteConnection

_SYLLABLES = (
    "ka lo mi ren sto ba chi du fel gar hon il jo ku len mor nap or pel qui ras sol tam ur vel wim xan yor zet".split()
)


def texts(count: int, seed: int = 7) -> list[str]:
    """Messages of about twenty words from a vocabulary of eight thousand, common words more often."""
    chance = random.Random(seed)  # noqa: S311 - repeatable is the point
    words = ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(8_000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    return [" ".join(chance.choices(words, weights, k=chance.randint(5, 35))) for _ in range(count)]


_BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


class Clock:
    """A clock that stands where it is set."""

    def __init__(self) -> None:
        self.now = _BEGIN

    def __call__(self) -> datetime:
        return self.now

    def set(self, day: int, hour: float) -> None:
        self.now = _BEGIN + timedelta(days=day, hours=hour)


PLAIN = Config.load(env={}, overrides={"embedding.model": "none"})


class Bare:
    """Insert the same row into the same table with the same pragmas: BEGIN, INSERT, COMMIT."""

    INSERT = (
        "INSERT INTO messages"
        " (bucket, partition_id, session_id, sequence, role, content, is_error, tokens, created_at)"
        " VALUES (?, ?, ?, ?, 'user', ?, 0, 20, ?)"
    )

    def __init__(self, folder: Path, sessions: int) -> None:
        self._path = str(folder / DATABASE)
        self._config = Config()
        with Limpet.open(folder, config=PLAIN) as memory:  # creates the table, its indexes and the referenced rows
            ids = [memory.session("bench", str(number), user=f"user{number}").id for number in range(sessions)]
        connection = self.connect()
        query = "SELECT bucket, partition_id, id FROM sessions WHERE id = ?"
        self.sessions = [connection.execute(query, (id_,)).fetchone() for id_ in ids]
        connection.close()

    def connect(self) -> sqlite3.Connection:
        return SqliteConnection(self._path, self._config.storage).raw

    def insert(self, connection: sqlite3.Connection, session: tuple[int, int, str], sequence: int, text: str) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(self.INSERT, (*session, sequence, text, 1_700_000_000_000_000 + sequence))
        connection.execute("COMMIT")


def time_call(action: Callable[[], object]) -> float:
    start = perf_counter()
    action()
    return perf_counter() - start


def together(threads: int, action: Callable[[int], object]) -> float:
    """Return the seconds until every thread has finished."""
    with ThreadPoolExecutor(threads) as pool:
        return time_call(lambda: list(pool.map(action, range(threads))))


def fill(memory: Limpet, messages: int, users: int, progress: Callable[[int], None]) -> None:
    """Create a store with that many messages of many users, written like an import."""
    batch = 500
    pool = texts(20_000)
    for start in range(0, messages, batch):
        number = start // batch % users
        session = memory.session("bench", str(number), user=f"user{number}")
        lines = (
            pool[(start * 31 + at * 7) % len(pool)] + f" {start + at}" for at in range(min(batch, messages - start))
        )
        session.extend([Message.new("user", line) for line in lines])
        progress(start + batch)


def give_vectors(folder: Path, dimension: int) -> None:
    """Store a zero vector for every chunk without one: they are never read."""
    connection = SqliteConnection(str(folder / DATABASE), Config().storage).raw
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        "INSERT OR IGNORE INTO vectors (bucket, partition_id, ordinal, model_id, vector)"
        " SELECT c.bucket, c.partition_id, c.ordinal, m.id, zeroblob(m.dimension * 4) FROM chunks c, models m"
        " WHERE m.dimension = ?",
        (dimension,),
    )
    connection.execute("COMMIT")
    connection.close()
