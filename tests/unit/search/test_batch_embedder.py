"""How an embedder and a reranker are used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from limpet.config import EmbeddingSettings
from limpet.errors import InvalidInput, ProviderError
from limpet.model.chunk import Hit, Source, SourceKind
from limpet.providers.encoder import EncoderEmbedder
from limpet.providers.fakes import FakeEmbedder
from limpet.providers.reranker import check_reranker, rerank_hits
from limpet.search import embed as use
from limpet.search.analysis import strip_names
from limpet.search.embed import BatchEmbedder


def test_batch_embedder_splits_texts_and_keeps_order() -> None:
    fake, seen = FakeEmbedder(), list[tuple[str, int, int]]()
    texts = [str(number) for number in range(10)]
    found = BatchEmbedder(fake, EmbeddingSettings(batch=4)).embed_texts(texts, lambda *step: seen.append(step))
    assert [len(call) for call in fake.calls] == [4, 4, 2]
    assert [vector.values for vector in found] == [tuple(vector) for vector in FakeEmbedder().embed(texts)]
    assert {vector.model for vector in found} == {"fake-8"}
    assert seen == [("embedding", 4, 10), ("embedding", 8, 10), ("embedding", 10, 10)]
    assert BatchEmbedder(fake, EmbeddingSettings()).embed_texts([]) == []


class Given:
    """Gives what it was given, whatever that is."""

    name = "given"

    def __init__(self, vectors: Any, dimension: int = 2) -> None:
        self.vectors = vectors
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> Any:
        return self.vectors


@pytest.mark.parametrize(
    "vectors",
    [
        [],
        [[1.0, 2.0], [1.0, 2.0]],
        [[]],
        [[1.0]],
        [[1.0, 2.0, 3.0]],
        [[float("nan"), 1.0]],
        [[1.0, float("-inf")]],
        [[1e20, 1.0]],
        [["a", "b"]],
        None,
        [None],
        5,
    ],
)
def test_batch_embedder_rejects_invalid_vectors(vectors: Any) -> None:
    with pytest.raises(ProviderError):
        BatchEmbedder(Given(vectors), EmbeddingSettings()).embed_texts(["a text"])
    assert BatchEmbedder(Given(vectors), EmbeddingSettings()).embed_question("a text") is None


def test_batch_embedder_rejects_too_many_dimensions() -> None:
    with pytest.raises(ProviderError, match="16000"):
        BatchEmbedder(Given([[0.1] * 16_001], 16_001), EmbeddingSettings()).embed_texts(["a text"])
    assert (
        len(BatchEmbedder(Given([[0.1] * 16_000], 16_000), EmbeddingSettings()).embed_texts(["a text"])[0].values)
        == 16_000
    )


def test_batch_embedder_accepts_any_numeric_sequence() -> None:
    import numpy as np

    for given in (np.ones((1, 2), dtype=np.float16), [(1, 1)], iter([iter([1, 1])])):
        assert BatchEmbedder(Given(given), EmbeddingSettings()).embed_texts(["a text"])[0].values == (1.0, 1.0)


def test_batch_embedder_caches_question_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use, "_QUESTIONS", 2)
    fake = FakeEmbedder()
    embedding = BatchEmbedder(fake, EmbeddingSettings())
    for text in ("a", "b", "a", "c", "a", "b"):
        embedding.embed_question(text)
    assert fake.calls == [("a",), ("b",), ("c",), ("b",)]


def test_batch_embedder_pauses_question_embedding_after_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(use, "monotonic", lambda: now[0])
    fake = FakeEmbedder()
    embedding = BatchEmbedder(fake, EmbeddingSettings())
    known = embedding.embed_question("known")
    fake.failures = 1
    assert embedding.embed_question("a") is None
    assert embedding.embed_question("a") is None
    assert embedding.embed_question("known") == known
    now[0] += 31
    assert embedding.embed_question("a") is not None
    assert [call[0] for call in fake.calls] == ["known", "a", "a"]


@pytest.mark.parametrize(("when", "expected"), [("now", True), ("later", False)])
def test_embedding_when_setting_overrides_speed_detection(when: Any, expected: bool) -> None:
    slow = FakeEmbedder()
    slow.quick = False  # type: ignore[attr-defined]
    assert BatchEmbedder(slow, EmbeddingSettings(when=when)).is_inline is expected


def test_batch_embedder_ignores_first_call_when_measuring_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 50))  # every look at the clock is 50 seconds later
    monkeypatch.setattr(use, "monotonic", lambda: next(now))
    embedding = BatchEmbedder(FakeEmbedder(), EmbeddingSettings())
    embedding.embed_texts(["loads the model"])
    assert embedding.is_inline
    embedding.embed_texts(["a second text"])
    assert not embedding.is_inline


def test_writes_always_wait_for_embedder_that_says_it_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 50))
    monkeypatch.setattr(use, "monotonic", lambda: next(now))
    embedding = BatchEmbedder(EncoderEmbedder(), EmbeddingSettings())
    for text in ("loads the model", "a second text"):
        embedding.embed_texts([text])
        assert embedding.is_inline
    assert not BatchEmbedder(EncoderEmbedder(), EmbeddingSettings(when="later")).is_inline


def hit(text: str) -> Hit:
    return Hit(text, 0.5, {}, Source(SourceKind.RECORD, text, datetime(2026, 1, 1, tzinfo=UTC)), {})


class Ranker:
    name = "ranker"

    def __init__(self, *scores: Any) -> None:
        self._scores = scores

    def scores(self, question: str, texts: Sequence[str]) -> Any:
        return self._scores


def test_rerank_sorts_by_score_and_keeps_order_of_ties() -> None:
    hits = [hit(text) for text in "abcd"]
    found = rerank_hits(Ranker(1, 3, 1, 2.5), "?", hits)
    assert [(one.text, one.score) for one in found] == [("b", 3.0), ("d", 2.5), ("a", 1.0), ("c", 1.0)]
    assert [one.signals["rerank"].rank for one in found] == [1, 2, 3, 4]


@pytest.mark.parametrize("scores", [(1,), (1, 2, 3), (1, float("nan")), (1, "x"), (1, None)])
def test_rerank_with_invalid_scores_keeps_hits_unchanged(scores: Any) -> None:
    hits = [hit(text) for text in "ab"]
    assert rerank_hits(Ranker(*scores), "?", hits) == hits


def test_check_reranker_rejects_object_without_scores() -> None:
    check_reranker(None)
    check_reranker(Ranker())
    with pytest.raises(InvalidInput, match="scores"):
        check_reranker(object())


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("Caroline's dog and CAROLINE", ("Caroline",), "dog and"),
        ("Annabel met Ann", ("Ann",), "Annabel met"),
        ("Ann", ("Ann",), "Ann"),  # something has to be embedded
        ("a.b and axb", ("a.b",), "and axb"),
        ("Zoë’s cat", ("Zoë",), "cat"),
        ("李 said so", ("李",), "said so"),
        ("nobody here", (), "nobody here"),
        ("keeps  its   spaces", (), "keeps  its   spaces"),
        ("", ("Ann",), ""),
    ],
)
def test_strip_names_removes_whole_names_only(text: str, names: tuple[str, ...], expected: str) -> None:
    assert strip_names(text, names) == expected


def test_strip_names_is_fast_with_many_names() -> None:
    names = tuple(f"Name{number}" for number in range(5000))
    assert strip_names("Name3 and a dog", names) == "and a dog"
