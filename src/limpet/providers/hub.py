"""Models of sentence-transformers and FastEmbed, each with the extra of that name. Downloaded on first use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from threading import Lock
from typing import Any, ClassVar

from limpet.errors import ProviderError, Unsupported
from limpet.model.late import lazy_property, load_modules
from limpet.providers.embedder import normalize_vector
from limpet.providers.minilm import disable_vendor_telemetry


class _HubEmbedder:
    """Loads the model on the first call. Thread-safe: calls are serialized."""

    kind: ClassVar[str]  # also the name of the extra
    package: ClassVar[str]

    def __init__(self, model: str) -> None:
        if find_spec(self.package) is None:
            raise Unsupported(f'this embedder needs a package: pip install "limpet[{self.kind}]"')
        self.name = f"{self.kind}:{model}"
        self._model = model
        self._loaded: Any = None
        self._turn = Lock()

    @lazy_property
    def dimension(self) -> int:
        return len(self.embed(["dimension"])[0])

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not texts:
            return []
        try:
            with self._turn:
                self._loaded = self._loaded or self._load()
                vectors = list(self._encode(list(texts)))
        except Exception as error:  # why: the hub client, the runtime and the hardware raise unrelated exceptions
            raise ProviderError(f"{self.kind} failed with the model {self._model!r}: {error}") from error
        return [normalize_vector(list(map(float, vector))) for vector in vectors]

    def _load(self) -> Any:
        raise NotImplementedError

    def _encode(self, texts: list[str]) -> Iterable[Iterable[float]]:
        raise NotImplementedError


class SentenceTransformersEmbedder(_HubEmbedder):
    kind = "sentence-transformers"
    package = "sentence_transformers"

    def __init__(self, model: str = "all-MiniLM-L6-v2", *, device: str | None = None) -> None:
        super().__init__(model)
        self._device = device

    def _load(self) -> Any:
        disable_vendor_telemetry()
        load_modules("sentence_transformers")
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(self._model, device=self._device)

    def _encode(self, texts: list[str]) -> Any:
        return self._loaded.encode(texts, normalize_embeddings=True, show_progress_bar=False)


class FastEmbedEmbedder(_HubEmbedder):
    kind = package = "fastembed"

    def __init__(self, model: str = "BAAI/bge-small-en-v1.5", *, threads: int | None = None) -> None:
        super().__init__(model)
        self._threads = threads

    def _load(self) -> Any:
        disable_vendor_telemetry()
        load_modules("fastembed")
        from fastembed import TextEmbedding

        return TextEmbedding(model_name=self._model, threads=self._threads)

    def _encode(self, texts: list[str]) -> Any:
        return self._loaded.embed(texts)
