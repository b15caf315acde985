"""llm.daily_cost: what models may cost in a day, over all programs on a store."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.api.runtime import limit_llm
from limpet.errors import ProviderError
from limpet.model.message import Message
from limpet.providers.fakes import FakeLlm
from limpet.providers.llm import Completion, Llm, LlmRequest, TokenUsage
from limpet.sessions.usage import DailySpending
from limpet.testing import FakeClock
from tests.contract.threads import at_once

SETTINGS = {"embedding.model": "none", "jobs.worker": False, "llm.daily_cost": 1.0}
ASKED = LlmRequest((Message.new("user", "hello"),))


def open_memory(folder: Path, llm: Any, clock: FakeClock) -> Limpet:
    return Limpet.open(folder, config=Config.load(overrides=SETTINGS), llm=llm, clock=clock)


def make_llm(cost: float | None = 0.4) -> FakeLlm:
    return FakeLlm(Completion("yes", usage=TokenUsage(10, 1, cost=cost)))


def limited(memory: Limpet, llm: FakeLlm) -> Llm:
    runtime = memory._runtime
    made = limit_llm(llm, runtime.config, runtime.store, runtime.clock)
    assert made is not None
    return made


def test_daily_cost_stops_asking_for_all_programs_until_midnight(tmp_path: Path) -> None:
    clock = FakeClock(datetime(2026, 3, 10, 22, tzinfo=UTC))
    fake = make_llm()
    with open_memory(tmp_path, fake, clock) as memory, open_memory(tmp_path, fake, clock) as other:
        first, second = limited(memory, fake), limited(other, fake)
        first.complete(ASKED)
        assert list(second.stream(ASKED))[-1] == second.complete(ASKED)
        assert len(fake.calls) == 3  # 1.2 by then: the answer that passes the limit is given
        for llm in (first, second):
            with pytest.raises(ProviderError, match=r"1.2 was spent today, and llm.daily_cost is 1; raise it"):
                llm.complete(ASKED)
            with pytest.raises(ProviderError, match="not asked"):
                llm.stream(ASKED)
        assert len(fake.calls) == 3
        clock.advance(hours=2)
        assert first.complete(ASKED).text == "yes"


def test_daily_cost_leaves_models_without_a_price_alone(tmp_path: Path) -> None:
    fake = make_llm(cost=None)
    with open_memory(tmp_path, fake, FakeClock()) as memory:
        llm = limited(memory, fake)
        assert [llm.complete(ASKED).text for _ in range(5)] == ["yes"] * 5


def test_memory_goes_on_by_rules_when_the_daily_cost_is_reached(tmp_path: Path) -> None:
    clock, fake = FakeClock(), make_llm(cost=5.0)
    with open_memory(tmp_path, fake, clock) as memory:
        limited(memory, fake).complete(ASKED)
        asked = len(fake.calls)
        session = memory.session("t", "1", user="alice")
        with session.turn("I live in Porto.") as turn:
            assert turn.reply("Noted.") is not None
        for _ in range(6):
            memory.jobs.run()
            clock.advance(hours=1)
        assert len(fake.calls) == asked
        assert any("Porto" in record.content for record in memory.records(user="alice"))


def add_often(spending: DailySpending) -> None:
    for _ in range(25):
        spending.add(0.01)


def test_simultaneous_additions_to_daily_cost_lose_nothing(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory, Limpet.open(durable_url) as other:
        spendings = [DailySpending(each._runtime.store, FakeClock()) for each in (memory, other) for _ in range(2)]
        at_once(lambda number: add_often(spendings[number]), len(spendings))
        assert spendings[0].read() == pytest.approx(4 * 25 * 0.01)
