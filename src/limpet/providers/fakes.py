"""A language model and an embedder for tests: scripted answers, failures on demand, a log of calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Union

from limpet.errors import InvalidInput, ProviderError
from limpet.model.tokens import estimate_tokens
from limpet.providers.embedder import normalize_vector
from limpet.providers.llm import Completion, LlmRequest, TokenUsage
from limpet.providers.structured import request_object

FakeAnswer = Union[str, Mapping[str, Any], Completion, Exception]
Script = Union[FakeAnswer, Sequence[FakeAnswer], Callable[[LlmRequest], FakeAnswer]]


class FakeLlm:
    """Returns the same answer every time, the answers of a list in turn, or the result of a function of the request.

    An answer is a text, a mapping that is sent as JSON, a Completion, or an exception to raise. It is parsed like the
    answer of a real model: with a schema, an invalid answer is requested once more. The first ``failures`` calls fail;
    -1 fails always. ``calls`` lists every request, failed ones included.
    """

    def __init__(self, answers: Script = "", *, model: str = "fake", failures: int = 0) -> None:
        self.model = model
        self.name = f"fake:{model}"
        self.failures = failures
        self.error: Exception = ProviderError("the fake language model is set to fail")
        self.calls: list[LlmRequest] = []
        self._script = answers

    def complete(self, request: LlmRequest) -> Completion:
        return request_object(request, self._answer, self.name)

    def stream(self, request: LlmRequest) -> Iterator[str | Completion]:
        if request.schema is not None:
            raise InvalidInput("an answer with a schema cannot be streamed; use complete")
        whole = self._answer(request)
        return iter([*re.findall(r"\s*\S+\s*$|\s*\S+", whole.text), whole])

    def _answer(self, request: LlmRequest) -> Completion:
        self.calls.append(request)
        if self.failures:
            self.failures -= self.failures > 0
            raise self.error
        answer = self._next_answer(request)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Completion):
            return answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        into = sum(estimate_tokens(message.searchable) for message in request.messages)
        return Completion(text, usage=TokenUsage(into, estimate_tokens(text), estimated=True))

    def _next_answer(self, request: LlmRequest) -> FakeAnswer:
        if callable(self._script):
            return self._script(request)
        if isinstance(self._script, (str, Mapping, Completion, Exception)):
            return self._script
        if not self._script:
            raise ProviderError(f"the fake language model has no answer left for call {len(self.calls)}")
        answer, self._script = self._script[0], self._script[1:]
        return answer


class FakeEmbedder:
    """The same text gives the same vector; different texts give unrelated vectors.

    The first ``failures`` calls fail; -1 fails always. ``calls`` lists the texts of each call, failed ones included.
    """

    def __init__(self, dimension: int = 8, *, name: str | None = None, failures: int = 0) -> None:
        self.dimension = dimension
        self.name = name or f"fake-{dimension}"
        self.failures = failures
        self.error: Exception = ProviderError("the fake embedder is set to fail")
        self.calls: list[tuple[str, ...]] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append(tuple(texts))
        if self.failures:
            self.failures -= self.failures > 0
            raise self.error
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        values: list[float] = []
        for block in range(-(-self.dimension // 32)):
            hashed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32, salt=block.to_bytes(8, "big"))
            values += [byte / 127.5 - 1 for byte in hashed.digest()]  # never 0, so never a zero vector
        return normalize_vector(values[: self.dimension])
