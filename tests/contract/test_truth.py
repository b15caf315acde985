"""What memory says is what holds: in recall and in the context, after a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from limpet import Config, Limpet
from limpet.knowledge import apply, learn, read
from limpet.knowledge.change import Change
from limpet.search.analysis import Question
from limpet.testing import FakeClock

Say = Callable[..., None]


@pytest.fixture
def memory(store_url: str, clock: FakeClock) -> Iterator[Limpet]:
    config = Config.load(overrides={"jobs.worker": False, "embedding.model": "none"})
    with Limpet.open(store_url, config=config, clock=clock) as opened:
        yield opened


@pytest.fixture
def say(memory: Limpet, clock: FakeClock) -> Say:
    def talk(*lines: str, user: str = "alice") -> None:
        session = memory.session("test", "1", user=user)
        for line in lines:
            clock.advance(days=3)
            with session.turn(line) as turn:
                turn.reply("All right.")
            session.learn()

    return talk


def test_recall_ranks_new_value_before_old(memory: Limpet, say: Say) -> None:
    say("I live in Porto", "My sister lives in Braga", "Where do I live?", "I moved to Lisbon last week")
    first, *others = memory.recall("Where do I live?", user="alice")
    assert "Lisbon" in first.text
    assert first.holds
    assert not any("Where do I live" in hit.text for hit in others)
    (old,) = [hit for hit in others if "Porto" in hit.text]
    assert (old.holds, old.superseded_by) == (False, first.source.id)
    assert old.until is not None
    assert old.why


def test_recall_of_the_past_ranks_old_value_first(memory: Limpet, say: Say) -> None:
    say("I live in Porto", "I moved to Lisbon last week")
    texts = [hit.text for hit in memory.recall("Where did I live before?", user="alice")]
    assert "Porto" in texts[0]


def test_recall_gives_claim_and_its_message_as_one_hit(memory: Limpet, say: Say) -> None:
    say("I am allergic to peanuts")
    (hit,) = [hit for hit in memory.recall("allergic peanuts", user="alice") if "peanuts" in hit.text]
    record = memory.records.get(hit.source.id)
    session = memory.session("test", "1", user="alice")
    assert hit.text == record.content == "The user is allergic to peanuts."
    assert (hit.source.session_id, hit.source.first_sequence) == (session.id, 1)


def test_recall_by_keyword_gives_the_claim_of_the_message_that_has_it(memory: Limpet, say: Say) -> None:
    say("I moved to Lisbon last week. Biscuit, my dog, barks at every tram.")
    assert "Biscuit" in memory.recall("dog", user="alice", k=1)[0].text


def test_recall_finds_claim_by_words_people_use_for_its_attribute(memory: Limpet, say: Say) -> None:
    say("I'm pescatarian")
    assert [hit.text for hit in memory.recall("What is my diet?", user="alice")] == ["The user is pescatarian."]


def test_changed_fact_leaves_the_other_of_its_sentence(memory: Limpet, say: Say) -> None:
    say("I'm vegetarian and allergic to peanuts.", "I'm pescatarian now")
    current = {record.content for record in memory.records(user="alice") if record.attribute}
    assert current == {"The user is allergic to peanuts.", "The user is pescatarian."}


@pytest.mark.parametrize("said", ["My aunt Vera died this morning", "I quit my job today", "paid the vet bill today"])
def test_event_of_a_day_stays_true(memory: Limpet, say: Say, clock: FakeClock, said: str) -> None:
    say(said)
    clock.advance(days=14)
    word = said.split()[3]
    lines = [
        line for line in memory.context(f"What about {said[:-6]}?", user="alice").text.splitlines() if word in line
    ]
    assert lines
    assert not any("no longer true" in line or "(past)" in line for line in lines)


def test_passing_state_is_past_after_two_weeks(memory: Limpet, say: Say, clock: FakeClock) -> None:
    say("I have a terrible headache today")
    clock.advance(days=14)
    for line in memory.context("How am I?", user="alice").text.splitlines():
        assert "headache" not in line or "(past)" in line or "user:" in line
    assert not [record for record in memory.records(user="alice") if record.attribute and "headache" in record.content]


@pytest.mark.long
def test_lasting_fact_is_in_context_after_400_days_of_other_talk(clock: FakeClock) -> None:
    config = Config.load(overrides={"jobs.worker": False, "embedding.model": "none", "graph.enabled": False})
    with Limpet.open(":memory:", config=config, clock=clock) as memory:
        session = memory.session("test", "1", user="alice")
        with session.turn("I'm allergic to peanuts") as turn:
            turn.reply("Noted.")
        for day in range(400):
            clock.advance(days=1)
            with session.turn(f"Sort list number {day} of the garden sheds by height") as turn:
                turn.reply("Done.")
            if day % 50 == 0:
                memory.jobs.run()
        memory.jobs.run()
        dinner = memory.session("test", "2", user="alice").context("What can I cook for dinner?")
        assert "allergic to peanuts" in dinner.text
        [claim] = [record for record in memory.records(user="alice", limit=1000) if record.attribute == "allergy"]
        assert (claim.archived_at, claim.uses) == (None, 0), "being shown is not being used"
        assert memory.recall("peanuts", user="alice")[0].source.id == claim.id
        assert session.count() == 802


def test_expired_statement_said_again_is_another_record(memory: Limpet, clock: FakeClock) -> None:
    first = memory.remember("Tea at five", user="alice", ttl=60)
    longer = memory.remember("Tea at five", user="alice", ttl=120)
    assert (longer.id, longer.expires_at) == (first.id, clock() + timedelta(seconds=120))
    assert memory.remember("Tea at five", user="alice", ttl=60).expires_at == longer.expires_at
    clock.advance(hours=1)
    assert memory.remember("Tea at five", user="alice").id != first.id


def test_claim_said_again_is_used(memory: Limpet, say: Say) -> None:
    say("I'm allergic to peanuts", "What should I read?", "I'm allergic to peanuts")
    [claim] = [record for record in memory.records(user="alice") if "peanuts" in record.content and record.attribute]
    assert (claim.said, claim.uses) == (2, 1)


def test_ended_habit_is_not_current(memory: Limpet, say: Say) -> None:
    say("I drink coffee every morning", "I gave up coffee")
    current = [record.content for record in memory.records(user="alice") if record.origin == "extracted"]
    assert "The user drinks coffee every morning." not in current


def test_recall_floor_false_returns_best_whatever_they_score(memory: Limpet, say: Say) -> None:
    say("I'm allergic to peanuts")
    assert memory.recall("zebra quantum", user="alice") == []
    assert len(memory.recall("peanuts zebra quantum flux harmonic", user="alice", floor=False)) >= 1


def test_statements_of_one_message_do_not_take_each_other_back(memory: Limpet, say: Say, clock: FakeClock) -> None:
    say("We moved to Aveiro last week. I start at the new hospital on Monday.")
    clock.advance(days=30)
    text = memory.context("Where do I live and work?", user="alice").text
    assert "Aveiro" in text
    assert "no longer true" not in next(line for line in text.splitlines() if "Aveiro" in line)


def test_rule_in_a_sentence_with_a_fact_is_worded_about_the_user(memory: Limpet, say: Say) -> None:
    say("I'm coeliac, so no wheat please.")
    text = memory.context("What can I cook?", user="alice").text
    assert "coeliac" in text
    assert "I'm coeliac" not in text


def test_recall_without_shared_words_gives_what_is_known(memory: Limpet, say: Say) -> None:
    say("I drive a Dacia Duster")
    (hit,) = memory.recall("Which tyres should the garage order?", user="alice")
    assert "Dacia" in hit.text
    assert "known" in hit.signals
    assert memory.recall("tyres", user="alice") == []  # a keyword asks for itself alone


def test_recall_finds_nothing_for_a_question_about_a_name_that_nothing_stored_has(memory: Limpet, say: Say) -> None:
    say("I live in Lisbon", "My son Mateus plays water polo", "I fly to Porto in May")
    assert memory.recall("What's the weather in Nairobi?", user="alice") == []
    assert "Mateus" in memory.recall("What does Mateus need in the sports bag?", user="alice")[0].text
    assert memory.recall("Which visa do I need for Nairobi?", user="alice")  # about the user after all


def test_message_that_takes_claims_back_twice_is_one_record(
    memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("I row on Mondays", "I paint on Tuesdays", "I swim on Fridays", "I bake on Sundays", "I sing in a choir")
    monkeypatch.setattr(apply, "find_changes", lambda text, claims: [Change(0.9, 0, len(text))] * len(claims))
    say("Sold the boat. My shoulder will not take it any more. We got a tandem instead.")
    contents = [record.content for record in memory.records(user="alice") if record.origin == "extracted"]
    assert len(contents) == len(set(contents))


def test_ended_unemployment_reads_as_a_sentence(memory: Limpet, say: Say) -> None:
    say("My husband Rui was unemployed for a year, but he found a job at the port.")
    assert not any("work as unemployed" in record.content for record in memory.records(user="alice"))


def judge(monkeypatch: pytest.MonkeyPatch, **likely: float) -> None:
    """Let a message that begins with one of these words take back every earlier claim so likely, by all its words."""

    def find(message: str, claims: list[str]) -> list[Change]:
        probability = next((each for word, each in likely.items() if message.lower().startswith(word)), 0.0)
        return [Change(probability, 0, len(message)) for _ in claims]

    monkeypatch.setattr(apply, "find_changes", find)
    for module in (apply, learn, read):
        monkeypatch.setattr(module, "tells_of_change", lambda message: True)


def test_claim_is_doubted_by_the_likeliest_message(memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    say("I keep bees behind the barn")
    judge(monkeypatch, frost=0.5, rain=0.3)
    say("Frost has killed the last hive", "Rain came through the roof of the shed")
    (bees,) = [record for record in memory.records(user="alice") if "keeps bees" in record.content]
    (reason,) = [record for record in memory.records(user="alice") if record.id == bees.metadata["doubted_by"]]
    assert "hive" in reason.content
    (hit,) = [hit for hit in memory.recall("Do I keep bees?", user="alice") if "keeps bees" in hit.text]
    assert hit.why.endswith("and perhaps no longer holds.")


def test_recall_shows_all_that_was_said_since_in_its_order(
    memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("I keep bees behind the barn")
    judge(monkeypatch, frost=0.3)
    since = "Frost has killed the last hive. My sister Ida has the roof open. I sold the van. I rent a stall in Leith."
    say(since)
    first, *_ = memory.recall("Do I keep bees?", user="alice")
    parts = [part for part in since.rstrip(".").split(". ") if part in first.text]
    assert len(parts) > 2
    assert parts == sorted(parts, key=first.text.find)


def test_recall_finds_the_rule_beside_what_is_asked_and_no_requests(memory: Limpet, say: Say) -> None:
    say(
        "Give me a snack idea",
        "I have two kids, Lotte and Bram. Bram is allergic to nuts.",
        "Recommend a snack for hikers",
    )
    first, second, *others = memory.recall("Suggest a snack box for my kids", user="alice")
    assert "two kids" in first.text
    assert "allergic to nuts" in second.text
    assert not any("snack" in hit.text for hit in others)


@pytest.mark.parametrize("question", ["What do I have to learn before Tuesday?", "Which bread should I bake first?"])
def test_order_of_things_to_do_is_not_the_past(question: str) -> None:
    assert not Question.parse(question, None).asks_back


@pytest.mark.parametrize("question", ["Where did I live before?", "What was my first job?", "My previous address?"])
def test_question_about_the_past_asks_back(question: str) -> None:
    assert Question.parse(question, None).asks_back


def test_health_of_others_is_not_a_rule_for_the_assistant(memory: Limpet, say: Say) -> None:
    say("My sister Ann has diabetes.", "I have asthma.")
    rules = memory.context("hello there", user="alice").sections["Instructions and constraints"]
    assert "asthma" in rules
    assert "diabetes" not in rules


def test_question_and_reply_that_takes_notice_are_not_evidence(memory: Limpet, clock: FakeClock) -> None:
    session = memory.session("test", "1", user="alice")
    for text, reply in (
        ("What's a good dinner for tonight?", "- For dinner: risotto\n- Salad"),
        ("We had dinner at the harbour.", "Lovely dinner!"),
    ):
        clock.advance(days=1)
        with session.turn(text) as turn:
            turn.reply(reply)
    texts = [hit.text for hit in memory.recall("Which dinner was good?", user="alice", k=10, floor=False)]
    assert "What's a good dinner for tonight?" not in texts
    assert "Lovely dinner!" not in texts
    assert any("risotto" in text for text in texts)
    asked = memory.recall("Which dinner was good?", user="alice", kinds=["message"], floor=False)
    assert "What's a good dinner for tonight?" in [hit.text for hit in asked]
    context = memory.context("Which dinner was good?", user="alice").text
    assert "\\-" not in context
    assert "• Salad" in context


def test_later_statement_on_another_attribute_stays_behind(memory: Limpet, say: Say) -> None:
    say("I moved to Lisbon last week.", "I am allergic to peanuts, and I live on rice.")
    by_attribute = {record.attribute: record for record in memory.records(user="alice")}
    home, allergy = by_attribute["home"], by_attribute["allergy"]
    memory.records.update(allergy.id, metadata={"follows": home.id})  # what a model of change may say
    texts = [hit.text for hit in memory.recall("Where do I live?", user="alice")]
    assert texts[0] == home.content
    assert len(texts) > 1


@pytest.mark.parametrize(
    ("later", "first"),
    [("My bike has a flat tyre.", "Molens Vandevelde"), ("We buy all flour at Dewachter.", "Dewachter")],
)
def test_later_statement_comes_first_only_if_it_is_about_what_is_asked(
    memory: Limpet, say: Say, later: str, first: str
) -> None:
    say("The flour supplier is Molens Vandevelde.", later)
    old, new = (
        next(record for record in memory.records(user="alice") if record.source.sentence == sentence)
        for sentence in ("The flour supplier is Molens Vandevelde.", later)
    )
    memory.records.update(new.id, metadata={"follows": old.id})  # what a model of change may say
    hits = memory.recall("Who do I pay for flour?", user="alice", floor=False)
    assert first in hits[0].text
    assert len(hits) > 1


def test_why_of_a_hit_is_a_sentence_for_people(memory: Limpet, say: Say) -> None:
    say("Tom's birthday is June 12th.", "I hate cilantro.")
    (hit, *_) = memory.recall("When is Tom's birthday?", user="alice")
    assert hit.why == "Found because it has nearly all words of the question (Tom's birthday)."
    (hit, *_) = memory.recall("Do I hate cilantro?", user="alice")
    assert hit.why == "Found because it states what is asked (what the user likes)."


def test_reply_that_repeats_a_claim_is_not_a_hit_of_its_own(memory: Limpet, clock: FakeClock) -> None:
    session = memory.session("test", "1", user="alice")
    for text, reply in (
        ("My favourite dish is falafel.", "Noted."),
        ("My favourite dish is paella now.", "Noted."),
        ("What did I tell you before?", "Long ago you said: My favourite dish is falafel."),
    ):
        clock.advance(days=30)
        with session.turn(text) as turn:
            turn.reply(reply)
        session.learn()
    hits = memory.recall("What is my favourite dish?", user="alice")
    assert "paella" in hits[0].text
    assert "falafel" not in memory.context("What is my favourite dish?", user="alice").text
    assert [hit.holds for hit in hits if "falafel" in hit.text] == [False]
