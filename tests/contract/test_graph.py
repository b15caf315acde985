from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from limpet import Config, Entity, Graph, Limpet, Message
from limpet.errors import InvalidInput
from limpet.model.graph import EntityKind, Node
from limpet.model.job import GRAPH, GRAPH_RECORD, JobInfo
from limpet.model.scope import Level, Partition
from limpet.search.graph_repository import GraphTables
from limpet.store.copy import copy_store
from limpet.testing import FakeClock
from tests.contract.rows import every_row, faults, sql

pytestmark = pytest.mark.every_backend

TABLES = ("entities", "mentions", "relations")


def say(memory: Limpet, *texts: str, chat: str = "1", user: str = "alice", **more: Any) -> Any:
    session = memory.session("chan", chat, user=user)
    for text in texts:
        session.append("user", text, **more)
    return session


def graph_jobs(memory: Limpet) -> list[JobInfo]:
    """Those that learning waits for are none of them."""
    return [job for job in memory.jobs.list() if job.kind in (GRAPH, GRAPH_RECORD)]


def names(graph: Graph) -> set[str]:
    return {entity.id for entity in graph.entities}


def named(graph: Graph, id: str) -> Entity:
    found = graph.entity(id)
    assert found is not None, names(graph)
    return found


def told(graph: Graph) -> set[tuple[str, str, str | None]]:
    return {
        (relation.subject, relation.predicate, relation.object or relation.value)
        for relation in graph.relations
        if relation.holds
    }


def rows(memory: Limpet) -> int:
    return sum(sql(memory, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES)


def read(memory: Limpet, user: str = "alice") -> Graph:
    return memory.graph(user=user, fresh=True)


# What is found


def test_graph_contains_entities_relations_and_sources(timed: Limpet, clock: FakeClock) -> None:
    session = say(timed, "My sister Anna Kowalska moved to Porto.", "I live in Berlin.")
    graph = timed.graph(user="alice", fresh=True)
    assert names(graph) == {"user", "anna kowalska", "porto", "berlin"}
    assert told(graph) == {
        ("user", "sister", "anna kowalska"),
        ("anna kowalska", "lives in", "porto"),
        ("user", "lives in", "berlin"),
    }
    anna = named(graph, "anna kowalska")
    assert (anna.name, anna.kind, anna.aliases) == ("Anna Kowalska", EntityKind.PERSON, ("the user's sister",))
    [moved] = [relation for relation in graph.relations if relation.object == "porto"]
    assert moved.sentence == "My sister Anna Kowalska moved to Porto."
    assert [(source.session_id, source.sequence, source.at) for source in moved.sources] == [(session.id, 1, clock.now)]
    assert moved.valid_from == clock.now
    assert moved.valid_to is None
    assert {mention.source.sequence for mention in graph.mentions if mention.entity == "anna kowalska"} == {1}
    assert faults(timed) == []


def test_graph_around_entity_is_limited_by_depth(memory: Limpet) -> None:
    say(memory, "My sister Anna lives in Porto.", "I live in Berlin.", "Tom visited Rome.")
    around = [names(memory.graph(user="alice", entity="anna", depth=depth, fresh=True)) for depth in (0, 1, 2)]
    assert around == [{"anna"}, {"anna", "porto", "user"}, {"anna", "porto", "user", "berlin"}]
    assert names(memory.graph(user="alice", entity="the user's sister", depth=0)) == {"anna"}
    assert memory.graph(user="alice", entity="Nobody") == Graph()


def test_graph_relation_of_record_ends_when_record_ends(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("Anna lives in Porto.", user="alice")
    assert told(timed.graph(user="alice", fresh=True)) == {("anna", "lives in", "porto")}
    begun = clock.now
    clock.advance(days=1)
    timed.records.update(record.id, valid_to=clock.now)
    [relation] = timed.graph(user="alice", fresh=True).relations
    assert (relation.valid_from, relation.valid_to) == (begun, clock.now)
    assert relation.is_valid_at(begun)
    assert not relation.is_valid_at(clock.now)
    timed.records.update(record.id, content="Tom lives in Rome.")
    graph = timed.graph(user="alice", fresh=True)
    assert names(graph) == {"tom", "rome"}
    assert faults(timed) == []


def test_graph_later_home_ends_earlier_home_only(timed: Limpet, clock: FakeClock) -> None:
    say(timed, "I live in Berlin.")
    clock.advance(days=3)
    moved = clock.now
    say(timed, "I moved to Lisbon.", "I visited Rome.", "Tom lives in Paris.")
    graph = timed.graph(user="alice", fresh=True)
    ends = {(relation.subject, relation.object): relation.valid_to for relation in graph.relations}
    assert ends == {
        ("user", "berlin"): moved,
        ("user", "lisbon"): None,
        ("user", "rome"): None,
        ("tom", "paris"): None,
    }


@pytest.mark.parametrize("homes", [("Oslo", "Bergen"), ("Bergen", "Oslo")])
def test_graph_orders_relations_of_one_time_by_sequence(memory: Limpet, homes: tuple[str, str]) -> None:
    """An import often has one time for a whole conversation."""
    at = datetime(2026, 3, 1, tzinfo=UTC)
    say(memory, f"I live in {homes[0]}.", f"I moved to {homes[1]}.", created_at=at, learn=False)
    graph = memory.graph(user="alice", fresh=True)
    ends = {relation.object: relation.valid_to for relation in graph.relations if relation.predicate == "lives in"}
    assert ends == {homes[0].lower(): at, homes[1].lower(): None}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (["My friend Anna Kowalska lives in Porto."], True),
        (["My friend Anna Kowalska lives in Porto.", "My boss Anna Schmidt lives in Rome."], False),
        (["I live in San Marino."], False),
    ],
)
def test_graph_finds_person_by_first_name_where_there_is_one(memory: Limpet, said: list[str], found: bool) -> None:
    say(memory, *said)
    name = "San" if "San" in said[0] else "Anna"
    graph = memory.graph(user="alice", entity=name, fresh=True)
    assert ("anna kowalska" in names(graph)) is found
    assert bool(graph.entities) is found


