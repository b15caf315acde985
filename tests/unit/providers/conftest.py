from __future__ import annotations

from collections.abc import Iterator

import pytest

from limpet.providers.openai import OpenAiEmbedder
from tests.unit.providers.embedding_server import KEY, EmbeddingServer, embedding_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    with embedding_server() as running:
        yield running


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def embedder(server: EmbeddingServer, waits: list[float]) -> OpenAiEmbedder:
    return OpenAiEmbedder(server.url, "small", KEY, timeout=30, sleep=waits.append, chance=lambda: 0.5)
