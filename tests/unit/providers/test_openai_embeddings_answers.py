"""What a server answers is checked before it is believed."""

from __future__ import annotations

import json

import pytest

from limpet.errors import ProviderError
from tests.unit.providers.embedding_server import gives, refused, says


@pytest.mark.parametrize(
    ("answering", "reason"),
    [
        (says("<html>It works!</html>"), "not valid JSON"),
        (says(b"\xff\xfe{"), "not valid JSON"),
        (says("[" * 100_000), "not valid JSON"),
        (says("[]"), 'no list "data"'),
        (says('{"data": [1]}'), 'no list "data"'),
        (gives(), "0 vectors returned for 1 texts"),
        (gives([1.0], [2.0]), "2 vectors returned for 1 texts"),
        (gives([]), "not a list of numbers"),
        (gives("AACAPw=="), "not a list of numbers"),
        (gives([1.0, float("nan")]), "not a finite number"),
        (gives([1.0, float("inf")]), "not a finite number"),
        (gives([1.0, None]), "not a finite number"),
        (gives([1.0, "2"]), "not a finite number"),
        (gives([1.0, True]), "not a finite number"),
        (gives([10**400]), "too large"),
        (says(json.dumps({"data": [{"index": 1, "embedding": [1.0]}]})), '"index"'),
        (says(json.dumps({"data": [{"index": [0], "embedding": [1.0]}]})), '"index"'),
    ],
)
def test_embedding_answer_that_is_invalid_is_rejected_with_reason(server, embedder, answering, reason):
    server.plan = [answering]
    assert reason in refused(embedder)
    assert len(server.requests) == 1


def test_embedding_answer_without_index_keeps_order(server, embedder):
    server.plan = [says(json.dumps({"data": [{"embedding": [1.0, 0.0]}, {"embedding": [0.0, 2.0]}]}))]
    assert embedder.embed(["a", "b"]) == [[1, 0], [0, 1]]


def test_embedding_answer_with_duplicate_index_is_rejected(server, embedder):
    twice = [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]
    server.plan = [says(json.dumps({"data": twice}))]
    with pytest.raises(ProviderError, match="index"):
        embedder.embed(["a", "b"])


def test_embedding_answer_with_changed_dimension_is_rejected(server, embedder):
    embedder.embed(["a"])
    server.plan = [gives([1.0, 2.0])]
    assert "different dimensions: 2, 8" in refused(embedder)
    server.plan = [gives([1.0] * 8, [1.0] * 9)]
    with pytest.raises(ProviderError, match="different dimensions: 8, 9"):
        embedder.embed(["a", "b"])
