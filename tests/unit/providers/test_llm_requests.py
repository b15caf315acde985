"""How a request is worded for each API, and what gives way when a server does not take a part of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from limpet.errors import ConfigError
from limpet.model.message import Message
from limpet.providers.anthropic_llm import AnthropicLlm
from limpet.providers.llm import Finish, LlmRequest, ToolSpec, build_prompt
from limpet.providers.openai import OpenAiLlm
from tests.unit.providers.embedding_server import KEY, EmbeddingServer, status
from tests.unit.providers.llm_server import (
    ANTHROPIC,
    CITY,
    OPENAI,
    QUESTION,
    answers,
    llm_server,
    refused,
    streams,
)

CALLS = [{"id": f"c{number}", "name": "weather", "arguments": {"place": "Lisbon"}} for number in (1, 2)]
TALK = (
    Message.new("system", "Be short."),
    Message.new("user", "Weather?"),
    Message.new("assistant", "", tool_calls=CALLS),
    Message.new("tool", "Sunny.", tool_call_id="c1"),
    Message.new("tool", "No such place.", tool_call_id="c2", is_error=True),
    Message.new("user", "And half 🍕?"),
    Message.new("assistant", "Sunny. "),
)
TOOL = ToolSpec("weather", "The weather of a place.", {"type": "object", "properties": {}})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    with llm_server() as running:
        yield running


@pytest.fixture
def openai(server, waits):
    return OpenAiLlm(server.url, "small", KEY, sleep=waits.append)


@pytest.fixture
def anthropic(server, waits):
    return AnthropicLlm("small", KEY, server.url, sleep=waits.append)


def test_openai_request_body(server, openai):
    openai.complete(LlmRequest(TALK, max_tokens=50, temperature=0.3, tools=(TOOL,), stop=("END",)))
    function = {"name": "weather", "arguments": '{"place": "Lisbon"}'}
    assert server.requests == [
        {
            "path": "/v1/chat/completions",
            "model": "small",
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": "Weather?"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": id_, "type": "function", "function": function} for id_ in ("c1", "c2")],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "Sunny."},
                {"role": "tool", "tool_call_id": "c2", "content": "No such place."},
                {"role": "user", "content": "And half 🍕?"},
                {"role": "assistant", "content": "Sunny. "},
            ],
            "max_tokens": 50,
            "temperature": 0.3,
            "stop": ["END"],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "weather",
                        "description": "The weather of a place.",
                        "parameters": {"type": "object", "properties": {}},
                    },
                }
            ],
        }
    ]


def test_anthropic_request_body(server, anthropic):
    anthropic.complete(LlmRequest(TALK, max_tokens=50, temperature=0.3, tools=(TOOL,), stop=("END",)))
    assert server.requests == [
        {
            "path": "/v1/messages",
            "model": "small",
            "system": "Be short.",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": id_, "name": "weather", "input": {"place": "Lisbon"}}
                        for id_ in ("c1", "c2")
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "c1", "content": "Sunny."},
                        {"type": "tool_result", "tool_use_id": "c2", "content": "No such place.", "is_error": True},
                        {"type": "text", "text": "And half 🍕?"},
                    ],
                },
                {"role": "assistant", "content": [{"type": "text", "text": "Sunny."}]},
            ],
            "max_tokens": 50,
            "temperature": 0.3,
            "stop_sequences": ["END"],
            "tools": [
                {
                    "name": "weather",
                    "description": "The weather of a place.",
                    "input_schema": {"type": "object", "properties": {}},
                }
            ],
        }
    ]


def test_anthropic_conversation_starts_with_user_turn(server, anthropic):
    anthropic.complete(LlmRequest((Message.new("assistant", "Hello!"), Message.new("user", " "), *build_prompt("Hi"))))
    assert [turn["role"] for turn in server.requests[0]["messages"]] == ["user", "assistant", "user"]
    assert server.requests[0]["messages"][-1]["content"] == [{"type": "text", "text": "Hi"}]
    anthropic.complete(LlmRequest((Message.new("system", "Say anything."),)))
    assert [turn["role"] for turn in server.requests[1]["messages"]] == ["user"]


def test_lone_surrogates_are_replaced_in_requests(server, openai, anthropic):
    made_by_hand = LlmRequest((Message(Message.new("user", "x").role, "half \ud800"),))
    openai.complete(made_by_hand)
    anthropic.complete(made_by_hand)
    assert server.requests[0]["messages"][0]["content"] == "half ?"
    assert server.requests[1]["messages"][0]["content"] == [{"type": "text", "text": "half ?"}]


def test_schema_uses_native_feature_of_each_api(server, openai, anthropic):
    server.plan = [answers(OPENAI.says('{"city": "Lisbon"}')), answers(ANTHROPIC.calls("answer", {"city": "Lisbon"}))]
    assert openai.complete(CITY).data == anthropic.complete(CITY).data == {"city": "Lisbon"}
    assert server.requests[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": CITY.schema, "strict": True},
    }
    assert server.requests[1]["tool_choice"] == {"type": "tool", "name": "answer"}
    assert server.requests[1]["tools"][0]["input_schema"] == CITY.schema


def test_openai_open_schema_is_not_strict(server, openai):
    server.plan = [answers(OPENAI.says("{}"))]
    assert openai.complete(LlmRequest(build_prompt("?"), schema={"type": "object"})).data == {}
    assert server.requests[0]["response_format"]["json_schema"]["strict"] is False


def test_openai_without_response_format_falls_back_to_prompt(server, openai, caplog):
    server.plan = [
        status(400, "response_format type must be one of text or json_object"),
        answers(OPENAI.says('{"city": "Lisbon"}')),
        answers(OPENAI.says('{"city": "Porto"}')),
    ]
    with caplog.at_level(logging.WARNING):
        assert [openai.complete(CITY).data, openai.complete(CITY).data] == [{"city": "Lisbon"}, {"city": "Porto"}]
    assert ["response_format" in request for request in server.requests] == [True, False, False]
    (message,) = server.requests[1]["messages"]
    assert message["role"] == "user"
    assert message["content"].startswith("Name a city.\n\nAnswer with one JSON object and nothing else")
    assert json.dumps(CITY.schema) in message["content"]
    assert message["content"].endswith('so it has this form:\n{"city": "…"}')
    assert "does not accept response_format; the field is left out from now on" in caplog.text


def test_anthropic_without_tool_choice_falls_back_to_prompt(server, anthropic):
    server.plan = [status(400, "tool_choice: not supported"), answers(ANTHROPIC.says('{"city": "Lisbon"}'))]
    request = LlmRequest(build_prompt("Name a city.", system="Be short."), schema=CITY.schema)
    assert anthropic.complete(request).data == {"city": "Lisbon"}
    assert "tools" not in server.requests[1]
    assert server.requests[1]["system"] == "Be short."
    assert "Answer with one JSON object" in server.requests[1]["messages"][-1]["content"][-1]["text"]


def test_openai_switches_to_max_completion_tokens(server, openai):
    server.plan = [
        status(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        status(400, "Unsupported value: 'temperature' does not support 0.3 with this model."),
    ]
    openai.complete(LlmRequest(build_prompt("?"), max_tokens=7, temperature=0.3))
    last = server.requests[2]
    assert (last["max_completion_tokens"], "max_tokens" in last, "temperature" in last) == (7, False, False)


def test_openai_stream_without_stream_options_is_retried(server, openai):
    server.plan = [status(400, "stream_options: extra fields not permitted"), streams(OPENAI.events("hello"))]
    *_, whole = openai.stream(QUESTION)
    assert whole.text == "hello"
    assert ["stream_options" in request for request in server.requests] == [True, False]


def test_openai_drops_only_parameters_it_sent(server, openai):
    server.plan = [status(400, "temperature, max_completion_tokens and response_format: try harder")] * 3
    assert "try harder" in refused(openai)
    assert len(server.requests) == 2  # max_tokens was sent, the others were not


def test_anthropic_user_tool_named_answer_is_a_tool_call(server, anthropic):
    server.plan = [answers(ANTHROPIC.calls("answer", {"city": "Lisbon"}))]
    answer = anthropic.complete(LlmRequest(build_prompt("?"), tools=(ToolSpec("answer", "", {"type": "object"}),)))
    assert (answer.data, answer.tool_calls[0].name, answer.finish) == (None, "answer", Finish.TOOLS)


def test_openai_stream_assembles_tool_calls(server, openai):
    def chunk(*calls):
        return json.dumps({"choices": [{"delta": {"tool_calls": calls}, "finish_reason": None}]})

    server.plan = [
        streams(
            [
                chunk({"index": 0, "id": "a", "function": {"name": "weather", "arguments": ""}}),
                chunk({"index": 0, "function": {"arguments": '{"place": '}}),
                chunk({"index": 1, "id": "b", "function": {"name": "time", "arguments": "{}"}}),
                chunk({"index": 0, "function": {"arguments": '"Lisbon"}'}}),
                json.dumps({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
                "[DONE]",
            ]
        )
    ]
    (whole,) = openai.stream(LlmRequest(build_prompt("?"), tools=(TOOL,)))
    assert [(call.id, call.name, call.arguments) for call in whole.tool_calls] == [
        ("a", "weather", {"place": "Lisbon"}),
        ("b", "time", {}),
    ]


def test_anthropic_stream_assembles_tool_calls(server, anthropic):
    def grows(piece):
        delta = {"type": "input_json_delta", "partial_json": piece}
        return json.dumps({"type": "content_block_delta", "index": 1, "delta": delta})

    call = {"type": "tool_use", "id": "a", "name": "weather", "input": {}}
    thought = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}
    server.plan = [
        streams(
            [
                json.dumps({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}}),
                json.dumps(thought),
                json.dumps({"type": "content_block_start", "index": 1, "content_block": call}),
                *map(grows, ["", '{"place": ', '"Lisbon"}']),
                json.dumps({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
                json.dumps({"type": "message_stop"}),
            ]
        )
    ]
    (whole,) = anthropic.stream(LlmRequest(build_prompt("?"), tools=(TOOL,)))
    assert whole.text == ""
    assert [(call.id, call.name, call.arguments) for call in whole.tool_calls] == [
        ("a", "weather", {"place": "Lisbon"})
    ]


def test_openai_tool_calls_without_id_or_text_arguments(server, openai):
    functions = ({"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": ""})
    calls = [{"id": None, "function": function} for function in functions]
    server.plan = [answers(OPENAI.says(None, "tool_calls", tool_calls=calls))]
    found = openai.complete(LlmRequest(build_prompt("?"), tools=(TOOL,))).tool_calls
    assert [(call.id, call.arguments) for call in found] == [("call_0", {"x": 1}), ("call_1", {})]


def test_openai_refusal_is_text_with_refused_finish(server, openai):
    server.plan = [answers(OPENAI.says(None, refusal="I cannot help with that."))]
    answer = openai.complete(QUESTION)
    assert (answer.text, answer.finish) == ("I cannot help with that.", Finish.REFUSED)


def test_openai_content_parts_are_joined(server, openai):
    server.plan = [answers(OPENAI.says([{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]))]
    assert openai.complete(QUESTION).text == "one two"


def test_anthropic_default_url_requires_api_key():
    with pytest.raises(ConfigError, match="needs an API key"):
        AnthropicLlm("claude")
    assert repr(AnthropicLlm("claude", KEY)) == "AnthropicLlm('https://api.anthropic.com', 'claude')"
    assert AnthropicLlm("claude", base_url="http://localhost:8080").name == "anthropic:claude"


def test_llm_requires_model_name():
    with pytest.raises(ConfigError, match="model name"):
        OpenAiLlm("http://localhost", " ")