def test_graph_denied_relation_does_not_hold(memory: Limpet) -> None:
    say(memory, "I no longer live in Berlin.")
    [relation] = memory.graph(user="alice", fresh=True).relations
    assert (relation.predicate, relation.object, relation.holds) == ("lives in", "berlin", False)


def test_graph_ignores_tool_results_and_system_prompts(memory: Limpet) -> None:
    session = memory.session("chan", "1", user="alice")
    session.append("system", "You are the assistant of Ivan Petrov in Moscow.")
    session.append("tool", "Error in Paris: Anna Kowalska not found", tool_call_id="1")
    assert memory.graph(user="alice", fresh=True) == Graph()


def test_graph_takes_names_but_no_relations_from_assistant(memory: Limpet) -> None:
    """What it says it may only repeat from memory: an old home must not end the new one."""
    session = say(memory, "I moved to Lisbon.")
    session.append("assistant", "You live in Berlin with your sister Anna. Tom lives in Berlin.")
    graph = memory.graph(user="alice", fresh=True)
    assert told(graph) == {("user", "lives in", "lisbon")}
    assert {"berlin", "anna", "tom"} <= names(graph)


def test_graph_never_stores_secrets(memory: Limpet) -> None:
    secret = "sk-proj-" + "Ab1" * 16
    say(memory, f"I met Anna, my key is {secret} in Berlin. I live in Berlin, {secret}.")
    memory.remember(f"Tom lives in Rome with {secret}.", user="alice")
    graph = memory.graph(user="alice", fresh=True)
    assert {"anna", "tom"} <= names(graph)
    assert secret not in str(every_row(memory)["relations"]) + str(every_row(memory)["entities"])


# Who is who


def test_graph_keeps_people_with_same_first_name_apart(memory: Limpet) -> None:
    """A fault of systems that join by likeness: one person's facts become another's."""
    say(memory, "Anna Kowalska lives in Porto.", "Anna Schmidt lives in Berlin.", "I had lunch with Anna.")
    graph = memory.graph(user="alice", fresh=True)
    assert {"anna kowalska", "anna schmidt", "anna"} <= names(graph)
    assert named(graph, "anna").could_be == ("anna kowalska", "anna schmidt")
    assert named(graph, "anna kowalska").mentions == 1
    assert told(graph) == {("anna kowalska", "lives in", "porto"), ("anna schmidt", "lives in", "berlin")}


def test_graph_resolves_first_name_to_only_match(memory: Limpet) -> None:
    say(memory, "Anna called.", "I met Anna Kowalska.", chat="1")
    assert named(memory.graph(user="alice", fresh=True), "anna kowalska").aliases == ("Anna",)
    other = say(memory, "Anna Schmidt called.", chat="2")
    assert named(memory.graph(user="alice", fresh=True), "anna").could_be == ("anna kowalska", "anna schmidt")
    other.delete()  # as if there had never been a second one
    assert named(memory.graph(user="alice", fresh=True), "anna kowalska").aliases == ("Anna",)


