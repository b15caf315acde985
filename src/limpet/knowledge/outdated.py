"""What a later statement may have made untrue, as far as a question goes.

"Third week with the tree firm, my arms are dead" shares nothing with "The user is on the tills at a supermarket". The
question "Which stretches are right for what I do all day?" is about both. So what is known is looked through again when
it is asked for. training/change/fit.py fits the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from math import exp, isfinite, log
from typing import Any

from limpet.knowledge import english
from limpet.knowledge.prominence import DOUBT, DOUBTED_BY, FOLLOWS, TELLS
from limpet.model.dataclass import replace
from limpet.model.record import CLAIM_TYPES, Origin, Record
from limpet.model.text_cache import cache_texts
from limpet.providers.encoder import embed_text

_WEIGHTS, _BIAS = (0.501, 0.695, -7.06, 3.39, 3.29, 1.62), -1.32  # in the order of measure_doubt
_ALONE = 0.15  # similarity that a lone claim has to beat
_MOST_TOLD = 20.0  # beyond it is no logit of ours
_FOLLOWS = 0.1  # how likely a statement takes back what it follows, where no more is known
_MARKED, _CAUTION = 0.25, 0.2  # probability from which a claim is marked; so much more where a mistake costs most
_VITAL = frozenset({"allergy", "health", "medication"})
_NEAR_ENOUGH = 0.1  # similarity that a question has to what it is about
_UNASKED = 0.1  # below it a question is not about what is doubted
_MESSAGE = 0.03  # how likely a later statement takes back a message that nothing was learned from
_LEARNED = (Origin.EXTRACTED, Origin.PROMOTED)

_find_topics = cache_texts(1 << 12)(english.find_topics)  # of a claim, for each question


def mark_outdated(question: str, claims: Iterable[Record]) -> list[Record]:
    """Return the claims; those that a later one of them may have made untrue name it, as doubted ones do.

    How likely it has, in their metadata, is so as far as this question goes, for those that were doubted before too.
    """
    known = list(claims)
    later = [(each, told) for each in known if (told := _find_told(each)) is not None and _is_current(each)]
    if not question.strip() or not (later or any(DOUBTED_BY in each.metadata for each in known)):
        return known
    asked = _Asked(question, known)
    judged = [_judge_again(each, asked) for each in known]
    return [_mark(each, later, asked) if _can_be_outdated(each) else each for each in judged]


class _Asked:
    """How near the claims are to a question and to each other."""

    def __init__(self, question: str, claims: Sequence[Record], message: str = "") -> None:
        import numpy as np

        self.by_id = {each.id: each for each in claims}
        self._at = {id: at for at, id in enumerate(self.by_id)}
        texts = [each.content for each in self.by_id.values()]
        texts += [message] if message else []
        vectors = np.array([embed_text(text) for text in texts])
        self._near = (vectors @ embed_text(question)).tolist()
        self._alike = (vectors @ vectors.T).tolist()
        self._topics = [_find_topics(text) for text in texts]
        self._times = [_get_time(each) for each in self.by_id.values()]
        self._best = max(self._near)
        self._likest: dict[int, list[tuple[float, int]]] = {}

    def get_near(self, claim: Record) -> float:
        return float(self._near[self._at[claim.id]])

    def measure(self, likely: float, told: float, claim: Record | None, later: Record) -> float:
        """Return how likely a claim is untrue since the later one; without a claim, the message is."""
        at, by = len(self._topics) - 1 if claim is None else self._at[claim.id], self._at[later.id]
        others = (alike for alike, other in self._find_likest(by) if claim is None or other != at)
        own = self._alike[at][by] - next(others, _ALONE)
        same = not self._topics[at].isdisjoint(self._topics[by])
        return measure_doubt(likely, told, self._best - self._near[at], self._near[by], own, float(same))

    def _find_likest(self, by: int) -> list[tuple[float, int]]:
        """The two claims said before a later one that are most like it."""
        if by not in self._likest:
            before = ((self._alike[at][by], at) for at, time in enumerate(self._times) if time < self._times[by])
            self._likest[by] = nlargest(2, before)
        return self._likest[by]


def is_unasked(metadata: Mapping[str, Any]) -> bool:
    """Return whether a claim or a hit with this metadata is doubted and the question that marked it is not about it."""
    doubt = _read_number(metadata.get(DOUBT, "")) if DOUBTED_BY in metadata else None
    return doubt is not None and doubt < _UNASKED


def find_doubt(question: str, said: str, said_at: datetime, claims: Iterable[Record]) -> str | None:
    """Return the id of the later claim that may have made untrue what a message says that taught nothing."""
    known = list(claims)
    later = [
        (each, told)
        for each in known
        if (told := _find_told(each)) is not None and _is_current(each) and _get_time(each) > said_at.timestamp()
    ]
    if not later or not question.strip():
        return None
    asked = _Asked(question, known, said)
    doubt, by = max((asked.measure(_MESSAGE, told, None, each), each.id) for each, told in later)
    return by if doubt >= _MARKED else None


def _judge_again(claim: Record, asked: _Asked) -> Record:
    """The claim with how likely it is untrue as far as the question goes, where it was doubted when it was read."""
    later = asked.by_id.get(claim.metadata.get(DOUBTED_BY, ""))
    likely = _read_number(claim.metadata.get(DOUBT, ""))
    if later is None or likely is None or claim.origin not in _LEARNED:
        return claim
    if max(asked.get_near(claim), asked.get_near(later)) < _NEAR_ENOUGH:
        doubt = 0.0
    else:
        doubt = asked.measure(min(max(likely, 0.0), 1.0), _find_told(later) or 0.0, claim, later)
    return replace(claim, metadata={**claim.metadata, DOUBT: f"{doubt:.2f}"})


def _mark(claim: Record, later: Sequence[tuple[Record, float]], asked: _Asked) -> Record:
    scored = [
        (asked.measure(_FOLLOWS if _follows(each, claim) else 0.0, told, claim, each), each.id)
        for each, told in later
        if _get_time(each) > _get_time(claim) and _get_message(each) != _get_message(claim)
    ]
    doubt, by = max(scored, default=(0.0, ""))
    if doubt < _MARKED + _CAUTION * (claim.attribute in _VITAL):
        return claim
    return replace(claim, metadata={**claim.metadata, DOUBTED_BY: by, DOUBT: f"{doubt:.2f}"})


def measure_doubt(likely: float, told: float, behind: float, near: float, own: float, same: float) -> float:
    """Return how likely a later claim has made an earlier one untrue.

    ``likely``: what the model of change says of the two. ``told``: how surely the later message tells of a change.
    ``behind``: how much farther from the question the claim is than the nearest one. ``near``: how near the question
    the later one is. ``own``: how much more the later one is like the claim than like what else was known. ``same``: 1
    if both are about something people mostly have one of.
    """
    odds = log((likely + 0.01) / (1.01 - likely))
    features = (odds, told, behind, near, own, same)
    return 1 / (1 + exp(-(_BIAS + sum(weight * each for weight, each in zip(_WEIGHTS, features, strict=True)))))


def tells_of_change(record: Record) -> bool:
    """Return whether a record was learned from a message that may tell of a change."""
    told = _find_told(record)
    return told is not None and told >= 0


def _find_told(record: Record) -> float | None:
    """The logit that learning noted."""
    told = _read_number(record.metadata.get(TELLS, "")) if record.origin in _LEARNED else None
    return told if told is not None and abs(told) <= _MOST_TOLD else None


def _read_number(text: str) -> float | None:
    """A number of ours. Programs may write any metadata of their own."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _follows(later: Record, claim: Record) -> bool:
    return claim.id in later.metadata.get(FOLLOWS, "").split()


def _get_message(record: Record) -> object:
    return (record.source.session_id, record.source.sequences) if record.source.sequences else record.id


def _can_be_outdated(record: Record) -> bool:
    learned = record.origin in _LEARNED and not record.pinned and record.type in CLAIM_TYPES
    return learned and _is_current(record) and DOUBTED_BY not in record.metadata


def _is_current(record: Record) -> bool:
    return record.superseded_by is None and record.valid_to is None


def _get_time(record: Record) -> float:
    moment = record.valid_from or record.created_at
    return 0.0 if moment is None else moment.timestamp()
