"""What a later statement may have made untrue, as far as a question goes.

"Third week with the tree firm, my arms are dead" shares nothing with "The user is on the tills at a supermarket". The
question "Which stretches are right for what I do all day?" is about both. So what is known is looked through again when
it is asked for. training/change/fit.py fits the weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING

from limpet.knowledge import english
from limpet.knowledge.prominence import DOUBT, DOUBTED_BY, FOLLOWS, TELLS
from limpet.knowledge.similarity import compute_signature, find_content_stems, find_name_stems
from limpet.model.dataclass import replace
from limpet.model.late import lazy_property
from limpet.model.record import CLAIM_TYPES, Origin, Record
from limpet.model.text_cache import cache_texts
from limpet.providers.encoder import embed_text

if TYPE_CHECKING:
    from limpet.store.tx import Array

_WEIGHTS = (0.452, 0.682, -6.44, 2.92, 3.13, 1.61, 0.85)  # in the order of measure_doubt
_BIAS = -1.80
_ALONE = 0.15  # similarity that a lone claim has to beat
_MOST_TOLD = 20.0  # beyond it is no logit of ours
_FOLLOWS = 0.1  # how likely a statement takes back what it follows, where no more is known
_MARKED, _CAUTION = 0.25, 0.2  # probability from which a claim is marked; so much more where a mistake costs most
_VITAL = frozenset({"allergy", "health", "medication"})
_MESSAGE = 0.03  # how likely a later statement takes back a message that nothing was learned from
_REFERS = re.compile(r"(?:he|she|it|they|that|this|there)\b", re.IGNORECASE)
_ALIKE = 0.1  # similarity from which a message may be about a claim with which it has no word in common
_LEARNED = (Origin.EXTRACTED, Origin.PROMOTED)


def mark_outdated(question: str, claims: Iterable[Record]) -> list[Record]:
    """Return the claims; those that a later one of them may have made untrue name it, as doubted ones do."""
    known = list(claims)
    told = [find_told(each) if _is_current(each) else None for each in known]
    if not question.strip() or not any(each is not None for each in told):
        return known
    pairs = _Pairs(question, known)
    doubts = pairs.measure(_find_likely(known), [find_told(each) or 0.0 for each in known])
    later = pairs.find_earlier(known) & [each is not None for each in told]
    best = (doubts * later).argmax(axis=1).tolist()
    marks = {
        at: _mark(question, each, float(doubts[at, by]), known[by])
        for at, (each, by) in enumerate(zip(known, best, strict=True))
        if later[at, by] and _can_be_outdated(each)
    }
    for at in [at for at, each in marks.items() if each is not known[at]]:
        beside = [other for other, each in enumerate(known) if is_told_beside(known[at], each)]
        if (pairs.alike[beside, best[at]] > pairs.alike[at, best[at]]).any():
            marks[at] = known[at]  # it is about another fact of the same sentence
    marked = [each for at, each in marks.items() if each is not known[at]]
    for at in marks if marked else ():
        if other := next((each for each in marked if is_said_with(each, known[at])), None):
            marks[at] = _add_doubt(marks[at], other.metadata[DOUBTED_BY], other.metadata[DOUBT])
    return [marks.get(at, each) for at, each in enumerate(known)]


def may_concern(later: str, *earlier: str) -> bool:
    """Whether a text has anything to do with one said before: a plain sign of a change, or a word, a topic or some
    meaning in common. What has none of these is about something else, however surely it tells of a change."""
    if english.has_change_sign(later):
        return True
    stems, topics, vector = find_content_stems(later), _find_topics(later), embed_text(later)
    return any(
        not stems.isdisjoint(find_content_stems(each))
        or not topics.isdisjoint(_find_topics(each))
        or float(vector @ embed_text(each)) >= _ALIKE
        for each in earlier
    )


def is_told_beside(one: Record, other: Record) -> bool:
    """Whether both are facts of one sentence that have nothing to do with each other: "I'm a nurse and I keep bees"."""
    if one.id == other.id or not one.source.sequences or _get_message(one) != _get_message(other):
        return False
    if find_content_stems(one.content) & find_content_stems(other.content):
        return False
    both = (one, other)
    if all((each.source.sentence or "").rstrip().endswith((".", "!", "?")) for each in both):
        return False
    return not any(english.is_quote(each.content) or _REFERS.match(each.content) for each in both)


def is_said_with(one: Record, other: Record) -> bool:
    """Whether both say something of the same person or thing in one message: "My manager is Priyanka, she signs it"."""
    if one.id == other.id or not one.source.sequences or _get_message(one) != _get_message(other):
        return False
    return bool(find_name_stems(one.content) & find_name_stems(f"- {other.content}"))


def _find_likely(claims: Sequence[Record]) -> Array:
    """What learning noted of each pair of an earlier and a later claim."""
    import numpy as np

    places = {each.id: at for at, each in enumerate(claims)}
    likely = np.zeros((len(claims), len(claims)))
    for by, each in enumerate(claims):
        likely[[places[id] for id in each.metadata.get(FOLLOWS, "").split() if id in places], by] = _FOLLOWS
    return likely


class _Pairs:
    """How near claims are to a question and to each other: rows are what was said before, columns what came later.

    Products are computed pair by pair: one of matrices runs in threads, which wait in busy loops for longer.
    """

    def __init__(self, question: str, claims: Sequence[Record]) -> None:
        import numpy as np

        self._asked = embed_text(question)
        self._vectors = np.array([embed_text(each.content) for each in claims])
        self.near = np.vecdot(self._vectors, self._asked)
        times = np.array([_get_time(each) for each in claims])
        self._earlier = times[:, None] < times
        self.alike = np.vecdot(self._vectors[:, None], self._vectors)
        self._before = np.where(self._earlier, self.alike, -np.inf)
        self._about: dict[str, Array] = {}  # which claims are about each topic
        for at, each in enumerate(claims):
            for topic in _find_topics(each.content):
                self._about.setdefault(topic, np.zeros(len(claims), dtype=bool))[at] = True
        numbers = {at: compute_signature(each.content).numbers for at, each in enumerate(claims)}
        self._numbers = {at: each for at, each in numbers.items() if each}

    def find_earlier(self, claims: Sequence[Record]) -> Array:
        """Which were said before which, in another message."""
        import numpy as np

        messages: dict[object, int] = {}
        said_in = np.array([messages.setdefault(_get_message(each), len(messages)) for each in claims])
        earlier: Array = self._earlier & (said_in[:, None] != said_in)
        return earlier

    def measure(self, likely: Array, told: Sequence[float]) -> Array:
        """Return how likely each claim is untrue since each later one."""
        import numpy as np

        own, same = self.alike - _find_likest_other(self._before), np.zeros(self.alike.shape, dtype=bool)
        for about in self._about.values():
            same[about] |= about
        number = np.zeros(self.alike.shape)
        for at, each in self._numbers.items():
            number[at] = self._find_other_numbers(each)
        behind = self.near.max() - self.near
        return measure_doubt(likely, np.array(told), behind[:, None], self.near, own, same, number)

    def measure_message(self, text: str, told: Sequence[float]) -> Array:
        """Return how likely a message that taught nothing is untrue since each claim."""
        import numpy as np

        vector, same = embed_text(text), np.zeros(len(told), dtype=bool)
        for topic in _find_topics(text) & self._about.keys():
            same |= self._about[topic]
        near = np.vecdot(vector, self._asked)
        own = np.vecdot(self._vectors, vector) - _or_alone(self._before.max(axis=0))
        behind = max(self.near.max(), near) - near
        number = self._find_other_numbers(compute_signature(text).numbers)
        return measure_doubt(np.full(len(told), _MESSAGE), np.array(told), behind, self.near, own, same, number)

    def _find_other_numbers(self, numbers: frozenset[str]) -> Array:
        """Which claims have a number that is not among these, if there are any."""
        import numpy as np

        found = np.zeros(len(self.near))
        for at, each in self._numbers.items() if numbers else ():
            found[at] = not each <= numbers
        return found


def _find_likest_other(before: Array) -> Array:
    """For each row, how much each later claim is like the likest claim before it that is another one."""
    import numpy as np

    first = before.argmax(axis=0)
    columns = np.arange(before.shape[1])
    likest = np.repeat(before[first, columns][None], len(before), axis=0)
    others = before.copy()
    others[first, columns] = -np.inf
    likest[first, columns] = others.max(axis=0)
    return _or_alone(likest)


def _or_alone(likest: Array) -> Array:
    import numpy as np

    return np.where(np.isfinite(likest), likest, _ALONE)


class MessageDoubts:
    """What was said later about a question, and may have made messages untrue that taught nothing."""

    def __init__(self, question: str, claims: Iterable[Record]) -> None:
        self._question, self._known = question, list(claims)
        told = ((at, find_told(each)) for at, each in enumerate(self._known) if _is_current(each))
        self._told = {at: each for at, each in told if each is not None}

    @lazy_property
    def _pairs(self) -> _Pairs:
        return _Pairs(self._question, self._known)

    def find(self, said: str, said_at: datetime) -> str | None:
        """Return the id of the later claim that may have made untrue what a message says."""
        later = [at for at in self._told if _get_time(self._known[at]) > said_at.timestamp()]
        if not later or not self._question.strip():
            return None
        told = [self._told.get(at, 0.0) for at in range(len(self._known))]
        doubts = self._pairs.measure_message(said, told)
        by = max(later, key=lambda at: float(doubts[at]))
        return self._known[by].id if doubts[by] >= _MARKED else None


def _mark(question: str, claim: Record, doubt: float, by: Record) -> Record:
    if doubt < _MARKED + _CAUTION * (claim.attribute in _VITAL) or not may_concern(by.content, claim.content, question):
        return claim
    return _add_doubt(claim, by.id, f"{doubt:.2f}")


def _add_doubt(claim: Record, by: str, doubt: str) -> Record:
    if DOUBTED_BY in claim.metadata:
        return claim
    return replace(claim, metadata={**claim.metadata, DOUBTED_BY: by, DOUBT: doubt})


@cache_texts(1 << 12)  # of a claim, for each question
def _find_topics(text: str) -> frozenset[str]:
    return english.find_topics(text)


def measure_doubt(
    likely: Array, told: Array, behind: Array, near: Array, own: Array, same: Array, number: Array
) -> Array:
    """Return how likely later claims have made earlier ones untrue.

    ``likely``: what the model of change says of the two. ``told``: how surely the later message tells of a change.
    ``behind``: how much farther from the question the claim is than the nearest one. ``near``: how near the question
    the later one is. ``own``: how much more the later one is like the claim than like what else was known. ``same``: 1
    if both are about something people mostly have one of. ``number``: 1 if the earlier one has a number, and the later
    one another.
    """
    import numpy as np

    features = (np.log((likely + 0.01) / (1.01 - likely)), told, behind, near, own, same, number)
    total = sum((weight * each for weight, each in zip(_WEIGHTS, features, strict=True)), start=np.array(_BIAS))
    doubts: Array = 1 / (1 + np.exp(-total))
    return doubts


def find_told(record: Record) -> float | None:
    """How surely the message of a claim tells of a change, as a logit: what learning noted."""
    told = _read_number(record.metadata.get(TELLS, "")) if record.origin in _LEARNED else None
    return told if told is not None and abs(told) <= _MOST_TOLD else None


def _read_number(text: str) -> float | None:
    """A number of ours. Programs may write any metadata of their own."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


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
