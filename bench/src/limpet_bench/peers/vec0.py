"""sqlite-vec: a virtual table of vectors, partitioned by user, beside a table of texts."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from limpet.providers.embedder import Embedder
from limpet_bench.datasets import Turn
from limpet_bench.peers.peer import embed_texts, format_turn


class Vec0:
    def __init__(self, path: Path, embedder: Embedder | None) -> None:
        import sqlite_vec

        assert embedder is not None
        self._embedder = embedder
        self._packed = sqlite_vec.serialize_float32
        self._connection = sqlite3.connect(path)
        self._connection.enable_load_extension(True)
        sqlite_vec.load(self._connection)
        self._connection.enable_load_extension(False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS said (number INTEGER PRIMARY KEY, id TEXT, user TEXT, text TEXT)"
        )
        self._connection.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS vectors USING vec0 (number INTEGER PRIMARY KEY,"
            f" user TEXT PARTITION KEY, vector FLOAT[{embedder.dimension}] DISTANCE_METRIC=cosine)"
        )

    def add(self, user: str, turns: Sequence[Turn]) -> None:
        texts = [format_turn(turn) for turn in turns]
        vectors = embed_texts(self._embedder, texts)
        with self._connection:
            for turn, text, vector in zip(turns, texts, vectors, strict=True):
                row = self._connection.execute(
                    "INSERT INTO said (id, user, text) VALUES (?, ?, ?)", (turn.id, user, text)
                )
                self._connection.execute(
                    "INSERT INTO vectors (number, user, vector) VALUES (?, ?, ?)",
                    (row.lastrowid, user, self._packed(vector)),
                )

    def search(self, user: str, question: str, k: int, at: datetime | None) -> list[str]:
        asked = self._packed(embed_texts(self._embedder, [question])[0])
        rows = self._connection.execute(
            "SELECT said.id FROM (SELECT number, distance FROM vectors WHERE vector MATCH ? AND user = ? AND k = ?)"
            " AS near JOIN said USING (number) ORDER BY near.distance",
            (asked, user, k),
        )
        return [id_ for (id_,) in rows]

    def ids(self, user: str) -> set[str]:
        """Of those that can be found: text and vector."""
        rows = self._connection.execute(
            "SELECT said.id FROM said JOIN vectors USING (number) WHERE said.user = ?", (user,)
        )
        return {id_ for (id_,) in rows}

    def close(self) -> None:
        self._connection.close()


def open_peer(folder: Path, embedder: Embedder | None) -> Vec0:
    return Vec0(folder / "said.db", embedder)
