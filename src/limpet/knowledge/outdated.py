"""What a later statement may have made untrue, as far as a question goes.

"Third week with the tree firm, my arms are dead" shares nothing with "The user is on the tills at a supermarket". The
question "Which stretches are right for what I do all day?" is about both. So what is known is looked through again when
it is asked for. training/change/fit.py fits the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log

from limpet.knowledge.prominence import DOUBT, DOUBTED_BY, FOLLOWS, TELLS
from limpet.model.dataclass import replace
from limpet.model.record import CLAIM_TYPES, Origin, Record
from limpet.providers.encoder import embed_text

_LIKELY, _TELLS, _BEHIND, _NEAR, _BIAS = 0.809, 0.566, -7.22, 3.23, -0.766  # weights, in the order of measure_doubt
_FOLLOWS = 0.1  # how likely a statement takes back what it follows, where no more is known
_MARKED, _CAUTION = 0.2, 0.2  # probability from which a claim is marked; so much more where a mistake costs most
_VITAL = frozenset({"allergy", "health", "medication"})
_LEARNED = (Origin.EXTRACTED, Origin.PROMOTED)


def mark_outdated(question: str, claims: Iterable[Record]) -> list[Record]:
    """Return the claims; those that a later one of them may have made untrue name it, as doubted ones do."""
    known = list(claims)
    later = [each for each in known if TELLS in each.metadata and _is_current(each)]
    if not later or not question.strip():
        return known
    asked = embed_text(question)
    near = {each.id: float(embed_text(each.content) @ asked) for each in known}
    best = max(near.values())
    return [_mark(each, later, near, best) if _can_be_outdated(each) else each for each in known]


def _mark(claim: Record, later: Sequence[Record], near: Mapping[str, float], best: float) -> Record:
    since = [each for each in later if _get_time(each) > _get_time(claim) and each.source != claim.source]
    scored = [(measure_doubt(claim, each, best - near[claim.id], near[each.id]), each.id) for each in since]
    doubt, by = max(scored, default=(0.0, ""))
    if doubt < _MARKED + _CAUTION * (claim.attribute in _VITAL):
        return claim
    return replace(claim, metadata={**claim.metadata, DOUBTED_BY: by, DOUBT: f"{doubt:.2f}"})


def measure_doubt(claim: Record, later: Record, behind: float, near: float) -> float:
    """Return how likely the later claim has made the other untrue.

    ``behind``: how much farther from the question the claim is than the nearest one. ``near``: how near the question
    the later one is. The model of change says whether it follows the claim, and how surely it tells of a change.
    """
    likely = _FOLLOWS if claim.id in later.metadata.get(FOLLOWS, "").split() else 0.0
    odds = log((likely + 0.01) / (1.01 - likely))
    told = float(later.metadata[TELLS])
    return 1 / (1 + exp(-(_LIKELY * odds + _TELLS * told + _BEHIND * behind + _NEAR * near + _BIAS)))


def _can_be_outdated(record: Record) -> bool:
    learned = record.origin in _LEARNED and not record.pinned and record.type in CLAIM_TYPES
    return learned and _is_current(record) and DOUBTED_BY not in record.metadata


def _is_current(record: Record) -> bool:
    return record.superseded_by is None and record.valid_to is None


def _get_time(record: Record) -> float:
    moment = record.valid_from or record.created_at
    return 0.0 if moment is None else moment.timestamp()
