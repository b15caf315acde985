"""No database: one line of JSON per message, loaded on open, and one multiplication per question."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from limpet.providers.embedder import Embedder
from limpet_bench.datasets import Turn
from limpet_bench.peers.peer import embed_texts, format_turn


class Flat:
    def __init__(self, path: Path, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._lines: dict[str, list[dict[str, Any]]] = {}
        self._matrices: dict[str, Any] = {}  # of users searched since their last message
        self._file = path.open("a+", encoding="utf-8")
        self._file.seek(0)
        for line in self._file:
            self._keep(json.loads(line))

    def _keep(self, line: dict[str, Any]) -> None:
        self._lines.setdefault(line["user"], []).append(line)
        self._matrices.pop(line["user"], None)

    def add(self, user: str, turns: Sequence[Turn]) -> None:
        texts = [format_turn(turn) for turn in turns]
        vectors = embed_texts(self._embedder, texts)
        lines = [
            {"id": turn.id, "user": user, "text": text, "vector": vector}
            for turn, text, vector in zip(turns, texts, vectors, strict=True)
        ]
        self._file.write("".join(json.dumps(line) + "\n" for line in lines))
        self._file.flush()
        for line in lines:
            self._keep(line)

    def search(self, user: str, question: str, k: int, at: datetime | None) -> list[str]:
        import numpy as np

        lines = self._lines.get(user, [])
        if user not in self._matrices:
            self._matrices[user] = np.asarray([line["vector"] for line in lines], dtype=np.float32)
        near = self._matrices[user] @ np.asarray(embed_texts(self._embedder, [question])[0], dtype=np.float32)
        return [lines[at]["id"] for at in np.argsort(-near, kind="stable")[:k]]

    def ids(self, user: str) -> set[str]:
        return {line["id"] for line in self._lines.get(user, [])}

    def close(self) -> None:
        self._file.close()


def open_peer(folder: Path, embedder: Embedder | None) -> Flat:
    return Flat(folder / "said.jsonl", embedder)
