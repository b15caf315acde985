"""Embedders whose meaning a test controls, and the plain answer that every search by meaning is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

import numpy as np

from limpet import Config, Limpet
from limpet.errors import ProviderError
from limpet.model.chunk import Hit
from limpet.store.encryption import RowLayout
from limpet.store.tables import CHUNKS, VECTORS
from tests.contract.rows import sql

# Words of one group mean the same.
_GROUPS = (
    ("dog", "puppy", "hound", "canine"),
    ("car", "automobile", "vehicle"),
    ("doctor", "physician", "surgeon"),
    ("happy", "glad", "cheerful"),
    ("sea", "ocean", "waves"),
)
_SAME = {word: group[0] for group in _GROUPS for word in group}


class Topics:
    """A text is the sum of its words, and some words mean the same.

    A text that ``refuse`` says yes to makes its whole call fail; ``fault`` spoils the vectors on their way out.
    """

    def __init__(self, name: str = "topics", dimension: int = 64) -> None:
        self.name = name
        self.dimension = dimension
        self.calls: list[list[str]] = []
        self.refuse: Callable[[str], bool] = lambda _: False
        self.fault: Callable[[list[list[float]]], Any] | None = None

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append(list(texts))
        if any(map(self.refuse, texts)):
            raise ProviderError("a text that cannot be embedded")
        vectors = [self.vector(text).tolist() for text in texts]
        return vectors if self.fault is None else self.fault(vectors)

    def vector(self, text: str) -> np.ndarray[Any, Any]:
        words = text.lower().split() or [""]
        total = np.sum([_direction(_SAME.get(word, word), self.dimension, self.name) for word in words], axis=0)
        scaled: np.ndarray[Any, Any] = total / np.linalg.norm(total)
        return scaled


@cache
def _direction(word: str, dimension: int, name: str) -> np.ndarray[Any, Any]:
    seed = int.from_bytes(blake2b(f"{name} {word}".encode(), digest_size=8).digest(), "big")
    return np.random.default_rng(seed).normal(size=dimension)


def settings(**overrides: Any) -> Config:
    """Nothing in the background unless asked for: a test says when jobs run. ``embedding__when="later"``…"""
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    quiet = {
        "embedding.model": "none",
        "embedding.background": False,
        "graph.enabled": False,
        "learn.enabled": False,
        "notes.items": False,
        "retention.enabled": False,
    }
    return Config.load(overrides=quiet | given)


def open_with(url: str, embedder: Any, clock: Any = None, **overrides: Any) -> Limpet:
    return Limpet.open(url, config=settings(**overrides), embedder=embedder, clock=clock)


def stored_vectors(
    memory: Limpet, model: str, user: str = "alice", tenant: str = "default"
) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Every chunk of the user with its vector as it is in the database."""
    store: Any = memory._runtime.store
    rows = sql(
        memory,
        "SELECT c.partition_id, c.ordinal, v.model_id, c.text, v.vector FROM vectors v"
        " JOIN chunks c ON c.bucket = v.bucket AND c.partition_id = v.partition_id AND c.ordinal = v.ordinal"
        " JOIN models m ON m.id = v.model_id JOIN partitions p ON p.bucket = c.bucket AND p.id = c.partition_id"
        " WHERE m.name = :model AND p.owner = :owner AND p.tenant = :tenant AND p.level = 'user' ORDER BY c.ordinal",
        model=model,
        owner=user,
        tenant=tenant,
    )
    box = store.read(lambda tx: tx.encryption.cipher_for(tenant))
    found = []
    for partition_id, ordinal, model_id, text, vector in rows:
        [opened] = box.decrypt_row(RowLayout(VECTORS, "vector"), (partition_id, ordinal, model_id), (vector,))
        (scale,), codes = np.frombuffer(opened[:4], "<f4"), np.frombuffer(opened[4:], "i1")
        [said] = box.decrypt_row(RowLayout(CHUNKS, "text"), (partition_id, ordinal), (text,))
        found.append((said, np.asarray(codes * scale, dtype=np.float64)))
    return found


def nearest(
    memory: Limpet, embedder: Topics, question: str, among: Callable[[str], bool] = lambda _: True, **whose: str
) -> list[tuple[float, str]]:
    """What there is to find, by comparing the question with every vector, the nearest first."""
    asked = np.asarray(embedder.vector(question), dtype=np.float32).astype(np.float64)
    found = [
        (float(vector @ asked / (np.linalg.norm(vector) * np.linalg.norm(asked))), text)
        for text, vector in stored_vectors(memory, embedder.name, **whose)
        if among(text)
    ]
    return sorted(found, reverse=True)


def assert_exact(
    memory: Limpet,
    embedder: Topics,
    question: str,
    among: Callable[[str], bool] = lambda _: True,
    k: int = 10,
    **filters: Any,
) -> list[Hit]:
    """Recall by vectors gives the nearest, in order, with their cosines."""
    hits = memory.recall(question, user="alice", k=k, recipe="vectors", **filters)
    expected = nearest(memory, embedder, question, among)
    own = {text: cosine for cosine, text in expected}
    assert [hit.score for hit in hits] == [near(cosine) for cosine, _ in expected[:k]]
    assert [hit.score for hit in hits] == [near(own[hit.text]) for hit in hits]
    return hits


class near:  # noqa: N801 - reads like pytest.approx, which compares a long list a hundred times slower
    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and abs(self.value - other) < 1e-5

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"near {self.value:.6f}"


def texts(hits: Sequence[Hit]) -> list[str]:
    return [hit.text for hit in hits]
