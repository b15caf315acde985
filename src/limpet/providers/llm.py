"""The language model interface, its requests and its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from math import isfinite
from time import monotonic
from typing import Any, Protocol

from limpet.errors import ConfigError, InvalidInput, ProviderError
from limpet.model.dataclass import dataclass
from limpet.model.message import Message, ToolCall
from limpet.model.values import check_name, short_repr
from limpet.providers.schema import Schema, check_schema
from limpet.security.telemetry import Activity, ActivityKind, Observers

# Prices per million tokens: input, output, cached input. None are built in: prices change, and a stale one is worse
# than none.
Price = tuple[float, float, float]
Prices = Mapping[str, Price]


class Finish(StrEnum):
    STOP = "stop"
    LENGTH = "length"  # cut off by max_tokens or the context window
    TOOLS = "tools"
    REFUSED = "refused"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool the model may call; ``parameters`` is any JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LlmRequest:
    """``timeout`` covers the whole answer in seconds, including retries and waits. Without a temperature, the server's
    default applies. With a ``schema``, the answer is a JSON object of that form: ``Completion.data``. One that is not
    is requested once more, unless ``strict`` is False: then the caller reads its text.
    """

    messages: tuple[Message, ...]
    max_tokens: int = 1024
    temperature: float | None = None
    timeout: float = 60.0
    tools: tuple[ToolSpec, ...] = ()
    schema: Schema | None = None
    stop: tuple[str, ...] = ()
    strict: bool = True

    def __post_init__(self) -> None:
        for name in ("messages", "tools", "stop"):
            value = getattr(self, name)
            if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Sequence):
                raise InvalidInput(f"{name} must be a list, not {type(value).__name__}")
            object.__setattr__(self, name, tuple(value))
        if not self.messages or {Message} != set(map(type, self.messages)):
            raise InvalidInput("a request needs messages, each made with Message.new")
        if type(self.max_tokens) is not int or self.max_tokens < 1:
            raise InvalidInput(f"max_tokens must be a whole number from 1 up, not {short_repr(self.max_tokens)}")
        if self.temperature is not None and not _is_number(self.temperature, 0, 2):
            raise InvalidInput(f"temperature must be a number from 0 to 2, not {short_repr(self.temperature)}")
        if not _is_number(self.timeout, 0, 1e6) or not self.timeout:
            raise InvalidInput(f"timeout must be a number of seconds above 0, not {short_repr(self.timeout)}")
        if self.schema is not None:
            check_schema(self.schema)
            if self.tools:
                raise InvalidInput("a request has tools or a schema, not both: some servers allow one of them only")


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """``input_tokens`` includes cached tokens. ``cost`` is None if the model's price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    estimated: bool = False  # the server did not report usage

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            None if self.cost is None or other.cost is None else self.cost + other.cost,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """``data`` is the object requested with a schema."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish = Finish.STOP
    usage: TokenUsage = field(default_factory=TokenUsage)
    data: Any = None


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time, of the monotonic clock, until which a model may be waited for, however often it is asked."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(monotonic() + seconds)

    def remaining(self) -> float:
        """Return the seconds left; 0 or less if it has passed."""
        return self.at - monotonic()


class UnusableAnswer(ProviderError):
    """The model answered, and its answer cannot be used: what it cost is known all the same."""

    def __init__(self, message: str, usage: TokenUsage, calls: int = 1) -> None:
        super().__init__(message)
        self.usage = usage
        self.calls = calls


class Llm(Protocol):
    """Every failure is a ProviderError. Safe to share between threads."""

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> str: ...
    def complete(self, request: LlmRequest) -> Completion: ...
    def stream(self, request: LlmRequest) -> Iterator[str | Completion]:
        """Yield text as it arrives, and the completion last. Closing it stops the model. A schema is rejected."""


def build_prompt(text: str, *, system: str = "") -> tuple[Message, ...]:
    """Build the messages of a single question."""
    question = Message.new("user", text)
    return (Message.new("system", system), question) if system else (question,)


def check_llm(value: object) -> None:
    """Raise InvalidInput if the value is not a language model."""
    if value is not None and not all(hasattr(value, name) for name in ("name", "model", "complete", "stream")):
        raise InvalidInput(
            f"a language model needs name, model, complete(request) and stream(request), not {type(value).__name__}"
        )


def check_prices(prices: Prices | None) -> dict[str, Price]:
    for model, price in (prices or {}).items():
        check_name(model, "a model in prices")
        if not _is_price(price):
            raise ConfigError(
                f"the price of {model!r} must be (in, out, cached) per million tokens, not {short_repr(price)}"
            )
    return dict(prices or {})


def parse_price(text: str) -> Price | None:
    """Parse a price setting: "3/15/0.3" for input, output and cached input, "3/15" if cached input costs the same.

    Return None for "none".
    """
    if text.strip() == "none":
        return None
    try:
        parts = [float(part) for part in text.split("/")]
    except ValueError:
        parts = []
    price = tuple(parts if len(parts) != 2 else (*parts, parts[0]))
    if not _is_price(price):
        raise ConfigError(f"llm.price must be none, IN/OUT or IN/OUT/CACHED per million tokens, not {short_repr(text)}")
    return price  # type: ignore[return-value]  # checked above


def _is_price(price: object) -> bool:
    return isinstance(price, (tuple, list)) and len(price) == 3 and all(_is_number(part, 0, 1e6) for part in price)


def compute_cost(usage: TokenUsage, price: Price | None) -> float | None:
    if price is None:
        return None
    for_input, for_output, for_cached = price
    fresh = max(0, usage.input_tokens - usage.cached_tokens)
    return (fresh * for_input + usage.output_tokens * for_output + usage.cached_tokens * for_cached) / 1_000_000


def _is_number(value: object, low: float, high: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value) and low <= value <= high


def split_model_name(name: str) -> tuple[str | None, str]:
    """Split a name such as openai:gpt into provider and model."""
    provider, colon, model = name.partition(":")
    return (provider, model) if colon and provider and model else (None, name)


class LlmWrapper:
    """A model that goes by the names of the one it wraps."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm

    def __repr__(self) -> str:
        return repr(self._llm)

    @property
    def name(self) -> str:
        return self._llm.name

    @property
    def model(self) -> str:
        return self._llm.model


