"""What a context says of what changed: each thing once, what holds marked as such, and what may not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from limpet import Config, Context, Limpet
from limpet.knowledge import reconcile
from limpet.testing import FakeClock
from tests.contract.test_truth import Say, judge, memory, say

__all__ = ["memory", "say"]  # fixtures


def test_context_states_what_holds_once_and_dated(memory: Limpet, say: Say) -> None:
    say("I live in Porto", "I'm allergic to peanuts", "I moved to Lisbon last week")
    text = memory.context("What can I cook for dinner?", user="alice").text
    assert "Porto" not in text
    assert text.count("Lisbon") == 1
    assert text.count("peanuts") == 1
    assert "2026" in next(line for line in text.splitlines() if "peanuts" in line)


def test_context_leaves_out_claims_whose_message_it_shows(memory: Limpet, say: Say) -> None:
    say("I'm allergic to peanuts")
    context = memory.session("test", "1", user="alice").context("cooking")
    assert "peanuts" not in context.text
    assert any("peanuts" in message.text for message in context.messages)


def test_doubted_claim_stays_in_context_and_says_so(memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "CONTRADICTS", 1.1)  # nothing is sure enough to end a claim
    monkeypatch.setattr(reconcile, "DOUBTS", 0.01)
    say("I do payroll at Brightwater Logistics", "Handed in my notice, I start at Corven Dental on the 2nd")
    (line,) = [
        line
        for line in memory.context("Where do I work?", user="alice").text.splitlines()
        if "Brightwater" in line and "payroll" in line
    ]
    assert "Corven Dental" in line.partition(" Said before, ")[0]
    assert line.endswith("“I do payroll at Brightwater Logistics” (perhaps no longer true)")
    first = next(hit for hit in memory.recall("Where do I work?", user="alice") if "at " in hit.text)
    assert "Corven" in first.text


def test_context_prints_rule_or_its_message_and_never_both(memory: Limpet, say: Say) -> None:
    say("I take warfarin every evening. Is it fine to have it after dinner rather than before?")
    assert memory.context("Is warfarin fine after dinner?", user="alice").text.count("warfarin") == 1


def test_context_prints_message_or_its_claim_and_never_both(memory: Limpet, say: Say) -> None:
    say("Our app is called Ploverly. Need five taglines, it shows tide times for people with dogs.")
    text = memory.context("What is the Ploverly app about, and who needs taglines?", user="alice").text
    assert text.count("Ploverly") == 1


def test_context_prints_what_may_change_a_claim_beside_it_and_once(
    memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("I keep bees behind the barn")
    judge(monkeypatch, frost=0.3)
    say("Frost has killed the last hive")
    (bees,) = [record for record in memory.records(user="alice") if "keeps bees" in record.content]
    assert "doubted_by" in bees.metadata
    text = memory.context("Do I keep bees?", user="alice").text
    (line,) = [line for line in text.splitlines() if "hive" in line]
    assert line.startswith("- Frost has killed the last hive. Said before, ")
    assert line.endswith(": “I keep bees behind the barn” (perhaps no longer true)")
    assert "hive" in memory.recall("Do I keep bees?", user="alice")[0].text


def test_doubted_claim_stands_whatever_is_asked(memory: Limpet, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    say("I keep bees behind the barn")
    judge(monkeypatch, frost=0.5)
    say("Frost has killed the last hive and the wasps")
    assert "bees behind" in memory.context("Translate this letter into French", user="alice").text


FAMILY = (
    "I live in Porto and work as a nurse.",
    "My girlfriend Ellie is a vet.",
    "What's a good dinner for tonight?",
    "My sister Ann has the flu.",
    "I moved to Lisbon last week.",
)


def read_after_summary(memory: Limpet, question: str) -> Context:
    """The context of a chat of which nothing but its last turn is among the messages."""
    session = memory.session("test", "1", user="alice")
    session.compact(keep=0)
    with session.turn("See you.") as turn:
        turn.reply("Bye.")
    return session.context(question, max_tokens=1000)


@pytest.fixture
def few_messages(store_url: str, clock: FakeClock) -> Iterator[Limpet]:
    overrides = {"jobs.worker": False, "embedding.model": "none", "context.recent_messages": 2}
    with Limpet.open(store_url, config=Config.load(overrides=overrides), clock=clock) as opened:
        yield opened


def tell(memory: Limpet, *lines: str) -> None:
    session = memory.session("test", "1", user="alice")
    for line in lines:
        with session.turn(line) as turn:
            turn.reply("All right.")
        session.learn()


def test_context_states_claims_and_leaves_their_words_out_of_the_summary(few_messages: Limpet) -> None:
    tell(few_messages, *FAMILY)
    context = read_after_summary(few_messages, "What do you know about me?")
    about, earlier = context.sections["About the user"], context.sections["Earlier in this conversation"]
    assert "Ellie" in about
    assert "vet" in about
    assert "lives in Lisbon" in about
    for words in ("Ellie", "Lisbon", "Ann", "Porto", "nurse"):
        assert words not in earlier
    assert earlier.endswith("can be searched.")


def test_summary_in_context_marks_sentence_that_holds_only_in_part(few_messages: Limpet) -> None:
    said = "I live in Porto, and the old harbour bridge over there is painted green every spring by volunteers."
    tell(few_messages, said, "I moved to Lisbon last week.")
    for line in read_after_summary(few_messages, "weather").text.splitlines():
        assert "Porto" not in line or "no longer true" in line


def test_context_has_decision_once_that_the_assistant_repeated(memory: Limpet, clock: FakeClock) -> None:
    session = memory.session("test", "1", user="alice")
    for text, reply in (
        ("We decided to use htmx for the coupon service.", "Noted."),
        ("What did we choose?", "You told me: We decided to use htmx for the coupon service."),
    ):
        clock.advance(days=3)
        with session.turn(text) as turn:
            turn.reply(reply)
        session.learn()
    context = memory.context("What did we choose for the coupon service?", user="alice").text
    assert context.count("htmx") == 1


def test_words_of_two_doubted_claims_stand_once_in_their_line(memory: Limpet, say: Say) -> None:
    say(
        "my mate Dami got a job at Guy's and wont stop going on about the canteen",
        "new lanyard day! my photo looks like a hostage picture but whatever, the team at King's seem sound",
    )
    text = memory.context("Who do I know at a hospital?", user="alice").text
    assert text.count("my mate Dami got a job at Guy's") == 1
