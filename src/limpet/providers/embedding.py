"""Run an embedder: inline or in the background, in batches, with its output checked."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from math import hypot, isfinite
from threading import Lock
from time import monotonic

from limpet.config import EmbeddingSettings
from limpet.errors import ProviderError
from limpet.model.chunk import Vector
from limpet.model.telemetry import Activity, ActivityKind, Progress
from limpet.model.values import check_name
from limpet.providers.embedder import Embedder
from limpet.providers.llm import split_model_name
from limpet.security.telemetry import Observers

log = logging.getLogger("limpet.providers")


_LARGEST = 1e15  # per value: the sum of many squares still fits 32 bits
_MOST_DIMENSIONS = 16_000  # the limit of pgvector
_QUESTIONS = 256  # cached question vectors: a context often repeats the question of a recall
_REST_S = 30.0  # seconds without attempts after a failure, so that questions do not all wait for a slow embedder


class BatchEmbedder:
    """An embedder and its settings. Thread-safe if the embedder is."""

    def __init__(self, embedder: Embedder, config: EmbeddingSettings, observers: Observers | None = None) -> None:
        self.model = check_name(embedder.name, "the embedder's name")
        self._embedder = embedder
        self._config = config
        self._observers = observers or Observers()
        self._seconds_a_text: float | None = None
        self._loaded = False
        self._resting_until = 0.0
        self._lock = Lock()
        self._asked: OrderedDict[str, Vector] = OrderedDict()

    @property
    def is_inline(self) -> bool:
        """Return whether a caller may wait for it. Without ``quick``, it counts as fast until a call was slow."""
        if self._config.when != "auto":
            return self._config.when == "now"
        if not getattr(self._embedder, "quick", True):
            return False
        return self._seconds_a_text is None or self._seconds_a_text * 1000 <= self._config.quick_ms

    def embed_texts(self, texts: Sequence[str], progress: Progress | None = None) -> list[Vector]:
        """Raises ProviderError for any failure of the embedder."""
        vectors: list[Vector] = []
        for batch in _batches(texts, self._config.batch):
            started = monotonic()
            try:
                vectors += [Vector(self.model, values) for values in self._embed(batch)]
            finally:  # a failed call may be slow too
                if self._loaded:  # the first call may include loading the model
                    self._seconds_a_text = (monotonic() - started) / len(batch)
                self._loaded = True
            if progress is not None:
                progress("embedding", len(vectors), len(texts))
        return vectors

    def _embed(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        if not self._observers.on:
            return self._embed_batch(texts)
        provider, model = split_model_name(self.model)
        with self._observers.measure(
            Activity(kind=ActivityKind.EMBEDDINGS, name=model, provider=provider)
        ) as measurement:
            measurement.count = len(texts)
            return self._embed_batch(texts)

    def _embed_batch(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        try:
            # Keep this order: some embedders learn their dimension from the first answer.
            return _check_vectors(self._embedder.embed(texts), len(texts), self._embedder.dimension)
        except ProviderError:
            raise
        except Exception as error:  # why: an embedder is third-party code and may raise anything
            raise ProviderError(f"the embedder {self.model} failed: {error}") from error

    def embed_question(self, text: str) -> Vector | None:
        """Return the question's vector, or None if the embedder fails: search then uses words only."""
        with self._lock:
            if text in self._asked:
                self._asked.move_to_end(text)
                return self._asked[text]
        if monotonic() < self._resting_until:
            return None
        try:
            vector = Vector(self.model, self._embed([text])[0])
        except ProviderError as error:
            log.warning("questions are not embedded for %d seconds; search uses words only: %s", _REST_S, error)
            self._resting_until = monotonic() + _REST_S
            return None
        with self._lock:
            self._asked[text] = vector
            while len(self._asked) > _QUESTIONS:
                self._asked.popitem(last=False)
        return vector


def _batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (texts[start : start + size] for start in range(0, len(texts), size))


def _check_vectors(raw: Iterable[Iterable[float]], count: int, dimension: int) -> list[tuple[float, ...]]:
    """Check for one vector per text, equal lengths and finite values; a backend would reject anything else."""
    vectors = [tuple(map(float, vector)) for vector in raw]
    if len(vectors) != count:
        raise ProviderError(f"{len(vectors)} vectors returned for {count} texts")
    if len({len(vector) for vector in vectors}) != 1 or not vectors[0]:
        raise ProviderError("the vectors are empty or of different lengths")
    if len(vectors[0]) != dimension or dimension > _MOST_DIMENSIONS:
        most = f"{dimension} were expected, and at most {_MOST_DIMENSIONS} can be stored"
        raise ProviderError(f"the vectors have {len(vectors[0])} dimensions; {most}")
    if not all(isfinite(hypot(*vector)) and max(map(abs, vector)) < _LARGEST for vector in vectors):
        raise ProviderError("a vector contains a value that is not a number or is too large")
    return vectors
