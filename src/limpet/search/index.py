"""What a search reads of a partition: the catalogue of its chunks, and the scores of words and vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from limpet.model.chunk import Vector
from limpet.model.late import load_modules
from limpet.model.scope import Partition
from limpet.search.catalogue import (
    CATALOGUES,
    Catalogue,
    CatalogueColumns,
    CatalogueRow,
    make_empty_catalogue,
    read_catalogue,
)
from limpet.search.vectors import VECTORS, PartitionVectors, VectorPage, VectorScores, VectorsVersion, normalize
from limpet.search.word_index import (
    MAX_LENGTH,
    TAILS,
    WordTail,
    find_postings,
    find_tail,
    find_unread,
    load_postings,
    load_tail,
)
from limpet.store.encryption import RowLayout
from limpet.store.tables import VECTORS as VECTOR_TABLE
from limpet.store.tx import Array, Cipher, Query, Tx

if TYPE_CHECKING:
    from limpet.search.chunk_repository import PartitionRow

_VECTOR = RowLayout(VECTOR_TABLE, "vector")
_MIN_CHUNK_COUNT = 500
_VECTOR_PAGE = 8_192  # some megabytes, which the database joins at less cost than tens of them
_MAX_ORDINAL = (1 << 63) - 1


class WordScores(NamedTuple):
    """By ordinal: BM25 and the share of the question's weight that a chunk contains; and the share known at all."""

    scores: Array
    covered: Array
    known: float


def word_queries(tx: Tx, row: PartitionRow, cipher: Cipher, terms: Sequence[int]) -> list[Query]:
    """What a search by words reads of the postings."""
    stored = [cipher.hash_term(term) for term in terms]
    return find_unread(tx, row, stored, find_postings(tx, row, stored, is_cached=not cipher.is_encrypted))


def vector_queries(tx: Tx, row: PartitionRow, question: Vector) -> list[Query]:
    """What a search by meaning reads before vectors."""
    model = [] if question.model in tx.caches.models else [Query("models.get", {"name": question.model})]
    return [*model, Query("vectors.last_late", row.key)]


