"""Vectors without a model: words and character n-grams, hashed into a fixed number of dimensions.

Texts that share words or spellings are close, in any language. Paraphrases in other words are not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from limpet.model.late import load_modules

if TYPE_CHECKING:
    from numpy import float64, uint64
    from numpy.typing import NDArray

_DIMENSION = 256
_WORD_WEIGHT = 1.0
_GRAM_WEIGHTS = {3: 1.0, 4: 0.7, 5: 0.5}  # by length: one changed letter affects more of the long ones

# Ideographs, kana and Hangul are single words, since no space separates them. Three-grams over the characters and
# the spaces between them act as character pairs.
_IDEOGRAPHS = (
    "\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\U00020000-\U0003134f"
)
_WORD = re.compile(f"[{_IDEOGRAPHS}]|[^\\W_{_IDEOGRAPHS}]+|[\u2600-\u27bf\U0001f300-\U0001faff]")
_NOT_A_SPACE = re.compile(r"\S")


class HashEmbedder:
    """Needs no model and no network; gives the same vectors on every machine. Thread-safe."""

    name = f"hashed-{_DIMENSION}-1"  # increment whenever vectors change
    dimension = _DIMENSION

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        load_modules("numpy", "encodings.utf_32_le")
        return [_vector(text).tolist() for text in texts]


def _vector(text: str) -> NDArray[float64]:
    """Signed feature hashing: collisions cancel out as often as they add up."""
    import numpy as np

    hashes, weights = _features(_words(text))
    distinct, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    values = weights[first] * (1 + np.log(counts))
    values[(distinct >> np.uint64(40)) % np.uint64(2) == 1] *= -1
    places = (distinct % np.uint64(_DIMENSION)).astype(np.intp)
    vector = np.bincount(places, values, _DIMENSION)
    if not vector.any():  # everything cancelled out
        vector[0] = 1.0
    return np.asarray(vector / np.linalg.norm(vector))


def _words(text: str) -> list[str]:
    """Never empty: a text without words yields its symbols, and an empty text the empty word."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _WORD.findall(folded) or _NOT_A_SPACE.findall(folded) or [""]


def _features(words: list[str]) -> tuple[NDArray[uint64], NDArray[float64]]:
    """Return a hash and a weight for each word and each n-gram of three to five characters, spaces included."""
    import numpy as np

    hashes = [np.array([crc32(_bytes(word, "utf-8")) for word in words], dtype=np.uint64)]
    weights = [np.full(len(words), _WORD_WEIGHT)]
    letters = np.frombuffer(_bytes(f" {' '.join(words)} ", "utf-32-le"), dtype="<u4").astype(np.uint64)
    for length, weight in _GRAM_WEIGHTS.items():
        count = max(0, len(letters) - length + 1)
        grams = np.full(count, length, dtype=np.uint64)
        for start in range(length):
            grams *= np.uint64(0x9E3779B97F4A7C15)
            grams += letters[start : start + count]
        hashes.append(grams)
        weights.append(np.full(count, weight))
    return _mix_bits(np.concatenate(hashes)), np.concatenate(weights)


def _bytes(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "surrogatepass")  # keeps lone surrogates


def _mix_bits(numbers: NDArray[uint64]) -> NDArray[uint64]:
    """The finalizer of SplitMix64: every input bit affects every output bit."""
    import numpy as np

    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(numbers ^ (numbers >> np.uint64(31)))
