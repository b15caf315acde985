"""An embedder, or a language model, by the text a configuration holds."""

from __future__ import annotations

import re

from limpet.errors import ConfigError
from limpet.providers.embedder import Embedder
from limpet.providers.llm import Llm, Prices

EMBEDDER_SPECS = (
    "auto",
    "none",
    "hashed",
    "minilm",
    "openai:MODEL@URL",
    "sentence-transformers:NAME",
    "fastembed:NAME",
)
LLM_SPECS = ("none", "openai:MODEL@URL", "anthropic:MODEL", "anthropic:MODEL@URL")
_AT = re.compile(r"(?P<model>.+)@(?P<url>https?://.+)", re.IGNORECASE)  # a model's name may hold an @ too


def create_embedder(spec: str, *, api_key: str | None = None) -> Embedder | None:
    """What ``spec`` names, one of SPECS; None for "none". The key is for the provider that is asked over HTTP."""
    kind, _, rest = spec.strip().partition(":")
    if kind == "auto" and not rest:
        return _create_default_embedder()
    if kind == "openai":
        return _create_openai_embedder(rest, api_key)
    if kind in {"sentence-transformers", "fastembed"} and rest:
        return _create_local_embedder(kind, rest)
    if kind == "none" and not rest:
        return None
    if kind == "hashed" and not rest:
        from limpet.providers.hashed import HashEmbedder

        return HashEmbedder()
    if kind == "minilm" and not rest:
        from limpet.providers.minilm import MiniLmEmbedder

        return MiniLmEmbedder()
    raise ConfigError(f"{kind!r} is no embedder; there are {', '.join(EMBEDDER_SPECS)}")


def _create_default_embedder() -> Embedder | None:
    """The model that comes as a package, where it was installed; without it words answer alone."""
    from limpet.providers.minilm import MiniLmEmbedder

    return MiniLmEmbedder() if MiniLmEmbedder.is_installed() else None


def llm_key_variable(spec: str) -> str:
    """The variable in which the provider's own programs look for a key."""
    return "ANTHROPIC_API_KEY" if spec.strip().startswith("anthropic:") else "OPENAI_API_KEY"


def llm_model(spec: str) -> str:
    """The model that ``spec`` names, without the provider and its address."""
    rest = spec.strip().partition(":")[2]
    found = _AT.fullmatch(rest)
    return rest if found is None else found["model"]


def create_llm(spec: str, *, api_key: str | None = None, prices: Prices | None = None) -> Llm | None:
    """What ``spec`` names, one of LLM_SPECS; None for "none". Prices are for a million tokens: (in, out, cached)."""
    kind, _, rest = spec.strip().partition(":")
    found = _AT.fullmatch(rest)
    if kind == "openai":
        from limpet.providers.openai_llm import OpenAiLlm

        if found is None:  # what was given is not repeated: an address may hold a password
            raise ConfigError(
                "an OpenAI-compatible language model is written openai:MODEL@URL, "
                "for example openai:qwen3@http://localhost:8080/v1"
            )
        return OpenAiLlm(found["url"], found["model"], api_key, prices=prices)
    if kind == "anthropic":
        return _create_anthropic_llm(rest, found, api_key, prices)
    if kind == "none" and not rest:
        return None
    raise ConfigError(f"{kind!r} is no language model; there are {', '.join(LLM_SPECS)}")


def _create_anthropic_llm(rest: str, found: re.Match[str] | None, api_key: str | None, prices: Prices | None) -> Llm:
    from limpet.providers.anthropic_llm import AnthropicLlm

    if found is not None:
        return AnthropicLlm(found["model"], api_key, found["url"], prices=prices)
    if not rest or "://" in rest:
        raise ConfigError("a model of Anthropic is written anthropic:MODEL, or anthropic:MODEL@URL for another server")
    return AnthropicLlm(rest, api_key, prices=prices)


def _create_openai_embedder(rest: str, api_key: str | None) -> Embedder:
    from limpet.providers.openai_embeddings import OpenAiEmbedder

    found = _AT.fullmatch(rest)
    if found is None:  # what was given is not repeated: an address may hold a password
        raise ConfigError(
            "an OpenAI-compatible embedder is written openai:MODEL@URL, for example openai:bge-m3@http://localhost:8080/v1"
        )
    return OpenAiEmbedder(found["url"], found["model"], api_key)


def _create_local_embedder(kind: str, model: str) -> Embedder:
    if kind == "fastembed":
        from limpet.providers.fastembed import FastEmbedEmbedder

        return FastEmbedEmbedder(model)
    from limpet.providers.sentence_transformers import SentenceTransformersEmbedder

    return SentenceTransformersEmbedder(model)
