"""Giving chunks their vectors: before the transaction that stores them, or by a job after it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from limpet.errors import ProviderError
from limpet.model.chunk import ChunkDraft, Vector
from limpet.model.job import EMBED
from limpet.model.scope import Partition
from limpet.model.telemetry import Progress
from limpet.providers.embedding import BatchEmbedder
from limpet.search.analysis import strip_names
from limpet.search.chunk_repository import Chunks
from limpet.search.vector_repository import Unembedded
from limpet.store import jobs
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.search")

_BATCH = 64
_MODEL = "model"
MAX_REFUSALS = 3  # texts refused one after the other before it is the embedder that is taken to fail


def set_embedding_model(store: Store, model: str, now: datetime) -> None:
    """Make this the model whose vectors are kept, and enqueue their embedding wherever they are missing."""

    def change(tx: Tx) -> None:
        if _find_model(tx) != model:
            tx.db.run("properties.set", {"name": _MODEL, "value": model})
            jobs.enqueue_for_all_partitions(tx.db, EMBED, model, now)

    if store.read(_find_model) != model:
        store.write(change)


def _find_model(tx: Tx) -> str | None:
    found = tx.db.one("properties.get", {"name": _MODEL})
    return None if found is None else str(found[0])


def embed_drafts(
    store: Store,
    embedding: BatchEmbedder | None,
    space: Partition,
    drafts: Sequence[ChunkDraft],
    names: Iterable[str] = (),
    progress: Progress | None = None,
) -> list[ChunkDraft]:
    """The drafts with their vectors, or as they were when that takes long or fails: words find them still."""
    if embedding is None or not drafts or not embedding.is_inline:
        return list(drafts)
    known = dict.fromkeys((*store.read(lambda tx: Chunks(tx).names(space)), *names))
    texts = [strip_names(draft.text, tuple(known)) for draft in drafts]
    try:
        vectors = embedding.embed_texts(texts, progress)
    except ProviderError as error:
        log.warning("embedding failed, %d chunks are searchable by words until it works again: %s", len(texts), error)
        return list(drafts)
    return [draft._replace(vector=vector) for draft, vector in zip(drafts, vectors, strict=True)]


def embed_missing(
    store: Store,
    embedding: BatchEmbedder,
    space: Partition,
    limit: int,
    patience: int = MAX_REFUSALS,
    *,
    stopping: Callable[[], bool] = lambda: False,
    between: Callable[[], None] = lambda: None,
    finish: Callable[[Tx], None] = lambda _: None,
) -> int:
    """Embed chunks of the space that have no vector, ``limit`` at most. Answers how many got one.

    A text that the embedder cannot take is passed over. When it takes none of the first ones, as many as ``patience``
    says, the embedder is taken to fail. ``between`` is called between batches, and ``finish`` in the transaction that
    stores the last vectors there are.
    """
    names = store.read(lambda tx: Chunks(tx).names(space))
    done, after = 0, -1
    while done < limit and not stopping():
        size = min(_BATCH, limit - done)
        found = _find_without_vector(store, space, embedding.model, after, size)
        vectors = _embed_chunks(embedding, names, found, patience)
        last = len(found) < size
        _store_vectors(store, space, vectors, finish if last else lambda _: None)
        done += len(vectors)
        if last:
            break
        after = found[-1].ordinal
        between()
    return done


def _find_without_vector(store: Store, space: Partition, model: str, after: int, limit: int) -> list[Unembedded]:
    return store.read(lambda tx: Chunks(tx).find_without_vector(space, model, after, limit))


def _store_vectors(store: Store, space: Partition, vectors: Mapping[int, Vector], finish: Callable[[Tx], None]) -> None:
    def put(tx: Tx) -> bool:
        stored = Chunks(tx).put_vectors(space, vectors)
        if stored:
            finish(tx)
        return stored

    if vectors and not store.write(put):
        raise ProviderError("the embedder gives another dimension than its stored vectors have")


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
    found: dict[int, Vector] = {}
    for tried, (ordinal, text) in enumerate(zip(ordinals, texts, strict=True)):
        if tried == patience and not found:
            break
        try:
            found[ordinal] = embedding.embed_texts([text])[0]
        except ProviderError as error:
            log.warning("a chunk stays without a vector: %s", error)
    if not found:
        raise ProviderError(f"the embedder {embedding.model} takes none of {min(patience, len(texts))} texts")
    return found
