"""What must hold of the graph whatever was said: nobody joined with somebody else, and every export can be read."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from limpet import Entity, Graph, GraphSource, Mention, Relation
from limpet.knowledge.graph.assemble import assemble_graph, select_subgraph
from limpet.knowledge.graph.extract import extract_from_message
from limpet.model.graph import EntityKind, Link, Node, RelationKind, normalize_name
from limpet.model.message import Message
from limpet.search.graph_walk import resolve_entities

AT = datetime(2026, 3, 10, 12, tzinfo=UTC)
SOURCE = GraphSource(AT, "session", 1)
IDS = (
    *("anna", "anna kowalska", "anna schmidt", "anna maria schmidt", "tom", "tom baker", "eva"),
    *("user", "user/sister", "user/brother", "user/mother", "tom/sister", "anna/sister"),
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Node], list[Link]]:
    ids = draw(st.lists(st.sampled_from(IDS), unique=True, min_size=1))
    kinds = st.sampled_from([EntityKind.PERSON, EntityKind.PERSON, EntityKind.PERSON, EntityKind.PLACE])
    nodes = [Node(number, id_, id_.title(), {draw(kinds): 1}) for number, id_ in enumerate(ids)]
    number = st.integers(0, len(nodes) - 1)
    kind = st.sampled_from(RelationKind)
    predicate = st.sampled_from(["sister", "friend", "colleague", "is"])

    def link(subject: int, object_: int, kind: RelationKind, predicate: str, holds: bool) -> Link:
        return Link(subject, predicate, object_, None, kind, holds, "", SOURCE, AT)

    links = draw(st.lists(st.builds(link, number, number, kind, predicate, st.booleans()), max_size=12))
    return nodes, links


def is_full(id_: str) -> bool:
    return " " in id_ and "/" not in id_


@given(worlds())
def test_entity_resolution_never_merges_two_full_names(world: tuple[list[Node], list[Link]]) -> None:
    nodes, links = world
    one = resolve_entities(nodes, links)
    groups: dict[int, set[str]] = {}
    for node in nodes:
        groups.setdefault(one[node.number], set()).add(node.id)
        assert one[one[node.number]] == one[node.number], "whoever stands for others stands for itself"
    for group in groups.values():
        assert len({id_ for id_ in group if is_full(id_)}) <= 1
        firsts = {id_.split()[0] for id_ in group if "/" not in id_ and id_ != "user"}
        assert len(firsts) <= 1, "nor two first names"


@given(worlds(), st.randoms(use_true_random=False))
def test_entity_resolution_does_not_depend_on_order(
    world: tuple[list[Node], list[Link]], chance: random.Random
) -> None:
    nodes, links = world
    shuffled, relinked = nodes[:], links[:]
    chance.shuffle(shuffled)
    chance.shuffle(relinked)
    assert dict(resolve_entities(nodes, links).with_) == dict(resolve_entities(shuffled, relinked).with_)
    assert dict(resolve_entities(nodes, links).could_be) == dict(resolve_entities(shuffled, relinked).could_be)


def test_entity_resolution_keeps_ambiguous_first_name_separate() -> None:
    people = [Node(at, id_, id_, {EntityKind.PERSON: 1}) for at, id_ in enumerate(("anna", "anna one", "anna two"))]
    assert resolve_entities(people, [])[0] == 0
    assert resolve_entities(people, []).could_be[0] == (1, 2)
    assert resolve_entities(people[:2], [])[0] == 1


@given(st.text(max_size=300))
def test_normalize_name_is_idempotent(text: str) -> None:
    once = normalize_name(text)
    assert normalize_name(once) == once
    assert once == once.strip()


names = st.text(st.characters(codec="utf-8"), max_size=30)
ids = st.lists(names, unique=True, min_size=1, max_size=6)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    known = draw(ids)
    entities = [Entity(id_, draw(names), draw(st.sampled_from(EntityKind)), tuple(draw(ids)), (), 1) for id_ in known]
    some = st.sampled_from(known)
    relations = draw(
        st.lists(
            st.builds(
                Relation,
                subject=some,
                predicate=names,
                object=st.none() | some,
                value=st.none() | names,
                kind=st.sampled_from(RelationKind),
                holds=st.booleans(),
                valid_from=st.just(AT),
                valid_to=st.none() | st.just(AT),
                sentence=names,
                sources=st.just((SOURCE, GraphSource(AT, record_id="record"))),
            ),
            max_size=6,
        )
    )
    return Graph(tuple(entities), tuple(relations), (Mention(known[0], SOURCE),))


@given(graphs())
def test_graph_exports_are_parsable(graph: Graph) -> None:
    space = "{http://graphml.graphdrawing.org/xmlns}"
    root = ET.fromstring(graph.to_graphml().encode())
    nodes = root.findall(f"{space}graph/{space}node")
    ends = {node.get("id") for node in nodes}
    edges = root.findall(f"{space}graph/{space}edge")
    assert len(edges) == len(graph.relations)
    assert {end for edge in edges for end in (edge.get("source"), edge.get("target"))} <= ends
    shown = ["".join(node.itertext()) for node in nodes]
    for entity in graph.entities:
        if entity.name.isprintable():
            assert any(entity.name in text for text in shown)
    back = json.loads(json.dumps(graph.to_json()))
    assert [entity["name"] for entity in back["entities"]] == [entity.name for entity in graph.entities]


# Plain sentences with hostile text in between.
pieces = st.one_of(
    st.sampled_from(
        [
            "My sister Anna Kowalska",
            "I live in Berlin.",
            "Anna's husband Tom works at Siemens.",
            "“The Wire”",
            "#rust",
            "```",
        ]
    ),
    st.text(max_size=40),
)


@given(st.lists(pieces, max_size=8), st.sampled_from(["user", "assistant"]))
def test_graph_extraction_is_deterministic_and_consistent(said: list[str], role: str) -> None:
    message = Message.new(role, " ".join(said).replace("\x00", "") or "x")
    told = extract_from_message(message, "session", AT, 40)
    assert told == extract_from_message(message, "session", AT, 40)
    known = {found.id for found in told.entities}
    assert len(known) == len(told.entities)
    assert all(normalize_name(found.id) == found.id for found in told.entities if "/" not in found.id)
    for stated in told.relations:
        assert stated.subject in known
        assert stated.object in known
        assert stated.sentence in message.text
    nodes = [Node(at, found.id, found.name, {found.kind: 1}) for at, found in enumerate(told.entities)]
    at = {node.id: node.number for node in nodes}
    links = [
        Link(at[each.subject], each.predicate, at[each.object or ""], None, each.kind, each.holds, "", SOURCE, AT)
        for each in told.relations
    ]
    part = select_subgraph(nodes, links, None, 1, 1000)
    graph = assemble_graph(part, [], cut=False)
    ends = {end for relation in graph.relations for end in (relation.subject, relation.object)}
    assert ends <= {entity.id for entity in graph.entities}
