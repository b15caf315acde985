from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet.cli.main import main
from tests.integration.chat_helpers import surroundings
from tests.unit.providers.embedding_server import EmbeddingServer
from tests.unit.providers.llm_server import llm_server

# A chat with a model that is none


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with llm_server() as running:
        yield running


@pytest.fixture
def spec(server: EmbeddingServer) -> str:
    return f"openai:small@{server.url}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def env(data: Path) -> dict[str, str]:
    return surroundings(data)


@pytest.fixture
def chat(data, monkeypatch, capsys):
    """A conversation in this process: its lines in, what was printed out."""
    for name, value in surroundings(data, TZ="UTC").items():
        monkeypatch.setenv(name, value)

    def talk(*lines: str, args: tuple[str, ...] = (), status: int = 0) -> str:
        text = "".join(f"{line}\n" for line in lines)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
        capsys.readouterr()
        assert main(["chat", *args]) == status
        out, err = capsys.readouterr()
        return str(out if status == 0 else err)

    return talk
