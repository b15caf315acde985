"""Each test is named after a fault that made somebody's search useless, and fails if Limpet has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from limpet import Limpet, Message
from limpet.providers.hashed import HashEmbedder
from limpet.search.recipes import RECIPES
from limpet.testing import FakeClock
from tests.contract.embedders import Topics, open_with, texts

pytestmark = pytest.mark.every_backend

FILLER = [f"The weather of day {number} was unremarkable in the valley" for number in range(40)]


@pytest.fixture
def memory(store_url: str, clock: FakeClock) -> Iterator[Limpet]:
    with open_with(store_url, HashEmbedder(), clock) as opened:
        yield opened


def tell(memory: Limpet, *lines: str, chat: str = "1", user: str = "alice") -> Any:
    session = memory.session("t", chat, user=user)
    session.extend([Message.new("user", line) for line in lines])
    return session


@pytest.mark.parametrize("recipe", RECIPES)
def test_raw_query_text_breaks_match_syntax(memory: Limpet, recipe: str) -> None:
    tell(memory, *FILLER, "the walrus won't sing")
    signs = [
        "'",
        '"',
        "?",
        "-",
        "AND",
        "OR",
        "NOT",
        "NEAR(",
        "*",
        "^",
        ":",
        "(",
        ")",
        ";--",
        "\\",
        "%s",
        ":x",
        "$1",
        "{}",
    ]
    for sign in signs:
        for question in (f"walrus {sign} sing", f"{sign}walrus sing", f"walrus sing{sign}", f"{sign}walrus{sign} sing"):
            assert "the walrus won't sing" in texts(memory.recall(question, user="alice", recipe=recipe)), question
        assert isinstance(memory.recall(sign, user="alice", recipe=recipe), list)


def test_bare_words_are_joined_by_and(memory: Limpet) -> None:
    tell(memory, "the walrus sings", "the penguin dances")
    for recipe in RECIPES:
        found = texts(memory.recall("walrus penguin accordion", user="alice", recipe=recipe))
        assert set(found) == {"the walrus sings", "the penguin dances"}, recipe


def test_whole_question_as_one_phrase_matches_nothing(memory: Limpet) -> None:
    tell(memory, *FILLER, "My sister keeps seven bees on the roof of the bakery")
    for recipe in RECIPES:
        found = memory.recall("So how many bees is it that my sister keeps up there?", user="alice", recipe=recipe)
        assert texts(found)[0].startswith("My sister keeps"), recipe


def test_hash_of_whole_text_is_used_as_embedding() -> None:
    """One changed letter leaves a text near itself, and nearer than any other."""
    near, far = 0.75, 0.45
    text = "The quarterly invoice for the lighthouse is due on Monday"
    others = ["My sister keeps bees on the roof", "A walrus sang all night by the pier", *FILLER[:3]]
    changed = [text[:at] + "x" + text[at + 1 :] for at in range(0, len(text), 5)]
    vectors = HashEmbedder().embed([text, *changed, *others])
    cosines = [sum(a * b for a, b in zip(vectors[0], vector, strict=True)) for vector in vectors[1:]]
    assert min(cosines[: len(changed)]) > near
    assert max(cosines[len(changed) :]) < far


@pytest.mark.parametrize("recipe", ["default", "weighted", "vectors"])
def test_min_max_normalization_lifts_best_noise_to_one(memory: Limpet, recipe: str) -> None:
    tell(memory, *FILLER, "My sister keeps bees on the roof")
    assert memory.recall("Which chromodynamics textbook did physicists annotate?", user="alice", recipe=recipe) == []
    assert memory.recall("xyzzy plugh", user="alice", recipe=recipe) == []
    assert texts(memory.recall("sister's bees on a roof", user="alice", recipe=recipe))[0].startswith("My sister")


def test_vectors_of_two_models_are_compared(durable_url: str, clock: FakeClock) -> None:
    one, other = Topics("one"), Topics("other")
    # The same numbers mean something else: what is near in one model is far in the other.
    other.vector = lambda text: one.vector(" ".join(reversed(text.split())) + " unlike")  # type: ignore[method-assign]
    with open_with(durable_url, one, clock) as memory:
        tell(memory, "puppy asleep", "car stopped")
    with open_with(durable_url, other, clock) as memory:
        assert memory.recall("canine asleep", user="alice", recipe="vectors") == []
        memory.jobs.run()
        found = memory.recall("puppy asleep", user="alice", recipe="vectors")
        assert texts(found)[0] == "puppy asleep"
        assert found[0].score == pytest.approx(1, abs=1e-4)


def test_changed_dimension_fails_every_query(durable_url: str, clock: FakeClock) -> None:
    with open_with(durable_url, Topics("m", 16), clock) as memory:
        tell(memory, "the walrus sings")
    for when in ("now", "later"):
        with open_with(durable_url, Topics("m", 32), clock, embedding__when=when) as memory:
            tell(memory, f"another walrus {when}")
            memory.jobs.run()
            for recipe in RECIPES:
                assert isinstance(memory.recall("walrus", user="alice", recipe=recipe), list)
            assert "the walrus sings" in texts(memory.recall("walrus", user="alice"))
            assert f"another walrus {when}" in texts(memory.recall(f"walrus {when}", user="alice"))


def test_model_switch_loses_all_memories(durable_url: str, clock: FakeClock) -> None:
    with open_with(durable_url, Topics("old"), clock) as memory:
        tell(memory, *[f"puppy {number}" for number in range(20)])
        memory.remember("hound of the record", user="alice")
    with open_with(durable_url, Topics("new"), clock) as memory:
        assert len(memory.recall("puppy hound", user="alice", k=50)) == 21
        memory.jobs.run()
        assert len(memory.recall("canine", user="alice", k=50, recipe="vectors")) == 21
    with open_with(durable_url, None, clock) as memory:
        assert len(memory.recall("puppy hound", user="alice", k=50)) == 21


def test_search_then_filter_by_session_returns_few_or_no_hits(store_url: str, clock: FakeClock) -> None:
    with open_with(store_url, Topics(), clock) as memory:
        for user in range(5):
            tell(memory, *[f"puppy puppy number {number}" for number in range(250)], user=f"user {user}")
        tell(memory, *[f"puppy puppy number {number}" for number in range(1200)], user="alice")
        mine = tell(memory, *[f"lamp hound bread w{number}" for number in range(12)], chat="2")
        for recipe in ("vectors", "weighted", "default"):
            found = memory.recall("canine", session=mine.id, k=12, recipe=recipe)
            assert {hit.source.session_id for hit in found} == {mine.id}
            assert len(found) == 12, recipe


def test_current_message_is_recalled_as_its_own_best_match(memory: Limpet, clock: FakeClock) -> None:
    """An agent asks before it writes; one that has written already leaves out what was said from then on."""
    session = tell(memory, *FILLER, "I named my sourdough starter Igor")
    question = "What did I name my sourdough starter?"
    for recipe in RECIPES:
        assert question not in texts(memory.recall(question, user="alice", recipe=recipe))
    clock.advance(minutes=1)
    current = session.append("user", question)
    for recipe in RECIPES:
        found = texts(memory.recall(question, user="alice", recipe=recipe, until=current.created_at))
        assert question not in found
        assert "I named my sourdough starter Igor" in found[:3], recipe


def test_hits_repeat_messages_already_in_context(memory: Limpet) -> None:
    session = tell(memory, *FILLER, "I named my sourdough starter Igor")
    context = session.context("What is my sourdough starter called?")
    shown = [message.sequence for message in context.messages]
    assert len(shown) == len(set(shown)) > 0
    quoted = {
        sequence
        for hit in context.hits
        for sequence in range(hit.source.first_sequence or 0, (hit.source.last_sequence or 0) + 1)
    }
    assert not quoted & set(shown)


def test_system_prompt_is_indexed_and_recalled(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    session.append("system", "You are a walrus expert. Never mention penguins.")
    session.append("user", "Tell me about the walrus")
    session.append("system", "Remember: the walrus is called Igor")
    for recipe in RECIPES:
        assert texts(memory.recall("walrus expert Igor", user="alice", recipe=recipe)) == ["Tell me about the walrus"]
    assert memory.admin.stats()["chunks"] == memory.admin.stats()["vectors"] == 1


def test_diversity_reranking_and_relevance_feedback_halve_recall(memory: Limpet) -> None:
    """Several pieces of evidence that say nearly the same, in one session, all come back before anything else."""
    evidence = [f"On trip number {number} I paid for the ferry ticket in cash" for number in range(8)]
    tell(memory, *FILLER, chat="1")
    lines = [line for pair in zip(evidence, FILLER, strict=False) for line in pair]
    tell(memory, *lines, chat="2")
    for recipe in RECIPES:
        found = texts(
            memory.recall("How did I pay for the ferry ticket on each trip?", user="alice", k=8, recipe=recipe)
        )
        assert set(found) == set(evidence), recipe


def test_chinese_japanese_and_korean_text_is_never_found(memory: Limpet) -> None:
    lines = {
        "我最喜欢的颜色是蓝色": "蓝色",
        "昨日、東京で寿司を食べました。": "寿司",
        "내 강아지의 이름은 비스킷입니다": "강아지",
        "カタカナのコンピューターを買った": "コンピューター",
    }
    tell(memory, *FILLER, *lines)
    for line, question in lines.items():
        for recipe in ("default", "words", "weighted"):
            assert texts(memory.recall(question, user="alice", recipe=recipe))[:1] == [line], recipe
