"""What a question says besides its words: who, when, and what kind of question it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache

from limpet.model.dataclass import dataclass
from limpet.search import english
from limpet.search.analysis import extract_terms


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    terms: tuple[int, ...]
    asks_when: bool
    asks_back: bool  # asks for the past, not the present
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
        """Return the terms with their weights; filler words weigh less if there are others."""
        only_asking = _filler_terms()
        if asking == 1.0 or all(term in only_asking for term in self.terms):
            return dict.fromkeys(self.terms, 1.0)
        return {term: asking if term in only_asking else 1.0 for term in self.terms}

    def find_optional_terms(self, names: Sequence[str]) -> frozenset[int]:
        """Return terms that a relevant text may lack: names and times."""
        return frozenset(extract_terms(" ".join(names))) | _time_terms()

    def find_names(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of the names in the question."""
        text = self.text.casefold()  # fast check: most names do not occur
        return [
            number
            for number, name in enumerate(names)
            if name.casefold() in text and re.search(rf"\b{re.escape(name)}\b", self.text, re.IGNORECASE)
        ]

    def find_spans(self, first: datetime, last: datetime) -> list[english.Span]:
        """Return the times the question names, within the range of what is stored."""
        return english.parse_spans(self.text, self.at, range(first.year, last.year + 1))


@cache
def _time_terms() -> frozenset[int]:
    return frozenset(extract_terms(english.TIME_WORDS + " " + " ".join(map(str, range(1, 32)))))


@cache
def _filler_terms() -> frozenset[int]:
    return frozenset(extract_terms(english.FILLER_WORDS))
