"""Measures an encoder on the development sets with Limpet's own ranking.

``capture`` records once what the ranking sees for every question, without vectors; ``measure`` then ranks with any
encoder's cosines in seconds. It leaves out what recall does with claims after the ranking: ``limpet bench recall``
decides.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

DEPTH = 10
SETS = ("locomo", "beam", "longmemeval")
Embed = Callable[[Sequence[str]], np.ndarray]


@dataclass(slots=True)
class Asked:
    question: Any
    text: str  # as it is embedded
    words: np.ndarray
    covered: np.ndarray
    known: float
    spans: list[Any]
    allowed: np.ndarray | None
    evidence: frozenset[str]
    category: str


@dataclass(slots=True)
class Captured:
    """A conversation: its catalogue, its chunks' texts as they are embedded, and the turns they cover."""

    catalogue: Any
    texts: list[str]
    turns: list[frozenset[str]]
    asked: list[Asked]


def capture(folder: Path) -> list[Captured]:
    from limpet_bench.datasets import load
    from limpet_bench.recall import Stored

    found = []
    for conversation in load(folder):
        stored = Stored(conversation, None, None)
        with _Recorder(stored) as recorder:
            for question in conversation.questions:
                if question.answerable:
                    recorder.evidence, recorder.category = question.turns, question.category
                    stored.ask(conversation.id, question)
        found.append(recorder.captured)
        stored.memory.close()
    return [conversation for conversation in found if conversation is not None]


class _Recorder:
    """Stands before the ranking and keeps what it is given."""

    def __init__(self, stored: Any) -> None:
        self.captured: Captured | None = None
        self.evidence: frozenset[str] = frozenset()
        self.category = ""
        self._stored = stored

    def __enter__(self) -> Self:
        from limpet.search import rank, search

        self._ranker, self._find_hits = rank.Ranker, search._find_hits  # noqa: SLF001 - no public place shows them
        rank.Ranker, search._find_hits = self._record, self._note_index  # noqa: SLF001
        return self

    def __exit__(self, *_: object) -> None:
        from limpet.search import rank, search

        rank.Ranker, search._find_hits = self._ranker, self._find_hits  # noqa: SLF001

    def _note_index(self, index: Any, *rest: Any) -> Any:
        self._index = index
        return self._find_hits(index, *rest)

    def _record(
        self, catalogue: Any, question: Any, signals: Any, recipe: Any, spans: Sequence[Any], allowed: Any
    ) -> Any:
        from limpet.search.analysis import strip_names

        if self.captured is None:
            self.captured = self._read_chunks(catalogue)
        self.captured.asked.append(
            Asked(
                question,
                strip_names(question.text, catalogue.names),
                signals.words.astype(np.float32),
                signals.covered.astype(np.float32),
                signals.known,
                list(spans),
                allowed,
                self.evidence,
                self.category,
            )
        )
        return self._ranker(catalogue, question, signals, recipe, spans, allowed)

    def _read_chunks(self, catalogue: Any) -> Captured:
        from limpet.model.chunk import Hit
        from limpet.search.analysis import strip_names
        from limpet.search.search import read_chunks

        ordinals = catalogue.ordinals.tolist()
        chunks = read_chunks(self._index, ordinals, None, datetime.now(UTC))
        rows = [chunks[ordinal] for ordinal in ordinals]
        hits = [Hit(row.text, 0.0, {}, row.source, row.metadata) for row in rows]
        texts = [strip_names(row.text, catalogue.names) for row in rows]
        return Captured(catalogue, texts, self._stored.find_covered(hits).turns, [])


def measure(conversations: Sequence[Captured], embed: Embed | None) -> list[float]:
    """Return each question's recall@10, in order."""
    recalls = []
    for conversation in conversations:
        vectors = None if embed is None else embed(conversation.texts)
        asked = None if embed is None else embed([item.text for item in conversation.asked])
        for number, item in enumerate(conversation.asked):
            cosines = None
            if vectors is not None and asked is not None:
                cosines = (vectors @ asked[number]).astype(np.float64)
            recalls.append(_recall(conversation, item, cosines))
    return recalls


def _recall(conversation: Captured, item: Asked, cosines: np.ndarray | None) -> float:
    from limpet.search.rank import Ranker, Signals
    from limpet.search.recipes import DEFAULT
    from limpet.search.vectors import VectorScores

    nearness = None if cosines is None else VectorScores(cosines, False, lambda at: cosines[at])
    signals = Signals(item.words.astype(float), item.covered.astype(float), item.known, nearness)
    recipe = replace(DEFAULT, candidates=max(DEFAULT.candidates, 100))
    ranked = Ranker(conversation.catalogue, item.question, signals, recipe, item.spans, item.allowed).rank()
    covered = frozenset().union(*(conversation.turns[at] for at in ranked.positions[:DEPTH]))
    return len(item.evidence & covered) / len(item.evidence)


def interval(recalls: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean over questions."""
    values = np.asarray(recalls)
    draws = np.random.default_rng(seed).integers(0, len(values), (2000, len(values)))
    low, high = np.quantile(values[draws].mean(1), (0.025, 0.975))
    return float(low), float(high)


def load_captured(path: Path) -> dict[str, list[Captured]]:
    with path.open("rb") as file:
        return pickle.load(file)  # noqa: S301 - written by this program


def _embed_with(path: Path) -> Embed:
    from limpet.providers.encoder import EncoderEmbedder

    embedder = EncoderEmbedder(path)
    return lambda texts: np.asarray(embedder.embed(texts), dtype=np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="capture: the folder that holds the sets")
    parser.add_argument("--captured", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, action="append", default=[], help="encoder.npz; may be repeated")
    args = parser.parse_args()
    if args.data is not None:
        with args.captured.open("wb") as file:
            pickle.dump({name: capture(args.data / name) for name in SETS}, file)
    captured = load_captured(args.captured)
    models: dict[str, Embed | None] = {"none": None}
    for path in args.encoder:
        models[str(path)] = _embed_with(path)
    for label, embed in models.items():
        for name, conversations in captured.items():
            recalls = measure(conversations, embed)
            low, high = interval(recalls)
            print(
                f"{label:40} {name:12} R@10 {np.mean(recalls):.4f} ({low:.3f} to {high:.3f}), {len(recalls)} questions"
            )


if __name__ == "__main__":
    from training.encoder.measure import main  # pickled classes must not belong to __main__

    main()
