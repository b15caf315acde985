"""Whether a sentence somebody wrote about some texts says nothing but what is in them."""

from __future__ import annotations

from collections.abc import Iterable

from limpet.knowledge.similarity import compute_signature

_ENOUGH = 0.6  # of a sentence's words stand in its sources; the rest may be the writer's


def is_grounded(sentence: str, sources: Iterable[str]) -> bool:
    """No number that is nowhere in the sources, no denial of what nobody denied, and mostly their words."""
    said, told = compute_signature(sentence), [compute_signature(source) for source in sources]
    stems = frozenset().union(*(source.stems for source in told)) if told else frozenset()
    numbers = frozenset().union(*(source.numbers for source in told)) if told else frozenset()
    if not said.numbers <= numbers or (said.negated and not any(source.negated for source in told)):
        return False
    return bool(said.stems or said.numbers) and len(said.stems & stems) >= _ENOUGH * len(said.stems)
