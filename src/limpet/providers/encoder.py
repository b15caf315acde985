"""Limpet's own sentence encoder: word-piece vectors and one small convolution, with numpy alone.

A text is the weighted sum of its pieces' vectors, after each has seen its neighbours, scaled to length one. The
program in training/encoder makes the weights.

What depends on a single piece is computed once and kept. The rest avoids matrix products: their threads wait in busy
loops and slow a busy machine down more than they help texts this short.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_STORED, ZipFile

from limpet.errors import ProviderError
from limpet.model.late import load_modules
from limpet.providers.minilm import UNKNOWN, token_ids

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

_MAX_PIECES = 512  # of a text
_BATCH = 2048  # pieces at a time: what fits the processor's cache
_MAX_WEIGHT = 8.0
_AFTER_LATIN = "\u0250"
_WEIGHTS = Path(__file__).parent / "data" / "encoder.npz"
_loading = threading.Lock()


class EncoderEmbedder:
    """Reads its weights at the first text, once per process. Deterministic and thread-safe."""

    name = "limpet-encoder-2"  # increment whenever vectors change
    dimension = 256
    quick = True

    def __init__(self, weights: Path = _WEIGHTS) -> None:
        self._path = weights

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        load_modules("numpy")
        import numpy as np

        with _loading:
            network = _load(self._path)
        pieces = [np.array(token_ids(text, _MAX_PIECES + 2)[1:-1] or [UNKNOWN]) for text in texts]
        vectors: list[list[float]] = []
        for batch in _batches([len(numbers) for numbers in pieces]):
            vectors += network.encode([pieces[index] for index in batch]).tolist()
        return vectors

    def reads(self, text: str) -> bool:
        """Return whether most letters are Latin: the network has seen no other."""
        letters = [char for char in text if char.isalpha()]
        return 2 * sum(char < _AFTER_LATIN for char in letters) >= len(letters)

    def embed_pieces(self, text: str) -> NDArray[float32]:
        """Return a row for each word piece of a text, before they see their neighbours."""
        import numpy as np

        with _loading:
            network = _load(self._path)
        return network.get_rows(np.array(token_ids(text, _MAX_PIECES + 2)[1:-1] or [UNKNOWN]))


def _batches(lengths: Sequence[int]) -> Iterator[range]:
    """Yield runs of texts with at most ``_BATCH`` pieces together; a longer text is alone."""
    start = pieces = 0
    for index, length in enumerate(lengths):
        if pieces and pieces + length > _BATCH:
            yield range(start, index)
            start, pieces = index, 0
        pieces += length
    if pieces:
        yield range(start, len(lengths))


class _Network:
    """The weights, and what was computed of each piece so far."""

    def __init__(self, table: NDArray[Any], small: Mapping[str, NDArray[float32]]) -> None:
        import numpy as np

        self._table = table  # eight bits, one row a piece; stays in the file
        self._scale = small["scale"]
        self._gate = small["gate"] + small["second_bias"] @ small["pool"]  # how much a piece counts
        self._pool = small["pool"]
        first = np.concatenate(list(small["first"]), axis=1)  # for the piece after, the piece itself, the piece before
        self._first = np.ascontiguousarray(first.T)
        self._first_bias = small["first_bias"]
        self._second = np.ascontiguousarray(small["second"].T)
        self._second_bias = small["second_bias"]
        self._hidden_pool = small["second"] @ small["pool"]
        count, hidden = len(table), len(small["second"])
        self._known = np.zeros(count, dtype=bool)
        self._seen = np.zeros((count, 3, hidden), dtype=np.float32)  # takes memory only for pieces that occurred
        self._count = np.zeros(count, dtype=np.float32)

    def get_rows(self, pieces: NDArray[Any]) -> NDArray[float32]:
        rows: NDArray[float32] = self._table[pieces] * self._scale[pieces, None]
        return rows

    def encode(self, texts: Sequence[NDArray[Any]]) -> NDArray[float32]:
        import numpy as np

        lengths = np.array([len(text) for text in texts])
        flat = np.concatenate(texts)
        self._learn(flat)
        starts = np.cumsum(lengths) - lengths
        inner = np.ones(len(flat), dtype=bool)
        inner[starts] = False
        after = np.flatnonzero(inner)  # pieces with one before them in the same text
        hidden = self._seen[flat, 1] + self._first_bias
        hidden[after] += self._seen[flat[after - 1], 0]
        hidden[after - 1] += self._seen[flat[after], 2]
        np.maximum(hidden, 0, out=hidden)
        weight = self._count[flat] + np.einsum("ij,j->i", hidden, self._hidden_pool)
        weight = np.exp(np.clip(weight, -_MAX_WEIGHT, _MAX_WEIGHT))
        own = self._table[flat] * (self._scale[flat] * weight)[:, None]
        hidden *= weight[:, None]
        vectors = np.add.reduceat(own, starts, axis=0)
        # The second layer is linear, so that a text's sum passes it instead of every piece.
        vectors += np.einsum("ij,kj->ik", np.add.reduceat(hidden, starts, axis=0), self._second)
        vectors += np.add.reduceat(weight, starts)[:, None] * self._second_bias
        return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))

    def _learn(self, flat: NDArray[Any]) -> None:
        """Compute pieces that did not occur before. Two threads may do the same: they write the same."""
        import numpy as np

        known = self._known[flat]
        if not known.all():
            new = np.unique(flat[~known])
            rows = self.get_rows(new)
            self._seen[new] = np.einsum("ij,kj->ik", rows, self._first).reshape(len(new), 3, -1)
            self._count[new] = self._gate[new] + np.einsum("ij,j->i", rows, self._pool)
            self._known[new] = True


@cache
def _load(path: Path) -> _Network:
    load_modules("numpy.ma", "mmap", "encodings.cp437")  # np.unique, np.memmap and ZipFile import them
    import numpy as np

    try:
        with np.load(path) as stored:
            small = {name: stored[name].astype(np.float32) for name in stored.files if name != "table"}
        return _Network(_map(path, "table"), small)
    except (OSError, KeyError, ValueError) as error:
        raise ProviderError(f"the encoder's weights cannot be read from {path}: {error}. Reinstall limpet") from error


def _map(path: Path, name: str) -> NDArray[Any]:
    """Map an array that lies uncompressed in the file: only the rows that are used are read."""
    import numpy as np
    from numpy.lib import format as layout

    with ZipFile(path) as file:
        member = file.getinfo(f"{name}.npy")
        if member.compress_type != ZIP_STORED:
            raise ValueError(f"{name} is compressed")
    with path.open("rb") as raw:
        raw.seek(member.header_offset + 26)
        lengths = raw.read(4)
        raw.seek(int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), 1)
        layout.read_magic(raw)
        shape, _, kind = layout.read_array_header_1_0(raw)
        return np.asarray(np.memmap(raw, dtype=kind, mode="r", offset=raw.tell(), shape=shape))
