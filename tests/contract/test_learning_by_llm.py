"""Learning with a language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from limpet import Limpet
from limpet.errors import ProviderError
from limpet.providers.fakes import FakeLlm
from limpet.testing import FakeClock
from tests.contract.test_learning import facts, learned, opening, talk

__all__ = ["opening"]  # fixtures


# With a language model


def answer(*facts: dict[str, Any]) -> dict[str, Any]:
    return {"facts": list(facts)}


HOME = {
    "type": "fact",
    "statement": "The user lives in Porto.",
    "sentence": "I live in Porto",
    "subject": "user",
    "attribute": "home",
    "value": "Porto",
    "status": "holds",
}


def test_llm_extraction_stores_fact_and_usage(opening: Callable[..., Limpet]) -> None:
    memory = opening(llm=FakeLlm(answer(HOME)), compact__enabled=False)
    session = talk(memory, "I live in Porto")
    (record,) = learned(memory)
    assert record.content == "The user lives in Porto."
    assert record.source.sentence == "I live in Porto"
    assert session.usage().models[0].calls == 1


def test_model_never_reads_what_somebody_asks_not_to_keep(opening: Callable[..., Limpet], clock: FakeClock) -> None:
    llm = FakeLlm("NONE")
    memory = opening(llm=llm, compact__enabled=False, graph__enabled=False)
    talk(memory, "Don't remember this: I gamble.", "I live in Porto", "What's a fado?")
    for _ in range(3):
        clock.advance(hours=1)
        memory.jobs.run()
    asked = "\n".join(map(str, llm.calls))
    assert "Porto" in asked
    assert "gamble" not in asked


def test_llm_extraction_of_nothing_is_one_call_and_the_end(opening: Callable[..., Limpet], clock: FakeClock) -> None:
    """Rules do not learn from a turn in which the model found nothing."""
    llm = FakeLlm("NONE")
    memory = opening(llm=llm, compact__enabled=False, graph__enabled=False)
    session = talk(memory, "I live in Porto")
    for _ in range(3):
        clock.advance(hours=1)
        memory.jobs.run()
    assert (len(llm.calls), learned(memory), memory.jobs.list(kind="extract")) == (1, [], [])
    (used,) = session.usage().models
    assert (used.calls, used.input_tokens > 0, used.output_tokens > 0) == (1, True, True)


def test_llm_extraction_bills_failed_answers(opening: Callable[..., Limpet], clock: FakeClock) -> None:
    llm = FakeLlm("{broken")
    memory = opening(llm=llm, compact__enabled=False, graph__enabled=False, learn__llm_attempts=2)
    session = talk(memory, "I live in Porto")
    for _ in range(3):
        clock.advance(hours=1)
        memory.jobs.run()
    (used,) = session.usage().models
    assert used.calls == len(llm.calls) == 2
    assert used.output_tokens > 0
    assert facts(memory) == {("user", "home", "Porto")}


def test_llm_extraction_keeps_turns_before_the_one_that_failed(opening: Callable[..., Limpet]) -> None:
    """A model that fails on the second turn is not asked about the first again."""
    llm = FakeLlm([answer(HOME), "{broken"])
    memory = opening(llm=llm, compact__enabled=False, graph__enabled=False)
    session = memory.session("test", "1", user="alice")
    for text in ("I live in Porto", "I like chess"):
        session.append("user", text)
        session.append("assistant", "Noted.")
    with pytest.raises(ProviderError):
        session.learn()
    assert facts(memory) == {("user", "home", "Porto")}
    assert session.usage().models[0].calls == len(llm.calls) - 1


@pytest.mark.parametrize("llm", [None, FakeLlm(answer(HOME))])
def test_learned_record_carries_active_skill(opening: Callable[..., Limpet], llm: FakeLlm | None) -> None:
    memory = opening(llm=llm, compact__enabled=False, graph__enabled=False)
    with memory.session("test", "1", user="alice").turn("I live in Porto") as turn:
        turn.reply("Noted.", skill="travel")
    memory.jobs.run(until_idle=True)
    (record,) = learned(memory)
    assert record.metadata == {"skill": "travel"}


def test_learned_record_stays_episodic_until_it_is_sure_enough(opening: Callable[..., Limpet]) -> None:
    memory = opening(learn__promote_confidence=0.9)
    talk(memory, "I live in Porto")
    assert [(record.layer, record.value) for record in learned(memory)] == [("episodic", "Porto")]


def test_remembered_failure_is_procedural(opening: Callable[..., Limpet]) -> None:
    memory = opening()
    kinds = {"failure": "procedural", "fix": "procedural", "fact": "semantic", "plan": "semantic"}
    assert {kind: memory.remember(f"a {kind}", user="bob", type=kind).layer for kind in kinds} == kinds
    assert memory.remember("another", user="bob", type="failure", layer="episodic").layer == "episodic"


def test_llm_extraction_rejects_fact_not_in_turn(opening: Callable[..., Limpet]) -> None:
    memory = opening(llm=FakeLlm(answer({**HOME, "sentence": "I live in Faro"})))
    talk(memory, "I live in Porto")
    assert learned(memory) == []


def test_llm_extraction_falls_back_to_rules_after_invalid_output(
    opening: Callable[..., Limpet], clock: FakeClock
) -> None:
    """Never an empty result without an error: the job says what happened, and nothing is lost."""
    memory = opening(llm=FakeLlm("certainly!!! {broken"), learn__llm_attempts=2)
    talk(memory, "I live in Porto")
    (job,) = memory.jobs.list(kind="extract")
    assert job.error
    assert learned(memory) == []
    for _ in range(3):
        clock.advance(hours=1)
        memory.jobs.run()
    assert memory.jobs.list(kind="extract") == []
    assert facts(memory) == {("user", "home", "Porto")}


def test_learn_raises_provider_error_when_llm_fails(opening: Callable[..., Limpet]) -> None:
    memory = opening(llm=FakeLlm("", failures=-1))
    session = memory.session("test", "1", user="alice")
    session.append("user", "I live in Porto")
    with pytest.raises(ProviderError):
        session.learn()
    assert memory.records(user="alice") == []
