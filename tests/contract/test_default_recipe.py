"""The default recipe: what it prefers, what it leaves out, and that every backend and process agrees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from limpet import Limpet, Message
from limpet.errors import InvalidInput
from limpet.model.chunk import Hit
from limpet.providers.fakes import FakeEmbedder
from limpet.testing import FakeClock
from tests.contract.processes import run_together

pytestmark = pytest.mark.every_backend


def texts(hits: list[Hit]) -> list[str]:
    return [hit.text for hit in hits]


def talk(memory: Limpet, *lines: tuple[str, str, str], chat: str = "1", user: str = "alice") -> None:
    """Lines as (role, name, text); no name for an empty one."""
    memory.session("t", chat, user=user).extend(
        [Message.new(role, text, name=name or None) for role, name, text in lines]
    )


FILLER = [("user", "", f"The weather of day {number} was unremarkable in the valley") for number in range(30)]


def test_default_recipe_returns_nothing_for_unrelated_query(memory: Limpet) -> None:
    talk(memory, *FILLER, ("user", "", "My sister keeps bees on the roof"))
    assert memory.recall("Which quantum chromodynamics textbook did the physicist annotate?", user="alice") == []
    assert memory.recall("What does my sister keep on the roof?", user="alice")


def test_default_recipe_requires_shared_word(memory: Limpet) -> None:
    talk(memory, ("user", "", "A heron stood in the pond"), ("user", "", "Completely different matter"))
    assert texts(memory.recall("heron", user="alice")) == ["A heron stood in the pond"]


def test_default_recipe_ranks_exact_number_above_near_vectors(store_url: str) -> None:
    with Limpet.open(store_url, embedder=FakeEmbedder(384)) as memory:
        for chat in range(5):
            talk(memory, *FILLER, chat=str(chat))
        talk(memory, ("assistant", "", "The parcel has the number RX-8841-PT"), chat="parcel")
        for chat in range(5, 10):
            talk(memory, *FILLER, chat=str(chat))
        assert texts(memory.recall("RX-8841-PT", user="alice", k=1)) == ["The parcel has the number RX-8841-PT"]


def test_default_recipe_ranks_user_messages_above_assistant_messages(memory: Limpet) -> None:
    talk(
        memory,
        *FILLER,
        ("assistant", "", "A sourdough starter needs feeding twice a day, your sourdough starter included"),
        ("user", "", "I named my sourdough starter Igor"),
    )
    assert (
        texts(memory.recall("What is my sourdough starter called?", user="alice"))[0]
        == "I named my sourdough starter Igor"
    )
    assert texts(memory.recall("What did you say a sourdough starter needs?", user="alice"))[0].startswith(
        "A sourdough"
    )


def test_default_recipe_prefers_speaker_named_in_query(memory: Limpet) -> None:
    talk(
        memory,
        *[(role, "Caroline" if role == "user" else "Melanie", text) for role, _, text in FILLER],
        ("user", "Caroline", "I went hiking in the mountains last summer"),
        ("assistant", "Melanie", "I went hiking in the mountains last summer as well, by the lake"),
        ("user", "Caroline", "Nice, that sounds like fun"),
    )
    assert texts(memory.recall("Where did Melanie go hiking?", user="alice"))[0].endswith("by the lake")
    assert texts(memory.recall("Where did Caroline go hiking?", user="alice"))[0].endswith("last summer")


def test_default_recipe_boosts_message_next_to_match(memory: Limpet) -> None:
    talk(
        memory,
        ("user", "", "Did anybody call about the piano tuner?"),
        ("user", "", "Yes, Thursday at four"),
        chat="1",
    )
    talk(memory, ("user", "", "The dentist comes on Thursday"), ("user", "", "Nothing else happened"), chat="2")
    hits = texts(memory.recall("piano tuner Thursday", user="alice"))
    assert hits.index("Yes, Thursday at four") < hits.index("The dentist comes on Thursday")


def test_default_recipe_prefers_date_in_query_without_filtering(store_url: str, clock: FakeClock) -> None:
    with Limpet.open(store_url, clock=clock) as memory:
        march, july = datetime(2026, 3, 5, tzinfo=UTC), datetime(2026, 7, 5, tzinfo=UTC)
        for at in (july, march):
            session = memory.session("t", str(at.month), user="alice")
            session.append("user", f"We had a picnic by the river on a day of month {at.month}", created_at=at)
        clock.now = datetime(2026, 8, 1, tzinfo=UTC)
        for question, month in (("the picnic in March", 3), ("the picnic in July", 7), ("the picnic 4 weeks ago", 7)):
            hits = texts(memory.recall(question, user="alice"))
            assert hits[0].endswith(f"month {month}")
            assert len(hits) == 2
        assert texts(memory.recall("the picnic 3 weeks ago", user="alice", at=march + timedelta(21)))[0].endswith(
            "month 3"
        )


def test_default_recipe_ranks_explicit_record_like_user_message(memory: Limpet) -> None:
    talk(memory, *FILLER, ("assistant", "", "Dogs such as your dog need a walk, a dog is a friend"))
    memory.remember("The dog is called Biscuit", user="alice", key="dog_name")
    assert texts(memory.recall("What is my dog called?", user="alice"))[0] == "The dog is called Biscuit"


def test_default_recipe_returns_one_hit_per_message(memory: Limpet) -> None:
    long = " ".join(f"Sentence {number} of the long lighthouse story goes on." for number in range(60))
    talk(memory, ("user", "", long), ("user", "", "The lighthouse again"))
    sequences = [hit.source.first_sequence for hit in memory.recall("lighthouse story", user="alice")]
    assert sorted(sequences, key=str) == [1, 2]


def test_default_recipe_reports_every_signal(memory: Limpet) -> None:
    talk(memory, *FILLER, ("user", "", "My sister keeps bees"), ("user", "", "Bees again"))
    first, *rest = memory.recall("When did my sister get her bees in March?", user="alice")
    assert {"words", "speaker", "time", "session"} <= first.signals.keys()
    assert first.signals["words"].rank == 1
    assert all(signal.rank >= 1 for hit in rest for signal in hit.signals.values())


def test_recall_rejects_unknown_recipe(memory: Limpet) -> None:
    with pytest.raises(InvalidInput, match="default, words"):
        memory.recall("x", user="alice", recipe="magic")


def test_recall_filter_applies_beyond_best_candidates(memory: Limpet) -> None:
    talk(memory, *[("user", "", f"walrus number {number}") for number in range(600)], chat="1")
    talk(memory, ("user", "", "a walrus in the other chat"), chat="2")
    other = memory.session("t", "2", user="alice")
    assert texts(memory.recall("walrus number", user="alice", session=other.id)) == ["a walrus in the other chat"]


def test_recall_sees_appended_and_cleared_messages_immediately(memory: Limpet) -> None:
    talk(memory, ("user", "", "The gecko is green"))
    assert memory.recall("gecko", user="alice")
    session = memory.session("t", "1", user="alice")
    session.append("user", "Another gecko came")
    assert len(memory.recall("gecko", user="alice")) == 2
    session.clear()
    assert memory.recall("gecko", user="alice") == []
    session.append("user", "A third gecko")
    assert texts(memory.recall("gecko", user="alice")) == ["A third gecko"]


def test_recall_sees_changes_of_other_process_immediately(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        talk(memory, ("user", "", "The gecko is green"), ("user", "", "The newt is blue"))
        assert memory.recall("gecko", user="alice")
        run_together(
            """
with Limpet.open(given) as memory:
    begin()
    session = memory.session("t", "1", user="alice")
    session.clear()
    session.append("user", "A salamander instead of the gecko")
    answer(True)
""",
            durable_url,
            count=1,
        )
        assert texts(memory.recall("gecko salamander", user="alice")) == ["A salamander instead of the gecko"]
        assert memory.recall("newt", user="alice") == []


@pytest.mark.postgres
def test_default_recipe_ranks_same_on_every_backend(postgres_url: str) -> None:
    def answers(memory: Limpet) -> list[list[tuple[str, float]]]:
        for number in range(700):
            memory.session("t", str(number % 7), user="alice").append(
                "user" if number % 3 else "assistant",
                f"Message {number} about the {'red' if number % 5 else 'blue'} boat and harbour {number % 11}",
                created_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number),
            )
        questions = ("the blue boat", "harbour 7 in January", "what did you say about harbour 3", "message 99")
        return [
            [(hit.text, hit.score) for hit in memory.recall(question, user="alice", k=50)] for question in questions
        ]

    with Limpet.open(":memory:") as memory, Limpet.open(postgres_url) as postgres:
        assert answers(memory) == answers(postgres)
