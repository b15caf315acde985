"""The embedder a configuration names, from the setting to the hit."""

from __future__ import annotations

from pathlib import Path

import pytest

from limpet import Config, Limpet
from limpet.errors import ConfigError
from limpet.providers.minilm import MiniLmEmbedder


@pytest.mark.slow
@pytest.mark.skipif(not MiniLmEmbedder.is_installed(), reason="the model is not installed")
def test_minilm_is_used_by_default_when_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIMPET_EMBEDDING_MODEL")
    monkeypatch.setattr(MiniLmEmbedder, "is_installed", staticmethod(lambda: True))  # the tests say there is none
    with Limpet.open(tmp_path) as memory:
        session = memory.session("t", "1", user="alice")
        for line in ("We adopted a puppy last week", "The invoice is due on Monday", "I baked bread with rye flour"):
            session.append("user", line)
        memory.jobs.run()
        assert memory.admin.stats()["vectors"] == 3
        for question, answer in (("What pet does she have?", "puppy"), ("payment deadline", "invoice")):
            assert answer in memory.recall(question, user="alice", k=1)[0].text
            assert memory.recall(question, user="alice", recipe="words") == []


def test_embedding_model_from_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMPET_EMBEDDING_MODEL", "hashed")
    with Limpet.open(tmp_path) as memory:
        memory.session("t", "1", user="alice").append("user", "a walrus")
        memory.jobs.run()
        assert memory.admin.stats()["vectors"] == 1
    monkeypatch.setenv("LIMPET_EMBEDDING_MODEL", "none")
    with Limpet.open(tmp_path) as memory:
        memory.session("t", "1", user="alice").append("user", "a penguin")
        assert (memory.admin.stats()["vectors"], memory.jobs.run()) == (1, 0)


def test_embedding_model_from_config_and_unknown_model_is_rejected(tmp_path: Path) -> None:
    config = Config.load(overrides={"embedding.model": "hashed"})
    with Limpet.open(":memory:", config=config) as memory:
        memory.remember("a walrus", user="alice")
        memory.jobs.run()
        assert memory.admin.stats()["vectors"] == 1
    with pytest.raises(ConfigError, match="not an embedder"):
        Limpet.open(tmp_path / "new", config=Config.load(overrides={"embedding.model": "magic"}))
    assert not (tmp_path / "new").exists()