class TelemetryLlm(LlmWrapper):
    """Behaves like the wrapped model, and reports requests to observers."""

    def __init__(self, llm: Llm, observers: Observers) -> None:
        super().__init__(llm)
        self._observers = observers

    def complete(self, request: LlmRequest) -> Completion:
        if not self._observers.on:
            return self._llm.complete(request)
        provider = split_model_name(self._llm.name)[0]
        work = Activity(kind=ActivityKind.CHAT, name=self._llm.model, provider=provider)
        with self._observers.measure(work) as measurement:
            answer = self._llm.complete(request)
            usage = getattr(answer, "usage", None)  # of a program's own model it may be missing or anything
            if isinstance(usage, TokenUsage) and not usage.estimated:
                measurement.input_tokens, measurement.output_tokens = usage.input_tokens, usage.output_tokens
            return answer

    def stream(self, request: LlmRequest) -> Iterator[str | Completion]:
        """Not measured: memory uses whole answers only."""
        return self._llm.stream(request)


class LimitedLlm(LlmWrapper):
    """Not asked any more once it has cost as much as it may in a day. The answer that passes the limit is given."""

    def __init__(self, llm: Llm, limit: float, read: Callable[[], float], add: Callable[[float], None]) -> None:
        """``read`` gives what was spent today, ``add`` counts what an answer cost."""
        super().__init__(llm)
        self._limit, self._read, self._add = limit, read, add

    def complete(self, request: LlmRequest) -> Completion:
        self._check()
        answer = self._llm.complete(request)
        self._count(answer)
        return answer

    def stream(self, request: LlmRequest) -> Iterator[str | Completion]:
        self._check()
        return self._iterate(request)

    def _iterate(self, request: LlmRequest) -> Iterator[str | Completion]:
        for piece in self._llm.stream(request):
            if isinstance(piece, Completion):
                self._count(piece)
            yield piece

    def _check(self) -> None:
        spent = self._read()
        if spent >= self._limit:
            raise ProviderError(
                f"{self.name} is not asked: {spent:.4g} was spent today, and llm.daily_cost is {self._limit:g};"
                " raise it, or wait until midnight, UTC"
            )

    def _count(self, answer: Completion) -> None:
        if cost := answer.usage.cost:
            self._add(cost)
