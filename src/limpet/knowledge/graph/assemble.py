"""Turns rows into a graph for people: names are joined, repeated relations are shown once, and only as far as asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from limpet.knowledge.graph import extract
from limpet.model.dataclass import dataclass
from limpet.model.graph import (
    Entity,
    EntityKind,
    Graph,
    Link,
    Mention,
    Node,
    NodeMention,
    Relation,
    RelationKind,
    normalize_name,
)
from limpet.search.graph_walk import EntityGroups, resolve_entities

_Key = tuple[int, str, int | None, str | None, bool]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The part of the graph that was asked for; its mentions are still to be read, of ``nodes``."""

    joined: EntityGroups
    nodes: Mapping[int, Node]
    groups: tuple[int, ...]  # by the node that stands for each entity
    relations: tuple[tuple[_Key, Relation], ...]
    cut: bool

    @property
    def node_numbers(self) -> list[int]:
        wanted = set(self.groups)
        return [number for number in self.nodes if self.joined[number] in wanted]


def select_subgraph(
    nodes: Sequence[Node], links: Sequence[Link], entity: str | None, depth: int, most: int
) -> Subgraph:
    """Around one entity, ``depth`` relations far, or everything; of too many, the most mentioned."""
    known = {node.number: node for node in nodes}
    one = resolve_entities(nodes, links)
    relations = _build_relations(links, known, one)
    weight: dict[int, int] = defaultdict(int)
    for node in nodes:
        weight[one[node.number]] += sum(node.kinds.values())
    wanted = set(weight) if entity is None else _expand(_find_by_name(entity, nodes, one), relations, depth)
    ranked = sorted(wanted, key=lambda number: (-weight[number], known[number].id))
    groups = tuple(ranked[:most])
    kept = set(groups)
    between = tuple(
        (key, relation) for key, relation in relations.items() if key[0] in kept and (key[2] is None or key[2] in kept)
    )
    return Subgraph(one, known, groups, between, len(ranked) > most)


def assemble_graph(part: Subgraph, seen: Sequence[NodeMention], cut: bool) -> Graph:
    members: dict[int, list[Node]] = defaultdict(list)
    for node in part.nodes.values():
        members[part.joined[node.number]].append(node)
    entities = tuple(_build_entity(part.nodes[group], members[group], part) for group in part.groups)
    ids = {node.number: part.nodes[part.joined[node.number]].id for node in part.nodes.values()}
    mentions = dict.fromkeys(Mention(ids[each.node], each.source) for each in seen if each.node in ids)
    return Graph(entities, tuple(relation for _, relation in part.relations), tuple(mentions), part.cut or cut)


def _build_entity(head: Node, members: Sequence[Node], part: Subgraph) -> Entity:
    kinds: dict[EntityKind, int] = defaultdict(int)
    for node in members:
        for kind, count in node.kinds.items():
            kinds[kind] += count
    return Entity(
        id=head.id,
        name=head.name,
        kind=Node(head.number, head.id, head.name, kinds).kind,
        aliases=tuple(node.name for node in members if node.number != head.number),
        could_be=tuple(part.nodes[number].id for number in part.joined.could_be.get(head.number, ())),
        mentions=sum(kinds.values()),
    )


def _find_by_name(entity: str, nodes: Sequence[Node], one: EntityGroups) -> set[int]:
    """The entities of this name; else the one person whose first name it is, where there is exactly one."""
    wanted = normalize_name(entity)
    exact = {one[node.number] for node in nodes if wanted in (node.id, normalize_name(node.name))}
    if exact:
        return exact
    people = [node for node in nodes if node.kind is EntityKind.PERSON and "/" not in node.id]
    found = {one[node.number] for node in people if node.id.startswith(f"{wanted} ")} if wanted else set()
    return found if len(found) == 1 else set()


def _expand(start: set[int], relations: Mapping[_Key, Relation], depth: int) -> set[int]:
    reached = set(start)
    for _ in range(depth):
        ends = [(subject, object_) for subject, _, object_, *_ in relations if object_ is not None]
        further = {
            other for pair in ends for here, other in (pair, pair[::-1]) if here in reached and other is not None
        }
        if further <= reached:
            break
        reached |= further
    return reached