class SearchIndex:
    """A partition in one transaction, as a search reads it."""

    def __init__(self, tx: Tx, partition: Partition, row: PartitionRow, cipher: Cipher) -> None:
        self.tx = tx
        self.partition = partition
        self.row = row
        self.cipher = cipher  # also if all is cached: a search needs the key
        self.catalogue = self._load_catalogue()

    def _load_catalogue(self) -> Catalogue:
        row, cache = self.row, self.tx.caches.get(CATALOGUES)
        cached = cache.get(row.id)
        if cached is None:  # all that a search imports late: np.unique the second, what ranks the third
            load_modules("numpy", "numpy.ma", "limpet.search.rank")
        import numpy as np

        # A snapshot from before a removal must load its own catalogue, which is not cached.
        outdated = cached is not None and cached.removals > row.removals
        known = make_empty_catalogue(row.removals) if cached is None or outdated else cached
        if known.removals < row.removals:
            ordinals = [ordinal for (ordinal,) in self.tx.db.all("chunks.ordinals", row.key)]
            known = known.filter_ordinals(np.array(ordinals, dtype="i8"), row.removals)
        if known.last_ordinal + 1 < row.next_ordinal:
            known = known.append_columns(self._read_new_rows(known.last_ordinal + 1))
        if known is not cached and not outdated:
            cache.put(row.id, known)
        # A later snapshot may have added what this one does not see.
        return known if known.last_ordinal < row.next_ordinal else known.truncate(row.next_ordinal)

    def _read_new_rows(self, low: int) -> CatalogueColumns:
        """Read the catalogue from an ordinal on. Where the tail ends there, it grows by the same read."""
        tail = None if self.cipher.is_encrypted else find_tail(self.tx, self.row)
        if tail is None or tail.next_ordinal != low:
            return read_catalogue(self.tx, self.row, self.cipher, low)
        rows = self.tx.db.all("chunks.new", self.row.tail_params(low))
        grown = tail.extend([(row[0], row[6], row[-1]) for row in rows], self.row.next_ordinal)
        self.tx.caches.get(TAILS).put(self.row.id, grown)
        return CatalogueColumns.of([CatalogueRow._make(row[:-1]) for row in rows])

    def _find_model(self, vector: Vector) -> int | None:
        """Return the number of the model whose vectors the question can be compared with."""
        models = self.tx.caches.models
        row = models.get(vector.model) or self.tx.db.one("models.get", {"name": vector.model})
        if row is not None and self.tx.seen is not None:  # what a transaction that writes has added may be rolled back
            models[vector.model] = row
        return int(row[0]) if row is not None and row[1] == len(vector.values) else None

    def score_vectors(self, question: Vector) -> VectorScores | None:
        """Return fast cosines for every chunk of the catalogue; None if none has a vector of the question's model."""
        import numpy as np

        model_id = self._find_model(question)
        if model_id is None:
            return None
        late = self.tx.db.one("vectors.last_late", self.row.key)
        key = (self.row.id, model_id)
        cache = self.tx.caches.get(VECTORS)
        vectors = cache.get(key) or cache.setdefault(key, PartitionVectors(len(question.values)))
        cosines = vectors.score(
            self.catalogue.ordinals,
            VectorsVersion(self.row.removals, late[0] if late else 0),
            lambda first: self._read_pages(model_id, first, _MAX_ORDINAL),
            lambda number: self._read_late_pages(model_id, number),
            normalize(np.asarray(question.values, dtype=np.float32)),
        )
        cache.put(key, vectors)  # it may have grown: evict others to make room
        return cosines

    def _read_late_pages(self, model_id: int, number: int) -> Iterator[VectorPage]:
        for low, high in self.tx.db.all("vectors.late_ranges", {**self.row.key, "number": number}):
            yield from self._read_pages(model_id, low, high)

    def _read_pages(self, model_id: int, low: int, high: int) -> Iterator[VectorPage]:
        params = {**self.row.key, "model_id": model_id, "high": high, "limit": _VECTOR_PAGE}
        is_full = True
        while is_full:
            query = Query("vectors.page", {**params, "low": low})
            ordinals, stored = self.tx.db.columns(query, ordinal="number", vector="bytes")
            if not len(ordinals):
                return
            yield VectorPage(ordinals, self._decrypt_vectors(model_id, ordinals, stored))
            low, is_full = int(ordinals[-1]) + 1, len(ordinals) == _VECTOR_PAGE

    def _decrypt_vectors(self, model_id: int, ordinals: Array, stored: Array) -> Array:
        import numpy as np

        if not self.cipher.is_encrypted:
            return stored
        rows = zip(ordinals.tolist(), stored, strict=True)
        opened = [self.cipher.decrypt_row(_VECTOR, (self.row.id, at, model_id), (each,))[0] for at, each in rows]
        return np.frombuffer(b"".join(opened), "u1").reshape(len(opened), -1)

    def score_words(self, weights: Mapping[int, float], optional: frozenset[int], k1: float, b: float) -> WordScores:
        """Return BM25 of every chunk by ordinal, and how much of the question is known here.

        ``optional`` terms count for scores, but not for how much of the question is covered.
        """
        import numpy as np

        tail = load_tail(self.tx, self.row, is_cached=not self.cipher.is_encrypted)
        # Summed in the order of the plain term numbers, encrypted or not, so that sums are equal to the last digit.
        stored = {term: self.cipher.hash_term(term) for term in weights}
        known_terms = self._load_entries(list(stored.values()), tail)
        chunk_count = self.row.chunk_count + tail.chunk_count
        average = max(1.0, (self.row.word_count + tail.word_count) / max(1, chunk_count))
        matches: list[tuple[Sequence[Array], int, float, float]] = []  # of a term: entries, their count, rarity, mass
        total = known = 0.0
        for term in sorted(weights):
            entries = known_terms[stored[term]]
            matching = sum(each.shape[1] for each in entries)
            # A young store knows few words: a missing word says less than in an old one.
            share = 0.0 if term in optional else weights[term]
            mass = share * math.log1p((max(chunk_count, _MIN_CHUNK_COUNT) - matching + 0.5) / (matching + 0.5))
            total += mass
            if not matching:
                continue
            known += mass
            rarity = weights[term] * math.log1p((chunk_count - matching + 0.5) / (matching + 0.5))
            matches.append((entries, matching, rarity, mass))
        scores, covered = np.zeros((2, self.row.next_ordinal), dtype=np.float32)
        if matches:
            # All terms at once: of a few hundred entries each, a call costs more than its work.
            found, counts, rarities, masses = zip(*matches, strict=True)
            ordinals, packed = np.concatenate(list(chain(*found)), axis=1)
            where, saturation = ordinals.astype(np.intp), _saturate(packed, average, k1, b)
            saturation *= np.repeat(np.asarray(rarities, dtype=np.float32), counts)
            np.add.at(scores, where, saturation)
            np.add.at(covered, where, np.repeat(np.asarray(masses, dtype=np.float32) / (total or 1.0), counts))
        return WordScores(scores, covered, known / (total or 1.0))

    def _load_entries(self, terms: Sequence[int], tail: WordTail) -> Mapping[int, Sequence[Array]]:
        merged = load_postings(self.tx, self.row, terms, is_cached=not self.cipher.is_encrypted)
        newest = zip(terms, tail.find_entries(terms), strict=True)
        return {term: [merged[term], last] if term in merged else [last] for term, last in newest}


def _saturate(packed: Array, average: float, k1: float, b: float) -> Array:
    """What BM25 makes of how often a term occurs in a text of a length."""
    import numpy as np

    frequency, weighed = (packed >> 16).astype(np.float32), (packed & MAX_LENGTH).astype(np.float32)
    weighed *= k1 * b / average
    weighed += frequency + k1 * (1 - b)
    saturation: Array = frequency * (k1 + 1) / weighed
    return saturation
