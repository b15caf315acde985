"""What a question says about its answer besides its words: who, when, and whether it asks at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from limpet.search.analysis import extract_terms
from limpet.search.time_expressions import Span, parse_spans

# They say that something is asked, not what about. If a question has no other words they count in full.
_FILLER_WORDS = """
can could some any about not no all just more most very much many up out also get got please tell know let
one like give want need us too here now over such only own same other both each few suggest suggestion suggestions
recommend recommendation recommendations tip tips advice idea ideas help think thinking remind mention mentioned discuss
discussed talk talked chat conversation conversations previous previously earlier said say wondering"""
# They say when, which a date answers and not a text that repeats them.
_TIME_WORDS = """
ago last next past previous yesterday today tomorrow day days week weeks weekend month months year years
monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september
october november december one two three four five six seven eight nine ten eleven twelve couple few"""
_ASKS_WHEN = re.compile(
    r"\bwhen\b|\bwhat (?:date|day|month|year|time)\b|\bhow (?:long|many (?:days|weeks|months|years))\b", re.IGNORECASE
)
_ASKS_BACK = re.compile(
    r"\b(?:first|original(?:ly)?|initial(?:ly)?|previous(?:ly)?|former(?:ly)?|earlier|before|back then|used to"
    r"|at the time|in the beginning|changed?|ago|last (?:week|month|year|time))\b",
    re.IGNORECASE,
)
_ABOUT_ASSISTANT = re.compile(
    r"\b(?:remind me|you (?:\w+ )?(?:said|told|suggested|recommended|gave|mentioned|provided|listed|wrote|described"
    r"|explained|shared|advised|helped|came up|showed|created|made)|(?:did|had|have|were) you"
    r"|your (?:previous |last |earlier )?(?:suggestion|recommendation|advice|answer|reply|response|list|explanation)s?"
    r"|(?:we|we've|we had) (?:\w+ )?(?:discussed|talked|spoke|chatted|went over)"
    r"|our (?:previous|last|earlier|past) \w+)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"^(?:can|could|would|will) you|^(?:please|show|help|suggest|recommend|give|write|explain"
    r"|what (?:are|should|would|libraries|tools)|how (?:should|can|do|would))"
    r"|\b(?:suggest|recommend|advice|tips|ideas|help me)\b",
    re.IGNORECASE,
)


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
        about_assistant = bool(_ABOUT_ASSISTANT.search(text))
        return cls(
            text,
            tuple(extract_terms(text)),
            bool(_ASKS_WHEN.search(text)),
            bool(_ASKS_BACK.search(text)),
            about_assistant,
            not about_assistant and bool(_REQUEST.search(text)),
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

    def find_spans(self, first: datetime, last: datetime) -> list[Span]:
        """The times the question names, among those from which something is stored."""
        return parse_spans(self.text, self.at, range(first.year, last.year + 1))


@cache
def _time_terms() -> frozenset[int]:
    return frozenset(extract_terms(_TIME_WORDS + " " + " ".join(map(str, range(1, 32)))))


@cache
def _filler_terms() -> frozenset[int]:
    return frozenset(extract_terms(_FILLER_WORDS))
