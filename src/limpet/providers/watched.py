"""A language model whose requests are told to observers."""

from __future__ import annotations

from collections.abc import Iterator

from limpet.model.telemetry import Kind, Work
from limpet.providers.llm import Completion, Llm, LlmRequest, TokenUsage
from limpet.security.telemetry import Observers, Seen


def named(name: str) -> tuple[str | None, str]:
    """The provider and the model of a name such as openai:gpt."""
    provider, colon, model = name.partition(":")
    return (provider, model) if colon and provider and model else (None, name)


class WatchedLlm:
    """The same model: it answers, fails and is called as without."""

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
        with self._observers.during(self._work()) as seen:
            answer = self._llm.complete(request)
            _note(seen, answer)
            return answer

    def stream(self, request: LlmRequest) -> Iterator[str | Completion]:
        """Memory asks for whole answers only; whoever streams watches for themselves."""
        return self._llm.stream(request)

    def _work(self) -> Work:
        return Work(kind=Kind.CHAT, name=self._llm.model, provider=named(self._llm.name)[0])


def _note(seen: Seen, answer: Completion) -> None:
    """Anybody's model may answer with anything: what is no usage is none, and neither is one that was guessed."""
    usage = getattr(answer, "usage", None)
    if isinstance(usage, TokenUsage) and not usage.estimated:
        seen.input_tokens, seen.output_tokens = usage.input_tokens, usage.output_tokens
