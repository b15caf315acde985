"""What a question says about its answer besides its words: who, when, and whether it asks at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from limpet.search import english
from limpet.search.analysis import extract_terms


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    terms: tuple[int, ...]
    asks_when: bool
    asks_back: bool  # for what was, not for what is
    about_assistant: bool
    requests: bool
    at: datetime | None

    @classmethod
    def parse(cls, text: str, at: datetime | None) -> Question:
        about_assistant = bool(english.ABOUT_ASSISTANT.search(text))
        return cls(
            text,
            tuple(extract_terms(text)),
            bool(english.ASKS_WHEN.search(text)),
            bool(english.ASKS_BACK.search(text)),
            about_assistant,
            not about_assistant and bool(english.REQUEST.search(text)),
            at,
        )

    def weigh_terms(self, asking: float) -> dict[int, float]:
        """The terms with their weights; words that only ask weigh less beside others."""
        only_asking = _filler_terms()
        if asking == 1.0 or all(term in only_asking for term in self.terms):
            return dict.fromkeys(self.terms, 1.0)
        return {term: asking if term in only_asking else 1.0 for term in self.terms}

    def find_optional_terms(self, names: Sequence[str]) -> frozenset[int]:
        """Terms whose absence from a text does not mean that it is about something else: names and times."""
        return frozenset(extract_terms(" ".join(names))) | _time_terms()

    def find_names(self, names: Sequence[str]) -> list[int]:
        """The numbers of the names that stand in the question."""
        text = self.text.casefold()  # most names are not there at all, and that is quick to see
        return [
            number
            for number, name in enumerate(names)
            if name.casefold() in text and re.search(rf"\b{re.escape(name)}\b", self.text, re.IGNORECASE)
        ]

    def find_spans(self, first: datetime, last: datetime) -> list[english.Span]:
        """The times the question names, among those from which something is stored."""
        return english.parse_spans(self.text, self.at, range(first.year, last.year + 1))


@cache
def _time_terms() -> frozenset[int]:
    return frozenset(extract_terms(english.TIME_WORDS + " " + " ".join(map(str, range(1, 32)))))


@cache
def _filler_terms() -> frozenset[int]:
    return frozenset(extract_terms(english.FILLER_WORDS))
