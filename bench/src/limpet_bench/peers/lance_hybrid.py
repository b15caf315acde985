"""LanceDB with its word index in addition to vectors, both rankings fused by its default."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from limpet.providers.embedder import Embedder
from limpet_bench.peers.lance import Lance
from limpet_bench.peers.peer import embed_texts


class HybridLance(Lance):
    def __init__(self, folder: Path, embedder: Embedder | None) -> None:
        super().__init__(folder, embedder)
        self._is_indexed = bool(self._said.list_indices())

    def search(self, user: str, question: str, k: int, at: datetime | None) -> list[str]:
        self._tidy()
        asked = embed_texts(self._embedder, [question])[0]
        found = self._said.search(query_type="hybrid").vector(asked).text(question)
        found = found.distance_type("cosine").where(self._of(user), prefilter=True)
        return [str(row["id"]) for row in found.limit(k).to_list()]

    def _tidy(self) -> None:
        """Add new rows to the index too."""
        if not self._is_indexed:
            self._said.create_fts_index("text")
            self._is_indexed = True
        super()._tidy()


def open_peer(folder: Path, embedder: Embedder | None) -> HybridLance:
    return HybridLance(folder, embedder)
