"""Communities of names that occur together, by label propagation: each takes the label most of its neighbours have.

Deterministic. Computed once and cached; any change of the mentions changes the stamp.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from limpet.model.dataclass import dataclass
from limpet.store.tx import CacheKind

_ROUNDS = 10
_CROWD = 12  # from this many names in one place on, they are together by chance, as in a list
_FEW = 10
_HUB = 0.2  # share of the places; a name that occurs everywhere belongs to no community


class MentionPlace(NamedTuple):
    """Where a name occurs: in a message, or in a record's chunk."""

    node: int
    session: str | None
    sequence: int | None
    ordinal: int | None


@dataclass(frozen=True, slots=True)
class Communities:
    """``of`` maps a name to its community; ``words`` and ``places`` map words of names and places to communities."""

    stamp: tuple[int, ...]
    of: Mapping[int, int]
    words: Mapping[str, Mapping[int, int]]
    places: Mapping[int, Sequence[MentionPlace]]

    @property
    def nbytes(self) -> int:
        return 200 * sum(map(len, self.places.values())) + 150 * len(self.words) + 60 * len(self.of)


COMMUNITIES: CacheKind[Communities] = CacheKind("communities", 1 / 8)


def find_communities(stamp: tuple[int, ...], names: Mapping[int, str], places: Sequence[MentionPlace]) -> Communities:
    spots: dict[tuple[str | None, int | None], set[int]] = defaultdict(set)
    for place in places:
        spots[place.session, place.sequence if place.session is not None else place.ordinal].add(place.node)
    counts = Counter(node for together in spots.values() for node in together)
    hubs = {node for node, count in counts.items() if count > max(_FEW, _HUB * len(spots))}
    company: dict[int, Counter[int]] = defaultdict(Counter)
    for together in spots.values():
        known = sorted(together - hubs)
        if len(known) <= _CROWD:
            for one, two in combinations(known, 2):
                company[one][two] += 1
                company[two][one] += 1
    of = _propagate_labels(sorted(set(counts) - hubs), company)
    words: dict[str, Counter[int]] = defaultdict(Counter)
    for node, label in of.items():
        for word in set(names.get(node, "").replace("/", " ").split()):
            words[word][label] += counts[node]
    where: dict[int, list[MentionPlace]] = defaultdict(list)
    for place in places:
        if place.node in of:
            where[of[place.node]].append(place)
    return Communities(stamp, of, words, where)


def _propagate_labels(nodes: Sequence[int], company: Mapping[int, Counter[int]]) -> dict[int, int]:
    labels = {node: node for node in nodes}
    for _ in range(_ROUNDS):
        changed = False
        for node in nodes:
            beside: Counter[int] = Counter()
            for other, count in company.get(node, {}).items():
                beside[labels[other]] += count
            if beside:
                best = min(beside, key=lambda label: (-beside[label], label))
                changed |= best != labels[node]
                labels[node] = best
        if not changed:
            break
    return labels
