"""The vectors of a partition, cached in compact form.

A vector is stored at eight bits per number, and the cache holds those of a partition as they are stored. A small
partition is searched completely. In a large one, a first pass compares one bit per number, at a hundredth of the cost,
and the best are compared at eight bits.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from limpet.model.dataclass import dataclass
from limpet.store.tx import Array, CacheKind

# Up to this size, one pass over every vector is faster than two passes.
FULL_SCAN_LIMIT = 16_384
_SCALE_BYTES = 4
_SMALLEST = 1e-30  # what is shorter has no direction
_BLOCK = 1024  # vectors converted at a time: they fit the processor cache
_RECENTRE_FACTOR = 4  # recompute the centre when the number of vectors has grown by this factor


class VectorPage(NamedTuple):
    """The ordinals of some chunks, and their vectors as they are stored, one row each."""

    ordinals: Array
    stored: Array


_Load = Callable[[int], Iterable[VectorPage]]


class VectorsVersion(NamedTuple):
    """The version of a partition that a reader sees: vectors read under another version may be stale."""

    removals: int
    late: int


@dataclass(frozen=True, slots=True)
class VectorScores:
    """Cosines with a question by position in the catalogue, NaN if a chunk has no vector.

    ``rough`` cosines are estimates: good enough to choose candidates, not to rank them.
    """

    cosines: Array
    rough: bool
    rescore: Callable[[Array], Array]  # better cosines for some positions
    share: float = 1.0  # of the chunks that have a vector
    average: float = 0.0  # of the cosines

    @classmethod
    def of(
        cls, cosines: Array, scales: Array, rescore: Callable[[Array], Array], average: float | None = None
    ) -> VectorScores:
        """``scales`` is 0 where there is no vector. Estimates come with the average of the real cosines."""
        import numpy as np

        known, rough = scales > 0, average is not None
        if known.all():
            return cls(cosines, rough, rescore, 1.0, float(cosines.mean()) if average is None else average)
        average = float(cosines[known].mean()) if average is None else average
        return cls(np.where(known, cosines, np.nan), rough, rescore, np.count_nonzero(known) / len(known), average)


class VectorCodes(NamedTuple):
    """Vectors at eight bits with their scales, their sign bits, and the centre used for the signs."""

    codes: Array
    scales: Array
    bits: Array
    mean: Array | None


class PartitionVectors:
    """Rows in the order of the catalogue. One caller at a time updates them; others keep reading."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        import numpy as np

        self._ordinals = np.zeros(0, dtype=np.int64)
        self._stamp: VectorsVersion | None = None
        self._mean: Array | None = None
        self._mean_of = 0
        self._codes = np.zeros((0, self._dimension), dtype=np.int8)
        self._scales = np.zeros(0, dtype=np.float32)  # 0 where there is no vector
        self._bits = np.zeros((0, 0), dtype=np.uint64)  # only beyond FULL_SCAN_LIMIT

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes + self._scales.nbytes + self._bits.nbytes + self._ordinals.nbytes

    def score(
        self, ordinals: Array, stamp: VectorsVersion, load: _Load, late: _Load, question: Array
    ) -> VectorScores | None:
        """``load`` returns the vectors from an ordinal on, ``late`` those stored after the given number."""
        with self._lock:
            seen = self._refresh(ordinals, stamp, load, late)
        if seen is None:  # a snapshot from before a removal must load its own vectors
            return PartitionVectors(self._dimension).score(ordinals, stamp, load, late, question)
        return _score_codes(seen, question)

    def _refresh(self, ordinals: Array, stamp: VectorsVersion, load: _Load, late: _Load) -> VectorCodes | None:
        if self._stamp is not None and stamp.removals < self._stamp.removals:
            return None
        try:
            self._update(ordinals, stamp, load, late)
        except BaseException:  # why: after any failure, partial data must not pass for complete data
            self._reset()
            raise
        count = len(ordinals)
        return VectorCodes(self._codes[:count], self._scales[:count], self._bits[:, :count], self._mean)

    def _update(self, ordinals: Array, stamp: VectorsVersion, load: _Load, late: _Load) -> None:
        known, stored = self._stamp, list[Array]()
        if known is not None and stamp.removals > known.removals:
            self._retain(ordinals)
        if len(ordinals) > len(self._ordinals):
            start = len(self._ordinals)
            self._reserve(len(ordinals))
            self._ordinals = ordinals
            stored += [self._store_page(page) for page in load(int(ordinals[start]))]
        if known is not None and stamp.late > known.late:
            stored += [self._store_page(page) for page in late(known.late)]
        if known is None or stamp >= known:
            self._stamp = stamp
        if len(self._ordinals) > FULL_SCAN_LIMIT:
            self._update_bits(stored)

    def _update_bits(self, stored: Sequence[Array]) -> None:
        """Of these rows, or of all with a new centre: signs tell most relative to it, and the first may be far off."""
        import numpy as np

        count = len(self._ordinals)
        if self._mean is None or self._bits.shape[1] < count or count > _RECENTRE_FACTOR * self._mean_of:
            total = np.zeros(self._dimension)
            for block in _cut_blocks(count):
                total += self._scales[block] @ self._codes[block].astype(np.float32)
            self._mean = (total / max(1, int(np.count_nonzero(self._scales[:count])))).astype(np.float32)
            self._mean_of = count
            self._bits = np.zeros((-(-self._dimension // 64), len(self._scales)), dtype=np.uint64)
            stored = [np.arange(count)]
        for rows in stored:
            for block in _cut_blocks(len(rows)):
                at = rows[block]
                self._bits[:, at] = _pack_signs(self._codes[at] * self._scales[at, None], self._mean).T

    def _retain(self, ordinals: Array) -> None:
        import numpy as np

        stays = np.flatnonzero(np.isin(self._ordinals, ordinals, assume_unique=True))
        self._ordinals = self._ordinals[stays]
        self._codes, self._scales = self._codes[stays], self._scales[stays]
        self._bits = self._bits[:, stays] if self._bits.size else self._bits

    def _reserve(self, count: int) -> None:
        """Grow by half, so that appending row by row copies each row only a few times."""
        import numpy as np

        if count <= len(self._scales):
            return
        used, room = len(self._ordinals), count + count // 2 if len(self._ordinals) else count
        codes, scales = np.zeros((room, self._dimension), dtype=np.int8), np.zeros(room, dtype=np.float32)
        codes[:used], scales[:used] = self._codes[:used], self._scales[:used]
        self._codes, self._scales = codes, scales
        if self._bits.size:
            bits = np.zeros((len(self._bits), room), dtype=np.uint64)
            bits[:, :used] = self._bits[:, :used]
            self._bits = bits

    def _store_page(self, page: VectorPage) -> Array:
        import numpy as np

        rows = np.searchsorted(self._ordinals, page.ordinals)
        here = (rows < len(self._ordinals)) & (
            self._ordinals[np.minimum(rows, len(self._ordinals) - 1)] == page.ordinals
        )
        rows, stored = (rows, page.stored) if here.all() else (rows[here], page.stored[here])
        self._scales[rows] = np.ascontiguousarray(stored[:, :_SCALE_BYTES]).view("<f4")[:, 0]
        self._codes[rows] = stored[:, _SCALE_BYTES:].view(np.int8)
        return rows


VECTORS: CacheKind[PartitionVectors] = CacheKind("vectors", 1)  # by partition and model


def pack_vector(values: Sequence[float]) -> bytes:
    """A vector as it is stored: a factor, then eight bits per number; their product has length one."""
    import numpy as np

    numbers = np.array(values)
    largest = float(np.abs(numbers).max(initial=0.0))
    if largest < _SMALLEST:
        return struct.pack("<f", 1.0) + bytes(len(values))
    codes = np.rint(numbers * (127 / largest))
    return struct.pack("<f", 1 / math.sqrt(float(codes @ codes))) + codes.astype(np.int8).tobytes()


def _cut_blocks(count: int) -> list[slice]:
    return [slice(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK)]


def _pack_signs(vectors: Array, mean: Array) -> Array:
    """Pack one bit per number, 64 to a word."""
    import numpy as np

    packed = np.packbits(vectors > mean, axis=1)
    words = -(-vectors.shape[1] // 64)
    padded = np.zeros((len(packed), words * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


def _score_codes(rows: VectorCodes, question: Array) -> VectorScores | None:
    import numpy as np

    codes, scales, bits, mean = rows
    if not scales.any():
        return None

    def rescore(at: Array) -> Array:
        return _scale_products(_multiply(codes.take(at, axis=0), question), scales[at])

    if len(codes) <= FULL_SCAN_LIMIT:
        return VectorScores.of(_multiply(codes, question) * scales, scales, rescore)
    assert mean is not None
    different = np.zeros(len(codes), dtype=np.uint16)
    for word, asked in zip(bits, _pack_signs(question[None, :], mean)[0], strict=True):
        different += np.bitwise_count(word ^ asked)
    dimension = codes.shape[1]
    by_difference = np.cos(np.pi * np.arange(dimension + 1) / dimension).astype(np.float32)
    return VectorScores.of(by_difference.take(different), scales, rescore, float(mean @ question))


def _multiply(codes: Array, question: Array) -> Array:
    """Row by row: a product of matrices runs in threads, which wait in busy loops for longer than this takes."""
    import numpy as np

    products = np.empty(len(codes), dtype=np.float32)
    for block in _cut_blocks(len(codes)):
        np.vecdot(codes[block].astype(np.float32), question, out=products[block])
    return products


def _scale_products(products: Array, scales: Array) -> Array:
    import numpy as np

    cosines: Array = np.where(scales > 0, products * scales, np.nan)
    return cosines


def normalize(vectors: Array) -> Array:
    """Scale rows to length one; zero rows stay zero."""
    import numpy as np

    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Array = vectors / np.where(length > 0, length, 1)
    return scaled
