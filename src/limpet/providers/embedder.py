"""Turning texts into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from typing import Protocol

from limpet.errors import InvalidInput


class Embedder(Protocol):
    """Vectors are stored under ``name`` and only compared within it: a changed model needs another name.

    It is called from several threads. An attribute ``quick`` that is False says that no write should wait for it.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector for each text, in order; of any text, the empty one too. Raises ProviderError."""


def normalize_vector(vector: Sequence[float]) -> list[float]:
    """To length one, as every embedder here gives them; a vector of zeros stays what it is."""
    length = hypot(*vector) or 1.0
    return [value / length for value in vector]


def check_embedder(value: object) -> None:
    """Refuse what is none before a store is opened with it."""
    if value is not None and not all(hasattr(value, name) for name in ("name", "dimension", "embed")):
        raise InvalidInput(f"an embedder has a name, a dimension and embed(texts); {type(value).__name__} has not")
