"""Which names mean one and the same, decided anew from all that is known, and never by the order it came in.

Exactly the same name is the same. A first name alone is joined with the one full name it begins, where there is no
second and nothing speaks against it; a way to somebody ("the user's sister") with the one name that was given for it.
Two full names are never joined: whoever has both is left apart, and the short name says whom it could mean.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from limpet.model.graph import USER, EntityKind, Link, Node, RelationKind

_Roles = Mapping[int, set[tuple[int, str]]]


@dataclass(frozen=True, slots=True)
class EntityGroups:
    """The node each node stands with, by their numbers, and whom those that stand alone could mean."""

    with_: Mapping[int, int]
    could_be: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def __getitem__(self, number: int) -> int:
        return self.with_.get(number, number)


def resolve_entities(nodes: Iterable[Node], links: Iterable[Link]) -> EntityGroups:
    known = {node.number: node for node in nodes}
    stated = [link for link in links if link.holds and link.object in known and link.subject in known]
    roles = _collect_roles(stated)
    with_, could_be = _join_first_names({at: node for at, node in known.items() if _is_person(node)}, roles)
    identities = [link for link in stated if link.kind is RelationKind.IDENTITY]
    bearers = _find_bearers(identities, known, with_)
    ways = _join_relatives(bearers, known, with_, roles)
    shared = {
        name: tuple(sorted(found))
        for name, found in bearers.items()
        if _is_person(known[name])
        and not _is_one_person(known[name], [known[at] for at in found], roles.get(name, set()))
    }
    return EntityGroups(
        with_ | {way: name for way, name in ways.items() if name not in could_be},
        {name: found for name, found in shared.items() if name not in with_} | could_be,
    )


def _is_person(node: Node) -> bool:
    return node.kind is EntityKind.PERSON


def _collect_roles(links: Iterable[Link]) -> _Roles:
    """Who each is to whom."""
    roles: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for link in links:
        if link.kind is RelationKind.ROLE and link.object is not None:
            roles[link.object].add((link.subject, link.predicate))
    return roles


def _join_first_names(people: Mapping[int, Node], roles: _Roles) -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
    full: dict[str, list[int]] = defaultdict(list)
    for number, node in people.items():
        first, _, rest = node.id.partition(" ")
        if rest and "/" not in node.id:
            full[first].append(number)
    with_: dict[int, int] = {}
    could_be: dict[int, tuple[int, ...]] = {}
    for number, node in people.items():
        candidates = sorted(full.get(node.id, ()))
        agreeing = [
            other for other in candidates if _has_agreeing_roles(roles.get(number, set()), roles.get(other, set()))
        ]
        if len(candidates) == 1 and agreeing:
            with_[number] = candidates[0]
        elif agreeing:
            could_be[number] = tuple(agreeing)
    return with_, could_be


def _has_agreeing_roles(short: set[tuple[int, str]], full: set[tuple[int, str]]) -> bool:
    """Nobody calls one person by two of these words: their sister Anna is not their colleague Anna Schmidt."""
    return all(len({role for whose, role in short | full if whose == owner}) == 1 for owner, _ in short)


def _find_bearers(
    identities: Iterable[Link], known: Mapping[int, Node], with_: Mapping[int, int]
) -> dict[int, set[int]]:
    """The ways that lead to each name."""
    bearers: dict[int, set[int]] = defaultdict(set)
    for link in identities:
        if link.object is not None and _is_relative(known[link.subject]) and not _is_relative(known[link.object]):
            bearers[with_.get(link.object, link.object)].add(link.subject)
    return bearers


def _join_relatives(
    bearers: Mapping[int, set[int]], known: Mapping[int, Node], with_: Mapping[int, int], roles: _Roles
) -> dict[int, int]:
    """Each way with the one that was named for it, if no other way leads to that one."""
    named: dict[int, set[int]] = defaultdict(set)
    for name, ways in bearers.items():
        for way in ways:
            named[way].add(name)
    one = {way: next(iter(names)) for way, names in named.items() if len(names) == 1 and way not in with_}
    return {
        way: name
        for way, name in one.items()
        if _is_one_person(known[name], [known[at] for at in bearers[name]], roles.get(name, set()))
    }


def _is_relative(node: Node) -> bool:
    """The user, or somebody's sister: whoever is known by no name yet."""
    return node.id == USER or "/" in node.id


def _is_one_person(name: Node, ways: list[Node], roles: set[tuple[int, str]]) -> bool:
    """My sister Anna and my aunt Anna are two, and so are his sister Anna and hers; a full name is one person's."""
    owners = [way.id.partition("/")[0] for way in ways]
    several = len(ways) > 1 and (" " not in name.id or len(set(owners)) < len(owners))
    return not several and _has_agreeing_roles(roles, set())
