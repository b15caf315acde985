"""Create an embedder or a language model from its setting."""

from __future__ import annotations

import re
from importlib import import_module

from limpet.errors import ConfigError
from limpet.providers.embedder import Embedder
from limpet.providers.llm import Llm, Prices

EMBEDDER_SPECS = (
    "encoder",
    "none",
    "minilm",
    "hashed",
    "openai:MODEL@URL",
    "sentence-transformers:NAME",
    "fastembed:NAME",
)
# Where those are that need no address, and which of them need a model's name.
_LOCAL = {
    "hashed": ("hashed", "HashEmbedder"),
    "encoder": ("encoder", "EncoderEmbedder"),
    "minilm": ("minilm", "MiniLmEmbedder"),
    "sentence-transformers": ("hub", "SentenceTransformersEmbedder"),
    "fastembed": ("hub", "FastEmbedEmbedder"),
}
_NAMED = ("sentence-transformers", "fastembed")
LLM_SPECS = ("none", "openai:MODEL@URL", "anthropic:MODEL", "anthropic:MODEL@URL")
_AT = re.compile(r"(?P<model>.+)@(?P<url>https?://.+)", re.IGNORECASE)  # a model's name may contain an @ too


def create_embedder(spec: str, *, api_key: str | None = None) -> Embedder | None:
    """Create the embedder that ``spec`` names, one of EMBEDDER_SPECS; None for "none". Only HTTP ones use the key."""
    kind, _, rest = spec.strip().partition(":")
    if kind == "none" and not rest:
        return None
    if kind == "openai":
        from limpet.providers.openai import OpenAiEmbedder

        model, url = _split_address(rest, "embedder", "bge-m3")
        return OpenAiEmbedder(url, model, api_key)
    if kind in _LOCAL and bool(rest) is (kind in _NAMED):
        module, name = _LOCAL[kind]
        made: Embedder = getattr(import_module(f"limpet.providers.{module}"), name)(*([rest] if rest else []))
        return made
    raise ConfigError(f"{kind!r} is not an embedder; use one of {', '.join(EMBEDDER_SPECS)}")


def _split_address(rest: str, what: str, example: str) -> tuple[str, str]:
    """MODEL@URL. The value is not repeated in the error: an address may contain a password."""
    match = _AT.fullmatch(rest)
    if match is None:
        raise ConfigError(
            f"an OpenAI-compatible {what} is written openai:MODEL@URL,"
            f" for example openai:{example}@http://localhost:8080/v1"
        )
    return match["model"], match["url"]


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
    if kind == "openai":
        from limpet.providers.openai import OpenAiLlm

        model, url = _split_address(rest, "language model", "qwen3")
        return OpenAiLlm(url, model, api_key, prices=prices)
    if kind == "anthropic":
        from limpet.providers.anthropic_llm import AnthropicLlm

        if (match := _AT.fullmatch(rest)) is not None:
            return AnthropicLlm(match["model"], api_key, match["url"], prices=prices)
        if not rest or "://" in rest:
            raise ConfigError(
                "an Anthropic model is written anthropic:MODEL, or anthropic:MODEL@URL for another server"
            )
        return AnthropicLlm(rest, api_key, prices=prices)
    if kind == "none" and not rest:
        return None
    raise ConfigError(f"{kind!r} is not a language model; use one of {', '.join(LLM_SPECS)}")
