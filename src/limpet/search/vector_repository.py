"""Vectors: stored with their chunks or later, cached in compact form, compared exactly."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.model.chunk import Vector
from limpet.search.word_index import PartitionRow
from limpet.store.cache import Caches
from limpet.store.db import Db, Row, compute_cosines
from limpet.store.encrypted_columns import CHUNKS
from limpet.store.encryption import Cipher, RowLayout, pack_floats

if TYPE_CHECKING:
    from limpet.search.catalogue import Catalogue
    from limpet.search.vector_cache import VectorPage, VectorScores
    from limpet.store.db import Array

log = logging.getLogger("limpet.store")

_PAGE = 4096
_MAX_ORDINAL = (1 << 63) - 1
_UNEMBEDDED = RowLayout(CHUNKS, "ordinal text")


class Unembedded(NamedTuple):
    """A chunk that has no vector of a model."""

    ordinal: int
    text: str


class SqlVectors:
    def __init__(self, db: Db, caches: Caches) -> None:
        self._db = db
        self._caches = caches

    def put(self, cipher: Cipher, row: PartitionRow, ordinal: int, vector: Vector) -> bool:
        """Store a new chunk's vector in the chunk's transaction. Return False if its dimension does not match."""
        model_id = self._ensure_model(vector)
        if model_id is None:
            return False
        self._db.run("vectors.put", self._params(cipher, row, ordinal, model_id, vector))
        return True

    def _params(self, cipher: Cipher, row: PartitionRow, ordinal: int, model_id: int, vector: Vector) -> dict[str, Any]:
        params = {**row.key, "ordinal": ordinal, "model_id": model_id}
        if not cipher.is_encrypted:
            return {**params, "vector": self._db.pack_vector(vector.values), "encrypted": None}
        encrypted = cipher.encrypt_vector((row.id, ordinal, model_id), pack_floats(vector.values))
        return {**params, "vector": self._db.no_vector, "encrypted": encrypted}

    def put_late(self, cipher: Cipher, row: PartitionRow, vectors: Mapping[int, Vector]) -> bool:
        """Store vectors by ordinal. Removed chunks are skipped. Return False if a dimension does not match."""
        puts = [
            self._params(cipher, row, ordinal, model_id, vector)
            for ordinal, vector in sorted(vectors.items())
            if (model_id := self._ensure_model(vector)) is not None
        ]
        if puts:
            self._db.run_many("vectors.put_late", puts)
            low, high = puts[0]["ordinal"], puts[-1]["ordinal"] + 1
            self._db.run("vectors.add_late", {**row.key, "low": low, "high": high})
        return len(puts) == len(vectors)

    def _ensure_model(self, vector: Vector) -> int | None:
        """Return the model's number; None if the dimension differs, and the text is stored without a vector."""
        row = self._db.one("models.get", {"name": vector.model})
        if row is None:
            self._db.run("models.add", {"name": vector.model, "dimension": len(vector.values)})
            row = self._db.one("models.get", {"name": vector.model})
        if row is None or row[1] != len(vector.values):
            log.warning(
                "the model %r returned %d dimensions instead of %s: use another name for a changed model",
                vector.model,
                len(vector.values),
                row and row[1],
            )
            return None
        return int(row[0])

    def _find_model(self, vector: Vector) -> int | None:
        """Return the number of the model whose vectors the question can be compared with."""
        row = self._db.one("models.get", {"name": vector.model})
        return int(row[0]) if row is not None and row[1] == len(vector.values) else None

    def find_without_vector(
        self, cipher: Cipher, row: PartitionRow, model: str, after: int, limit: int
    ) -> list[Unembedded]:
        stored_model = self._db.one("models.get", {"name": model})
        params = {
            **row.tail_params(after + 1),
            "model_id": -1 if stored_model is None else stored_model[0],
            "limit": limit,
        }
        rows = self._db.all("chunks.unembedded", params)
        return [Unembedded(*cipher.decrypt_row(_UNEMBEDDED, (row.id, each[0]), each)) for each in rows]

    def score_vectors(
        self, cipher: Cipher, row: PartitionRow, catalogue: Catalogue, question: Vector
    ) -> VectorScores | None:
        import numpy as np  # late: most commands never search

        from limpet.search.vector_cache import VECTORS, PartitionVectors, VectorsVersion

        model_id = self._find_model(question)
        if model_id is None:
            return None
        late = self._db.one("vectors.last_late", row.key)
        key = (row.id, model_id)
        cache = self._caches.get(VECTORS)
        vectors = cache.get(key) or cache.setdefault(key, PartitionVectors(len(question.values)))
        cosines = vectors.score(
            catalogue.ordinals,
            VectorsVersion(row.removals, late[0] if late else 0),
            lambda first: self._read_pages(cipher, row, model_id, first, _MAX_ORDINAL),
            lambda number: self._read_late_pages(cipher, row, model_id, number),
            _normalize(np.asarray(question.values, dtype=np.float32)),
        )
        cache.put(key, vectors)  # it may have grown: evict others to make room
        return cosines

    def _read_late_pages(self, cipher: Cipher, row: PartitionRow, model_id: int, number: int) -> Iterator[VectorPage]:
        for low, high in self._db.all("vectors.late_ranges", {**row.key, "number": number}):
            yield from self._read_pages(cipher, row, model_id, low, high)

    def _read_pages(
        self, cipher: Cipher, row: PartitionRow, model_id: int, low: int, high: int
    ) -> Iterator[VectorPage]:
        import numpy as np

        from limpet.search.vector_cache import VectorPage

        query = "vectors.encrypted_page" if cipher.is_encrypted else "vectors.page"
        params = {**row.key, "model_id": model_id, "high": high, "limit": _PAGE}
        while found := self._db.all(query, {**params, "low": low}):
            ordinals = np.array([ordinal for ordinal, _ in found], dtype=np.int64)
            matrix = (
                _decrypt_matrix(cipher, row, model_id, found)
                if cipher.is_encrypted
                else self._db.unpack_matrix([each for _, each in found])
            )
            yield VectorPage(ordinals, _normalize(matrix))
            low = found[-1][0] + 1

    def compute_cosines(
        self, cipher: Cipher, row: PartitionRow, question: Vector, ordinals: Sequence[int]
    ) -> dict[int, float]:
        """Return exact cosines from the stored vectors, by ordinal."""
        model_id = self._find_model(question)
        if model_id is None or not ordinals:
            return {}
        if not cipher.is_encrypted:
            return self._db.compute_cosines(row.key, model_id, ordinals, question.values)
        params = {**row.key, "model_id": model_id, "ordinals": self._db.to_int_array(ordinals)}
        stored = self._db.all("vectors.encrypted_some", params)
        matrix = _decrypt_matrix(cipher, row, model_id, stored)
        return compute_cosines([ordinal for ordinal, _ in stored], matrix, question.values)


def _decrypt_matrix(cipher: Cipher, row: PartitionRow, model_id: int, found: Sequence[Row]) -> Array:
    """Decode vectors stored as bytes, to compare them here as the database would."""
    import numpy as np

    opened = [cipher.decrypt_vector((row.id, ordinal, model_id), bytes(stored)) for ordinal, stored in found]
    return np.frombuffer(b"".join(opened), dtype="<f4").reshape(len(found), -1) if found else np.zeros((0, 0), "<f4")


def _normalize(vectors: Array) -> Array:
    """Scale rows to length one; zero rows stay zero."""
    import numpy as np

    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Array = vectors / np.where(length > 0, length, 1)
    return scaled
