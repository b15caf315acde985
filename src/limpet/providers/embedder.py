"""The embedder interface: texts to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from typing import Protocol

from limpet.errors import InvalidInput


class Embedder(Protocol):
    """Vectors are stored under ``name`` and compared only within it, so a changed model needs a new name.

    Called from several threads. An attribute ``quick`` says whether writes wait for it; without one, they do as long
    as it answers fast. If a method ``reads(text)`` returns false for a question, words alone search it.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order; an empty text has one too. Raises ProviderError."""


def normalize_vector(vector: Sequence[float]) -> list[float]:
    """Scale a vector to length one. A zero vector is returned unchanged."""
    length = hypot(*vector) or 1.0
    return [value / length for value in vector]


def check_embedder(value: object) -> None:
    """Raise InvalidInput if the value is not an embedder."""
    if value is not None and not all(hasattr(value, name) for name in ("name", "dimension", "embed")):
        raise InvalidInput(
            f"an embedder needs name, dimension and embed(texts); {type(value).__name__} does not have them"
        )
