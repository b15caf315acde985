from __future__ import annotations

import pytest

from limpet.errors import InvalidInput
from limpet.model.message import Message
from limpet.providers.fakes import FakeLlm
from limpet.providers.llm import LlmRequest, TokenUsage, ToolSpec, build_prompt, check_llm, compute_cost


def test_build_prompt_with_and_without_system_message():
    assert [(message.role, message.text) for message in build_prompt("Hi")] == [("user", "Hi")]
    assert [message.role for message in build_prompt("Hi", system="Be short.")] == ["system", "user"]


def test_llm_request_converts_lists_to_tuples():
    request = LlmRequest(list(build_prompt("Hi")), tools=[ToolSpec("t", "", {})], stop=["END"])  # type: ignore[arg-type]
    assert request == LlmRequest(build_prompt("Hi"), tools=(ToolSpec("t", "", {}),), stop=("END",))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"messages": ()}, "needs messages"),
        ({"messages": "Hi"}, "messages must be a list"),
        ({"messages": ["Hi"]}, r"made with Message\.new"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"stop": "END"}, "stop must be a list"),
        ({"schema": {"type": "array"}}, "schema"),
        ({"schema": {"type": "object"}, "tools": [ToolSpec("t", "", {})]}, "not both"),
    ],
)
def test_llm_request_rejects_invalid_arguments(wrong, reason):
    with pytest.raises(InvalidInput, match=reason):
        LlmRequest(**{"messages": build_prompt("Hi"), **wrong})


def test_compute_cost_uses_cached_price():
    usage = TokenUsage(input_tokens=1_000_000, output_tokens=500_000, cached_tokens=250_000)
    assert compute_cost(usage, (2.0, 8.0, 0.5)) == pytest.approx(0.75 * 2 + 0.5 * 8 + 0.25 * 0.5)
    assert compute_cost(TokenUsage(5, 0, 10), (2.0, 8.0, 0.0)) == 0
    assert compute_cost(usage, None) is None


def test_token_usage_adds_up():
    assert TokenUsage(1, 2, 3, 0.5) + TokenUsage(10, 20, 30, 0.25) == TokenUsage(11, 22, 33, 0.75)
    assert TokenUsage(1, cost=0.5) + TokenUsage(1, estimated=True) == TokenUsage(2, cost=None, estimated=True)


def test_check_llm_rejects_object_that_is_not_an_llm():
    check_llm(None)
    check_llm(FakeLlm())
    with pytest.raises(InvalidInput, match="not str"):
        check_llm("openai:x")
    with pytest.raises(InvalidInput, match="not Message"):
        check_llm(Message.new("user", "x"))
