"""Cut texts into chunks and embed them, before the transaction that stores them or in a job after it.

Questions are embedded too. The output of an embedder is checked.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from math import hypot, isfinite
from time import monotonic
from typing import NamedTuple

from limpet.config import EmbeddingSettings
from limpet.errors import ProviderError
from limpet.model.chunk import ChunkDraft, Vector
from limpet.model.dataclass import dataclass
from limpet.model.document import DocumentKind
from limpet.model.job import EMBED
from limpet.model.late import load_modules
from limpet.model.message import Message
from limpet.model.scope import Partition
from limpet.model.text_cache import cache_texts
from limpet.model.values import check_name, split_pages
from limpet.providers.embedder import Embedder
from limpet.providers.llm import split_model_name
from limpet.search.analysis import analyse, flag_chunk, flag_message, format_index_text, strip_names
from limpet.search.chunk_repository import Chunks, Unembedded
from limpet.security.telemetry import Activity, ActivityKind, Observers, Progress
from limpet.store import jobs
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.search")

_LARGEST = 1e15  # per value: the sum of many squares still fits 32 bits
_MOST_DIMENSIONS = 16_000  # more than any model has
_QUESTIONS = 256  # cached question vectors: a context often repeats the question of a recall
_REST_S = 30.0  # seconds without attempts after a failure, so that questions do not all wait for a slow embedder
_BATCH = 64
MODEL = "model"  # the property that names the model whose vectors are stored
MAX_REFUSALS = 3  # consecutive rejected texts after which the embedder counts as failed


class Layout(NamedTuple):
    """Where a piece may end, best first; where the next may start; what to strip from its start."""

    ends: tuple[re.Pattern[str], ...]
    begins: re.Pattern[str]
    margin: str | None = None  # white space of any kind


_WORD = re.compile(r"\s")
_LINE = re.compile(r"\n")
# A paragraph, a sentence (also in Chinese and Japanese), a line, a word.
PROSE = Layout((re.compile(r"\n\s*\n"), re.compile(r"[.!?…]+[\"')\]]*\s|[。！？]+"), _LINE, _WORD), _WORD)
# A blank line before something that is not indented, any blank line, a line, a word. Indentation is part of a line.
CODE = Layout((re.compile(r"\n[^\S\n]*\n(?=\S)"), re.compile(r"\n[^\S\n]*\n"), _LINE, _WORD), _LINE, "\r\n")

_HEADING_OR_FENCE = re.compile(r"^ {0,3}(?:(`{3,}|~{3,})|#{1,6}(?=\s|$).*)", re.MULTILINE)


def split_pieces(
    text: str, max_chars: int, overlap: int, layout: Layout = PROSE, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the pieces between two positions of a text, each with its position.

    A piece has at most ``max_chars``, and overlaps the previous one by up to ``overlap`` characters.
    """
    whole = text[start:stop].rstrip()
    stop = start + len(whole)
    start = stop - len(whole.lstrip(layout.margin))
    while start < stop:
        end = _find_end(text, start, stop, max_chars, layout)
        whole = text[start:end].rstrip()
        piece = whole.lstrip(layout.margin)
        if piece:
            yield start + len(whole) - len(piece), piece
        if end >= stop:
            return
        start = _find_start(text, max(end - overlap, start + 1), end, layout)


def _find_end(text: str, start: int, stop: int, max_chars: int, layout: Layout) -> int:
    limit = start + max_chars
    if limit >= stop:
        return stop
    # A break in the first half would leave a very short piece; a plain cut is better.
    floor = start + max_chars // 2
    for pattern in layout.ends:
        ends = [match.end() for match in pattern.finditer(text, floor, limit)]
        if ends:
            return ends[-1]
    return limit


def _find_start(text: str, position: int, end: int, layout: Layout) -> int:
    """Return the first word or line start at or after ``position``; ``position`` itself if none is before ``end``."""
    before = layout.begins.search(text, position - 1, end)
    return before.end() if before else position


def split_sections(text: str) -> Iterator[tuple[int, int]]:
    """Split at Markdown headings. A heading without text belongs to the next section; code has no headings."""
    starts, under_heading, fence = [0], 0, ""
    for mark in _HEADING_OR_FENCE.finditer(text):
        if mark[1]:
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence):
                fence = ""
        elif not fence:
            if text[under_heading : mark.start()].strip():
                starts.append(mark.start())
            under_heading = mark.end()
    return zip(starts, [*starts[1:], len(text)], strict=True)


