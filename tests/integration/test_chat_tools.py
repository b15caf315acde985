"""The chat and the worker give the model the tools, and do what it calls."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.cli import serve as worker
from limpet.cli.chat.model import ask_with_tools, open_toolbox
from limpet.model.message import Message, ToolCall
from limpet.providers.fakes import FakeLlm
from limpet.providers.llm import Completion, LlmRequest, TokenUsage
from limpet.testing import FakeClock
from limpet.tools import TOOLS

SAVE = ToolCall("", "memory_save", {"content": "Alice keeps bees"})
ASKED = LlmRequest((Message.new("user", "I keep bees, remember that."),))


def calls(*tools: ToolCall) -> Completion:
    return Completion("", tool_calls=tools, usage=TokenUsage(10, 2, cost=0.5))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[Limpet]:
    config = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})
    with Limpet.open(":memory:", config=config, clock=clock) as opened:
        yield opened


def test_model_in_chat_calls_tools_until_it_answers_in_words(memory: Limpet) -> None:
    llm = FakeLlm([calls(SAVE), calls(ToolCall("7", "memory_serch", {})), Completion("Saved.", usage=TokenUsage(5, 1))])
    session, noted = memory.session("t", "1", user="alice"), list[str]()
    with session.turn("I keep bees, remember that.") as turn:
        whole = ask_with_tools(llm.complete, ASKED, open_toolbox(memory, session, None), turn, noted.append)
        turn.reply(whole.text)
    assert (whole.text, whole.usage.input_tokens, whole.usage.output_tokens) == ("Saved.", 25, 5)
    assert noted == ["(memory_save)", "(memory_serch failed)"]
    assert {tool.name for tool in llm.calls[0].tools} == set(TOOLS)
    (saved,) = [record for record in memory.records(user="alice") if record.content == "Alice keeps bees"]
    assert saved.source.session_id == session.id
    kept = session.messages()
    assert [message.role.value for message in kept] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [message.is_error for message in kept if message.role == "tool"] == [False, True]
    assert llm.calls[1].messages[-1].tool_call_id == llm.calls[1].messages[-2].tool_calls[0].id != ""


def test_model_that_only_calls_tools_must_answer_in_words_in_the_end(memory: Limpet) -> None:
    def answer(request: LlmRequest) -> Any:
        return calls(SAVE) if request.tools else "Enough."

    llm, session = FakeLlm(answer), memory.session("t", "1", user="alice")
    with session.turn("hello") as turn:
        whole = ask_with_tools(llm.complete, ASKED, open_toolbox(memory, session, None), turn)
    assert (whole.text, len(llm.calls)) == ("Enough.", 7)


def test_tools_are_left_out_for_a_small_window(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    assert open_toolbox(memory, session, 4096) is None
    assert open_toolbox(memory, session, 32_000) is not None


def test_worker_offers_tools_to_scheduled_goals(
    memory: Limpet, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = ToolCall("1", "schedule_create", {"goal": "Breed", "cadence": "every: 1h"})
    llm = FakeLlm([calls(SAVE, again), Completion("Done.", usage=TokenUsage(5, 1, cost=0.25))])
    monkeypatch.setattr("limpet.api.runtime.select_llm", lambda given, config: llm)
    plan = memory.schedules.create("alice", goal="Note the bees", cadence="every: 1h")
    clock.now += timedelta(hours=1)
    assert memory.schedules.run(worker.run_turn) == 1
    assert {"memory_search", "memory_save"} <= {tool.name for tool in llm.calls[0].tools}
    assert any(record.content == "Alice keeps bees" for record in memory.records(user="alice"))
    assert [each.id for each in memory.schedules.search()] == [plan.id], "a scheduled goal makes no schedules"
    (run,) = memory.schedules.runs(plan.id)
    assert (run.summary, run.cost) == ("Done.", 0.75)