def test_graph_keeps_people_with_different_relations_apart(memory: Limpet) -> None:
    say(memory, "My sister Anna called.", "I met my colleague Anna Schmidt.")
    graph = memory.graph(user="alice", fresh=True)
    assert named(graph, "anna schmidt").aliases == ()
    assert named(graph, "anna").aliases == ("the user's sister",)


def test_graph_keeps_relations_of_ambiguous_first_name_separate(memory: Limpet) -> None:
    session = memory.session("chan", "1", user="alice")
    for said in (
        "My sister Anna lives in Porto.",
        "My colleague Anna works at Novartis.",
        "My friend Bo lives in York.",
        "My friend Kit lives in Bath.",
        "Anna moved to Berlin.",
    ):
        with session.turn(said) as turn:
            turn.reply("I see.")
    memory.jobs.run()
    graph = memory.graph(user="alice", fresh=True)
    assert set(named(graph, "anna").could_be) == {"user/sister", "user/colleague"}
    facts = {relation for relation in told(graph) if relation[1] in {"lives in", "works at"}}
    assert facts == {
        ("user/sister", "lives in", "porto"),
        ("user/colleague", "works at", "novartis"),
        ("bo", "lives in", "york"),
        ("kit", "lives in", "bath"),
        ("anna", "lives in", "berlin"),
    }
    assert {("user", "sister", "user/sister"), ("user", "colleague", "user/colleague")} <= told(graph)


def test_graph_resolves_relation_word_to_named_person(memory: Limpet) -> None:
    say(memory, "My sister is visiting.", "My sister Anna brought cake.", "My sister lives in Porto.")
    graph = memory.graph(user="alice", fresh=True)
    assert named(graph, "anna").aliases == ("the user's sister",)
    assert ("anna", "lives in", "porto") in told(graph)
    say(memory, "My sister Eva lives in Rome.")
    graph = memory.graph(user="alice", fresh=True)  # there are two: who visited is not known any more
    assert named(graph, "anna").aliases == named(graph, "eva").aliases == ()
    assert ("user/sister", "lives in", "porto") in told(graph)


def test_graph_keeps_same_name_of_two_users_apart(memory: Limpet) -> None:
    say(memory, "Anna Kowalska lives in Porto.", user="alice")
    say(memory, "Anna lives in Rome.", user="bob")
    assert names(memory.graph(user="bob", fresh=True)) == {"anna", "rome"}
    assert names(memory.graph(user="alice", fresh=True)) == {"anna kowalska", "porto"}
    assert memory.tenant("other").graph(user="alice", fresh=True) == Graph()


# What goes, goes everywhere


def test_session_delete_removes_its_graph_entities(memory: Limpet) -> None:
    session = say(memory, "My sister Anna Kowalska lives in Porto.", chat="1")
    say(memory, "Porto is lovely in spring.", "I like Porto.", chat="2")
    memory.graph(user="alice", fresh=True)
    session.delete()
    assert names(memory.graph(user="alice", fresh=True)) == {"porto"}
    assert faults(memory) == []
    memory.session("chan", "2", user="alice").delete()
    assert rows(memory) == 0


def test_session_clear_removes_its_graph_entities(memory: Limpet) -> None:
    session = say(memory, "My sister Anna Kowalska lives in Porto.")
    memory.graph(user="alice", fresh=True)
    session.clear()
    assert rows(memory) == 0
    session.append("user", "Tom lives in Rome.")
    assert names(memory.graph(user="alice", fresh=True)) == {"tom", "rome"}
    assert faults(memory) == []


def test_graph_never_reads_messages_cleared_before_its_job(memory: Limpet) -> None:
    session = say(memory, "My sister Anna Kowalska lives in Porto.")
    session.clear()
    assert memory.graph(user="alice", fresh=True) == Graph()
    session.append("user", "Tom lives in Rome.")
    assert names(memory.graph(user="alice", fresh=True)) == {"tom", "rome"}


def test_forget_removes_graph_entities_of_record(memory: Limpet) -> None:
    kept = memory.remember("Anna Kowalska lives in Porto.", user="alice")
    record = memory.remember("Tom Baker lives in Porto.", user="alice")
    memory.graph(user="alice", fresh=True)
    counts = memory.forget(record.id).counts
    assert counts["mentions"] == 2
    assert names(memory.graph(user="alice")) == {"anna kowalska", "porto"}
    memory.forget(kept.id)
    assert rows(memory) == 0


def test_graph_never_reads_record_forgotten_before_its_job(memory: Limpet) -> None:
    record = memory.remember("Anna Kowalska lives in Porto.", user="alice")
    memory.forget(record.id)
    assert memory.graph(user="alice", fresh=True) == Graph()
    assert graph_jobs(memory) == []


