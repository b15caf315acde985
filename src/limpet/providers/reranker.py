"""A second look at the best hits, by something that reads question and text together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Protocol

from limpet.errors import InvalidInput
from limpet.model.chunk import Hit, Signal

log = logging.getLogger("limpet.providers")


class Reranker(Protocol):
    @property
    def name(self) -> str: ...
    def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """How well each text answers the question, in order; higher is better."""


def check_reranker(value: object) -> None:
    if value is not None and not all(hasattr(value, name) for name in ("name", "scores")):
        raise InvalidInput(f"a reranker has a name and scores(question, texts); {type(value).__name__} has not")


def rerank_hits(reranker: Reranker, question: str, hits: list[Hit]) -> list[Hit]:
    """The hits in the reranker's order, or as they were when it fails: a second look is never the only one."""
    try:
        scores = _check_scores(reranker.scores(question, [hit.text for hit in hits]), len(hits))
    except Exception as error:  # why: a reranker is anybody's code, and recall goes on without it
        log.warning("the reranker failed, hits stay in their order: %s", error)
        return hits
    order = sorted(range(len(hits)), key=lambda at: -scores[at])
    return [
        replace(hits[at], score=scores[at], signals={**hits[at].signals, "rerank": Signal(rank, scores[at])})
        for rank, at in enumerate(order, 1)
    ]


def _check_scores(given: Sequence[float], count: int) -> list[float]:
    scores = [float(score) for score in given]
    if len(scores) != count or not all(map(isfinite, scores)):
        raise ValueError(f"{len(scores)} scores for {count} texts, or some that are no numbers")
    return scores
