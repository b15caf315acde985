"""Embed chunks: before the transaction that stores them, or in a job after it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from limpet.errors import ProviderError
from limpet.model.chunk import ChunkDraft, Vector
from limpet.model.dataclass import dataclass
from limpet.model.job import EMBED
from limpet.model.scope import Partition
from limpet.model.telemetry import Progress
from limpet.providers.embedding import BatchEmbedder
from limpet.search.analysis import strip_names
from limpet.search.chunk_repository import Chunks
from limpet.search.vectors import Unembedded
from limpet.store import jobs
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.search")

_BATCH = 64
_MODEL = "model"
MAX_REFUSALS = 3  # consecutive rejected texts after which the embedder counts as failed


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
