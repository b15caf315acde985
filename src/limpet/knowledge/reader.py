"""The local reader: a small trained model that says of each clause whether it states something worth keeping, and what.

The scripts in training/reader train it on labelled conversations; here it runs on numpy. ``read`` says how sure it is
and decides nothing: a caller compares ``keep`` with the thresholds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from limpet.knowledge.segment import split_clauses
from limpet.model.dataclass import dataclass
from limpet.model.late import load_modules

if TYPE_CHECKING:
    from limpet.knowledge.reader_network import ReaderNetwork, Scores

    Span = tuple[int, int]

__all__ = ["DOUBTFUL", "SHOWN", "SHOWN_VITAL", "SURE", "Reader", "Reading", "default_reader", "split_clauses"]

KINDS = ("fact", "preference", "constraint", "instruction", "decision", "plan", "event", "relationship", "goal")
STATUSES = ("holds", "ended", "past", "planned", "passing", "corrected")
ATTRIBUTES = tuple(
    """name pronouns age birthday home origin nationality language employer role school studies partner family child pet
    friend allergy health medication diet likes dislikes hobby sport vehicle possession device tools project decision
    deadline plan trip routine availability budget finance assistant_style assistant_rule belief event contact
    membership skill goal other""".split()
)

# ``keep`` from which on the reader is right, out of fold (training/reader/README.md): nine clauses in ten,
SURE = 0.71
# nine claims in ten of `limpet bench truth`: a claim is shown,
SHOWN = 0.64
# and a little sooner where it says health, diet or a rule: there a miss costs more.
SHOWN_VITAL = 0.57
# Below this, a clause states nothing worth keeping. Between it and shown: keep it, but never show it alone.
DOUBTFUL = 0.32
VITAL_KINDS = frozenset({"instruction", "constraint"})
VITAL_ATTRIBUTES = frozenset({"allergy", "health", "medication", "diet", "assistant_rule", "assistant_style"})

MAX_PIECES = 400  # word pieces that are read at a time
MAX_BEFORE = 48  # of the turn before, its last
WEIGHTS = Path(__file__).with_name("reader.npz")


@dataclass(frozen=True, slots=True)
class Reading:
    """What the model says about one clause, ``text[start:end]``.

    ``keep`` is the probability that it states something to keep for weeks, or a passing state; the rest says what it
    states if it does. ``about`` is "user" for whoever wrote the message, "other" when somebody else is the subject.
    """

    start: int
    end: int
    keep: float
    kind: str
    attribute: str
    attribute_sure: float
    status: str
    about: str

    @property
    def shown(self) -> bool:
        """Whether the model is sure enough that the claim may be shown."""
        vital = self.kind in VITAL_KINDS or self.attribute in VITAL_ATTRIBUTES
        return self.keep >= (SHOWN_VITAL if vital else SHOWN)


class Reader:
    """Safe between threads: nothing changes once it is made."""

    def __init__(self, weights: Path = WEIGHTS) -> None:
        load_modules("limpet.knowledge.reader_network", "zipfile", "encodings.cp437")
        from limpet.knowledge.reader_network import ReaderNetwork

        self._network: ReaderNetwork = ReaderNetwork.load(weights)

    def read(self, text: str, before: str = "", cuts: Mapping[int, bool] | None = None) -> list[Reading]:
        """Return a reading for each clause of a message. ``before`` is the turn before it: the question it answers.

        ``cuts`` are more places where a statement starts, each with whether it is one of several things that share a
        verb. A part of a clause is read by itself, and is as sure as the two readings on average: facts that are told
        in one breath are mostly kept or not kept together. A thing without its verb is what the clause is.
        """
        cuts = cuts or {}
        clauses = split_clauses(text)
        if not clauses:
            return []
        early, _, early_shapes = self._network.pieces.cut(before[-MAX_BEFORE * 12 :])
        parts = _cut_clauses(text, clauses, cuts)
        found: list[Reading] = []
        for whole, inside in self._read_windows(text, clauses, parts, (early, early_shapes)):
            starts = [clause.start for clause in whole]
            for part in inside:
                clause = whole[bisect_right(starts, part.start) - 1]
                if (clause.start, clause.end) == (part.start, part.end):
                    found.append(clause)
                elif cuts.get(part.start):
                    found.append(_read_thing(clause, part))
                else:
                    found.append(replace(part, keep=(part.keep + clause.keep) / 2))
        return found

    def read_whole(self, text: str, before: str = "") -> Reading:
        """Return one reading for all that a short message says."""
        early, _, shapes = self._network.pieces.cut(before[-MAX_BEFORE * 12 :])
        span = [(0, len(text))]
        (whole, _), *_ = self._read_windows(text, span, span, (early, shapes))
        return whole[0]

    def _read_windows(
        self, text: str, clauses: Sequence[Span], parts: Sequence[Span], before: tuple[list[int], list[int]]
    ) -> Iterator[tuple[list[Reading], list[Reading]]]:
        """Yield the readings of a run of clauses and of the parts in it, which the network encodes once for both."""
        numbers, places, shapes = self._network.pieces.cut(text)
        early, early_shapes = before[0][-MAX_BEFORE:], before[1][-MAX_BEFORE:]
        owners, part_owners = _find_owners(clauses, places), _find_owners(parts, places)
        part_starts = [start for start, _ in parts]
        for first, last in _cut_windows(owners, len(clauses)):
            low, high = _find_pieces(owners, first, last)
            low_part = bisect_left(part_starts, clauses[first][0])
            high_part = bisect_left(part_starts, clauses[last][0]) if last < len(clauses) else len(parts)
            ahead = [-1] * (len(early) + 1)
            groups = [(ahead + [owner - first for owner in owners[low:high]], last - first)]
            if high_part - low_part > last - first:
                groups.append((ahead + [owner - low_part for owner in part_owners[low:high]], high_part - low_part))
            scores = self._network.score(
                [*early, self._network.separator, *numbers[low:high]], [*early_shapes, 0, *shapes[low:high]], groups
            )
            whole = list(map(_to_reading, clauses[first:last], scores[0]))
            yield whole, list(map(_to_reading, parts[low_part:high_part], scores[1])) if len(scores) > 1 else whole
            early, early_shapes = numbers[:high][-MAX_BEFORE:], shapes[:high][-MAX_BEFORE:]


def _to_reading(span: Span, scores: Scores) -> Reading:
    keep, kind, attribute, sure, status, user = scores
    about = "user" if user else "other"
    return Reading(*span, keep, KINDS[kind], ATTRIBUTES[attribute], sure, STATUSES[status], about)


def _read_thing(clause: Reading, thing: Reading) -> Reading:
    sure = thing.attribute == clause.attribute or thing.attribute_sure >= SURE
    topic = thing if sure else replace(thing, attribute="other", attribute_sure=0.0)
    return replace(
        clause,
        start=thing.start,
        end=thing.end,
        keep=max(clause.keep, (thing.keep + clause.keep) / 2),
        attribute=topic.attribute,
        attribute_sure=topic.attribute_sure,
    )


def _find_owners(spans: Sequence[Span], places: Sequence[int]) -> list[int]:
    starts = [start for start, _ in spans]
    return [max(0, bisect_right(starts, place) - 1) for place in places]


def _cut_clauses(text: str, clauses: Sequence[tuple[int, int]], cuts: Collection[int]) -> list[tuple[int, int]]:
    """Return the clauses, cut further where a statement starts inside one."""
    found: list[tuple[int, int]] = []
    places = sorted(set(cuts))
    for start, end in clauses:
        inside = places[bisect_right(places, start) : bisect_left(places, end)]
        edges = [start, *(cut for cut in inside if text[start:cut].strip()), end]
        found += [(low, low + len(text[low:high].rstrip())) for low, high in pairwise(edges)]
    return found


def _cut_windows(owners: list[int], count: int) -> Iterator[tuple[int, int]]:
    """Yield runs of clauses (first, behind the last) that have at most ``MAX_PIECES`` together, or are one clause."""
    sizes = [0] * count
    for owner in owners:
        sizes[owner] += 1
    first, size = 0, 0
    for at, more in enumerate(sizes):
        if at > first and size + more > MAX_PIECES:
            yield first, at
            first, size = at, 0
        size += more
    yield first, count


def _find_pieces(owners: list[int], first: int, last: int) -> tuple[int, int]:
    low = bisect_right(owners, first - 1)
    return low, min(bisect_right(owners, last - 1), low + 2 * MAX_PIECES)


@cache
def default_reader() -> Reader:
    """Return the reader with the weights that are shipped, loaded once."""
    return Reader()
