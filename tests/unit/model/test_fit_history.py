"""What is kept of a history, decided without a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from limpet.model.message import Message, Role, ToolCall, fit_history


def message(role: Role, tokens: int, calls: Sequence[str] = (), answers: str | None = None) -> Message:
    made = Message.new(role, "x", tool_calls=[ToolCall(name, "tool") for name in calls], tool_call_id=answers)
    return replace(made, tokens=tokens)


names = st.sampled_from(["a", "b", "c"])
tokens = st.integers(0, 20)
messages = st.one_of(
    st.builds(message, st.just(Role.USER), tokens),
    st.builds(message, st.just(Role.SYSTEM), tokens),
    st.builds(message, st.just(Role.ASSISTANT), tokens, st.lists(names, max_size=2, unique=True)),
    st.builds(message, st.just(Role.TOOL), tokens, answers=names),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    found = draw(st.lists(messages, max_size=25))
    return [replace(each, sequence=at) for at, each in enumerate(found, start=1)]


budgets = st.integers(1, 120)
limits = st.none() | st.integers(1, 12)


def caller_of(history: Sequence[Message], result: Message) -> int | None:
    """The sequence of the latest call before the result that it answers."""
    before = [each for each in history if each.sequence < result.sequence]
    asked = [each for each in before if any(call.id == result.tool_call_id for call in each.tool_calls)]
    return asked[-1].sequence if asked else None


def answered(history: Sequence[Message]) -> list[Message]:
    """The history without the results whose calls are gone."""
    return [each for each in history if each.role is not Role.TOOL or caller_of(history, each) is not None]


def users(history: Sequence[Message]) -> list[int]:
    return [each.sequence for each in history if each.role is Role.USER]


@given(histories(), budgets, limits)
def test_fit_history_keeps_message_order(history: list[Message], budget: int, limit: int | None) -> None:
    kept = fit_history(history, budget, limit)
    assert [each.sequence for each in kept] == sorted({each.sequence for each in kept})
    assert all(each in history for each in kept)


@given(histories(), budgets, limits)
def test_fit_history_never_keeps_tool_result_without_call(
    history: list[Message], budget: int, limit: int | None
) -> None:
    kept = fit_history(history, budget, limit)
    sequences = {each.sequence for each in kept}
    assert all(caller_of(history, each) in sequences for each in kept if each.role is Role.TOOL)


@given(histories(), budgets, limits)
def test_fit_history_never_keeps_tool_call_without_results(
    history: list[Message], budget: int, limit: int | None
) -> None:
    sequences = {each.sequence for each in fit_history(history, budget, limit)}
    for each in history:
        if each.role is Role.TOOL and caller_of(history, each) in sequences:
            assert each.sequence in sequences


@given(histories(), budgets, limits)
def test_fit_history_always_keeps_latest_user_message(history: list[Message], budget: int, limit: int | None) -> None:
    kept = users(fit_history(history, budget, limit))
    assert kept[-1:] == users(history)[-1:]


@given(histories(), budgets, limits)
def test_fit_history_exceeds_budget_only_for_latest_user_message(
    history: list[Message], budget: int, limit: int | None
) -> None:
    kept = fit_history(history, budget, limit)
    over = sum(each.tokens for each in kept) > budget or (limit is not None and len(kept) > limit)
    assert not over or [each.sequence for each in kept] == users(history)[-1:]


@given(histories(), budgets, limits)
def test_fit_history_cuts_at_a_turn_or_inside_the_last_one(
    history: list[Message], budget: int, limit: int | None
) -> None:
    kept = fit_history(history, budget, limit)
    if not kept:
        return
    first = kept[0].sequence
    starts = users(history)
    if first in starts or first == answered(history)[0].sequence:
        return
    # Inside the last turn, which nobody opened: there is no user message at all.
    assert not starts


@given(histories(), budgets, limits)
def test_fit_history_keeps_older_turns_whole_without_gaps(
    history: list[Message], budget: int, limit: int | None
) -> None:
    kept = fit_history(history, budget, limit)
    last_turn = (users(history) or [0])[-1]
    if not kept or kept[0].sequence >= last_turn:
        return
    rest = [each for each in history if each.sequence >= kept[0].sequence]
    assert kept == answered(rest)


@given(histories(), budgets)
def test_fit_history_keeps_as_many_turns_as_fit(history: list[Message], budget: int) -> None:
    kept = fit_history(history, budget)
    earlier = [start for start in users(history) if kept and start < kept[0].sequence]
    if not earlier:
        return
    wider = answered([each for each in history if each.sequence >= earlier[-1]])
    assert sum(each.tokens for each in wider) > budget


@given(histories(), budgets, st.integers(0, 50), limits)
def test_fit_history_never_keeps_less_with_larger_budget(
    history: list[Message], budget: int, more: int, limit: int | None
) -> None:
    assert len(fit_history(history, budget + more, limit)) >= len(fit_history(history, budget, limit))


@given(histories())
def test_fit_history_with_large_budget_drops_only_orphaned_results(history: list[Message]) -> None:
    assert fit_history(history, 10**9) == answered(history)


def test_fit_history_assigns_result_without_id_to_latest_call() -> None:
    call, result = message(Role.ASSISTANT, 1, ["a"]), message(Role.TOOL, 1)
    assert fit_history([call, result], 10) == [call, result]
    assert fit_history([result, call], 10) == [call]


def test_fit_history_keeps_late_tool_result_with_its_call() -> None:
    history = [
        message(Role.USER, 1),
        message(Role.ASSISTANT, 1, ["a"]),
        message(Role.USER, 1),
        message(Role.TOOL, 1, answers="a"),
        message(Role.ASSISTANT, 1),
    ]
    assert fit_history(history, 5) == history
    assert fit_history(history, 4) == [history[2], history[4]]


def test_fit_history_of_oversized_last_turn_keeps_question_and_newest_steps() -> None:
    history = [
        message(Role.USER, 5),
        message(Role.ASSISTANT, 5, ["a"]),
        message(Role.TOOL, 5, answers="a"),
        message(Role.ASSISTANT, 5, ["b"]),
        message(Role.TOOL, 5, answers="b"),
        message(Role.ASSISTANT, 5),
    ]
    assert fit_history(history, 30) == history
    assert fit_history(history, 29) == [history[0], *history[3:]]
    assert fit_history(history, 19) == [history[0], history[5]]
    assert fit_history(history, 9) == [history[0]]
    assert fit_history(history, 1) == [history[0]]
    assert fit_history(history, 100, 4) == [history[0], *history[3:]]


def test_fit_history_of_nothing_is_empty() -> None:
    assert fit_history([], 10) == []
    assert fit_history([message(Role.ASSISTANT, 11)], 10) == []
