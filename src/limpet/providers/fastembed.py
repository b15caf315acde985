"""FastEmbed models, with the extra ``fastembed``. A model is downloaded on first use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from threading import Lock
from typing import Any

from limpet.errors import ProviderError, Unsupported
from limpet.providers.embedder import normalize_vector


class FastEmbedEmbedder:
    """Loads the model on the first call. Thread-safe: calls are serialized."""

    def __init__(self, model: str = "BAAI/bge-small-en-v1.5", *, threads: int | None = None) -> None:
        if find_spec("fastembed") is None:
            raise Unsupported('this embedder needs a package: pip install "limpet[fastembed]"')
        self.name = f"fastembed:{model}"
        self._model = model
        self._threads = threads
        self._loaded: Any = None
        self._turn = Lock()

    @cached_property
    def dimension(self) -> int:
        return len(self.embed(["dimension"])[0])

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not texts:
            return []
        try:
            with self._turn:
                vectors = list(self._encoder().embed(list(texts)))
        except Exception as error:  # why: the hub client and the runtime raise unrelated exceptions
            raise ProviderError(f"FastEmbed failed with the model {self._model!r}: {error}") from error
        return [normalize_vector(list(map(float, vector))) for vector in vectors]

    def _encoder(self) -> Any:
        if self._loaded is None:
            from fastembed import TextEmbedding

            self._loaded = TextEmbedding(model_name=self._model, threads=self._threads)
        return self._loaded
