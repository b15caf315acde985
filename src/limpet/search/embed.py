"""Giving chunks their vectors: before the transaction that stores them, or by a job after it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from limpet.errors import ProviderError
from limpet.model.chunk import ChunkDraft, Vector
from limpet.model.scope import Space
from limpet.providers.embedding import Embedding, Progress
from limpet.search.analysis import embedded_text
from limpet.search.chunk_repository import Chunks
from limpet.store.base import Store, Unembedded
from limpet.store.tx import Tx

log = logging.getLogger("limpet.search")

_BATCH = 64
PATIENCE = 3  # texts refused one after the other before it is the embedder that is taken to fail


def at_once(
    store: Store,
    embedding: Embedding | None,
    space: Space,
    drafts: Sequence[ChunkDraft],
    names: Iterable[str] = (),
    progress: Progress | None = None,
) -> list[ChunkDraft]:
    """The drafts with their vectors, or as they were when that takes long or fails: words find them still."""
    if embedding is None or not drafts or not embedding.at_once:
        return list(drafts)
    known = dict.fromkeys((*store.read(lambda tx: Chunks(tx).names(space)), *names))
    texts = [embedded_text(draft.text, tuple(known)) for draft in drafts]
    try:
        vectors = embedding.vectors(texts, progress)
    except ProviderError as error:
        log.warning("embedding failed, %d chunks are searchable by words until it works again: %s", len(texts), error)
        return list(drafts)
    return [draft._replace(vector=vector) for draft, vector in zip(drafts, vectors, strict=True)]


def embed_missing(
    store: Store,
    embedding: Embedding,
    space: Space,
    limit: int,
    patience: int = PATIENCE,
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
        found = _missing(store, space, embedding.model, after, size)
        vectors = _vectors(embedding, names, found, patience)
        last = len(found) < size
        _put(store, space, vectors, finish if last else lambda _: None)
        done += len(vectors)
        if last:
            break
        after = found[-1].ordinal
        between()
    return done


def _missing(store: Store, space: Space, model: str, after: int, limit: int) -> list[Unembedded]:
    return store.read(lambda tx: Chunks(tx).unembedded(space, model, after, limit))


def _put(store: Store, space: Space, vectors: Mapping[int, Vector], finish: Callable[[Tx], None]) -> None:
    def put(tx: Tx) -> bool:
        stored = Chunks(tx).put_vectors(space, vectors)
        if stored:
            finish(tx)
        return stored

    if vectors and not store.write(put):
        raise ProviderError("the embedder gives another dimension than its stored vectors have")


def _vectors(
    embedding: Embedding, names: tuple[str, ...], chunks: Sequence[Unembedded], patience: int
) -> dict[int, Vector]:
    texts = [embedded_text(chunk.text, names) for chunk in chunks]
    ordinals = [chunk.ordinal for chunk in chunks]
    try:
        return dict(zip(ordinals, embedding.vectors(texts), strict=True))
    except ProviderError:
        if len(texts) == 1:
            raise
    found: dict[int, Vector] = {}
    for tried, (ordinal, text) in enumerate(zip(ordinals, texts, strict=True)):
        if tried == patience and not found:
            break
        try:
            found[ordinal] = embedding.vectors([text])[0]
        except ProviderError as error:
            log.warning("a chunk stays without a vector: %s", error)
    if not found:
        raise ProviderError(f"the embedder {embedding.model} takes none of {min(patience, len(texts))} texts")
    return found
