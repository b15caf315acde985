"""Random writes by two handles: what a process remembers of a space is what it would read from nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from limpet import Limpet, Message
from limpet.model.chunk import Vector
from limpet.model.scope import Level, Partition
from limpet.search import vectors
from limpet.search.catalogue import _TYPES, Catalogue
from limpet.search.chunk_repository import Chunks
from limpet.search.recipes import RECIPES
from limpet.store.tx import Caches, Tx
from limpet.testing import FakeClock
from tests.conftest import _required_server
from tests.contract.embedders import Topics, open_with
from tests.examples import examples

EXAMPLES = {"sqlite": 10, "postgres": 2}
STEPS = 25
USERS = ("alice", "bob")
QUESTIONS = ("dog", "what did Ann say about the ocean?", "physician record w3")

lines = st.lists(
    st.sampled_from(("dog", "puppy", "sea", "doctor", "lamp", "w1", "w2", "w3", "Ann?")), min_size=1, max_size=4
)
texts = lines.map(" ".join)
users = st.sampled_from(USERS)
chats = st.sampled_from(("1", "2", "3"))
speakers = st.sampled_from((None, None, "Ann", "Ben"))
keys = st.sampled_from(("a", "b", "c"))


class SearchMachine(RuleBasedStateMachine):
    """The first handle writes vectors at once, the second leaves them to jobs; only the first is asked."""

    new_url: Any

    @initialize()
    def open(self) -> None:
        self.url, self.clock = self.new_url(), FakeClock()
        self.memory, self.second = self._open("now"), self._open("later")

    def _open(self, when: str) -> Limpet:
        return open_with(self.url, Topics(), self.clock, embedding__when=when)

    def teardown(self) -> None:
        for handle in (getattr(self, "memory", None), getattr(self, "second", None)):
            if handle is not None:
                handle.close()

    @rule(user=users, chat=chats, said=st.lists(st.tuples(texts, speakers), min_size=1, max_size=4), late=st.booleans())
    def say(self, user: str, chat: str, said: list[tuple[str, str | None]], late: bool) -> None:
        memory = self.second if late else self.memory
        messages = [Message.new(("user", "assistant")[at % 2], text, name=name) for at, (text, name) in enumerate(said)]
        memory.session("t", chat, user=user).extend(messages)

    @rule(user=users, key=keys, text=texts, late=st.booleans())
    def remember(self, user: str, key: str, text: str, late: bool) -> None:
        (self.second if late else self.memory).remember(f"record {text}", user=user, key=key)

    @rule(user=users, text=texts, late=st.booleans())
    def add_document(self, user: str, text: str, late: bool) -> None:
        (self.second if late else self.memory).documents.add("note:1", f"{text}\n\n" * 150, user=user)

    @rule(user=users, key=keys, late=st.booleans())
    def forget(self, user: str, key: str, late: bool) -> None:
        memory = self.second if late else self.memory
        for record in memory.records(user=user):
            if record.key == key:
                memory.forget(record.id)

    @rule(user=users, chat=chats, late=st.booleans())
    def clear(self, user: str, chat: str, late: bool) -> None:
        (self.second if late else self.memory).session("t", chat, user=user).clear()

    @rule(user=users, chat=chats, late=st.booleans())
    def delete(self, user: str, chat: str, late: bool) -> None:
        (self.second if late else self.memory).session("t", chat, user=user).delete()

    @rule(everything=st.booleans())
    def embed(self, everything: bool) -> None:
        self.second.jobs.run(until_idle=everything)

    @rule()
    def wait(self) -> None:
        self.clock.advance(hours=1)

    @rule()
    def reopen(self) -> None:
        self.memory.close()
        self.memory = self._open("now")

    @invariant()
    def what_is_remembered_is_what_would_be_read(self) -> None:
        if hasattr(self, "memory"):
            for user in USERS:
                partition = Partition("default", Level.USER, user)
                self.memory._runtime.store.read(partial(_compare, space=partition))

    @invariant()
    def recall_is_that_of_a_store_just_opened(self) -> None:
        if not hasattr(self, "memory"):
            return
        with self._open("now") as fresh:
            for recipe in RECIPES:
                for question in QUESTIONS:
                    expected = fresh.recall(question, user="alice", recipe=recipe, neighbours=1)
                    assert self.memory.recall(question, user="alice", recipe=recipe, neighbours=1) == expected


def _compare(tx: Any, space: Partition) -> None:
    fresh = Tx(tx.db, Caches())
    mine, theirs = Chunks(tx).open_index(space), Chunks(fresh).open_index(space)
    if mine is None or theirs is None:
        assert mine is theirs
        return
    _same_catalogue(mine.catalogue, theirs.catalogue)
    question = Vector("topics", tuple(Topics().vector("dog sea").tolist()))
    seen, expected = mine.score_vectors(question), theirs.score_vectors(question)
    if seen is None or expected is None:
        assert seen is expected
    else:
        np.testing.assert_array_equal(seen.cosines, expected.cosines)


def _same_catalogue(mine: Catalogue, theirs: Catalogue) -> None:
    for name in _TYPES:
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name), err_msg=name)
    assert (mine.names, mine.sessions, mine.removals) == (theirs.names, theirs.sessions, theirs.removals)


@pytest.mark.hypothesis
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_search_cache_matches_fresh_read(
    backend: str, request: pytest.FixtureRequest, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_BLOCK", 16)  # so that a small space moves its middle as well
    made: list[str] = []
    server = _required_server(request.config) if backend == "postgres" else None

    def new_url() -> str:
        made.append(str(tmp_path / str(len(made))) if server is None else server.create_database())
        return made[-1]

    machine = type("Machine", (SearchMachine,), {"new_url": staticmethod(new_url)})
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples(EXAMPLES[backend]),
                stateful_step_count=STEPS,
                suppress_health_check=list(HealthCheck),
                derandomize=True,
            ),
        )
    finally:
        if server is not None:
            for url in made:
                server.drop_database(url)
