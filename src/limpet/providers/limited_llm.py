"""A language model that is not asked any more once it has cost as much as it may in a day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from limpet.errors import ProviderError
from limpet.providers.llm import Completion, Llm, LlmRequest, LlmWrapper


class Spending(Protocol):
    def read(self) -> float:
        """What was spent today."""

    def add(self, cost: float) -> None:
        """Count what an answer cost."""


class LimitedLlm(LlmWrapper):
    """Behaves like the wrapped model up to the limit. The answer that passes it is still given."""

    def __init__(self, llm: Llm, limit: float, spending: Spending) -> None:
        super().__init__(llm)
        self._limit = limit
        self._spending = spending

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
        spent = self._spending.read()
        if spent >= self._limit:
            raise ProviderError(
                f"{self.name} is not asked: {spent:.4g} was spent today, and llm.daily_cost is {self._limit:g};"
                " raise it, or wait until midnight, UTC"
            )

    def _count(self, answer: Completion) -> None:
        cost = answer.usage.cost
        if cost:
            self._spending.add(cost)