def _build_relations(links: Sequence[Link], known: Mapping[int, Node], one: EntityGroups) -> dict[_Key, Relation]:
    groups: dict[_Key, list[Link]] = defaultdict(list)
    meant = _EndpointResolver.from_links(links, known, one)
    for link in links:
        if link.subject not in known or (link.object is not None and link.object not in known):
            continue
        from_, to = meant.resolve(link)
        subject, object_ = one[from_], None if to is None else one[to]
        if subject != object_:  # that two names are one is shown by the entity itself
            groups[subject, link.predicate, object_, link.value, link.holds].append(link)
    ends = _find_end_times(groups)
    return {key: _build_relation(key, said, known, ends.get(key)) for key, said in groups.items()}


@dataclass(frozen=True, slots=True)
class _EndpointResolver:
    """Whom a relation is about where a name is shared, or a way leads to several: its sentence often says."""

    known: Mapping[int, Node]
    shared: Mapping[int, tuple[int, ...]]  # names, with the ways that lead to them
    several: Mapping[int, Mapping[str, int]]  # ways, with the names they lead to

    @classmethod
    def from_links(cls, links: Sequence[Link], known: Mapping[int, Node], one: EntityGroups) -> _EndpointResolver:
        names: dict[int, dict[str, int]] = defaultdict(dict)
        for link in links:
            if link.object is None or link.object not in known or link.subject not in known:
                continue
            if link.kind is RelationKind.IDENTITY and link.holds:
                names[link.subject][known[link.object].name] = link.object
        return cls(known, one.could_be, {way: found for way, found in names.items() if len(found) > 1})

    def resolve(self, link: Link) -> tuple[int, int | None]:
        if link.kind is RelationKind.IDENTITY:
            return link.subject, link.object
        return self._resolve_node(link.subject, link), None if link.object is None else self._resolve_node(
            link.object, link
        )

    def _resolve_node(self, node: int, link: Link) -> int:
        if node in self.shared:
            role = (
                link.predicate
                if link.kind is RelationKind.ROLE
                else extract.find_role(self.known[node].name, link.sentence)
            )
            ways = [way for way in self.shared[node] if role and self.known[way].id.endswith(f"/{role}")]
            return ways[0] if len(ways) == 1 else node
        step = self.known[node].id.rpartition("/")[2]
        names = [
            at for name, at in self.several.get(node, {}).items() if extract.find_role(name, link.sentence) == step
        ]
        return names[0] if len(names) == 1 and names[0] not in self.shared else node


def _build_relation(key: _Key, said: Sequence[Link], known: Mapping[int, Node], end: datetime | None) -> Relation:
    subject, predicate, object_, value, holds = key
    by_records = [link for link in said if link.source.record_id is not None]
    telling = by_records or said  # a record knows when it ended; a message only that it was said
    begins = [link.valid_from for link in telling if link.valid_from is not None]
    stops = [link.valid_to for link in telling]
    until = None if None in stops else max(stop for stop in stops if stop is not None)
    return Relation(
        subject=known[subject].id,
        predicate=predicate,
        object=None if object_ is None else known[object_].id,
        value=value,
        kind=said[0].kind,
        holds=holds,
        valid_from=min(begins, default=None),
        valid_to=until if by_records else end,
        sentence=said[0].sentence,
        sources=tuple(dict.fromkeys(link.source for link in said)),
    )


def _find_end_times(groups: Mapping[_Key, Sequence[Link]]) -> dict[_Key, datetime]:
    """When messages alone tell: of what there is one of at a time, the later ends the earlier.

    Of what was said at one time, as in an import, the message with the higher sequence is the later one.
    """
    lines: dict[tuple[int, str], list[tuple[datetime, int, _Key]]] = defaultdict(list)
    for key, said in groups.items():
        subject, predicate, *_ = key
        if extract.is_exclusive(predicate) and said[0].kind is RelationKind.FACT:
            for link in said:
                lines[subject, predicate].append((link.source.at, link.source.sequence or 0, key))
    ends: dict[_Key, datetime] = {}
    for line in lines.values():
        line.sort(key=lambda entry: (entry[0], entry[1], str(entry[2])))
        holding: set[_Key] = set()
        for at, _, key in line:
            over = holding - {key} if key[4] else holding & {(*key[:4], True)}  # another one, or said to be over
            ends |= dict.fromkeys(over, at)
            holding -= over
            if key[4]:
                holding.add(key)
                ends.pop(key, None)  # said again, it is true again
    return ends
