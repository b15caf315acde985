"""Create an embedder or a language model from its setting."""

from __future__ import annotations

import re

from limpet.errors import ConfigError
from limpet.providers.embedder import Embedder
from limpet.providers.llm import Llm, Prices

EMBEDDER_SPECS = (
    "auto",
    "none",
    "hashed",
    "encoder",
    "minilm",
    "openai:MODEL@URL",
    "sentence-transformers:NAME",
    "fastembed:NAME",
)
LLM_SPECS = ("none", "openai:MODEL@URL", "anthropic:MODEL", "anthropic:MODEL@URL")
_AT = re.compile(r"(?P<model>.+)@(?P<url>https?://.+)", re.IGNORECASE)  # a model's name may contain an @ too


def create_embedder(spec: str, *, api_key: str | None = None) -> Embedder | None:
    """Create the embedder that ``spec`` names, one of EMBEDDER_SPECS; None for "none". Only HTTP ones use the key."""
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
    if kind == "encoder" and not rest:
        from limpet.providers.encoder import EncoderEmbedder

        return EncoderEmbedder()
    if kind == "minilm" and not rest:
        from limpet.providers.minilm import MiniLmEmbedder

        return MiniLmEmbedder()
    raise ConfigError(f"{kind!r} is not an embedder; use one of {', '.join(EMBEDDER_SPECS)}")


def _create_default_embedder() -> Embedder | None:
    """Return the packaged model if it is installed. Without it, search uses words only."""
    from limpet.providers.minilm import MiniLmEmbedder

    return MiniLmEmbedder() if MiniLmEmbedder.is_installed() else None


def llm_key_variable(spec: str) -> str:
    """Return the environment variable in which the provider's own tools look for a key."""
    return "ANTHROPIC_API_KEY" if spec.strip().startswith("anthropic:") else "OPENAI_API_KEY"


def llm_model(spec: str) -> str:
    """Return the model that ``spec`` names, without provider and address."""
    rest = spec.strip().partition(":")[2]
    match = _AT.fullmatch(rest)
    return rest if match is None else match["model"]


def create_llm(spec: str, *, api_key: str | None = None, prices: Prices | None = None) -> Llm | None:
    """Create the model that ``spec`` names; None for "none". Prices are per million tokens: (in, out, cached)."""
    kind, _, rest = spec.strip().partition(":")
    match = _AT.fullmatch(rest)
    if kind == "openai":
        from limpet.providers.openai_llm import OpenAiLlm

        if match is None:  # the value is not repeated: an address may contain a password
            raise ConfigError(
                "an OpenAI-compatible language model is written openai:MODEL@URL, "
                "for example openai:qwen3@http://localhost:8080/v1"
            )
        return OpenAiLlm(match["url"], match["model"], api_key, prices=prices)
    if kind == "anthropic":
        return _create_anthropic_llm(rest, match, api_key, prices)
    if kind == "none" and not rest:
        return None
    raise ConfigError(f"{kind!r} is not a language model; use one of {', '.join(LLM_SPECS)}")


def _create_anthropic_llm(rest: str, match: re.Match[str] | None, api_key: str | None, prices: Prices | None) -> Llm:
    from limpet.providers.anthropic_llm import AnthropicLlm

    if match is not None:
        return AnthropicLlm(match["model"], api_key, match["url"], prices=prices)
    if not rest or "://" in rest:
        raise ConfigError("an Anthropic model is written anthropic:MODEL, or anthropic:MODEL@URL for another server")
    return AnthropicLlm(rest, api_key, prices=prices)


def _create_openai_embedder(rest: str, api_key: str | None) -> Embedder:
    from limpet.providers.openai_embeddings import OpenAiEmbedder

    match = _AT.fullmatch(rest)
    if match is None:  # the value is not repeated: an address may contain a password
        raise ConfigError(
            "an OpenAI-compatible embedder is written openai:MODEL@URL, for example openai:bge-m3@http://localhost:8080/v1"
        )
    return OpenAiEmbedder(match["url"], match["model"], api_key)


def _create_local_embedder(kind: str, model: str) -> Embedder:
    if kind == "fastembed":
        from limpet.providers.hub import FastEmbedEmbedder

        return FastEmbedEmbedder(model)
    from limpet.providers.hub import SentenceTransformersEmbedder

    return SentenceTransformersEmbedder(model)
