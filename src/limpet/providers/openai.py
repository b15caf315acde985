"""OpenAI's ``/chat/completions`` and ``/embeddings``: OpenAI, vLLM, Ollama, llama.cpp and other compatible servers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar, Unpack

from limpet.errors import ProviderError
from limpet.model.context import as_openai
from limpet.model.message import ToolCall
from limpet.model.values import split_pages
from limpet.providers.embedder import normalize_vector
from limpet.providers.http import ADVICE, Endpoint, HttpFailure, JsonAnswer, RetryOptions, check_key, error_message
from limpet.providers.http_llm import HttpLlm, LlmOptions, RefusedFields, add_schema_text, token_count
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
_BATCH = 128  # texts of one request for vectors
_MAX_CHARS = 8_000  # why: a text beyond the model's window would fail its whole batch
_ADVICE = {  # of the embedding server
    **ADVICE,
    400: "check the model's name, and whether it supports the requested dimension",
    413: "the texts are too long for it",
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

    def __init__(self, base_url: str, model: str, api_key: str | None = None, **options: Unpack[LlmOptions]) -> None:
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


class OpenAiEmbedder:
    """Thread-safe.

    ``dimension`` requests vectors of that length, which not every model supports; by default the model's own length
    is learned from the first answer. ``timeout`` applies to one request, in seconds.
    """

    quick = False

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        dimension: int | None = None,
        timeout: float = 30,
        **options: Unpack[RetryOptions],
    ) -> None:
        headers = {"Authorization": f"Bearer {check_key(api_key)}"} if api_key else {}
        self._endpoint = Endpoint("embedding server", base_url, "/embeddings", headers, api_key, _ADVICE, **options)
        self._model = model
        self._asked = dimension
        self._dimension = dimension
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"OpenAiEmbedder({self._endpoint.origin!r}, {self._model!r})"

    @property
    def name(self) -> str:
        return f"openai:{self._model}" if self._asked is None else f"openai:{self._model}/{self._asked}"

    @property
    def dimension(self) -> int:
        """Return the dimension; asks the server if it is not known yet."""
        if self._dimension is None:
            self.embed(["dimension"])
        assert self._dimension is not None
        return self._dimension

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for page in split_pages(texts, _BATCH):
            some = [text[:_MAX_CHARS] for text in page]
            batch = [text if text.strip() else "." for text in some]  # servers reject a whole batch for an empty text
            vectors += self._parse_answer(self._request_vectors(batch), len(batch))
        return vectors

    def _request_vectors(self, batch: list[str]) -> JsonAnswer:
        fields: dict[str, object] = {"model": self._model, "input": batch, "encoding_format": "float"}
        if self._asked is not None:
            fields["dimensions"] = self._asked
        try:
            return self._endpoint.post(fields, self._timeout)
        except HttpFailure as failure:
            raise self._endpoint.to_error(failure) from None

    def _parse_answer(self, answer: JsonAnswer, count: int) -> list[list[float]]:
        try:
            vectors = _parse_vectors(answer, count, self._dimension)
        except (ValueError, OverflowError) as error:
            raise ProviderError(
                f"the embedding server at {self._endpoint.origin} did not answer with a list of vectors for the model "
                f"{self._model!r}: {error}. Check that the address belongs to an OpenAI-compatible API"
            ) from None
        self._dimension = len(vectors[0])
        return vectors


def _parse_vectors(answer: JsonAnswer, count: int, dimension: int | None) -> list[list[float]]:
    """Return the vectors in request order. Raises ValueError."""
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError('it has no list "data"')
    if len(items) != count:
        raise ValueError(f"{len(items)} vectors returned for {count} texts")
    places = [item.get("index", place) for place, item in enumerate(items)]
    if sorted(map(str, places)) != sorted(map(str, range(count))):
        raise ValueError('its "index" numbers do not match the texts')
    vectors: list[list[float]] = [[] for _ in items]
    for place, item in zip(places, items, strict=True):
        vectors[int(place)] = _parse_vector(item.get("embedding"))
    lengths = {len(vector) for vector in vectors} | ({dimension} if dimension is not None else set())
    if len(lengths) != 1:
        raise ValueError(f"the vectors have different dimensions: {', '.join(map(str, sorted(lengths)))}")
    return vectors


def _parse_vector(raw: object) -> list[float]:
    if not isinstance(raw, list) or not raw:
        raise ValueError("a vector is not a list of numbers")
    if not all(type(value) in {int, float} and isfinite(value) for value in raw):
        raise ValueError("a vector contains a value that is not a finite number")
    return normalize_vector([float(value) for value in raw])
