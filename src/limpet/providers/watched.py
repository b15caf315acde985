"""A language model wrapper that reports requests to observers."""

from __future__ import annotations

from collections.abc import Iterator

from limpet.model.telemetry import Activity, ActivityKind
from limpet.providers.llm import Completion, Llm, LlmRequest, TokenUsage
from limpet.security.telemetry import Measurement, Observers


def split_model_name(name: str) -> tuple[str | None, str]:
    """Split a name such as openai:gpt into provider and model."""
    provider, colon, model = name.partition(":")
    return (provider, model) if colon and provider and model else (None, name)


class TelemetryLlm:
    """Behaves like the wrapped model."""

    def __init__(self, llm: Llm, observers: Observers) -> None:
        self._llm = llm
        self._observers = observers

    def __repr__(self) -> str:
        return repr(self._llm)

    @property
    def name(self) -> str:
        return self._llm.name

    @property
    def model(self) -> str:
        return self._llm.model

    def complete(self, request: LlmRequest) -> Completion:
        if not self._observers.on:
            return self._llm.complete(request)
        with self._observers.measure(self._describe_activity()) as measurement:
            answer = self._llm.complete(request)
            _measure_usage(measurement, answer)
            return answer

    def stream(self, request: LlmRequest) -> Iterator[str | Completion]:
        """Not measured: memory uses whole answers only."""
        return self._llm.stream(request)

    def _describe_activity(self) -> Activity:
        return Activity(kind=ActivityKind.CHAT, name=self._llm.model, provider=split_model_name(self._llm.name)[0])


def _measure_usage(measurement: Measurement, answer: Completion) -> None:
    """Record the usage, unless it is missing, invalid or estimated."""
    usage = getattr(answer, "usage", None)
    if isinstance(usage, TokenUsage) and not usage.estimated:
        measurement.input_tokens, measurement.output_tokens = usage.input_tokens, usage.output_tokens
