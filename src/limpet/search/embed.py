"""Giving chunks their vectors: before the transaction that stores them, or by a job after it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class ChunkEmbedder:
    """Vectors for questions and for new chunks. Without a model, search uses words alone."""

    store: Store
    model: BatchEmbedder | None
    wake_worker: Callable[[], None]  # starts the job that embeds what has no vector yet

    def embed_question(self, space: Partition, question: str) -> Vector | None:
        """The question's vector, made before the transaction that searches with it."""
        return self.embed_question_for([space], question).get(space)

    def embed_question_for(self, spaces: Sequence[Partition], question: str) -> dict[Partition, Vector]:
        """The same for several partitions; empty ones are left out.

        The names of those who speak in a partition are removed from the question. Equal texts are embedded once.
        """
        if self.model is None or not question.strip():
            return {}
        catalogues = self.store.read(lambda tx: [Chunks(tx).load_catalogue(space) for space in spaces])
        texts = {
            space: strip_names(question, catalogue.names)
            for space, catalogue in zip(spaces, catalogues, strict=True)
            if catalogue is not None and catalogue.chunks
        }
        vectors = {text: self.model.embed_question(text) for text in dict.fromkeys(texts.values())}
        return {space: vector for space, text in texts.items() if (vector := vectors[text]) is not None}

    def embed_drafts(
        self,
        space: Partition,
        drafts: Sequence[ChunkDraft],
        names: Iterable[str] = (),
        progress: Progress | None = None,
    ) -> list[ChunkDraft]:
        """The drafts with their vectors. When that takes long or fails they stay as they are: words find them."""
        if self.model is None or not drafts or not self.model.is_inline:
            return list(drafts)
        known = dict.fromkeys((*self.store.read(lambda tx: Chunks(tx).names(space)), *names))
        texts = [strip_names(draft.text, tuple(known)) for draft in drafts]
        try:
            vectors = self.model.embed_texts(texts, progress)
        except ProviderError as error:
            log.warning("embedding failed; %d chunks are found by words until it works again: %s", len(texts), error)
            return list(drafts)
        return [draft._replace(vector=vector) for draft, vector in zip(drafts, vectors, strict=True)]

    def request_missing(self, drafts: Iterable[ChunkDraft]) -> None:
        """Call it after chunks were stored: those without a vector get one in the background."""
        if self.model is not None and any(draft.vector is None for draft in drafts):
            self.wake_worker()

    def request_all(self) -> None:
        """Call it after many chunks were stored without a vector."""
        if self.model is not None:
            self.wake_worker()


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
