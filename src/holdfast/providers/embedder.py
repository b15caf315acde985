"""Turning texts into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    """Vectors are stored under ``name`` and only compared within it: a changed model needs another name."""

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector for each text, in order. Raises ProviderError."""
