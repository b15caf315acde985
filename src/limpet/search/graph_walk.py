"""Walk the graph from a question to passages with its names (local) and to related communities (global)."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from limpet.model.dataclass import dataclass
from limpet.model.graph import USER, EntityKind, Link, Node, RelationKind
from limpet.model.scope import Partition
from limpet.search.analysis import Question
from limpet.search.graph_repository import Communities, GraphTables, MentionPlace
from limpet.search.recipes import Recipe

if TYPE_CHECKING:
    from limpet.search.catalogue import Catalogue
    from limpet.search.index import SearchIndex
    from limpet.store.tx import Array

_WORD = re.compile(r"[^\s\"“”‘()\[\]{}<>,;:!?*_]+")
_EDGE = ".'’"
_MINE = ("my", "our")
_MAX_WORDS = 64
_FEW_LETTERS = 2
_MAX_HOPS = 30  # nodes related to those the question names


class GraphScores(NamedTuple):
    """Scores per chunk of the catalogue; None if the graph has nothing or is not used."""

    entity: Array | None = None
    community: Array | None = None


class QuestionEntities(NamedTuple):
    """The nodes the question names with their weights, and the words they were read from."""

    weights: Mapping[int, float]
    words: Sequence[str]


def score_graph(index: SearchIndex, question: Question, recipe: Recipe) -> GraphScores:
    catalogue, tables = index.catalogue, GraphTables(index.tx)
    speakers = frozenset(name.casefold() for name in catalogue.names) if catalogue.is_among_people else frozenset()
    named = _find_entities(tables, index.partition, question.text, recipe, speakers)
    entity = community = None
    if recipe.entity and named.weights:
        entity = _score_entities(catalogue, tables.places(index.partition, list(named.weights)), named.weights)
    if recipe.community:
        known = tables.communities(index.partition)
        community = None if known is None else _score_communities(known, catalogue, named, speakers)
    return GraphScores(entity, community)


def split_words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = [word.strip(_EDGE) for word in _WORD.findall(folded)]
    return [word for word in words if word][:_MAX_WORDS]


def _find_entities(
    tables: GraphTables, partition: Partition, text: str, recipe: Recipe, speakers: frozenset[str]
) -> QuestionEntities:
    words = split_words(text)
    bare = [re.sub(r"['’]s?$", "", word) for word in words]
    ways = {f"{'user' if owner in _MINE else owner}/{role}" for owner, role in pairwise(bare)}
    nodes = tables.nodes(partition, sorted({word for word in bare if len(word) > _FEW_LETTERS} | ways))
    asked, whole = ways, f" {' '.join(bare)} "
    there = [node for node in nodes if node.id in asked or f" {node.id} " in whole]
    start = [node for node in there if node.id not in speakers]
    if not start:
        return QuestionEntities({}, bare)
    links = tables.links(partition, [node.number for node in start])
    return QuestionEntities(_weigh_nodes(start, nodes, links, recipe.hop), bare)


def _weigh_nodes(start: Sequence[Node], nodes: Sequence[Node], links: Sequence[Link], hop: float) -> dict[int, float]:
    """Return 1 for named nodes, under any of their names, and ``hop`` for related ones."""
    one = resolve_entities(nodes, links)
    heads = {one[node.number] for node in start}
    weights = {node.number: 1.0 for node in nodes if one[node.number] in heads}
    weights |= {node.number: 1.0 for node in start}
    for link in links[: _MAX_HOPS * 4]:
        near = 1.0 if link.kind is RelationKind.IDENTITY else hop
        for here, there in ((link.subject, link.object), (link.object, link.subject)):
            if here in weights and there is not None and near and len(weights) < _MAX_HOPS:
                weights.setdefault(there, near)
    return weights


def _score_communities(
    known: Communities, catalogue: Catalogue, named: QuestionEntities, speakers: frozenset[str]
) -> Array | None:
    """Score the communities of the question's names and words; the best is 1."""
    match: dict[int, float] = defaultdict(float)
    for node, weight in named.weights.items():
        if node in known.of:
            match[known.of[node]] += weight
    for word in set(named.words) - speakers:
        groups = known.words.get(word, {}) if len(word) > _FEW_LETTERS else {}
        for label in groups:
            match[label] += 1 / len(groups)
    if not match:
        return None
    best = max(match.values())
    scores = None
    for label, value in match.items():
        part = _mark_chunks(catalogue, known.places[label]) * (value / best)
        scores = part if scores is None else scores.clip(min=part)
    return scores


