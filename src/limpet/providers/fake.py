"""An embedder for tests: small vectors, failures on demand, a log of calls."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from limpet.errors import ProviderError


class FakeEmbedder:
    """The same text gives the same vector; different texts give unrelated vectors.

    The first ``failures`` calls fail; -1 fails always. ``calls`` lists the texts of each call, failed ones included.
    """

    def __init__(self, dimension: int = 8, *, name: str | None = None, failures: int = 0) -> None:
        self.dimension = dimension
        self.name = name or f"fake-{dimension}"
        self.failures = failures
        self.error: Exception = ProviderError("the fake embedder is set to fail")
        self.calls: list[tuple[str, ...]] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append(tuple(texts))
        if self.failures:
            self.failures -= self.failures > 0
            raise self.error
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        values: list[float] = []
        for block in range(-(-self.dimension // 32)):
            hashed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32, salt=block.to_bytes(8, "big"))
            values += [byte / 127.5 - 1 for byte in hashed.digest()]  # never 0, so never a zero vector
        values = values[: self.dimension]
        length = sum(value * value for value in values) ** 0.5
        return [value / length for value in values]
