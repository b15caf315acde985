"""Why a hit was found, in a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping

from limpet.knowledge.prominence import DOUBTED_BY
from limpet.model.chunk import Signal
from limpet.model.record import Record

_VERBS = frozenset("likes dislikes prefers owns eats drinks uses wants speaks plays".split())
_SAID = 5  # of these signals, the first are about what a text says
_SIGNALS = {
    "claim": "it states what is asked",
    "exact": "it has nearly all words of the question",
    "words": "it has words of the question",
    "vectors": "it means something similar",
    "known": "it is known about whom the question is about",
    "time": "it is from the time that the question names",
    "entity": "it names what the question names",
    "community": "it is about the surroundings of what the question names",
    "session": "it was said beside what answers the question",
    "speaker": "it was said by whom the question is about",
}
_BY_WORDS = ("exact", "words")
_LAST = 1 << 62  # behind every rank
_PLACES = {name: place for place, name in enumerate(_SIGNALS)}


def explain_hit(signals: Mapping[str, Signal], claim: Record | None = None, *, shared: bool, holds: bool = True) -> str:
    """One sentence for people. ``shared``: whether it has words of the question."""
    by = _find_reason(signals, shared=shared)
    what = "" if claim is None else _describe(claim)
    if not holds:
        return f"Found because {by}{what}, and no longer holds."
    doubt = "" if claim is None or DOUBTED_BY not in claim.metadata else ", and perhaps no longer holds"
    return f"Found because {by}{what}{doubt}."


def _find_reason(signals: Mapping[str, Signal], *, shared: bool) -> str:
    """What a text says explains a hit better than where and by whom it was said."""
    best, reason = (_LAST, _LAST), "nothing fits better"
    for name, signal in signals.items():
        place = _PLACES.get(name)
        if place is None or not signal.score > 0 or not (shared or name not in _BY_WORDS):
            continue
        found = (signal.rank if place < _SAID else _LAST, place)
        if found < best:
            best, reason = found, _SIGNALS[name]
    return reason


def _describe(claim: Record) -> str:
    """Whose what a claim states, in words: "(Tom's birthday)"."""
    attribute = (claim.attribute or "").partition(":")[0].replace("_", " ")
    role = (claim.subject or "").rpartition("/")[2]
    if not attribute or role in ("", "project", "somebody"):
        return ""
    whose = "the user" if role == "user" else f"the user's {role}" if "/" in (claim.subject or "") else role.title()
    return f" (what {whose} {attribute})" if attribute in _VERBS else f" ({whose}'s {attribute})"
