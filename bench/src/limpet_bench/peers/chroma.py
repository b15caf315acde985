"""Chroma in this process: one collection on disk, filtered by user."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from limpet.providers.embedder import Embedder
from limpet_bench.datasets import Turn
from limpet_bench.peers.peer import embed_texts, format_turn


class Chroma:
    def __init__(self, folder: Path, embedder: Embedder | None) -> None:
        import chromadb
        from chromadb.config import Settings

        self._embedder = embedder
        client = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
        self._said: Any = client.get_or_create_collection(
            "said", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )

    def add(self, user: str, turns: Sequence[Turn]) -> None:
        texts = [format_turn(turn) for turn in turns]
        self._said.add(
            ids=[turn.id for turn in turns],
            documents=texts,
            embeddings=embed_texts(self._embedder, texts),
            metadatas=[{"user": user, "session": turn.session, "role": turn.role} for turn in turns],
        )

    def search(self, user: str, question: str, k: int, at: datetime | None) -> list[str]:
        asked = embed_texts(self._embedder, [question])
        found = self._said.query(query_embeddings=asked, n_results=k, where={"user": user}, include=["documents"])
        return list(found["ids"][0])

    def ids(self, user: str) -> set[str]:
        return set(self._said.get(where={"user": user}, include=[])["ids"])

    def close(self) -> None:
        """Nothing to do: writes are immediate."""


def open_peer(folder: Path, embedder: Embedder | None) -> Chroma:
    return Chroma(folder, embedder)
