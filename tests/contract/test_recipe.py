"""The default recipe: what it prefers, what it leaves out, and that every backend and process agrees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from limpet import Limpet, Message
from limpet.errors import InvalidInput
from limpet.model.chunk import Hit
from limpet.providers.fake import FakeEmbedder
from limpet.testing import FakeClock
from tests.contract.processes import run_together

pytestmark = pytest.mark.every_backend


def texts(hits: list[Hit]) -> list[str]:
    return [hit.text for hit in hits]


def talk(hf: Limpet, *lines: tuple[str, str, str], chat: str = "1", user: str = "alice") -> None:
    """Lines as (role, name, text); no name for an empty one."""
    hf.session("t", chat, user=user).extend([Message.new(role, text, name=name or None) for role, name, text in lines])


FILLER = [("user", "", f"The weather of day {number} was unremarkable in the valley") for number in range(30)]


def test_a_question_about_nothing_stored_finds_nothing(hf: Limpet) -> None:
    talk(hf, *FILLER, ("user", "", "My sister keeps bees on the roof"))
    assert hf.recall("Which quantum chromodynamics textbook did the physicist annotate?", user="alice") == []
    assert hf.recall("What does my sister keep on the roof?", user="alice")


def test_every_hit_shares_a_word_with_the_question(hf: Limpet) -> None:
    talk(hf, ("user", "", "A heron stood in the pond"), ("user", "", "Completely different matter"))
    assert texts(hf.recall("heron", user="alice")) == ["A heron stood in the pond"]


def test_a_number_is_found_however_near_other_texts_seem(store_url: str) -> None:
    with Limpet.open(store_url, embedder=FakeEmbedder(384)) as hf:
        for chat in range(5):
            talk(hf, *FILLER, chat=str(chat))
        talk(hf, ("assistant", "", "The parcel has the number RX-8841-PT"), chat="parcel")
        for chat in range(5, 10):
            talk(hf, *FILLER, chat=str(chat))
        assert texts(hf.recall("RX-8841-PT", user="alice", k=1)) == ["The parcel has the number RX-8841-PT"]


def test_what_the_user_said_comes_before_what_the_assistant_said(hf: Limpet) -> None:
    talk(
        hf,
        *FILLER,
        ("assistant", "", "A sourdough starter needs feeding twice a day, your sourdough starter included"),
        ("user", "", "I named my sourdough starter Igor"),
    )
    assert (
        texts(hf.recall("What is my sourdough starter called?", user="alice"))[0] == "I named my sourdough starter Igor"
    )
    assert texts(hf.recall("What did you say a sourdough starter needs?", user="alice"))[0].startswith("A sourdough")


def test_the_speaker_a_question_names_is_preferred(hf: Limpet) -> None:
    talk(
        hf,
        *[(role, "Caroline" if role == "user" else "Melanie", text) for role, _, text in FILLER],
        ("user", "Caroline", "I went hiking in the mountains last summer"),
        ("assistant", "Melanie", "I went hiking in the mountains last summer as well, by the lake"),
        ("user", "Caroline", "Nice, that sounds like fun"),
    )
    assert texts(hf.recall("Where did Melanie go hiking?", user="alice"))[0].endswith("by the lake")
    assert texts(hf.recall("Where did Caroline go hiking?", user="alice"))[0].endswith("last summer")


def test_a_neighbour_that_answers_lifts_a_message(hf: Limpet) -> None:
    talk(
        hf,
        ("user", "", "Did anybody call about the piano tuner?"),
        ("user", "", "Yes, Thursday at four"),
        chat="1",
    )
    talk(hf, ("user", "", "The dentist comes on Thursday"), ("user", "", "Nothing else happened"), chat="2")
    hits = texts(hf.recall("piano tuner Thursday", user="alice"))
    assert hits.index("Yes, Thursday at four") < hits.index("The dentist comes on Thursday")


def test_a_date_in_the_question_prefers_that_time_and_hides_nothing(store_url: str, clock: FakeClock) -> None:
    with Limpet.open(store_url, clock=clock) as hf:
        march, july = datetime(2026, 3, 5, tzinfo=UTC), datetime(2026, 7, 5, tzinfo=UTC)
        for at in (july, march):
            session = hf.session("t", str(at.month), user="alice")
            session.append("user", f"We had a picnic by the river on a day of month {at.month}", created_at=at)
        clock.now = datetime(2026, 8, 1, tzinfo=UTC)
        for question, month in (("the picnic in March", 3), ("the picnic in July", 7), ("the picnic 4 weeks ago", 7)):
            hits = texts(hf.recall(question, user="alice"))
            assert hits[0].endswith(f"month {month}")
            assert len(hits) == 2
        assert texts(hf.recall("the picnic 3 weeks ago", user="alice", at=march + timedelta(21)))[0].endswith("month 3")


def test_an_explicit_memory_ranks_with_what_the_user_said(hf: Limpet) -> None:
    talk(hf, *FILLER, ("assistant", "", "Dogs such as your dog need a walk, a dog is a friend"))
    hf.remember("The dog is called Biscuit", user="alice", key="dog_name")
    assert texts(hf.recall("What is my dog called?", user="alice"))[0] == "The dog is called Biscuit"


def test_one_hit_a_message(hf: Limpet) -> None:
    long = " ".join(f"Sentence {number} of the long lighthouse story goes on." for number in range(60))
    talk(hf, ("user", "", long), ("user", "", "The lighthouse again"))
    sequences = [hit.source.first_sequence for hit in hf.recall("lighthouse story", user="alice")]
    assert sorted(sequences, key=str) == [1, 2]


def test_every_signal_explains_itself(hf: Limpet) -> None:
    talk(hf, *FILLER, ("user", "", "My sister keeps bees"), ("user", "", "Bees again"))
    first, *rest = hf.recall("When did my sister get her bees in March?", user="alice")
    assert {"words", "speaker", "time", "session"} <= first.signals.keys()
    assert first.signals["words"].rank == 1
    assert all(signal.rank >= 1 for hit in rest for signal in hit.signals.values())


def test_an_unknown_recipe_is_refused(hf: Limpet) -> None:
    with pytest.raises(InvalidInput, match="default, words"):
        hf.recall("x", user="alice", recipe="magic")


def test_filters_reach_beyond_the_best_candidates(hf: Limpet) -> None:
    talk(hf, *[("user", "", f"walrus number {number}") for number in range(600)], chat="1")
    talk(hf, ("user", "", "a walrus in the other chat"), chat="2")
    other = hf.session("t", "2", user="alice")
    assert texts(hf.recall("walrus number", user="alice", session=other.id)) == ["a walrus in the other chat"]


def test_what_was_removed_or_added_shows_at_once(hf: Limpet) -> None:
    talk(hf, ("user", "", "The gecko is green"))
    assert hf.recall("gecko", user="alice")
    session = hf.session("t", "1", user="alice")
    session.append("user", "Another gecko came")
    assert len(hf.recall("gecko", user="alice")) == 2
    session.clear()
    assert hf.recall("gecko", user="alice") == []
    session.append("user", "A third gecko")
    assert texts(hf.recall("gecko", user="alice")) == ["A third gecko"]


def test_what_another_process_does_shows_at_once(durable_url: str) -> None:
    with Limpet.open(durable_url) as hf:
        talk(hf, ("user", "", "The gecko is green"), ("user", "", "The newt is blue"))
        assert hf.recall("gecko", user="alice")
        run_together(
            """
with Limpet.open(given) as hf:
    begin()
    session = hf.session("t", "1", user="alice")
    session.clear()
    session.append("user", "A salamander instead of the gecko")
    answer(True)
""",
            durable_url,
            count=1,
        )
        assert texts(hf.recall("gecko salamander", user="alice")) == ["A salamander instead of the gecko"]
        assert hf.recall("newt", user="alice") == []


@pytest.mark.postgres
def test_every_backend_ranks_the_same(postgres_url: str) -> None:
    def answers(hf: Limpet) -> list[list[tuple[str, float]]]:
        for number in range(700):
            hf.session("t", str(number % 7), user="alice").append(
                "user" if number % 3 else "assistant",
                f"Message {number} about the {'red' if number % 5 else 'blue'} boat and harbour {number % 11}",
                created_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number),
            )
        questions = ("the blue boat", "harbour 7 in January", "what did you say about harbour 3", "message 99")
        return [[(hit.text, hit.score) for hit in hf.recall(question, user="alice", k=50)] for question in questions]

    with Limpet.open(":memory:") as memory, Limpet.open(postgres_url) as postgres:
        assert answers(memory) == answers(postgres)