def test_doctor_removes_graph_rows_without_source(memory: Limpet) -> None:
    session = say(memory, "My sister Anna Kowalska lives in Porto.")
    memory.graph(user="alice", fresh=True)
    sql(memory, "UPDATE mentions SET sequence = 99 WHERE session_id = :id", id=session.id)
    sql(memory, "UPDATE relations SET sequence = 99 WHERE session_id = :id", id=session.id)
    assert [fault.partition(":")[0] for fault in faults(memory)] == ["graph"]
    assert any(finding.repaired for finding in memory.admin.doctor(repair=True) if finding.check == "graph")
    assert faults(memory) == []
    assert rows(memory) == 0


# Recall


def test_graph_recipe_follows_name_to_chunks_of_same_person(memory: Limpet) -> None:
    say(memory, "My sister Anna is a doctor.", *(f"Nothing of note happened on day {n}." for n in range(30)))
    say(memory, "My sister broke her arm while skiing.")
    read(memory)
    hits = memory.recall("How is Anna?", user="alice", recipe="graph", k=3)
    assert "My sister broke her arm while skiing." in {hit.text for hit in hits}
    [skiing] = [hit for hit in hits if "skiing" in hit.text]
    assert skiing.signals["entity"].score > 0
    plain = memory.recall("How is Anna?", user="alice", recipe="default", k=3)
    assert "My sister broke her arm while skiing." not in {hit.text for hit in plain}


def test_graph_global_recipe_prefers_same_community(memory: Limpet) -> None:
    say(memory, "We saw Bach and Vivaldi with Clara.", "Vivaldi again, with Clara.", "Clara plays the cello.")
    say(memory, "I met Tom in Rome.", "Tom likes Rome.")
    read(memory)
    hits = memory.recall("What do you know about Bach?", user="alice", recipe="graph_global", k=5)
    assert hits[0].signals["community"].score == 1.0


def test_graph_recipes_work_without_graph(memory: Limpet) -> None:
    say(memory, "Anna lives in Porto.", "Tom lives in Rome.")
    for recipe in ("graph", "graph_global"):
        found = memory.recall("Where does Anna live?", user="alice", recipe=recipe)
        assert found[0].text == "Anna lives in Porto."
        assert "entity" not in found[0].signals


# The store


def test_copy_includes_graph(memory: Limpet, clock: FakeClock) -> None:
    say(memory, "My sister Anna Kowalska lives in Porto.")
    memory.remember("Tom lives in Rome.", user="alice")
    read(memory)
    with Limpet.open(":memory:", clock=clock) as other:
        copy_store(memory._runtime.store, other._runtime.store)
        assert other.graph(user="alice") == memory.graph(user="alice")
        say(other, "Eva lives in Prague.", chat="9")
        assert {"eva", "prague"} <= names(other.graph(user="alice", fresh=True))


def test_graph_nodes_are_found_by_first_word(memory: Limpet) -> None:
    say(memory, "I met Anna Kowalska, Anna, Annabel and my sister.")
    read(memory)
    space = Partition("default", Level.USER, "alice")
    found: list[Node] = memory._read(lambda tx: GraphTables(tx).nodes(space, ["anna", "user/sister"]))
    assert {node.id for node in found} == {"anna kowalska", "anna", "user/sister"}


def test_graph_size_is_limited_and_marked_as_cut(store_url: str) -> None:
    config = Config.load(overrides={"graph.entities": 2, "graph.mentions": 3, "embedding.model": "none"})
    with Limpet.open(store_url, config=config) as memory:
        say(memory, "I visited Rome and Paris and Lisbon.", "I like Paris.", "I like Lisbon.")
        graph = memory.graph(user="alice", fresh=True)
        assert (len(graph.entities), len(graph.mentions), graph.cut) == (2, 3, True)


@pytest.mark.parametrize("depth", [-1, 11, 1.5, True, "1", None])
def test_graph_rejects_invalid_depth(memory: Limpet, depth: Any) -> None:
    with pytest.raises(InvalidInput, match="depth"):
        memory.graph(user="alice", depth=depth)


def test_the_graph_of_nobody_in_particular_is_the_default_users(memory: Limpet) -> None:
    memory.remember("Anna lives in Lisbon.", user="me")
    memory.remember("Bert lives in Porto.", user="bert")
    assert memory.graph(fresh=True) == memory.graph(user="me")


def test_graph_times_come_from_messages(memory: Limpet) -> None:
    at = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
    session = memory.session("chan", "1", user="alice")
    session.extend([Message.new("user", "I moved to Lisbon.", created_at=at)])
    [relation] = memory.graph(user="alice", fresh=True).relations
    assert relation.valid_from == at
    assert relation.sources[0].at == at
