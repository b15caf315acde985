"""LangGraph's long-term store on SQLite, a namespace for each user."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from limpet.providers.embedder import Embedder
from limpet_bench.datasets import Turn
from limpet_bench.peers.peer import embed_texts, format_turn

_INDEXED = ["text"]  # set at each put too: 3.1.2 ignores the index setting and embeds the whole value as JSON


class LangGraph:
    def __init__(self, path: Path, embedder: Embedder | None) -> None:
        from langgraph.store.base import PutOp
        from langgraph.store.sqlite import SqliteStore

        assert embedder is not None
        self._put: Any = PutOp
        self._open = ExitStack()
        index: Any = {
            "dims": embedder.dimension,
            "embed": lambda texts: embed_texts(embedder, texts),
            "fields": _INDEXED,
        }
        self._store: Any = self._open.enter_context(SqliteStore.from_conn_string(str(path), index=index))
        self._store.setup()

    def add(self, user: str, turns: Sequence[Turn]) -> None:
        if len(turns) == 1:
            self._store.put(("said", user), turns[0].id, {"text": format_turn(turns[0])}, index=_INDEXED)
            return
        puts = [self._put(("said", user), turn.id, {"text": format_turn(turn)}, index=_INDEXED) for turn in turns]
        self._store.batch(puts)

    def search(self, user: str, question: str, k: int, at: datetime | None) -> list[str]:
        return [item.key for item in self._store.search(("said", user), query=question, limit=k)]

    def ids(self, user: str) -> set[str]:
        return {item.key for item in self._store.search(("said", user), limit=1_000_000)}

    def close(self) -> None:
        self._open.close()


def open_peer(folder: Path, embedder: Embedder | None) -> LangGraph:
    return LangGraph(folder / "said.db", embedder)
