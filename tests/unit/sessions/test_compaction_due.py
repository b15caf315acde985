"""When a history is due for compaction, and how far: decided without a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.config import CompactionSettings
from limpet.errors import ConfigError
from limpet.model.message import Message, ToolCall, group_steps, message_tokens
from limpet.model.tokens import estimate_tokens
from limpet.sessions.compaction import (
    Load,
    Plan,
    Reason,
    fit_window,
    plan_due,
    plan_for_context,
    plan_left_out,
    plan_manual,
)

LIMITS = CompactionSettings()


def spoken(count: int, tokens: int = 10) -> list[Message]:
    """A user and an assistant in turns."""
    return [
        replace(Message.new("assistant" if at % 2 else "user", "x" * tokens), tokens=tokens, sequence=at + 1)
        for at in range(count)
    ]


def load(messages: Sequence[Message], summary: str = "") -> Load:
    return Load.of(messages, summary, estimate_tokens, message_tokens)


def planned(messages: Sequence[Message], window: int | None = None, limits: CompactionSettings = LIMITS) -> Plan | None:
    return plan_due(load(messages), window, limits)


def test_rolling_compaction_starts_above_80_percent_of_window() -> None:
    assert planned(spoken(8, 100), 1000) is None
    plan = planned(spoken(10, 90), 1000)
    assert plan == Plan(6, Reason.ROLLING)
    assert sum(message.tokens for message in spoken(10, 90)[plan.messages :]) <= 500


def test_rolling_compaction_requires_minimum_messages() -> None:
    assert planned(spoken(3, 300), 1000) is None
    assert planned(spoken(3, 300), 1000, CompactionSettings(least_messages=2)) == Plan(2, Reason.ROLLING)


def test_token_threshold_compaction_keeps_last_ten_messages() -> None:
    assert planned(spoken(20, 400)) is None
    assert planned([*spoken(32, 10), *spoken(10, 300), *spoken(6, 900)][:40], None) is None
    assert planned([*spoken(24, 300), *spoken(10, 100)]) == Plan(24, Reason.TOKENS)


def test_token_threshold_compaction_keeps_fewer_when_ten_are_too_long() -> None:
    plan = planned(spoken(12, 1000))
    assert plan == Plan(8, Reason.TOKENS)


def test_token_threshold_counts_tokens_not_messages() -> None:
    assert planned(spoken(6, 2000)) is not None
    assert planned(spoken(40, 1)) is None


def test_message_threshold_compaction_keeps_last_twenty() -> None:
    assert planned(spoken(40)) is None
    assert planned(spoken(42)) == Plan(22, Reason.MESSAGES)


def test_emergency_compaction_keeps_last_five() -> None:
    plan = planned(spoken(21, 100), 2200)
    assert plan == Plan(16, Reason.EMERGENCY)
    assert planned(spoken(21, 100), 2300) == Plan(10, Reason.ROLLING)


def test_quick_check_estimates_tokens_from_characters() -> None:
    """20,000 tokens of window: 16,000 is the line, 8,000 are taken, 28,000 characters are left."""
    few = [replace(message, tokens=1) for message in spoken(28, 1000)]
    many = [replace(message, tokens=1) for message in spoken(30, 1000)]
    assert planned(few, 20_000) is None
    plan = planned(many, 20_000)
    assert plan is not None
    assert plan.reason is Reason.CHECK
    assert sum(len(message.text) for message in many[plan.messages :]) <= 14_000


def test_compaction_not_due_when_window_is_filled_by_other_content() -> None:
    assert planned(spoken(30, 10), 8192) is None


def test_summary_budget_shrinks_with_small_window() -> None:
    assert fit_window(LIMITS, None).summary_tokens == 500
    assert fit_window(LIMITS, 128_000).summary_tokens == 500
    assert fit_window(LIMITS, 1000).summary_tokens == 250
    assert fit_window(LIMITS, 10).summary_tokens == 50
    assert fit_window(CompactionSettings(window=1000), None).summary_tokens == 250


def test_compaction_disabled_still_allows_manual_plan() -> None:
    assert planned(spoken(100, 1000), 1000, CompactionSettings(enabled=False)) is None
    assert plan_manual(load(spoken(100)), 20) == Plan(80, Reason.ASKED)


@pytest.mark.parametrize("window", [None, 1000, 4000, 30_000])
@pytest.mark.parametrize("tokens", [1, 40, 100, 700])
def test_compaction_does_not_trigger_on_every_message(window: int | None, tokens: int) -> None:
    history = spoken(400, tokens)
    covered, fired = 0, 0
    for count in range(1, 401):
        plan = planned(history[covered:count], window)
        if plan is not None:
            covered += plan.messages
            fired += 1
    assert fired <= 400 / LIMITS.least_messages
    if tokens <= 40 and window != 1000:
        assert fired <= 400 / 15


def test_compaction_settings_reject_threshold_equal_to_keep() -> None:
    with pytest.raises(ConfigError, match="each new message"):
        CompactionSettings(keep=20, messages=20)
    with pytest.raises(ConfigError, match="roll_to"):
        CompactionSettings(roll_to=0.8)


def test_manual_compaction_does_not_split_a_turn() -> None:
    assert plan_manual(load(spoken(10)), 3) == Plan(6, Reason.ASKED)
    assert plan_manual(load(spoken(10)), 0) == Plan(10, Reason.ASKED)
    assert plan_manual(load(spoken(10)), 10) is None
    assert plan_manual(load([]), 0) is None


def test_manual_compaction_splits_very_long_turn() -> None:
    long = [*spoken(2), spoken(1)[0], *[Message.new("assistant", "step") for _ in range(30)]]
    assert plan_manual(load(long), 5) == Plan(28, Reason.ASKED)


def test_manual_compaction_keeps_tool_call_without_result() -> None:
    history = [*spoken(3), Message.new("assistant", "", tool_calls=[ToolCall("a", "search")])]
    assert plan_manual(load(history), 0) == Plan(2, Reason.ASKED)


def test_left_out_messages_are_compacted_with_half_of_shown_ones() -> None:
    history = spoken(30)
    assert plan_left_out(load(history), range(1, 31)) is None
    assert plan_left_out(load(history), range(11, 31)) == Plan(20, Reason.LEFT_OUT)
    assert plan_left_out(load(history), ()) == Plan(30, Reason.LEFT_OUT)
    assert plan_left_out(load(history), range(11, 31), everything=True) == Plan(30, Reason.LEFT_OUT)


def test_compaction_before_context_covers_what_the_context_would_leave_out() -> None:
    history = spoken(51)
    assert planned(history) == Plan(30, Reason.MESSAGES)
    assert plan_for_context(load(history), 20, None, LIMITS) == Plan(40, Reason.MESSAGES)
    rest = load(history[40:])
    assert plan_left_out(rest, rest.sequences[-20:]) is None


def test_compaction_before_context_keeps_its_plan_when_the_rest_is_shown() -> None:
    assert plan_for_context(load(spoken(51)), 21, None, LIMITS) == Plan(30, Reason.MESSAGES)
    assert plan_for_context(load(spoken(40)), 20, None, LIMITS) is None


names = st.sampled_from(["a", "b"])
histories = st.lists(
    st.one_of(
        st.builds(Message.new, st.just("user"), st.just("word " * 9)),
        st.builds(
            lambda calls: Message.new("assistant", "x", tool_calls=[ToolCall(name, "t") for name in calls]),
            st.lists(names, max_size=2, unique=True),
        ),
        st.builds(lambda name: Message.new("tool", "result " * 5, tool_call_id=name), names),
    ),
    max_size=60,
)


@given(histories, st.integers(0, 20), st.none() | st.integers(50, 500))
def test_compaction_never_separates_tool_result_from_call(
    history: list[Message], keep: int, window: int | None
) -> None:
    limits = CompactionSettings(history_tokens=100, history_keep=3, messages=30)
    for plan in (plan_manual(load(history), keep), plan_due(load(history), window, limits)):
        if plan is not None:
            assert 0 < plan.messages <= len(history)
            assert not any(step[0] < plan.messages <= step[-1] for step in group_steps(history))
    if (by_hand := plan_manual(load(history), keep)) is not None:
        assert len(history) - by_hand.messages >= keep
