"""Four times the text takes about four times the work, at every place where text comes in."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from limpet import Config, Limpet, Session
from limpet.model.text_cache import clear_text_caches
from tests.growing_texts import NAMES, make_text

SHORT, LONG = 15_000, 60_000
SHORTER = 5  # by how much texts are shorter where much is done with each line
MAX_GROWTH = 2.2 * LONG / SHORT  # quadratic work grows by the square of the lengths' ratio: 16
TOO_SHORT_TO_TELL_S = 0.1  # and far less than anybody notices

Entry = Callable[[Limpet, str, str], object]


def talk(memory: Limpet, user: str, text: str) -> Session:
    session = memory.session(user=user)
    session.append("user", text)
    session.append("assistant", "I see.")
    return session


def recall(memory: Limpet, user: str, text: str) -> None:
    memory.session(user=user).append("user", "The trams stop in May")
    memory.recall(text, user=user)


def recall_from(memory: Limpet, user: str, text: str) -> None:
    talk(memory, user, text)
    memory.recall("walrus in May", user=user)


def take_turn(memory: Limpet, user: str, text: str) -> None:
    said = text[: len(text) // SHORTER]
    with memory.session(user=user).turn(said, max_tokens=2000) as turn:
        turn.reply(said)


def remember_and_forget(memory: Limpet, user: str, text: str) -> None:
    if text.strip():
        memory.forget(id=memory.remember(text, user=user).id, user=user)


ENTRIES: dict[str, Entry] = {
    "recall": recall,
    "recall from": recall_from,
    "turn": take_turn,
    "learn": lambda memory, user, text: talk(memory, user, text[: len(text) // SHORTER]).learn(),
    "remember and forget": remember_and_forget,
    "compact": lambda memory, user, text: talk(memory, user, text).compact(keep=1),
    "document": lambda memory, user, text: memory.documents.add("page.md", text=text, user=user),
    "context": lambda memory, user, text: talk(memory, user, text[:5000]).context(text, max_tokens=2000),
}


@pytest.fixture
def memory() -> Iterator[Limpet]:
    settings = {"embedding.model": "none", "jobs.worker": False}
    with Limpet.open(":memory:", config=Config.load(overrides=settings)) as opened:
        for number, entry in enumerate(ENTRIES.values()):
            entry(opened, f"warm{number}", "I like tea.")
        yield opened


@pytest.mark.parametrize("entry", ENTRIES)
def test_work_grows_in_proportion_to_the_text(memory: Limpet, entry: str) -> None:
    users = (f"user{number}" for number in itertools.count())

    def measure(text: str) -> float:
        clear_text_caches()  # short texts are remembered, long ones are not
        start = time.process_time()
        ENTRIES[entry](memory, next(users), text)
        return time.process_time() - start

    wrong = []
    for name in NAMES:
        if measure(long := make_text(name, LONG)) < TOO_SHORT_TO_TELL_S:
            continue
        growth = min(measure(long) for _ in range(2)) / min(measure(make_text(name, SHORT)) for _ in range(2))
        wrong += [f"{name}: {growth:.1f}"] if growth > MAX_GROWTH else []
    assert wrong == []


def test_forget_by_query_takes_work_in_proportion_to_the_records() -> None:
    """Counted in steps of the database: each record looked through all others, inside the write lock."""
    settings = {"embedding.model": "none", "jobs.worker": False}
    few, many = (_count_forget_steps(count, settings) for count in (200, 800))
    assert many < 2 * 4 * few


def _count_forget_steps(count: int, settings: dict[str, object]) -> int:
    steps = 0

    def count_step() -> int:
        nonlocal steps
        steps += 1
        return 0

    with Limpet.open(":memory:", config=Config.load(overrides=settings)) as memory:
        for number in range(count):
            memory.remember(f"value of thing {number}", user="alice")
        raw = memory._runtime.store._connection.raw  # type: ignore[attr-defined]
        raw.set_progress_handler(count_step, 100)
        assert len(memory.forget(query="thing", user="alice").ids) == count
        raw.set_progress_handler(None, 0)
    return steps
