"""An embedder with a stopwatch: how much of storing and of recall is its time."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from limpet.providers.embedder import Embedder


class TimedEmbedder:
    """Embeds with another embedder, and adds up the seconds it takes."""

    def __init__(self, embedder: Embedder) -> None:
        self.seconds = 0.0
        self._embedder = embedder

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        started = perf_counter()
        try:
            return self._embedder.embed(texts)
        finally:
            self.seconds += perf_counter() - started

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)
