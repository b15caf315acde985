"""mem0 without a language model: messages stored unchanged (``infer=False``), in its default vector store on disk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from limpet.providers.embedder import Embedder
from limpet_bench.datasets import Turn
from limpet_bench.peers.peer import embed_texts, format_turn

_ROLES = ("user", "assistant")


class Mem0:
    def __init__(self, folder: Path, embedder: Embedder | None) -> None:
        from mem0 import Memory

        assert embedder is not None
        place = {"path": str(folder / "vectors"), "on_disk": True, "embedding_model_dims": embedder.dimension}
        self._memory: Any = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": place},
                "embedder": {"provider": "langchain", "config": {"model": _for_langchain(embedder)}},
                # A model must be named, but is never called.
                "llm": {"provider": "openai", "config": {"model": "none", "api_key": "none"}},
                "history_db_path": str(folder / "history.db"),
            }
        )

    def add(self, user: str, turns: Sequence[Turn]) -> None:
        for turn in turns:  # each with its own metadata
            said = {"role": turn.role if turn.role in _ROLES else "user", "content": format_turn(turn)}
            self._memory.add([said], user_id=user, metadata={"turn": turn.id}, infer=False)

    def search(self, user: str, question: str, k: int, at: datetime | None) -> list[str]:
        found = self._memory.search(question, top_k=k, filters={"user_id": user})
        return [each["metadata"]["turn"] for each in found["results"]]

    def ids(self, user: str) -> set[str]:
        found = self._memory.get_all(filters={"user_id": user}, top_k=1_000_000)
        return {each["metadata"]["turn"] for each in found["results"]}

    def close(self) -> None:
        self._memory.vector_store.client.close()
        self._memory.close()


def _for_langchain(embedder: Embedder) -> Any:
    from langchain_core.embeddings import Embeddings

    def embed_documents(_: object, texts: list[str]) -> list[list[float]]:
        return embed_texts(embedder, texts)

    def embed_query(_: object, text: str) -> list[float]:
        return embed_texts(embedder, [text])[0]

    methods = {"embed_documents": embed_documents, "embed_query": embed_query}
    return type("Handed", (Embeddings,), methods)()  # it requires a subclass


def open_peer(folder: Path, embedder: Embedder | None) -> Mem0:
    return Mem0(folder, embedder)
