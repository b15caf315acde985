"""Messages are found in their own language: by words, and no worse with the default embedder."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from limpet import Config, Limpet, Message
from limpet.config import EmbeddingSettings

LANGUAGES = tomllib.loads((Path(__file__).parents[1] / "data" / "languages.toml").read_text(encoding="utf-8"))


def count_found(store_url: str, model: str, language: str) -> int:
    """Return how many questions have their message as the first hit."""
    pairs = LANGUAGES[language]
    config = Config.load(overrides={"embedding.model": model, "jobs.worker": False})
    with Limpet.open(store_url, config=config) as memory:
        memory.session("t", "1", user="alice").extend([Message.new("user", message) for message, _ in pairs])
        first = [memory.recall(question, user="alice", k=1) for _, question in pairs]
    return sum(bool(hits) and hits[0].text == message for hits, (message, _) in zip(first, pairs, strict=True))


@pytest.mark.parametrize("language", LANGUAGES)
def test_messages_are_found_by_words_of_their_language(store_url: str, language: str) -> None:
    missed = {"de": 1}  # one word of a long question is too little
    assert count_found(store_url, "none", language) == 10 - missed.get(language, 0)


@pytest.mark.parametrize("language", LANGUAGES)
def test_default_embedder_does_not_hide_messages_of_other_languages(store_url: str, language: str) -> None:
    assert count_found(store_url, EmbeddingSettings().model, language) == 10
