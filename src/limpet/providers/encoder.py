"""Limpet's own sentence encoder: word-piece vectors and one small convolution, with numpy alone.

A text is the weighted sum of its pieces' vectors, after each has seen its neighbours, turned by one layer more and
scaled to length one. The program in training/encoder makes the weights.

What depends on a single piece is computed once and kept. The rest avoids matrix products: their threads wait in busy
loops and slow a busy machine down more than they help texts this short.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.errors import ProviderError
from limpet.model.late import load_modules
from limpet.model.text_cache import cache_texts

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

_MAX_PIECES = 512  # of a text
_MAX_WEIGHT = 8.0
_CACHED = 4096  # vectors of texts
_FEW = 8  # texts at a time that are cached; more are an import
_FIRST_PIECES = 1024  # word pieces that there is room for at first
_AFTER_LATIN = "\u0250"
_WEIGHTS = Path(__file__).parent / "data" / "encoder.npz"
_loading = threading.Lock()

UNKNOWN, START, END = 100, 101, 102  # [UNK], [CLS], [SEP]
_LONGEST_WORD = 100  # characters; longer words are unknown
_CLEAR = re.compile(r"[\t\n\r -~]*").fullmatch  # plain ASCII: nothing to strip or normalize
_PARTS = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")  # of plain lowercase text
_WORD = re.compile(r"[^ \t\n\r\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]{1,1000}")
_DROPPED = {"Cc", "Cf", "Co", "Cs"}  # unassigned characters stay, as unknown
_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)),
    *((0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0x2F800, 0x2FA1F)),
)


class EncoderEmbedder:
    """Reads its weights at the first text, once per process. Deterministic and thread-safe."""

    name = "limpet-encoder-3"  # increment whenever vectors change
    dimension = 256
    quick = True

    def __init__(self, weights: Path = _WEIGHTS) -> None:
        self._path = weights

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if len(texts) <= _FEW:
            return [_embed_alone(self._path, text).tolist() for text in texts]
        network = _load_network(self._path)
        return [network.encode(_cut_pieces(text)).tolist() for text in texts]

    def reads(self, text: str) -> bool:
        """Return whether most letters are Latin: the network has seen no other."""
        if text.isascii():
            return True
        letters = [char for char in text if char.isalpha()]
        return 2 * sum(char < _AFTER_LATIN for char in letters) >= len(letters)

    def embed_pieces(self, text: str) -> NDArray[float32]:
        """Return a row for each word piece of a text, before they see their neighbours."""
        return _load_network(self._path).get_rows(_cut_pieces(text))


@cache
def default_encoder() -> EncoderEmbedder:
    return EncoderEmbedder()


def embed_text(text: str) -> NDArray[float32]:
    """Return the vector of a text by the encoder that comes with Limpet, whatever embedder a store has."""
    return _embed_alone(_WEIGHTS, text)


@cache_texts(_CACHED)
def _embed_alone(weights: Path, text: str) -> NDArray[float32]:
    """A message is stored, searched for, learned from and compared: each of them asks for its vector."""
    vector: NDArray[float32] = _load_network(weights).encode(_cut_pieces(text))
    return vector


def _load_network(weights: Path) -> _Network:
    with _loading:
        return _load(weights)


def _cut_pieces(text: str) -> NDArray[Any]:
    import numpy as np  # late, and loaded with the network

    return np.array(token_ids(text, _MAX_PIECES + 2)[1:-1] or [UNKNOWN])


class _Network:
    """The weights, and what was computed of each piece so far."""

    def __init__(self, table: NDArray[Any], small: Mapping[str, NDArray[float32]]) -> None:
        import numpy as np

        self._table = table  # eight bits, one row a piece; stays in the file
        self._scale = small["scale"]
        self._gate = small["gate"] + np.einsum("i,i", small["second_bias"], small["pool"])  # how much a piece counts
        self._pool = small["pool"]
        self._first = small["first"]  # rows for the piece after, the piece itself, the piece before
        self._first_bias = small["first_bias"]
        self._second = small["second"]
        self._second_bias = small["second_bias"]
        self._widen = small["widen"]
        self._widen_bias = small["widen_bias"]
        self._narrow = small["narrow"]
        self._narrow_bias = small["narrow_bias"]
        self._hidden_pool = np.einsum("ij,i->j", small["second"], small["pool"])
        count, hidden = len(table), len(small["first_bias"])
        # Of the pieces that occurred, side by side in their order: a page of memory holds several.
        self._place = np.zeros(count, dtype=np.int32)  # 0: did not occur
        self._seen = np.empty((_FIRST_PIECES, 3, hidden), dtype=np.float32)
        self._count = np.empty(_FIRST_PIECES, dtype=np.float32)
        self._next, self._learning = 1, threading.Lock()

    def get_rows(self, pieces: NDArray[Any]) -> NDArray[float32]:
        rows: NDArray[float32] = self._table[pieces] * self._scale[pieces, None]
        return rows

    def encode(self, pieces: NDArray[Any]) -> NDArray[float32]:
        """Return the vector of a text. Several texts at once would take as long for each."""
        import numpy as np

        places = self._find_places(pieces)
        hidden = self._seen[places, 1] + self._first_bias
        hidden[1:] += self._seen[places[:-1], 0]
        hidden[:-1] += self._seen[places[1:], 2]
        np.maximum(hidden, 0, out=hidden)
        weight = self._count[places] + np.einsum("ij,j->i", hidden, self._hidden_pool)
        weight = np.exp(np.minimum(np.maximum(weight, -_MAX_WEIGHT), _MAX_WEIGHT))
        own = self._table[pieces].astype(np.float32)
        vector: NDArray[float32] = np.einsum("i,ij->j", self._scale[pieces] * weight, own)
        # The second layer is linear, so that a text's sum passes it instead of every piece.
        vector += np.einsum("j,kj->k", np.einsum("i,ij->j", weight, hidden), self._second)
        vector += np.add.reduce(weight) * self._second_bias
        vector /= _length(vector)
        wide = np.maximum(np.einsum("i,ki->k", vector, self._widen) + self._widen_bias, 0)
        vector += np.einsum("k,ik->i", wide, self._narrow) + self._narrow_bias
        vector /= _length(vector)
        return vector

    def _find_places(self, pieces: NDArray[Any]) -> NDArray[Any]:
        """Return where pieces are kept. Those that did not occur before are computed first."""
        import numpy as np

        places: NDArray[Any] = self._place[pieces]
        if not places.all():
            with self._learning:
                self._compute(np.unique(pieces[self._place[pieces] == 0]))  # none, if another thread just did
                places = self._place[pieces]
        return places

    def _compute(self, new: NDArray[Any]) -> None:
        import numpy as np

        own = np.arange(self._next, self._next + len(new))
        if self._next + len(new) > len(self._count):
            size = 2 * self._next + len(new)
            self._seen, self._count = (_copy_rows(each, self._next, size) for each in (self._seen, self._count))
        rows = self.get_rows(new)
        self._seen[own] = np.einsum("ij,kj->ik", rows, self._first).reshape(-1, *self._seen.shape[1:])
        self._count[own] = self._gate[new] + np.einsum("ij,j->i", rows, self._pool)
        self._place[new] = own  # last: others read it without the lock
        self._next += len(new)


def _copy_rows(array: NDArray[Any], count: int, size: int) -> NDArray[Any]:
    import numpy as np

    larger = np.empty((size, *array.shape[1:]), dtype=array.dtype)
    larger[:count] = array[:count]
    return larger


def _length(vector: NDArray[float32]) -> float:
    import numpy as np

    return max(float(np.sqrt(np.einsum("i,i", vector, vector))), 1e-12)


@cache
def _load(path: Path) -> _Network:
    # The second, third and last are imported by np.unique, np.memmap and ZipFile.
    load_modules("numpy", "numpy.ma", "mmap", "zipfile", "encodings.cp437")
    import numpy as np

    try:
        with np.load(path) as stored:
            small = {name: stored[name].astype(np.float32) for name in stored.files if name != "table"}
        return _Network(_map(path, "table"), small)
    except (OSError, KeyError, ValueError) as error:
        raise ProviderError(f"the encoder's weights cannot be read from {path}: {error}. Reinstall limpet") from error


def _map(path: Path, name: str) -> NDArray[Any]:
    """Map an array that lies uncompressed in the file: only the rows that are used are read."""
    from zipfile import ZIP_STORED, ZipFile

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


# WordPiece tokenization of BERT's uncased models, with a vocabulary of 30,522 pieces


def token_ids(text: str, limit: int) -> list[int]:
    """Return at most ``limit`` token ids, start and end tokens included. Special tokens in the text are plain text."""
    ids, vocabulary = [START], _vocabulary()
    for word in _words(text):
        whole = vocabulary.get(word)
        if whole is None:
            ids += _split_rare(word) if len(word) <= _LONGEST_WORD else [UNKNOWN]
        else:
            ids.append(whole)
        if len(ids) >= limit:
            break
    return [*ids[: limit - 1], END]


def _words(text: str) -> Iterable[str]:
    """Return lowercase words without accents and control characters. Punctuation and ideographs are single words."""
    if _CLEAR(text):
        return _PARTS.findall(text.lower())
    return (part for match in _WORD.finditer(text) for part in _split_word(match.group()))


def _split_word(word: str) -> Iterator[str]:
    start = 0
    folded = _fold_word(word)
    for end, char in enumerate(folded):
        if _is_separator(char):
            if start < end:
                yield folded[start:end]
            yield char
            start = end + 1
    if start < len(folded):
        yield folded[start:]


def _fold_word(word: str) -> str:
    cleaned = "".join(char for char in word if unicodedata.category(char) not in _DROPPED and char != "\ufffd")
    bare = "".join(char for char in unicodedata.normalize("NFD", cleaned) if unicodedata.category(char) != "Mn")
    return "".join(map(str.lower, bare))  # letter by letter, so that a final sigma becomes a normal sigma


def _is_separator(char: str) -> bool:
    if char < "\x80":
        return not char.isalnum()
    return unicodedata.category(char)[0] == "P" or any(low <= ord(char) <= high for low, high in _IDEOGRAPHS)


@cache_texts(1 << 14)
def _split_rare(word: str) -> Sequence[int]:
    """Split greedily by the longest known prefix; the whole word is unknown if a piece is missing."""
    vocabulary = _vocabulary()
    ids, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = vocabulary.get(f"##{word[start:end]}" if start else word[start:end])
            if piece is not None:
                break
        else:
            return [UNKNOWN]
        ids.append(piece)
        start = end
    return ids


@cache
def _vocabulary() -> dict[str, int]:
    load_modules("gzip")
    import gzip

    packed = Path(__file__).with_name("data").joinpath("wordpiece_uncased.txt.gz").read_bytes()
    return {piece: number for number, piece in enumerate(gzip.decompress(packed).decode().split("\n")[:-1])}
