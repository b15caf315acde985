"""OpenAI's ``/chat/completions`` API: OpenAI, vLLM, Ollama, llama.cpp and other compatible servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Unpack

from limpet.model.context import as_openai
from limpet.model.message import ToolCall
from limpet.providers.http import HttpFailure, JsonAnswer, check_key, error_message
from limpet.providers.http_llm import (
    HttpLlm,
    LlmOptions,
    RefusedFields,
    add_schema_text,
    token_count,
)
from limpet.providers.llm import Completion, Finish, LlmRequest, TokenUsage, ToolSpec
from limpet.providers.schema import is_closed
from limpet.providers.structured import parse_object

_FINISHES = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_calls": Finish.TOOLS,
    "function_call": Finish.TOOLS,
    "content_filter": Finish.REFUSED,
}


@dataclass
class _PartialToolCall:
    id: str = ""
    name: str = ""
    json: list[str] = field(default_factory=list)

    def to_tool_call(self, place: int) -> ToolCall:
        if not self.name:
            raise ValueError("a tool call has no name")
        arguments = "".join(self.json)
        return ToolCall(
            self.id or f"call_{place}", self.name, parse_object(arguments).data if arguments.strip() else {}
        )


class _OpenAiAssembler:
    """Assembles a stream of events. A whole answer is one event with a message in place of a delta."""

    is_done = False  # the stream ends with [DONE]

    def __init__(self) -> None:
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, _PartialToolCall] = {}
        self._finish: Finish | None = None
        self._usage = TokenUsage()

    def feed(self, event: JsonAnswer) -> str:
        if not isinstance(event, dict):
            raise ValueError("it is not an object")
        if event.get("error"):
            raise HttpFailure("gave up", passing=False, said=error_message(event))
        if isinstance(event.get("usage"), dict):
            self._usage = _usage(event["usage"])
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        if not isinstance(choice, dict):
            raise ValueError('its "choices" are not objects')
        added = choice.get("delta") or choice.get("message") or {}
        if not isinstance(added, dict):
            raise ValueError("its message is not an object")
        if "message" in choice or choice.get("finish_reason"):  # some servers omit the finish reason of a whole answer
            self._finish = _FINISHES.get(str(choice.get("finish_reason") or "stop"), Finish.OTHER)
        self._feed_calls(added.get("tool_calls"))
        self._refusal.append(_text(added.get("refusal")))
        self._text.append(_text(added.get("content")))
        return self._text[-1]

    def completion(self) -> Completion | None:
        if self._finish is None:
            return None
        calls = tuple(call.to_tool_call(place) for place, call in sorted(self._calls.items()))
        text, refusal = "".join(self._text), "".join(self._refusal)
        finish = Finish.REFUSED if refusal and not text else Finish.TOOLS if calls else self._finish
        return Completion(text or refusal, calls, finish, self._usage)

    def _feed_calls(self, calls: object) -> None:
        for place, call in enumerate(calls if isinstance(calls, list) else []):
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict):
                raise ValueError("a tool call has no function")
            index = call.get("index", place)
            call_part = self._calls.setdefault(index if isinstance(index, int) else place, _PartialToolCall())
            call_part.id = call_part.id or _text(call.get("id"))
            call_part.name += _text(function.get("name"))
            arguments = function.get("arguments")
            call_part.json.append(json.dumps(arguments) if isinstance(arguments, dict) else _text(arguments))


class OpenAiLlm(HttpLlm):
    """Retries rate limits, server errors and network errors ``retries`` times within the request's timeout.

    ``chance`` returns numbers from 0 to 1 that add jitter to the waits.
    """

    kind = "openai"
    concessions: ClassVar = {
        "response_format": ("response_format", "json_schema", "structured output", "grammar"),
        "max_tokens": ("max_completion_tokens",),
        "temperature": ("temperature",),
        "tools": ("tool", "function call"),
        "stream_options": ("stream_options",),
    }
    streaming: ClassVar = {"stream_options": {"include_usage": True}}
    assembler = _OpenAiAssembler
    unfinished = 'it has no "choices" with a finished message'

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        **options: Unpack[LlmOptions],
    ) -> None:
        headers = {"Authorization": f"Bearer {check_key(api_key)}"} if api_key else {}
        super().__init__(base_url, "/chat/completions", model, headers, api_key, **options)

    def _build_body(self, request: LlmRequest, refused: RefusedFields) -> dict[str, object]:
        messages = request.messages
        fields: dict[str, object] = {}
        if request.schema is not None:
            if "response_format" in refused:
                messages = add_schema_text(request, request.schema)
            else:
                strict = is_closed(request.schema)  # OpenAI rejects any other schema that is strict
                answer = {"name": "answer", "schema": request.schema, "strict": strict}
                fields["response_format"] = {"type": "json_schema", "json_schema": answer}
        fields["max_completion_tokens" if "max_tokens" in refused else "max_tokens"] = request.max_tokens
        if request.temperature is not None and "temperature" not in refused:
            fields["temperature"] = request.temperature
        if request.stop:
            fields["stop"] = list(request.stop)
        if request.tools:
            fields["tools"] = [_tool(tool) for tool in request.tools]
        return {"model": self._model, "messages": as_openai("", messages), **fields}


def _tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _usage(usage: Mapping[str, Any]) -> TokenUsage:
    return TokenUsage(
        token_count(usage, "prompt_tokens"),
        token_count(usage, "completion_tokens"),
        token_count(usage.get("prompt_tokens_details"), "cached_tokens"),
    )


def _text(value: object) -> str:
    """Return the text of a content value: a string, None, or a list of parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    if value is not None and not isinstance(value, str):
        raise ValueError("its content is not text")
    return value or ""
