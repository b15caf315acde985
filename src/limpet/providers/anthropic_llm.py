"""Anthropic's Messages API, at Anthropic or any compatible server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

from limpet.errors import ConfigError
from limpet.model.context import OPENING_TEXT, as_anthropic
from limpet.model.dataclass import replace
from limpet.model.message import ToolCall
from limpet.providers.http import HttpFailure, JsonAnswer, check_key, error_message
from limpet.providers.http_llm import HttpLlm, LlmOptions, RefusedFields, add_schema_text, token_count
from limpet.providers.llm import Completion, Finish, LlmRequest, TokenUsage
from limpet.providers.structured import parse_object

ADDRESS = "https://api.anthropic.com"
_VERSION = "2023-06-01"
_ANSWER = "answer"  # the tool that returns a structured answer
_FINISHES = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOLS,
    "refusal": Finish.REFUSED,
}


@dataclass
class _Block:
    """Text, or a tool call with the JSON of its input. Other kinds of block are ignored."""

    kind: str
    id: str
    name: str
    given: Mapping[str, Any]
    pieces: list[str]

    @classmethod
    def of(cls, block: Mapping[str, Any]) -> _Block:
        kind = _text(block, "type")
        input_value = block.get("input") if kind == "tool_use" else None
        text = _text(block, "text") if kind == "text" else ""
        return cls(
            kind, _text(block, "id"), _text(block, "name"), input_value if isinstance(input_value, dict) else {}, [text]
        )

    def to_tool_call(self, place: int) -> ToolCall:
        if not self.name:
            raise ValueError("a tool call has no name")
        arguments = "".join(self.pieces)
        values = parse_object(arguments).data if arguments.strip() else self.given
        return ToolCall(self.id or f"call_{place}", self.name, values)


class _AnthropicAssembler:
    """Assembles a stream of events. A whole answer is a stream of one event."""

    def __init__(self) -> None:
        self.is_done = False
        self._blocks: dict[int, _Block] = {}
        self._finish = ""
        self._usage: dict[str, Any] = {}

    def feed(self, event: JsonAnswer) -> str:
        match event:
            case {"type": "message", "content": list(blocks)}:
                self._blocks = {
                    place: _Block.of(block) for place, block in enumerate(blocks) if isinstance(block, dict)
                }
                self._feed_end(event, event)
                self.is_done = True
                return "".join(block.pieces[0] for block in self._blocks.values())
            case {"type": "message_start", "message": dict(message)}:
                self._feed_end({}, message)
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                self._blocks[index] = _Block.of(block)
                return self._blocks[index].pieces[0]
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                return self._grow(index, delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._feed_end(delta, event)
            case {"type": "message_stop"}:
                self.is_done = True
            case {"type": "error"} | {"error": _}:
                raise HttpFailure("gave up", passing=False, said=error_message(event))
            case {"type": str(kind)} if kind not in {"message", "content_block_start", "content_block_delta"}:
                pass  # a ping, the end of a block, or an event type added later: ignored, as the API asks
            case _:
                raise ValueError("it is neither a message nor a stream event")
        return ""

    def completion(self) -> Completion | None:
        if not self.is_done:
            return None
        blocks = [block for _, block in sorted(self._blocks.items())]
        calls = tuple(block.to_tool_call(place) for place, block in enumerate(blocks) if block.kind == "tool_use")
        text = "".join("".join(block.pieces) for block in blocks if block.kind == "text")
        return Completion(text, calls, _FINISHES.get(self._finish, Finish.OTHER), self._total_usage())

    def _grow(self, index: int, delta: Mapping[str, Any]) -> str:
        block = self._blocks.get(index)
        if block is None:
            raise ValueError("a delta refers to a block that was not started")
        match delta.get("type"):
            case "text_delta":
                block.pieces.append(_text(delta, "text"))
                return block.pieces[-1]
            case "input_json_delta":
                block.pieces.append(_text(delta, "partial_json"))
        return ""

    def _feed_end(self, delta: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """Update the usage. A stream sends it in two parts, and later numbers replace earlier ones."""
        self._finish = _text(delta, "stop_reason") or self._finish
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _total_usage(self) -> TokenUsage:
        """Return the usage with cached tokens included: Anthropic counts cache reads and writes separately."""
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        into = sum(token_count(self._usage, name) for name in names)
        return TokenUsage(
            into, token_count(self._usage, "output_tokens"), token_count(self._usage, "cache_read_input_tokens")
        )


class AnthropicLlm(HttpLlm):
    """Retries rate limits, server errors and network errors ``retries`` times within the request's timeout.

    ``chance`` returns numbers from 0 to 1 that add jitter to the waits.
    """

    kind = "anthropic"
    assembler = _AnthropicAssembler
    unfinished = "it is not a message with content"
    concessions: ClassVar = {"tool_choice": ("tool",), "tools": ("tool",), "temperature": ("temperature",)}

    def __init__(
        self, model: str, api_key: str | None = None, base_url: str = ADDRESS, **options: Unpack[LlmOptions]
    ) -> None:
        if not api_key and base_url == ADDRESS:
            raise ConfigError("Anthropic needs an API key; set one, or the address of a server that needs none")
        headers = {"anthropic-version": _VERSION} | ({"x-api-key": check_key(api_key)} if api_key else {})
        super().__init__(base_url, "/v1/messages", model, headers, api_key, **options)

    def _build_body(self, request: LlmRequest, refused: RefusedFields) -> dict[str, object]:
        messages = request.messages
        fields: dict[str, object] = {"max_tokens": request.max_tokens}
        tools = [(tool.name, tool.description, tool.parameters) for tool in request.tools]
        if request.schema is not None:
            if "tool_choice" in refused:
                messages = add_schema_text(request, request.schema)
            else:
                tools = [(_ANSWER, "Give the answer in this form.", request.schema)]
                fields["tool_choice"] = {"type": "tool", "name": _ANSWER}
        if tools:
            fields["tools"] = [
                {"name": name, "description": description, "input_schema": dict(schema)}
                for name, description, schema in tools
            ]
        if request.temperature is not None and "temperature" not in refused:
            fields["temperature"] = request.temperature
        if request.stop:
            fields["stop_sequences"] = list(request.stop)
        said = as_anthropic("", messages)
        said["messages"] = said["messages"] or [{"role": "user", "content": OPENING_TEXT}]
        return {"model": self._model, **said, **fields}

    def _parse_answer(self, answer: JsonAnswer, request: LlmRequest) -> Completion:
        whole = super()._parse_answer(answer, request)
        answers = [call.arguments for call in whole.tool_calls if call.name == _ANSWER]
        if (
            request.schema is None or not answers
        ):  # some servers do not force a tool call: the object may be in the text
            return whole
        finish = Finish.STOP if whole.finish is Finish.TOOLS else whole.finish
        return replace(whole, text=json.dumps(answers[0]), tool_calls=(), finish=finish, data=answers[0])


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"its {name!r} is not text")
    return value or ""
