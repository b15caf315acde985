"""A language model that replays recorded answers from a file, for repeatable tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from hashlib import sha256
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

from limpet.errors import InvalidInput, ProviderError
from limpet.model.message import Message, ToolCall
from limpet.providers.llm import Completion, Finish, Llm, LlmRequest, TokenUsage

_KEY_SHOWN = 12


class ReplayLlm:
    """Replays ``path``, a JSONL file. Requests not in it go to ``llm`` and are recorded; without ``llm`` they fail.

    A request is identified by the model and all that affects the answer: messages, tools, schema, temperature,
    max_tokens and stop, but not the timeout. Without ``llm`` and ``model``, the file must contain one model only.
    """

    def __init__(self, path: str | PathLike[str], llm: Llm | None = None, *, model: str | None = None) -> None:
        self._path = Path(path)
        self._llm = llm
        self._turn = Lock()
        lines = _read_lines(self._path)
        self.model = llm.model if llm else model or _only_model(lines, self._path)
        self.name = f"recorded:{self.model}"
        self._known: dict[str, Completion] = {line["key"]: line["completion"] for line in lines}

    def complete(self, request: LlmRequest) -> Completion:
        key = request_key(self.model, request)
        return self._known.get(key) or self._record_completion(
            key, request, self._require_llm(key, request).complete(request)
        )

    def stream(self, request: LlmRequest) -> Iterator[str | Completion]:
        if request.schema is not None:
            raise InvalidInput("an answer with a schema cannot be streamed; use complete")
        key = request_key(self.model, request)
        if recorded := self._known.get(key):
            return iter([recorded.text, recorded] if recorded.text else [recorded])
        return self._record_stream(key, request, self._require_llm(key, request))

    def _record_stream(self, key: str, request: LlmRequest, llm: Llm) -> Iterator[str | Completion]:
        for piece in llm.stream(request):
            yield self._record_completion(key, request, piece) if isinstance(piece, Completion) else piece

    def _require_llm(self, key: str, request: LlmRequest) -> Llm:
        if self._llm is None:
            question = request.messages[-1].text
            raise ProviderError(
                f"{self._path} has no answer of {self.model!r} to the request {key[:_KEY_SHOWN]}, which ends with "
                f"{question[:80]!r}; record it again with llm=…"
            )
        return self._llm

    def _record_completion(self, key: str, request: LlmRequest, completion: Completion) -> Completion:
        line = {"key": key, "request": _request_fields(self.model, request), "completion": asdict(completion)}
        with self._turn:
            self._known[key] = completion
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        return completion


def request_key(model: str, request: LlmRequest) -> str:
    return sha256(json.dumps(_request_fields(model, request), sort_keys=True).encode()).hexdigest()


def _request_fields(model: str, request: LlmRequest) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [_message(message) for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "tools": [asdict(tool) for tool in request.tools],
        "schema": request.schema,
        "stop": list(request.stop),
    }


def _message(message: Message) -> dict[str, Any]:
    """Return what a model sees of a message: not its time, number or metadata."""
    fields: dict[str, Any] = {"role": str(message.role), "text": message.text}
    if message.tool_calls:
        fields["tool_calls"] = [asdict(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        fields |= {"tool_call_id": message.tool_call_id, "is_error": message.is_error}
    return fields


def _read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ProviderError(f"the recording {path} cannot be read: {error}") from None
    lines = [line for line in text.split("\n") if line.strip()]
    return [_parse_line(line, f"line {number} of {path}") for number, line in enumerate(lines, 1)]


def _parse_line(text: str, where: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
        model = line["request"]["model"]
        return {"key": str(line["key"]), "model": str(model), "completion": _parse_completion(line["completion"])}
    except (ValueError, LookupError, TypeError) as error:
        raise ProviderError(f"{where} is not a recording ({error!r}); remove it and record again") from None


def _parse_completion(fields: Mapping[str, Any]) -> Completion:
    calls = tuple(ToolCall(**call) for call in fields["tool_calls"])
    usage = TokenUsage(**fields["usage"])
    return Completion(fields["text"], calls, Finish(fields["finish"]), usage, fields["data"])


def _only_model(lines: list[dict[str, Any]], path: Path) -> str:
    models = sorted({line["model"] for line in lines})
    if len(models) != 1:
        contents = f"recordings of {', '.join(models)}" if models else "no recording"
        raise ProviderError(f"{path} contains {contents}; choose one with model=…, or record with llm=…")
    return str(models[0])
