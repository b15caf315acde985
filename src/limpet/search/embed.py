"""Embed questions and chunks: in batches with their output checked, before the transaction or in a job after it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import hypot, isfinite
from threading import Lock
from time import monotonic

from limpet.config import EmbeddingSettings
from limpet.errors import ProviderError
from limpet.model.chunk import ChunkDraft, Vector
from limpet.model.dataclass import dataclass
from limpet.model.job import EMBED
from limpet.model.scope import Partition
from limpet.model.telemetry import Activity, ActivityKind, Progress
from limpet.model.values import check_name
from limpet.providers.embedder import Embedder
from limpet.providers.llm import split_model_name
from limpet.search.analysis import strip_names
from limpet.search.chunk_repository import Chunks
from limpet.search.vectors import Unembedded
from limpet.security.telemetry import Observers
from limpet.store import jobs
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.search")

_LARGEST = 1e15  # per value: the sum of many squares still fits 32 bits
_MOST_DIMENSIONS = 16_000  # the limit of pgvector
_QUESTIONS = 256  # cached question vectors: a context often repeats the question of a recall
_REST_S = 30.0  # seconds without attempts after a failure, so that questions do not all wait for a slow embedder
_BATCH = 64
_MODEL = "model"
MAX_REFUSALS = 3  # consecutive rejected texts after which the embedder counts as failed


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


@dataclass(frozen=True, slots=True)
class ChunkEmbedder:
    """Embeds new chunks. Without a model, search uses words only."""

    store: Store
    model: BatchEmbedder | None
    wake_worker: Callable[[], None]  # starts the job that embeds chunks without a vector

    def embed_drafts(
        self,
        partition: Partition,
        drafts: Sequence[ChunkDraft],
        names: Iterable[str] = (),
        progress: Progress | None = None,
    ) -> list[ChunkDraft]:
        """Return the drafts with vectors. If embedding is slow or fails, return them unchanged: words still match."""
        if self.model is None or not drafts or not self.model.is_inline:
            return list(drafts)
        known = dict.fromkeys((*self.store.read(lambda tx: Chunks(tx).names(partition)), *names))
        texts = [strip_names(draft.text, tuple(known)) for draft in drafts]
        try:
            vectors = self.model.embed_texts(texts, progress)
        except ProviderError as error:
            log.warning(
                "embedding failed; %d chunks are searched by words only until it works again: %s", len(texts), error
            )
            return list(drafts)
        return [draft._replace(vector=vector) for draft, vector in zip(drafts, vectors, strict=True)]

    def request_missing(self, drafts: Iterable[ChunkDraft]) -> None:
        """Call after storing chunks: those without a vector are embedded in the background."""
        if self.model is not None and any(draft.vector is None for draft in drafts):
            self.wake_worker()

    def request_all(self) -> None:
        """Call after storing many chunks without vectors."""
        if self.model is not None:
            self.wake_worker()


def set_embedding_model(store: Store, model: str, now: datetime) -> None:
    """Set the model whose vectors are stored, and enqueue jobs for missing vectors."""

    def change(tx: Tx) -> None:
        if _find_model(tx) != model:
            tx.db.run("properties.set", {"name": _MODEL, "value": model})
            jobs.enqueue_for_all_partitions(tx.db, EMBED, model, now)

    if store.read(_find_model) != model:
        store.write(change)


def _find_model(tx: Tx) -> str | None:
    row = tx.db.one("properties.get", {"name": _MODEL})
    return None if row is None else str(row[0])


def embed_missing(
    store: Store,
    embedding: BatchEmbedder,
    partition: Partition,
    limit: int,
    patience: int = MAX_REFUSALS,
    *,
    stopping: Callable[[], bool] = lambda: False,
    between: Callable[[], None] = lambda: None,
    finish: Callable[[Tx], None] = lambda _: None,
) -> int:
    """Embed at most ``limit`` chunks of the partition that have no vector. Return how many were embedded.

    A text that the embedder rejects is skipped. If it rejects the first ``patience`` texts, it counts as failed.
    ``between`` is called between batches, ``finish`` in the transaction that stores the last vectors.
    """
    names = store.read(lambda tx: Chunks(tx).names(partition))
    done, after = 0, -1
    while done < limit and not stopping():
        size = min(_BATCH, limit - done)
        chunks = _find_without_vector(store, partition, embedding.model, after, size)
        vectors = _embed_chunks(embedding, names, chunks, patience)
        last = len(chunks) < size
        _store_vectors(store, partition, vectors, finish if last else lambda _: None)
        done += len(vectors)
        if last:
            break
        after = chunks[-1].ordinal
        between()
    return done


def _find_without_vector(store: Store, partition: Partition, model: str, after: int, limit: int) -> list[Unembedded]:
    return store.read(lambda tx: Chunks(tx).find_without_vector(partition, model, after, limit))


def _store_vectors(
    store: Store, partition: Partition, vectors: Mapping[int, Vector], finish: Callable[[Tx], None]
) -> None:
    def put(tx: Tx) -> bool:
        stored = Chunks(tx).put_vectors(partition, vectors)
        if stored:
            finish(tx)
        return stored

    if vectors and not store.write(put):
        raise ProviderError("the embedder returns another dimension than its stored vectors have")


def _embed_chunks(
    embedding: BatchEmbedder, names: tuple[str, ...], chunks: Sequence[Unembedded], patience: int
) -> dict[int, Vector]:
    texts = [strip_names(chunk.text, names) for chunk in chunks]
    ordinals = [chunk.ordinal for chunk in chunks]
    try:
        return dict(zip(ordinals, embedding.embed_texts(texts), strict=True))
    except ProviderError:
        if len(texts) == 1:
            raise
    vectors: dict[int, Vector] = {}
    for tried, (ordinal, text) in enumerate(zip(ordinals, texts, strict=True)):
        if tried == patience and not vectors:
            break
        try:
            vectors[ordinal] = embedding.embed_texts([text])[0]
        except ProviderError as error:
            log.warning("a chunk was not embedded: %s", error)
    if not vectors:
        raise ProviderError(f"the embedder {embedding.model} rejected all of {min(patience, len(texts))} texts")
    return vectors
