"""Vectors without a model: words and pieces of words, counted into a fixed number of places by their hash.

Texts that share words or spellings are near, whatever their language; texts that mean the same in other words are not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from numpy import uint64
    from numpy.typing import NDArray

_DIMENSION = 256
_WORD_WEIGHT = 1.0
_GRAM_WEIGHTS = {3: 1.0, 4: 0.7, 5: 0.5}  # a changed letter costs a long gram more places than a short one
_CJK_WEIGHT = 1.5

_CJK = "\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003134f"
_WORD = re.compile(f"[{_CJK}]|[^\\W_{_CJK}]+|[\\u2600-\\u27bf\\U0001f300-\\U0001faff]")
