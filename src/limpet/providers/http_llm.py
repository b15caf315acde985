"""The base of HTTP language models: one deadline, retries, unsupported fields, structured answers, cost."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import ClassVar, Protocol, Unpack

from limpet.errors import ConfigError, InvalidInput, ProviderError
from limpet.model.dataclass import replace
from limpet.model.message import Message
from limpet.model.tokens import estimate_tokens
from limpet.providers.http import ADVICE, Endpoint, HttpFailure, JsonAnswer, RetryOptions, parse_json
from limpet.providers.llm import Completion, Finish, LlmRequest, Prices, TokenUsage, check_prices, compute_cost
from limpet.providers.schema import Schema, describe_schema
from limpet.providers.structured import clean_text, request_object

log = logging.getLogger("limpet.providers")

_MAX_BYTES = 16 << 20
_ADVICE = {
    **ADVICE,
    400: "check the model's name and whether the messages fit its window",
    413: "the messages are too long for it",
}
RefusedFields = frozenset[str]  # request fields that the server does not accept


class LlmOptions(RetryOptions, total=False):
    prices: Prices | None  # by model, per million tokens: in, out, cached


class StreamAssembler(Protocol):
    """Assembles the events of a streamed answer. Raises ValueError for what it cannot parse."""

    @property
    def is_done(self) -> bool: ...
    def feed(self, event: JsonAnswer) -> str:
        """Add an event and return its text."""

    def completion(self) -> Completion | None:
        """Return the completion, or None until the answer is complete."""


class HttpLlm:
    """Subclasses build the request body and parse the answer of their API."""

    kind: ClassVar[str]
    # A request field, and the name an error uses for it when the server does not accept it; the field is then left out.
    concessions: ClassVar[Mapping[str, tuple[str, ...]]]
    streaming: ClassVar[Mapping[str, object]] = {}  # fields of streamed requests only
    assembler: ClassVar[type[StreamAssembler]]
    unfinished: ClassVar[str]  # what is wrong with an answer that is not complete

    def __init__(
        self,
        base_url: str,
        path: str,
        model: str,
        headers: Mapping[str, str],
        secret: str | None,
        prices: Prices | None = None,
        **options: Unpack[RetryOptions],
    ) -> None:
        if not model.strip():
            raise ConfigError("a language model needs a model name")
        self._model = model
        self._prices = check_prices(prices)
        about = "language model"
        self._endpoint = Endpoint(about, base_url, path, headers, secret, _ADVICE, _MAX_BYTES, **options)
        self._refused: RefusedFields = frozenset()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._endpoint.origin!r}, {self._model!r})"

    @property
    def name(self) -> str:
        return f"{self.kind}:{self._model}"

    @property
    def model(self) -> str:
        return self._model

    def complete(self, request: LlmRequest) -> Completion:
        until = time.monotonic() + request.timeout
        return request_object(request, lambda sent: self._complete_until(sent, until), self.name)

    def stream(self, request: LlmRequest) -> Iterator[str | Completion]:
        if request.schema is not None:
            raise InvalidInput("an answer with a schema cannot be streamed; use complete")
        return self._stream_until(request, time.monotonic() + request.timeout)

    def _build_body(self, request: LlmRequest, refused: RefusedFields) -> dict[str, object]:
        raise NotImplementedError

    def _parse_answer(self, answer: JsonAnswer, request: LlmRequest) -> Completion:
        """Parse the answer, with usage but without cost. Raises ValueError."""
        stream = self.assembler()
        stream.feed(answer)
        whole = stream.completion()
        if whole is None:
            raise ValueError(self.unfinished)
        return whole

    def _complete_until(self, request: LlmRequest, until: float) -> Completion:
        while True:
            fields = self._build_body(request, self._refused)
            try:
                answer = self._endpoint.post(fields, request.timeout, until)
                return self._check_completion(self._parse_answer(answer, request), request)
            except HttpFailure as failure:
                self._drop_field_or_raise(failure, fields, request.timeout)
            except ValueError as error:
                raise self._unreadable_error(error) from None

    def _stream_until(self, request: LlmRequest, until: float) -> Generator[str | Completion]:
        while True:
            fields = {**self._build_body(request, self._refused), **self.streaming, "stream": True}
            fields = {name: value for name, value in fields.items() if name not in self._refused}
            try:
                stream = self.assembler()
                with closing(self._endpoint.stream(fields, request.timeout, until)) as events:
                    yield from _iter_text(stream, events)
                yield self._check_completion(_require_completion(stream), request)
                return
            except HttpFailure as failure:
                self._drop_field_or_raise(failure, fields, request.timeout)
            except ValueError as error:
                raise self._unreadable_error(error) from None

    def _drop_field_or_raise(self, failure: HttpFailure, fields: Mapping[str, object], timeout: float) -> None:
        """Drop a field that the server rejected. Servers differ in what they accept; the error text says so."""
        reply = failure.said.lower()
        for field, words in self.concessions.items():
            if failure.status in {400, 422} and field in fields and any(word in reply for word in words):
                log.warning(
                    "%s at %s does not accept %s; the field is left out from now on",
                    self.name,
                    self._endpoint.origin,
                    field,
                )
                self._refused |= {field}
                return
        if failure.late:
            failure.what = f"did not answer within {timeout:g} seconds"
        raise self._endpoint.to_error(failure) from None

    def _check_completion(self, read: Completion, request: LlmRequest) -> Completion:
        text = clean_text(read.text)
        if not (text.strip() or read.tool_calls or read.data or read.finish is Finish.REFUSED or request.schema):
            advice = (
                "raise max_tokens" if read.finish is Finish.LENGTH else "rephrase the request, or use another model"
            )
            raise ProviderError(f"{self.name} gave an empty answer: {advice}")
        usage = read.usage if read.usage.input_tokens or read.usage.output_tokens else _estimate_usage(request, read)
        usage = replace(usage, cost=compute_cost(usage, self._prices.get(self._model)))
        return replace(read, text=text, usage=usage)

    def _unreadable_error(self, error: ValueError) -> ProviderError:
        return ProviderError(
            self._endpoint.mask_secret(
                f"the language model at {self._endpoint.origin} did not answer with a completion: {error}. "
                f"Check that the address belongs to an API of the kind {self.kind!r}"
            )
        )


def add_schema_text(request: LlmRequest, schema: Schema) -> tuple[Message, ...]:
    """Return the messages with the schema described in text, for servers without a field for it.

    The description comes last: small models ignore instructions about form in a system message.
    """
    *before, last = request.messages
    if last.role == "user":
        return (*before, Message.new("user", f"{last.text}\n\n{describe_schema(schema)}"))
    return (*request.messages, Message.new("user", describe_schema(schema)))


def token_count(usage: object, name: str) -> int:
    """Return a number of tokens; 0 if the server reports none."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12 else 0


def _iter_text(stream: StreamAssembler, events: Iterable[str]) -> Iterator[str]:
    for data in events:
        if data.strip() == "[DONE]":
            return
        if data.strip() and (piece := clean_text(stream.feed(parse_json(data)))):
            yield piece
        if stream.is_done:  # do not wait for the connection to close: some servers keep it open
            return


def _require_completion(stream: StreamAssembler) -> Completion:
    whole = stream.completion()
    if whole is None:
        raise HttpFailure("stopped in the middle of its answer", passing=True)
    return whole


def _estimate_usage(request: LlmRequest, read: Completion) -> TokenUsage:
    into = sum(estimate_tokens(message.searchable) for message in request.messages)
    return TokenUsage(into, estimate_tokens(read.text), estimated=True)
