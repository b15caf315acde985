"""Qdrant's client without a server: its local mode, on disk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from limpet.providers.embedder import Embedder
from limpet_bench.datasets import Turn
from limpet_bench.peers.peer import embed_texts, format_turn

_SAID = "said"


class Qdrant:
    def __init__(self, folder: Path, embedder: Embedder | None) -> None:
        from qdrant_client import QdrantClient, models

        assert embedder is not None
        self._embedder = embedder
        self._models: Any = models
        self._client = QdrantClient(path=str(folder))
        if not self._client.collection_exists(_SAID):
            self._client.create_collection(
                _SAID, vectors_config=models.VectorParams(size=embedder.dimension, distance=models.Distance.COSINE)
            )

    def add(self, user: str, turns: Sequence[Turn]) -> None:
        texts = [format_turn(turn) for turn in turns]
        vectors = embed_texts(self._embedder, texts)
        points = [
            self._models.PointStruct(
                id=str(uuid5(NAMESPACE_URL, turn.id)),  # it takes numbers and UUIDs
                vector=vector,
                payload={"id": turn.id, "user": user, "text": text},
            )
            for turn, text, vector in zip(turns, texts, vectors, strict=True)
        ]
        self._client.upsert(_SAID, points, wait=True)

    def search(self, user: str, question: str, k: int, at: datetime | None) -> list[str]:
        asked = embed_texts(self._embedder, [question])[0]
        found = self._client.query_points(_SAID, query=asked, query_filter=self._of(user), limit=k)
        return [point.payload["id"] for point in found.points]

    def ids(self, user: str) -> set[str]:
        most = self._client.count(_SAID).count
        points, _ = self._client.scroll(_SAID, scroll_filter=self._of(user), limit=max(1, most))
        return {point.payload["id"] for point in points}

    def close(self) -> None:
        self._client.close()

    def _of(self, user: str) -> Any:
        models = self._models
        return models.Filter(must=[models.FieldCondition(key="user", match=models.MatchValue(value=user))])


def open_peer(folder: Path, embedder: Embedder | None) -> Qdrant:
    return Qdrant(folder, embedder)