def _score_entities(catalogue: Catalogue, places: Iterable[MentionPlace], weights: Mapping[int, float]) -> Array:
    """Return for each chunk the weight of its names: common names weigh less. The maximum is 1."""
    import numpy as np

    by_node: dict[int, list[MentionPlace]] = defaultdict(list)
    for place in places:
        by_node[place.node].append(place)
    total, scores = max(2, catalogue.messages), np.zeros(catalogue.chunks)
    for node, where in by_node.items():
        rarity = np.log(total / min(total, len(where))) / np.log(total)
        scores += weights[node] * rarity * _mark_chunks(catalogue, where)
    return scores


def _mark_chunks(catalogue: Catalogue, places: Sequence[MentionPlace]) -> Array:
    """Return 1 for the chunks of these messages and records."""
    import numpy as np

    keys = [
        (catalogue.sessions[place.session] << 40) + place.sequence
        for place in places
        if place.session is not None and place.session in catalogue.sessions and place.sequence is not None
    ]
    messages = np.isin((catalogue.session.astype("i8") << 40) + catalogue.sequence, np.asarray(keys, dtype="i8"))
    marked = messages[catalogue.message].astype(float) if len(messages) else np.zeros(catalogue.chunks)
    ordinals = [place.ordinal for place in places if place.ordinal is not None]
    if ordinals:
        marked = np.maximum(marked, np.isin(catalogue.ordinals, np.asarray(ordinals, dtype="i8")))
    return marked


# Which names mean the same, decided from all relations each time, independent of order.
#
# Equal names are the same. A first name alone is joined with the one full name it starts, if there is only one and
# nothing contradicts it; a relation ("the user's sister") is joined with the one name given for it. Two full names are
# never joined; a short name that fits several lists the candidates.

_Roles = Mapping[int, set[tuple[int, str]]]


@dataclass(frozen=True, slots=True)
class EntityGroups:
    """The representative of each node, by number, and the candidates of ambiguous nodes."""

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
    """One person does not have two of these roles: their sister Anna is not their colleague Anna Schmidt."""
    return all(len({role for whose, role in short | full if whose == owner}) == 1 for owner, _ in short)


def _find_bearers(
    identities: Iterable[Link], known: Mapping[int, Node], with_: Mapping[int, int]
) -> dict[int, set[int]]:
    """Return the relations that lead to each name."""
    bearers: dict[int, set[int]] = defaultdict(set)
    for link in identities:
        if link.object is not None and _is_relative(known[link.subject]) and not _is_relative(known[link.object]):
            bearers[with_.get(link.object, link.object)].add(link.subject)
    return bearers


def _join_relatives(
    bearers: Mapping[int, set[int]], known: Mapping[int, Node], with_: Mapping[int, int], roles: _Roles
) -> dict[int, int]:
    """Join each relation with the one name given for it, if no other relation leads to that name."""
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
    """Return whether this is the user, or a relation without a name."""
    return node.id == USER or "/" in node.id


def _is_one_person(name: Node, ways: list[Node], roles: set[tuple[int, str]]) -> bool:
    """My sister Anna and my aunt Anna are two people, as are his sister Anna and hers; a full name is one person."""
    owners = [way.id.partition("/")[0] for way in ways]
    several = len(ways) > 1 and (" " not in name.id or len(set(owners)) < len(owners))
    return not several and _has_agreeing_roles(roles, set())
