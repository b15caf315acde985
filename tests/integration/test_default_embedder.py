"""The embedder a configuration names, from the setting to the hit."""

from __future__ import annotations

from pathlib import Path

import pytest

from limpet import Config, Limpet
from limpet.errors import ConfigError
from limpet.providers.minilm import MiniLmEmbedder


@pytest.mark.slow
@pytest.mark.skipif(not MiniLmEmbedder.is_installed(), reason="the model is not installed")
def test_with_the_model_installed_a_memory_is_found_by_its_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LIMPET_EMBEDDING_MODEL")
    monkeypatch.setattr(MiniLmEmbedder, "is_installed", staticmethod(lambda: True))  # the tests say there is none
    with Limpet.open(tmp_path) as hf:
        session = hf.session("t", "1", user="alice")
        for line in ("We adopted a puppy last week", "The invoice is due on Monday", "I baked bread with rye flour"):
            session.append("user", line)
        hf.jobs.run()
        assert hf.admin.stats()["vectors"] == 3
        for question, answer in (("What pet does she have?", "puppy"), ("payment deadline", "invoice")):
            assert answer in hf.recall(question, user="alice", k=1)[0].text
            assert hf.recall(question, user="alice", recipe="words") == []


def test_the_environment_names_the_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMPET_EMBEDDING_MODEL", "hashed")
    with Limpet.open(tmp_path) as hf:
        hf.session("t", "1", user="alice").append("user", "a walrus")
        hf.jobs.run()
        assert hf.admin.stats()["vectors"] == 1
    monkeypatch.setenv("LIMPET_EMBEDDING_MODEL", "none")
    with Limpet.open(tmp_path) as hf:
        hf.session("t", "1", user="alice").append("user", "a penguin")
        assert (hf.admin.stats()["vectors"], hf.jobs.run()) == (1, 0)


def test_a_setting_names_the_embedder_and_a_wrong_one_opens_nothing(tmp_path: Path) -> None:
    config = Config.load(overrides={"embedding.model": "hashed"})
    with Limpet.open(":memory:", config=config) as hf:
        hf.remember("a walrus", user="alice")
        hf.jobs.run()
        assert hf.admin.stats()["vectors"] == 1
    with pytest.raises(ConfigError, match="not an embedder"):
        Limpet.open(tmp_path / "new", config=Config.load(overrides={"embedding.model": "magic"}))
    assert not (tmp_path / "new").exists()
