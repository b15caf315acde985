"""What was forgotten or purged is not in the memory of a running process either."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet import Config, Limpet
from limpet.knowledge.similarity import compute_signature
from limpet.model import text_cache
from limpet.model.scope import Level, Partition
from limpet.model.text_cache import cache_texts, clear_text_caches
from limpet.search.chunk_repository import Chunks
from limpet.store.tx import Tx

SECRET = "Zanzibarville"


def _fill(memory: Limpet) -> None:
    memory.remember(f"I live in {SECRET}", user="ana", key="home")
    session = memory.session("app", "main", user="ana")
    with session.turn(f"I moved to {SECRET} and I do not work at Acme any more.") as turn:
        turn.reply(f"{SECRET} it is!")
    memory.jobs.run()
    session.context("Where do I live?")
    memory.recall(f"who lives in {SECRET}?", user="ana")


def _find_cached() -> list[object]:
    """Entries of the caches that contain the secret."""
    held = [each for made in text_cache._caches for each in gc.get_referents(made)]
    return [each for each in held if SECRET.casefold() in repr(each).casefold()]


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Limpet, Limpet]]:
    """The second stands for another process: it has not heard of what the first one does."""
    config = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})
    with Limpet.open(tmp_path, config=config) as memory, Limpet.open(tmp_path, config=config) as other:
        other.session("app", "main", user="ben").append("user", "hello")
        _fill(memory)
        assert _find_cached()
        yield memory, other


def test_forget_empties_caches_of_texts(stores: tuple[Limpet, Limpet]) -> None:
    stores[0].forget(query=SECRET, user="ana", everywhere=True)
    assert not _find_cached()


def test_forget_empties_caches_of_texts_in_every_process(stores: tuple[Limpet, Limpet]) -> None:
    memory, other = stores
    memory.forget(query=SECRET, user="ana", everywhere=True)
    compute_signature(f"I live in {SECRET}")
    assert _find_cached()
    other.session("app", "main", user="ben").append("user", "hello again")
    assert not _find_cached()


def test_caches_of_other_processes_are_emptied_once_a_minute_where_much_is_forgotten(
    stores: tuple[Limpet, Limpet],
) -> None:
    memory, other = stores
    chat = other.session("app", "main", user="ben")
    memory.forget(query=SECRET, user="ana", everywhere=True)
    chat.append("user", "hello")
    memory.remember("I like tea", user="ana", key="tea")
    memory.forget(key="tea", user="ana")
    compute_signature(f"I live in {SECRET}")
    chat.append("user", "hello again")
    assert _find_cached()
    other._runtime.store.caches.texts_kept_until = 0.0  # a minute later
    chat.append("user", "and again")
    assert not _find_cached()


def test_purge_empties_caches_of_texts_in_every_process(stores: tuple[Limpet, Limpet]) -> None:
    memory, other = stores
    memory.privacy.purge_user("ana")
    assert not _find_cached()
    compute_signature(f"I live in {SECRET}")
    assert _find_cached()
    other.session("app", "main", user="ben").append("user", "hello again")
    assert not _find_cached()


def test_caches_of_texts_are_not_emptied_inside_a_transaction(stores: tuple[Limpet, Limpet]) -> None:
    """What was computed before the write for the write would be computed again with the lock held."""
    memory, other = stores
    memory.privacy.purge_user("ana")
    compute_signature(f"I live in {SECRET}")

    def look(tx: Tx) -> bool:
        Chunks(tx).lock_partition(Partition("default", Level.USER, "ben"))
        return bool(_find_cached())

    assert other._runtime.store.write(look)
    assert not _find_cached()


def test_cache_of_texts_forgets_on_clear() -> None:
    calls: list[str] = []

    @cache_texts(8)
    def shout(text: str) -> str:
        calls.append(text)
        return text.upper()

    assert (shout("a"), shout("a")) == ("A", "A")
    assert calls == ["a"]
    clear_text_caches()
    shout("a")
    assert calls == ["a", "a"]
