"""The embedder a configuration names, from the setting to the hit."""

from __future__ import annotations

from pathlib import Path

import pytest

from limpet import Config, Limpet, Message
from limpet.errors import ConfigError


def test_encoder_is_used_by_default_and_writes_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIMPET_EMBEDDING_MODEL")
    with Limpet.open(tmp_path) as memory:
        session = memory.session("t", "1", user="alice")
        for line in ("We adopted a puppy last week", "The invoice is due on Monday", "I baked bread with rye flour"):
            session.append("user", line)
        assert memory.admin.stats()["vectors"] == 3
        for question, answer in (("What pet does she have?", "puppy"), ("payment deadline", "invoice")):
            assert answer in memory.recall(question, user="alice", k=1)[0].text
            assert memory.recall(question, user="alice", recipe="words") == []


def test_store_without_vectors_finds_words_until_job_made_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Limpet.open(tmp_path) as memory:
        session = memory.session("t", "1", user="alice")
        session.extend([Message.new("user", text) for text in ("We adopted a puppy last week", "The invoice is due")])
        assert memory.admin.stats()["vectors"] == 0
    monkeypatch.delenv("LIMPET_EMBEDDING_MODEL")
    monkeypatch.setenv("LIMPET_JOBS_WORKER", "false")
    with Limpet.open(tmp_path) as memory:
        (hit,) = memory.recall("Who adopted the puppy?", user="alice")
        assert "vectors" not in hit.signals
        assert memory.jobs.run() > 0
        assert memory.admin.stats()["vectors"] == 2
        assert "puppy" in memory.recall("Which pet is there?", user="alice", k=1)[0].text


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
