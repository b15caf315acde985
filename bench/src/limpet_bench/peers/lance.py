"""LanceDB in this process: one table, filtered by user before the search."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from limpet.providers.embedder import Embedder
from limpet_bench.datasets import Turn
from limpet_bench.peers.peer import embed_texts, format_turn


class Lance:
    def __init__(self, folder: Path, embedder: Embedder | None) -> None:
        import lancedb
        import pyarrow as pa

        assert embedder is not None
        self._embedder = embedder
        self._has_news = False
        columns = [pa.field(name, pa.string()) for name in ("id", "user", "text")]
        vector = pa.field("vector", pa.list_(pa.float32(), embedder.dimension))
        self._said: Any = lancedb.connect(str(folder)).create_table(
            "said", schema=pa.schema([*columns, vector]), exist_ok=True
        )

    def add(self, user: str, turns: Sequence[Turn]) -> None:
        texts = [format_turn(turn) for turn in turns]
        vectors = embed_texts(self._embedder, texts)
        self._said.add(
            [
                {"id": turn.id, "user": user, "text": text, "vector": vector}
                for turn, text, vector in zip(turns, texts, vectors, strict=True)
            ]
        )
        self._has_news = True

    def search(self, user: str, question: str, k: int, at: datetime | None) -> list[str]:
        self._tidy()
        asked = embed_texts(self._embedder, [question])[0]
        found = self._said.search(asked).distance_type("cosine").where(self._of(user), prefilter=True)
        return [str(row["id"]) for row in found.select(["id", "_distance"]).limit(k).to_list()]

    def _tidy(self) -> None:
        """Optimize, as its documentation advises after many small writes: here before the next question."""
        if self._has_news:
            self._said.optimize()
        self._has_news = False

    def ids(self, user: str) -> set[str]:
        found = self._said.search().where(self._of(user)).select(["id"]).limit(self._said.count_rows())
        return {str(row["id"]) for row in found.to_list()}

    def close(self) -> None:
        """Nothing to do: every add is a version of its own."""

    @staticmethod
    def _of(user: str) -> str:
        return "user = '{}'".format(user.replace("'", "''"))


def open_peer(folder: Path, embedder: Embedder | None) -> Lance:
    return Lance(folder, embedder)
