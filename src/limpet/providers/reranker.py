"""Rerank the best hits with a model that reads question and text together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import isfinite
from typing import Protocol

from limpet.errors import InvalidInput
from limpet.model.chunk import Hit, Signal
from limpet.model.dataclass import replace

log = logging.getLogger("limpet.providers")


class Reranker(Protocol):
    @property
    def name(self) -> str: ...
    def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return how well each text answers the question, in order; higher is better."""


def check_reranker(value: object) -> None:
    if value is not None and not all(hasattr(value, name) for name in ("name", "scores")):
        raise InvalidInput(
            f"a reranker needs name and scores(question, texts); {type(value).__name__} does not have them"
        )


def rerank_hits(reranker: Reranker, question: str, hits: list[Hit]) -> list[Hit]:
    """Return the hits in the reranker's order, or unchanged if it fails."""
    try:
        scores = _check_scores(reranker.scores(question, [hit.text for hit in hits]), len(hits))
    except Exception as error:  # why: a reranker is third-party code, and recall continues without it
        log.warning("the reranker failed; hits keep their order: %s", error)
        return hits
    order = sorted(range(len(hits)), key=lambda at: -scores[at])
    return [
        replace(hits[at], score=scores[at], signals={**hits[at].signals, "rerank": Signal(rank, scores[at])})
        for rank, at in enumerate(order, 1)
    ]


def _check_scores(raw: Sequence[float], count: int) -> list[float]:
    scores = [float(score) for score in raw]
    if len(scores) != count or not all(map(isfinite, scores)):
        raise ValueError(f"{len(scores)} scores for {count} texts, or some are not numbers")
    return scores