def chunk_message(message: Message, created_at: datetime, max_chars: int, overlap: int) -> tuple[ChunkDraft, ...]:
    """Return a message's chunks. The speaker is part of a chunk's identity: two speakers of one text stay two."""
    whole = flag_message(message.text)
    speaker = f"{message.role} {message.name or ''}"
    return tuple(
        ChunkDraft(
            piece,
            _hash(speaker, piece),
            analyse(format_index_text(piece, message.name, created_at)),
            whole | flag_chunk(piece),
        )
        for _, piece in split_pieces(message.searchable, max_chars, overlap)
    )


def chunk_text(text: str, max_chars: int, overlap: int) -> list[ChunkDraft]:
    return [make_draft(piece) for _, piece in split_pieces(text, max_chars, overlap)]


def chunk_document(text: str, kind: DocumentKind, max_chars: int, overlap: int) -> list[ChunkDraft]:
    """Return the chunks of a document with their positions; Markdown is split by section."""
    layout = CODE if kind is DocumentKind.CODE else PROSE
    parts = split_sections(text) if kind is DocumentKind.MARKDOWN else [(0, len(text))]
    return [
        make_draft(piece, offset)
        for start, stop in parts
        for offset, piece in split_pieces(text, max_chars, overlap, layout, start, stop)
    ]


def make_draft(piece: str, offset: int | None = None) -> ChunkDraft:
    """Return the chunk of a record, or of a document if it has a position."""
    return ChunkDraft(piece, _hash("", piece), analyse(piece), flag_chunk(piece), offset=offset)


def _hash(speaker: str, piece: str) -> bytes:
    return hashlib.blake2b(f"{speaker}\n{piece}".encode(), digest_size=16).digest()


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
        self._ask = cache_texts(_QUESTIONS)(self._embed_question)

    @property
    def is_inline(self) -> bool:
        """Return whether a write waits for it. Without ``quick``, it counts as fast until a call was slow."""
        if self._config.when != "auto":
            return self._config.when == "now"
        quick: bool | None = getattr(self._embedder, "quick", None)
        if quick is not None:
            return quick
        return self._seconds_a_text is None or self._seconds_a_text * 1000 <= self._config.quick_ms

    def embed_texts(self, texts: Sequence[str], progress: Progress | None = None) -> list[Vector]:
        """Raises ProviderError for any failure of the embedder."""
        if not self._loaded:
            load_modules("numpy")  # not in the transaction that stores them
        vectors: list[Vector] = []
        for batch in split_pages(texts, self._config.batch):
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
        """Return the question's vector, or None if the embedder fails or cannot read it: words search it then."""
        reads: Callable[[str], bool] | None = getattr(self._embedder, "reads", None)
        if reads is not None and not reads(text):
            return None
        try:
            return self._ask(text)
        except ProviderError as error:
            if monotonic() >= self._resting_until:
                log.warning("questions are not embedded for %d seconds; search uses words only: %s", _REST_S, error)
                self._resting_until = monotonic() + _REST_S
            return None

    def _embed_question(self, text: str) -> Vector:
        if monotonic() < self._resting_until:
            raise ProviderError(f"the embedder {self.model} failed a moment ago")
        return Vector(self.model, self._embed([text])[0])


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

    @property
    def is_inline(self) -> bool:
        """Return whether a write waits for vectors."""
        return self.model is not None and self.model.is_inline

    def embed_drafts(
        self,
        partition: Partition,
        drafts: Sequence[ChunkDraft],
        names: Iterable[str] = (),
        progress: Progress | None = None,
    ) -> list[ChunkDraft]:
        """Return the drafts with vectors. If embedding is slow or fails, return them unchanged: words still match."""
        if self.model is None or not drafts or not self.is_inline:
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
        if tx.db.get_property(MODEL) != model:
            tx.db.set_property(MODEL, model)
            jobs.enqueue_for_all_partitions(tx.db, EMBED, model, now)

    if store.read(lambda tx: tx.db.get_property(MODEL)) != model:
        store.write(change, exclusive=True)  # else a chunk that is stored meanwhile gets no job


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

    def find(tx: Tx, after: int, limit: int) -> list[Unembedded]:
        return Chunks(tx).find_without_vector(partition, embedding.model, after, limit)

    names = store.read(lambda tx: Chunks(tx).names(partition))
    done, after = 0, -1
    while done < limit and not stopping():
        size = min(_BATCH, limit - done)
        chunks = store.read(partial(find, after=after, limit=size))
        vectors = _embed_chunks(embedding, names, chunks, patience)
        last = len(chunks) < size
        _store_vectors(store, partition, vectors, finish if last else lambda _: None)
        done += len(vectors)
        if last:
            break
        after = chunks[-1].ordinal
        between()
    return done


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
