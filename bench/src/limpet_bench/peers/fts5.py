"""A plain table with SQLite's full-text index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from limpet.providers.embedder import Embedder
from limpet_bench.datasets import Turn
from limpet_bench.peers.peer import format_turn

_WORD = re.compile(r"\w+")


class Fts5:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS said USING"
            " fts5 (id UNINDEXED, user UNINDEXED, text, tokenize = 'porter unicode61')"
        )

    def add(self, user: str, turns: Sequence[Turn]) -> None:
        with self._connection:
            self._connection.executemany(
                "INSERT INTO said VALUES (?, ?, ?)", [(turn.id, user, format_turn(turn)) for turn in turns]
            )

    def search(self, user: str, question: str, k: int, at: datetime | None) -> list[str]:
        any_word = " OR ".join(f'"{word}"' for word in dict.fromkeys(_WORD.findall(question.lower())))
        if not any_word:
            return []
        rows = self._connection.execute(
            "SELECT id FROM said WHERE said MATCH ? AND user = ? ORDER BY rank LIMIT ?", (any_word, user, k)
        )
        return [id_ for (id_,) in rows]

    def ids(self, user: str) -> set[str]:
        return {id_ for (id_,) in self._connection.execute("SELECT id FROM said WHERE user = ?", (user,))}

    def close(self) -> None:
        self._connection.close()


def open_peer(folder: Path, embedder: Embedder | None) -> Fts5:  # noqa: ARG001 - as all of them are opened
    return Fts5(folder / "said.db")
