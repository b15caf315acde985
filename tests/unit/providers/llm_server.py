"""Servers that speak OpenAI's chat completions and Anthropic's messages, and misbehave as told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from limpet.errors import ProviderError
from limpet.providers.anthropic_llm import AnthropicLlm
from limpet.providers.http_llm import HttpLlm
from limpet.providers.llm import LlmRequest, build_prompt
from limpet.providers.openai import OpenAiLlm
from tests.unit.providers.embedding_server import KEY, Answering, EmbeddingServer, Handler, embedding_server

QUESTION = LlmRequest(build_prompt("Who are you?"), timeout=30)
CITY = LlmRequest(
    build_prompt("Name a city."),
    timeout=30,
    schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True)
class Api:
    """How one of the two words the same answers."""

    kind: str
    make: Callable[..., HttpLlm]
    path: str
    key_header: str
    says: Callable[..., dict[str, Any]]
    calls: Callable[..., dict[str, Any]]
    events: Callable[..., list[str]]


def _openai(text: str = "I am a test.", finish: str = "stop", **message: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 12, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return {"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}


def _openai_call(name: str, arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return _openai(None, "tool_calls", tool_calls=[{"id": "call_9", "type": "function", "function": function}])  # type: ignore[arg-type]


def _openai_events(*pieces: str, finish: str | None = "stop") -> list[str]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    events = [chunk({"role": "assistant", "content": None}), *(chunk({"content": piece}) for piece in pieces)]
    if finish:
        events += [chunk({}, finish), {"choices": [], "usage": _openai()["usage"]}]
    return [*map(json.dumps, events), *(["[DONE]"] if finish else [])]


def _anthropic(text: str = "I am a test.", finish: str = "end_turn", **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 8, "cache_read_input_tokens": 4, "cache_creation_input_tokens": None, "output_tokens": 5}
    blocks = [{"type": "text", "text": text}]
    return {"type": "message", "role": "assistant", "content": blocks, "stop_reason": finish, "usage": usage, **fields}


def _anthropic_call(name: str, arguments: Any) -> dict[str, Any]:
    return _anthropic(
        finish="tool_use", content=[{"type": "tool_use", "id": "call_9", "name": name, "input": arguments}]
    )


def _anthropic_events(*pieces: str, finish: str | None = "stop") -> list[str]:
    usage = {"input_tokens": 8, "cache_read_input_tokens": 4, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
    ]
    deltas = ({"type": "text_delta", "text": piece} for piece in pieces)
    events += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    if finish:
        events += [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
    return [json.dumps(event) for event in events]


OPENAI = Api(
    "openai",
    lambda url, **options: OpenAiLlm(url, "small", KEY, **options),
    "/v1/chat/completions",
    "Authorization",
    _openai,
    _openai_call,
    _openai_events,
)
ANTHROPIC = Api(
    "anthropic",
    lambda url, **options: AnthropicLlm("small", KEY, url, **options),
    "/v1/messages",
    "x-api-key",
    _anthropic,
    _anthropic_call,
    _anthropic_events,
)


def answers(fields: object) -> Answering:
    return lambda handler: handler.send(json.dumps(fields), {"Content-Type": "application/json"})


def streams(
    events: Sequence[str],
    *,
    size: int | None = None,
    chunked: bool = False,
    end: str = "\n\n",
    then: Answering | None = None,
) -> Answering:
    """In pieces of ``size`` bytes, each sent by itself; then the connection is closed, or left to ``then``."""

    def answer(handler: Handler) -> None:
        handler.protocol_version = "HTTP/1.1" if chunked else "HTTP/1.0"
        handler.close_connection = True
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        if chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.close_connection = True
        for piece in _cut("".join(f"data: {event}{end}" for event in events).encode(), size):
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            handler.wfile.flush()
        if then is not None:
            then(handler)
        elif chunked:
            handler.wfile.write(b"0\r\n\r\n")

    return answer


def _cut(content: bytes, size: int | None) -> Iterable[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)] if size else [content]


def usual(handler: Handler) -> None:
    api = ANTHROPIC if handler.path.endswith("/messages") else OPENAI
    answer = streams(api.events("I am ", "a test.")) if handler.given.get("stream") else answers(api.says())
    answer(handler)


@contextmanager
def llm_server() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        server.usual = usual
        yield server


def refused(llm: HttpLlm, request: LlmRequest = QUESTION, *, streamed: bool = False) -> str:
    """What its error says, the key nowhere in it."""
    with pytest.raises(ProviderError) as caught:
        list(llm.stream(request)) if streamed else llm.complete(request)
    chain: BaseException | None = caught.value
    while chain is not None:
        assert KEY not in f"{chain!r} {chain}"
        chain = chain.__cause__
    return str(caught.value)
