"""A model sums up numbered texts in a few sentences. A sentence that names no source is dropped."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from limpet.errors import ProviderError
from limpet.knowledge.similarity import compute_signature
from limpet.model.values import is_storable
from limpet.providers.llm import Llm, LlmRequest, build_prompt
from limpet.providers.schema import Schema, closed_object

log = logging.getLogger("limpet.knowledge")

_MOST_SENTENCES = 60
_ENOUGH = 0.6  # of a sentence's words stand in its sources; the rest may be the writer's
_MAX_TEXT = 1000  # characters of a text that the model is shown
_SENTENCE = closed_object({"text": {"type": "string"}, "from": {"type": "array", "items": {"type": "integer"}}})
SCHEMA = closed_object({"sentences": {"type": "array", "maxItems": _MOST_SENTENCES, "items": _SENTENCE}})


class DigestSentence(NamedTuple):
    """A sentence, and the places of the texts it was made from."""

    text: str
    sources: tuple[int, ...]


@cache
def _load_instructions(name: str) -> str:
    return Path(__file__).with_name("prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")


def build_json_request(
    name: str, told: object, schema: Schema, max_tokens: int, timeout: float, *, strict: bool = True, **words: str
) -> LlmRequest:
    """Ask by the instructions of that name, with ``words`` in them, about ``told``.

    As JSON nothing that was said can pass for a part of the question.
    """
    return LlmRequest(
        build_prompt(json.dumps(told, ensure_ascii=False), system=_load_instructions(name).format(**words)),
        max_tokens=max_tokens,
        temperature=0.0,
        timeout=timeout,
        schema=schema,
        strict=strict,
    )


def build_request(name: str, texts: Sequence[str], most_tokens: int, timeout: float) -> LlmRequest:
    told = [{"number": number, "text": text[:_MAX_TEXT]} for number, text in enumerate(texts, start=1)]
    words = str(most_tokens * 3 // 5)
    return build_json_request(name, {"texts": told}, SCHEMA, 3 * most_tokens + 200, timeout, words=words)


def digest_texts(llm: Llm, name: str, texts: Sequence[str], most_tokens: int, timeout: float) -> list[DigestSentence]:
    """Those of the model's sentences that name texts and say what stands in them. Raises ProviderError."""
    answer = llm.complete(build_request(name, texts, most_tokens, timeout))
    found = []
    for sentence in (answer.data or {}).get("sentences", ()):
        text = " ".join(str(sentence["text"]).split())
        sources = tuple(dict.fromkeys(number - 1 for number in sentence["from"] if 1 <= number <= len(texts)))
        if text and sources and is_storable(text) and is_grounded(text, [texts[source] for source in sources]):
            found.append(DigestSentence(text, sources))
    return found


def try_digest(
    llm: Llm | None, name: str, texts: Sequence[str], most_tokens: int, timeout: float
) -> list[DigestSentence]:
    """The same; nothing where there is no model, or where it fails."""
    if llm is None or not texts:
        return []
    try:
        return digest_texts(llm, name, texts, most_tokens, timeout)
    except ProviderError as error:
        log.warning("%s wrote no %s; rules stand in for it: %s", llm.name, name, error)
    except Exception:  # why: a model given by the caller may raise anything; rules need none
        log.warning("%s wrote no %s; rules stand in for it", llm.name, name, exc_info=True)
    return []


def is_grounded(sentence: str, sources: Iterable[str]) -> bool:
    """It has no number and no denial that the sources lack, and is mostly in their words."""
    said, told = compute_signature(sentence), [compute_signature(source) for source in sources]
    stems = frozenset().union(*(source.stems for source in told)) if told else frozenset()
    numbers = frozenset().union(*(source.numbers for source in told)) if told else frozenset()
    if not said.numbers <= numbers or (said.negated and not any(source.negated for source in told)):
        return False
    return bool(said.stems or said.numbers) and len(said.stems & stems) >= _ENOUGH * len(said.stems)
