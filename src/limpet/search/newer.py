"""Of the very best hits that say the like of what is asked, the later first: what has changed is found as it is now.

Only what a user told an assistant: there one person speaks of a state of affairs. It moves nothing into the best three
or out of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from limpet.model.chunk import Hit, Signal, SourceKind
from limpet.search.analysis import analyse

_DEPTH = 3
_MIN_QUESTION_SHARE = 0.5  # share of the question's words that the later one must hold
_MIN_OLDER_SHARE = 0.7  # share of the question's words in the older one that the later one must hold too


@dataclass(frozen=True, slots=True)
class _UserStatement:
    hit: Hit
    terms: frozenset[int]
    asked: frozenset[int]

    @property
    def when(self) -> tuple[float, int]:
        """Within one conversation whose messages have one time, their order."""
        return self.hit.source.created_at.timestamp(), self.hit.source.first_sequence or 0


def move_newer_first(hits: Sequence[Hit], question: Collection[int], alike: float) -> list[Hit]:
    """The same hits. One that overtakes an older one of its kind says so, and scores stay in their order."""
    told = [_analyse_hit(hit, question) for hit in hits[:_DEPTH]]
    order: list[int] = []
    for at, later in enumerate(told):
        older = (place for place, other in enumerate(order) if _can_replace(later, told[other], len(question), alike))
        order.insert(next(older, len(order)), at)
    if order == sorted(order):
        return list(hits)
    moved = [_move_hit(hits[at], hits[place].score, overtakes=place < at) for place, at in enumerate(order)]
    return [*moved, *hits[_DEPTH:]]


def _analyse_hit(hit: Hit, question: Collection[int]) -> _UserStatement:
    terms = frozenset(analyse(hit.text).counts)
    return _UserStatement(hit, terms, terms & frozenset(question))


def _can_replace(later: _UserStatement, older: _UserStatement, asked: int, alike: float) -> bool:
    both_told = all(
        told.hit.source.kind is SourceKind.MESSAGE and told.hit.source.role == "user" and told.hit.source.name is None
        for told in (later, older)
    )
    return (
        both_told
        and later.when > older.when
        and len(later.asked) >= _MIN_QUESTION_SHARE * asked
        and len(later.asked & older.asked) >= _MIN_OLDER_SHARE * len(older.asked)
        and len(later.terms & older.terms) >= alike * max(1, min(len(later.terms), len(older.terms)))
    )


def _move_hit(hit: Hit, score: float, *, overtakes: bool) -> Hit:
    signals = {**hit.signals, "newer": Signal(1, 1.0)} if overtakes else hit.signals
    return replace(hit, score=score, signals=signals)
