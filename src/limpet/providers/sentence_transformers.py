"""sentence-transformers models, with the extra of that name. A model is downloaded on first use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from threading import Lock
from typing import Any

from limpet.errors import ProviderError, Unsupported
from limpet.providers.embedder import normalize_vector


class SentenceTransformersEmbedder:
    """Loads the model on the first call. Thread-safe: calls are serialized."""

    def __init__(self, model: str = "all-MiniLM-L6-v2", *, device: str | None = None) -> None:
        if find_spec("sentence_transformers") is None:
            raise Unsupported('this embedder needs a package: pip install "limpet[sentence-transformers]"')
        self.name = f"sentence-transformers:{model}"
        self._model = model
        self._device = device
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
                vectors = self._encoder().encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        except Exception as error:  # why: the hub client, the runtime and the hardware raise unrelated exceptions
            raise ProviderError(f"sentence-transformers failed with the model {self._model!r}: {error}") from error
        return [normalize_vector(list(map(float, vector))) for vector in vectors]

    def _encoder(self) -> Any:
        if self._loaded is None:
            from sentence_transformers import SentenceTransformer

            self._loaded = SentenceTransformer(self._model, device=self._device)
        return self._loaded
